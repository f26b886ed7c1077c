//! Digits and probabilities drawn with characters.

use std::fmt::Write;

/// Five shades of ink, from none to full.
const SHADES: [char; 5] = [' ', '░', '▒', '▓', '█'];
/// The width in characters of the bar for probability 1.
const BAR: usize = 30;

/// Draws an image `[rows, cols]` of ink (0 to 255) in a frame. A pixel is two characters wide to keep the proportions.
pub fn draw_digit(pixels: &[u8], cols: usize) -> String {
    let cols = cols.max(1);
    let edge = "─".repeat(2 * cols);
    let mut drawing = format!("┌{edge}┐\n");
    for row in pixels.chunks(cols) {
        drawing.push('│');
        for &ink in row {
            // Faint ink is visible too: only 0 is blank.
            let shade = SHADES[usize::from(ink).div_ceil(64).min(SHADES.len() - 1)];
            drawing.extend([shade, shade]);
        }
        drawing.push_str("│\n");
    }
    drawing + &format!("└{edge}┘\n")
}

/// Lists the probability of every class with a bar, and marks the most probable one.
pub fn draw_probabilities(probabilities: &[f32]) -> String {
    let best = most_probable(probabilities);
    let mut list = String::new();
    for (class, &probability) in probabilities.iter().enumerate() {
        let bar = "█".repeat((probability.clamp(0.0, 1.0) * BAR as f32).round() as usize);
        let mark = if Some(class) == best { " <" } else { "" };
        let line = format!("{class:>3}  {:>7.3} %  {bar}{mark}", 100.0 * probability);
        // Writing to a string cannot fail.
        let _ = writeln!(list, "{}", line.trim_end());
    }
    list
}

/// The first class with the highest probability; `None` if there are no classes.
fn most_probable(probabilities: &[f32]) -> Option<usize> {
    (0..probabilities.len()).rev().max_by(|&a, &b| probabilities[a].total_cmp(&probabilities[b]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digit_is_drawn_in_its_shades() {
        let drawing = draw_digit(&[0, 1, 64, 65, 128, 255], 3);
        assert_eq!(drawing, "┌──────┐\n│  ░░░░│\n│▒▒▒▒██│\n└──────┘\n");
    }

    #[test]
    fn the_most_probable_class_is_marked() {
        let list = draw_probabilities(&[0.1, 0.45, 0.45]);
        assert_eq!(
            list,
            "  0   10.000 %  ███\n  1   45.000 %  ██████████████ <\n  2   45.000 %  ██████████████\n"
        );
        assert_eq!(draw_probabilities(&[]), "");
    }
}
