//! Images with MNIST's statistics, each generated from a number, and their text.

use ferrowarp_csv::{PIXELS, SIDE};
use rayon::prelude::*;

/// The minimum number of images for using all cores. Miri runs fewer: it rejects a program that leaves threads of rayon's
/// pool running.
const MANY: usize = 64;

/// A generator of `images` images.
#[derive(Clone, Copy)]
pub(super) struct Digits {
    pub images: usize,
    /// Whether every pixel may be any number; otherwise most are 0, and strokes cross the middle.
    pub noise: bool,
}

impl Digits {
    /// The image `index`: a label below 10, and pixels.
    pub(super) fn image(self, index: usize) -> (u8, [u8; PIXELS]) {
        let mut state = Random(index as u64 + 1);
        let label = (state.next() % 10) as u8;
        let mut pixels = [0; PIXELS];
        if self.noise {
            pixels.fill_with(|| state.next() as u8);
        } else {
            for _ in 0..2 {
                stroke(&mut state, &mut pixels);
            }
        }
        (label, pixels)
    }

    /// The text of all images, one line each, without a header.
    pub(super) fn text(self) -> Vec<u8> {
        let numbers: Vec<String> = (0..256).map(|number: u16| format!(",{number}")).collect();
        let line = |index| {
            let (label, pixels) = self.image(index);
            let mut line = Vec::with_capacity(4 * (PIXELS + 1));
            line.push(b'0' + label);
            pixels.iter().for_each(|&pixel| line.extend_from_slice(numbers[usize::from(pixel)].as_bytes()));
            line.push(b'\n');
            line
        };
        if self.images < MANY {
            return (0..self.images).flat_map(line).collect();
        }
        let lines: Vec<Vec<u8>> = (0..self.images).into_par_iter().map(line).collect();
        lines.concat()
    }

    /// The bytes of [`Self::text`].
    pub(super) fn text_len(self) -> usize {
        let digits = |pixel: &u8| 2 + usize::from(*pixel > 9) + usize::from(*pixel > 99);
        let line = |index| 2 + self.image(index).1.iter().map(digits).sum::<usize>();
        if self.images < MANY {
            return (0..self.images).map(line).sum();
        }
        (0..self.images).into_par_iter().map(line).sum()
    }
}

/// Draws a line from top to bottom, about four pixels wide with soft edges, like a pen's. MNIST's digits are in the middle
/// 20 rows and columns.
fn stroke(state: &mut Random, pixels: &mut [u8; PIXELS]) {
    const MARGIN: usize = 4;
    let mut column = MARGIN + state.next() as usize % (SIDE - 2 * MARGIN - 4);
    for row in MARGIN..SIDE - MARGIN {
        let bits = state.next();
        column = (column + bits as usize % 3).clamp(MARGIN + 1, SIDE - MARGIN - 4) - 1;
        let [left, right] = [(bits >> 8) as u8, (bits >> 16) as u8];
        let ink = [left, 253, 254 - (bits >> 24) as u8 % 32, right];
        pixels[row * SIDE + column..][..4].copy_from_slice(&ink);
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 110 MB for 60000 images, with a fifth of the pixels not 0: like MNIST's training set as CSV.
    #[test]
    fn images_are_like_mnist_s() {
        let digits = Digits { images: 1000, noise: false };
        let text = digits.text();
        assert_eq!(text.len(), digits.text_len());
        let ink: usize =
            (0..1000).map(|index| digits.image(index).1.iter().filter(|&&pixel| pixel > 0).count()).sum();
        let (bytes, ink) = (text.len() as f64 / 1000.0, ink as f64 / 1000.0 / PIXELS as f64);
        assert!((1750.0..1900.0).contains(&bytes) && (0.16..0.22).contains(&ink), "{bytes} bytes, {ink} ink");
    }
}
