//! Operands of random numbers, on the host and on the device.

use ferrowarp::device::{Buffer, Device};
use ferrowarp::{Cast, Element, Error, TensorView, TensorViewMut};
use ferrowarp_cases::place::Place;
use ferrowarp_cases::reference::Number;

use crate::timed::{normal, uniform};

/// Size of the block of numbers that operands repeat: a prime, so that rows differ.
const NOISE: usize = 1_048_583;

/// The numbers of an operand.
#[derive(Clone, Copy, Debug)]
pub enum Values {
    /// Normally distributed.
    Normal,
    /// Logits between -8 and 8.
    Logits,
    /// Like the probabilities of rows with this many columns.
    Probabilities(usize),
    /// Like the logarithms of probabilities.
    LogProbabilities,
}

/// Random numbers in a buffer.
pub struct Operand<T> {
    pub place: Place,
    /// The block that the buffer repeats.
    block: Vec<T>,
    on_device: Buffer<T>,
}

impl<T: Number> Operand<T> {
    /// Fills a place, gaps included. Operands with another `seed` differ.
    pub fn new(device: &Device, place: &Place, values: Values, seed: u64) -> Result<Self, Error> {
        let len = place.len.min(NOISE);
        let block = match values {
            Values::Normal => normal(len, seed),
            _ => {
                let mut uniform = uniform(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
                let number = |x: f32| match values {
                    Values::Probabilities(cols) => x * 2.0 / cols as f32,
                    Values::LogProbabilities => -10.0 * x,
                    _ => 16.0 * x - 8.0,
                };
                (0..len).map(|_| T::nearest(number(uniform()))).collect()
            }
        };
        let on_device = device.upload(&block)?;
        Ok(Self { place: place.clone(), block, on_device })
    }

    /// The numbers changed, each by its index.
    pub fn changed(self, device: &Device, change: impl Fn(usize, T) -> T) -> Result<Self, Error> {
        let block: Vec<T> = (0..self.place.len).map(|i| change(i, self.element(i))).collect();
        Ok(Self { on_device: device.upload(&block)?, block, ..self })
    }

    /// A buffer of the numbers, filled on the device.
    pub fn buffer(&self, device: &Device) -> Result<Buffer<T>, Error> {
        let len = self.place.len;
        let mut buffer = device.alloc_zeroed(len)?;
        for start in (0..len).step_by(self.block.len().max(1)) {
            let count = self.block.len().min(len - start);
            let to = TensorViewMut::new(buffer.view_mut(start..start + count)?, [count])?;
            Cast::new().run_into(device, to, TensorView::new(self.on_device.view(..count)?, [count])?)?;
        }
        Ok(buffer)
    }

    /// The element at an index of the buffer.
    pub fn element(&self, index: usize) -> T {
        self.block[index % self.block.len()]
    }

    /// The same, as `f64`.
    pub fn value(&self, index: usize) -> f64 {
        self.element(index).value().into()
    }

    /// A row along the last dimension.
    pub fn row(&self, at: [usize; 3]) -> Vec<T> {
        let start = start(&self.place, at);
        (start..start + self.place.shape[3]).map(|index| self.element(index)).collect()
    }
}

/// The index of a row's first element in the buffer.
pub fn start(place: &Place, at: [usize; 3]) -> usize {
    place.first + at.iter().zip(place.strides).map(|(at, stride)| at * stride).sum::<usize>()
}

/// Reads a row of a buffer.
pub fn read<T: Element>(buffer: &Buffer<T>, place: &Place, at: [usize; 3]) -> anyhow::Result<Vec<T>> {
    let start = start(place, at);
    Ok(buffer.view(start..start + place.shape[3])?.to_vec()?)
}

/// At most `most` of `count` rows, spread from the first to the last.
pub fn some(count: usize, most: usize) -> impl Iterator<Item = usize> {
    let checked = count.min(most);
    (0..checked).map(move |i| if checked == 1 { 0 } else { i * (count - 1) / (checked - 1) })
}
