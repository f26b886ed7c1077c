//! Where the elements of an operand are in a buffer, and the check that a kernel writes no others.

use std::ops::Range;

use anyhow::{Result, ensure};
use bytemuck::Pod;
use cuda_std::testing::Element;
use ferrowarp::device::{Buffer, Device, DeviceError};
use ferrowarp::{Error, Shape, TensorView, TensorViewMut};
use serde::{Deserialize, Serialize};

use crate::case::wide;

/// The byte in the gaps of an input: floats are NaN, and integers -1 or the largest.
pub(crate) const GAP: u8 = 0xff;
/// A byte that no kernel writes: fills an output and its gaps.
pub(crate) const UNTOUCHED: u8 = 0x5b;

/// Where the elements of an operand are: rows of contiguous elements along three dimensions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The extents.
    pub shape: [usize; 4],
    /// The index of the first element in the buffer.
    pub first: usize,
    /// The distances along the first three dimensions.
    pub strides: [usize; 3],
    /// Elements of the buffer.
    pub len: usize,
}

impl Place {
    /// Rows of a matrix, with `gap` elements after each, from element `first` of the buffer on.
    pub fn matrix([rows, cols]: [usize; 2], gap: usize, first: usize) -> Self {
        let all = rows * (cols + gap);
        Self { shape: [1, 1, rows, cols], first, strides: [all, all, cols + gap], len: first + all }
    }

    /// The same place in a buffer with `guard` more elements.
    pub fn with_guard(self, guard: usize) -> Self {
        Self { len: self.len + guard, ..self }
    }

    /// The indices of all elements, in the order of the dimensions.
    pub fn indices(&self) -> impl Iterator<Item = usize> + use<> {
        let Self { first, shape: [a, b, c, d], strides: [by_a, by_b, by_c], .. } = *self;
        let rows = (0..a * b * c).map(move |i| first + i / c / b * by_a + i / c % b * by_b + i % c * by_c);
        rows.flat_map(move |row| row..row + d)
    }

    /// A buffer with these elements, in the order of the dimensions.
    pub fn filled<T: Pod>(&self, elements: &[T]) -> Vec<T> {
        self.filled_between(elements, GAP)
    }

    /// Same as [`Self::filled`], with this byte in the gaps.
    pub fn filled_between<T: Pod>(&self, elements: &[T], byte: u8) -> Vec<T> {
        let mut all = self.unwritten(byte);
        self.indices().zip(elements).for_each(|(i, &element)| all[i] = element);
        all
    }

    /// A buffer of this byte.
    pub fn unwritten<T: Pod>(&self, byte: u8) -> Vec<T> {
        let mut all = vec![T::zeroed(); self.len];
        bytemuck::cast_slice_mut(&mut all).fill(byte);
        all
    }

    /// A device's buffer with these elements.
    pub fn input<T: Pod>(&self, device: &Device, elements: &[T]) -> Result<Buffer<T>, DeviceError> {
        device.upload(&self.filled(elements))
    }

    /// A device's buffer of this byte.
    pub fn output<T: Pod>(&self, device: &Device, byte: u8) -> Result<Buffer<T>, DeviceError> {
        device.upload(&self.unwritten(byte))
    }

    /// The last `RANK` dimensions in a buffer.
    pub fn view<'a, T: Pod, const RANK: usize>(
        &self,
        buffer: &'a Buffer<T>,
    ) -> Result<TensorView<'a, T>, Error>
    where
        Shape: From<[usize; RANK]>,
    {
        let [shape, strides] = self.last();
        TensorView::with_strides(buffer.view(self.first..)?, shape, strides)
    }

    /// The same, to be written.
    pub fn view_mut<'a, T: Pod, const RANK: usize>(
        &self,
        buffer: &'a mut Buffer<T>,
    ) -> Result<TensorViewMut<'a, T>, Error>
    where
        Shape: From<[usize; RANK]>,
    {
        let [shape, strides] = self.last();
        TensorViewMut::with_strides(buffer.view_mut(self.first..)?, shape, strides)
    }

    /// The extents and the strides of the last `RANK` dimensions.
    fn last<const RANK: usize>(&self) -> [[usize; RANK]; 2] {
        let [a, b, c] = self.strides;
        [self.shape, [a, b, c, 1]].map(|all| std::array::from_fn(|i| all[all.len() - RANK + i]))
    }

    /// The indices of the first row.
    pub fn row(&self) -> Range<usize> {
        self.first..self.first + self.shape[3]
    }

    /// The elements of a buffer, in the order of the dimensions. An error if anything between them is not this byte.
    pub fn read<T: Pod + Element>(&self, buffer: &Buffer<T>, byte: u8) -> Result<Vec<f64>> {
        Ok(wide(&self.inside(&buffer.to_vec()?, byte)?))
    }

    /// Same as [`Self::read`], of elements.
    pub fn inside<T: Pod>(&self, got: &[T], byte: u8) -> Result<Vec<T>> {
        let mut rest = got.to_vec();
        let inside = self.indices().map(|i| {
            bytemuck::bytes_of_mut(&mut rest[i]).fill(byte);
            got[i]
        });
        let inside = inside.collect();
        let bytes: &[u8] = bytemuck::cast_slice(&rest);
        let written = bytes.iter().position(|&other| other != byte).map(|at| at / size_of::<T>());
        ensure!(
            written.is_none(),
            "element {} of the buffer, outside of the rows, was written",
            written.unwrap_or(0)
        );
        Ok(inside)
    }
}
