//! Shapes and strides.

use std::fmt;
use std::ops::{Deref, Range};

use crate::error::{Error, Kind};

/// The most axes of a tensor.
pub const MOST_AXES: usize = 4;

/// The extents of a tensor's axes, 1 to 4 of them; it dereferences to a slice.
///
/// ```
/// use ferrowarp::Shape;
///
/// let shape = Shape::from([2, 3]);
/// assert_eq!((shape.len(), shape[1], shape.to_string()), (2, 3, "[2, 3]".to_owned()));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shape {
    extents: [usize; MOST_AXES],
    rank: usize,
}

macro_rules! shapes {
    ($($rank:literal),*) => {$(
        impl From<[usize; $rank]> for Shape {
            fn from(from: [usize; $rank]) -> Self {
                let mut extents = [1; MOST_AXES];
                extents[..$rank].copy_from_slice(&from);
                Self { extents, rank: $rank }
            }
        }
    )*};
}

shapes! { 1, 2, 3, 4 }

impl Deref for Shape {
    type Target = [usize];

    fn deref(&self) -> &[usize] {
        &self.extents[..self.rank]
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl Shape {
    /// The shape of the axes before the last one; `[1]` if there are none.
    #[doc(hidden)]
    pub fn without_last(&self) -> Shape {
        match self.rank {
            1 => [1].into(),
            rank => {
                let mut extents = [1; MOST_AXES];
                extents[..rank - 1].copy_from_slice(&self[..rank - 1]);
                Shape { extents, rank: rank - 1 }
            }
        }
    }

    /// The shape with other extents of its last two axes.
    #[doc(hidden)]
    pub fn with_matrix(mut self, matrix: [usize; 2]) -> Self {
        self.extents[self.rank - 2..self.rank].copy_from_slice(&matrix);
        self
    }

    /// The number of elements; `usize::MAX` if it is more than that.
    pub fn elements(&self) -> usize {
        if self.contains(&0) {
            0
        } else {
            self.iter().fold(1, |product, extent| product.saturating_mul(*extent))
        }
    }

    /// The shape with another extent of the last axis.
    #[doc(hidden)]
    pub fn with_last(mut self, extent: usize) -> Self {
        self.extents[self.rank - 1] = extent;
        self
    }
}

/// Where the elements of a tensor are stored: its shape, and the elements from one index of an axis to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub struct Layout {
    shape: Shape,
    strides: [usize; MOST_AXES],
}

/// A tensor as a matrix: the last axis is the columns, and the other axes together are the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub struct Rows {
    /// The number of rows; `usize::MAX` if it is more than that and there are no columns.
    pub rows: usize,
    /// Elements of a row.
    pub cols: usize,
    /// Elements from one row to the next.
    pub stride: usize,
}

impl Layout {
    /// The layout without gaps, in the order of the axes. Strides that an address space cannot hold are `usize::MAX`.
    pub fn dense(shape: Shape) -> Self {
        let mut strides = [1usize; MOST_AXES];
        for axis in (0..shape.len() - 1).rev() {
            strides[axis] = strides[axis + 1].saturating_mul(shape[axis + 1]);
        }
        Self { shape, strides }
    }

    /// The layout with these strides.
    pub fn strided<const RANK: usize>(shape: [usize; RANK], strides: [usize; RANK]) -> Self
    where
        Shape: From<[usize; RANK]>,
    {
        let Shape { extents: strides, .. } = strides.into();
        Self { shape: shape.into(), strides }
    }

    /// The shape.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Elements from one index of each axis to the next.
    pub fn strides(&self) -> &[usize] {
        &self.strides[..self.shape.len()]
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }

    /// Whether the elements follow each other without gaps, in the order of the axes.
    pub fn is_dense(&self) -> bool {
        let dense = Self::dense(self.shape);
        self.is_empty()
            || (0..self.shape.len())
                .all(|axis| self.shape[axis] == 1 || self.strides[axis] == dense.strides[axis])
    }

    /// Elements from the first to the last, or `None` if an address space has fewer.
    fn extent(&self) -> Option<usize> {
        if self.is_empty() {
            return Some(0);
        }
        let mut axes = self.shape.iter().zip(self.strides);
        axes.try_fold(1usize, |end, (extent, stride)| (extent - 1).checked_mul(stride)?.checked_add(end))
    }

    /// The number of elements that a view needs. An error if it has `len` and these are fewer.
    pub(super) fn needed(&self, len: usize) -> Result<usize, Error> {
        let needed = self.extent();
        needed.filter(|needed| *needed <= len).ok_or_else(|| {
            Kind::TooShort { shape: self.shape, strides: self.strides().to_vec(), len, needed }.into()
        })
    }

    /// An error if two indices name the same element, or elements of an axis may lie between those of another one.
    pub(super) fn check_overlap(&self) -> Result<(), Error> {
        // The extents after the last axis are 1.
        let mut axes: [_; MOST_AXES] =
            std::array::from_fn(|axis| (self.strides[axis], self.shape.extents[axis]));
        axes.sort_unstable();
        let mut end = 1;
        for (stride, extent) in axes.into_iter().filter(|(_, extent)| *extent > 1) {
            if stride < end && !self.is_empty() {
                let needs = "elements of its own for each index, since it is written";
                return Err(self.unfit(needs));
            }
            // At most the end of the last element, which fits the view.
            end = (extent - 1).saturating_mul(stride).saturating_add(end);
        }
        Ok(())
    }

    /// The error that the strides do not fit.
    pub fn unfit(&self, needs: &'static str) -> Error {
        Kind::Strides { shape: self.shape, strides: self.strides().to_vec(), needs }.into()
    }

    /// Several axes as one: its extent and stride. `None` if the elements are not at equal distances.
    pub fn merged(&self, axes: Range<usize>) -> Option<[usize; 2]> {
        let axes = || axes.clone().map(|axis| [self.shape[axis], self.strides[axis]]);
        if axes().any(|[extent, _]| extent == 0) {
            return Some([0, 0]);
        }
        let mut all = [1usize, 0];
        for [extent, stride] in axes().rev().filter(|[extent, _]| *extent > 1) {
            let [inner, inner_stride] = all;
            if inner > 1 && inner.checked_mul(inner_stride) != Some(stride) {
                return None;
            }
            all = [inner.saturating_mul(extent), if inner > 1 { inner_stride } else { stride }];
        }
        Some(all)
    }

    /// The tensor as a matrix. An error if its rows are not at equal distances, overlap, or have gaps between their elements.
    pub fn rows(&self) -> Result<Rows, Error> {
        let last = self.shape.len() - 1;
        let cols = self.shape[last];
        let as_rows = || {
            if cols == 0 {
                let rows = self.shape.without_last().elements();
                return Some(Rows { rows, cols, stride: 0 });
            }
            let [rows, stride] = self.merged(0..last)?;
            (self.strides[last] == 1 || cols <= 1).then_some(())?;
            (rows <= 1 || stride >= cols).then_some(())?;
            Some(Rows { rows, cols, stride: if rows <= 1 { cols } else { stride } })
        };
        as_rows().ok_or_else(|| self.unfit("rows along the last axis without gaps, at equal distances"))
    }

    /// Exchanges two axes.
    pub(super) fn swapped(mut self, a: usize, b: usize) -> Result<Self, Error> {
        [a, b].into_iter().try_for_each(|axis| self.check_axis(axis))?;
        self.shape.extents.swap(a, b);
        self.strides.swap(a, b);
        Ok(self)
    }

    fn check_axis(&self, axis: usize) -> Result<(), Error> {
        if axis < self.shape.len() {
            return Ok(());
        }
        Err(Kind::Axis { axis, shape: self.shape }.into())
    }

    /// Some of the indices of an axis, and the offset of the first element.
    pub(super) fn sliced(mut self, axis: usize, [start, end]: [usize; 2]) -> Result<(Self, usize), Error> {
        self.check_axis(axis)?;
        if start > end || end > self.shape[axis] {
            return Err(Kind::Range { axis, start, end, shape: self.shape }.into());
        }
        self.shape.extents[axis] = end - start;
        let offset = if self.is_empty() { 0 } else { start * self.strides[axis] };
        Ok((self, offset))
    }

    /// The same elements in the same order with another shape.
    pub(super) fn reshaped(self, shape: Shape) -> Result<Self, Error> {
        if self.shape.elements() != shape.elements() {
            return Err(Kind::Shape { got: shape, expected: self.shape, rule: "as many elements as" }.into());
        }
        if !self.is_dense() {
            return Err(self.unfit("elements without gaps, in the order of the axes, to take another shape"));
        }
        Ok(Self::dense(shape))
    }

    /// Repeats axes of extent 1, and adds axes in front.
    pub(super) fn broadcast(self, shape: Shape) -> Result<Self, Error> {
        let Some(added) = shape.len().checked_sub(self.shape.len()) else {
            return Err(Kind::Shape { got: self.shape, expected: shape, rule: "at most the axes of" }.into());
        };
        let mut strides = [0; MOST_AXES];
        for axis in 0..self.shape.len() {
            let (got, expected) = (self.shape[axis], shape[added + axis]);
            if got == expected {
                strides[added + axis] = self.strides[axis];
            } else if got != 1 {
                let rule = "extents of 1, or those at the end of";
                return Err(Kind::Shape { got: self.shape, expected: shape, rule }.into());
            }
        }
        Ok(Self { shape, strides })
    }

    /// Calls `each` with the offset of each element, in the order of the axes.
    pub(super) fn for_each(&self, mut each: impl FnMut(usize)) {
        if self.is_empty() {
            return;
        }
        let [a, b, c, d] = self.shape.extents;
        // Axes that the shape lacks have one index.
        for [i, j, k, l] in (0..a).flat_map(|i| {
            (0..b).flat_map(move |j| (0..c).flat_map(move |k| (0..d).map(move |l| [i, j, k, l])))
        }) {
            each([i, j, k, l].iter().zip(self.strides).map(|(i, stride)| i * stride).sum());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Layout, Rows};

    fn fits<const RANK: usize>(shape: [usize; RANK], strides: [usize; RANK], len: usize) -> bool
    where
        super::Shape: From<[usize; RANK]>,
    {
        Layout::strided(shape, strides).needed(len).is_ok()
    }

    #[test]
    fn layouts_are_checked_without_overflow() {
        assert!(fits([2, 3, 4, 8], [96, 32, 8, 1], 192) && !fits([2, 3, 4, 8], [96, 32, 8, 1], 191));
        assert!(fits([2, 3, 4, 8], [0, 0, 0, 1], 8) && fits([0, 3], [9, 9], 0));
        assert!(fits([3, 5], [8, 1], 21) && !fits([3, 5], [8, 1], 20) && fits([1, 5], [1000, 1], 5));
        assert!(
            !fits([3, 3, 3, 3], [usize::MAX, 1, 1, 1], 100) && !fits([usize::MAX, 2], [usize::MAX, 1], 100)
        );
        assert!(
            fits([usize::MAX, 1], [1, 1], usize::MAX) && !fits([2, usize::MAX], [usize::MAX, 1], usize::MAX)
        );
        let dense = |shape: [usize; 4]| Layout::dense(shape.into());
        assert!(
            dense([usize::MAX, 2, 2, 2]).needed(100).is_err()
                && dense([usize::MAX, 2, 0, 2]).needed(0).is_ok()
        );
    }

    #[test]
    fn written_elements_do_not_overlap() {
        let is_fine = |strides| Layout::strided([2, 3, 4, 8], strides).check_overlap().is_ok();
        assert!(
            is_fine([96, 32, 8, 1])
                && is_fine([96, 8, 24, 1])
                && is_fine([8, 16, 48, 1])
                && is_fine([1, 2, 6, 24])
        );
        assert!(!is_fine([95, 32, 8, 1]) && !is_fine([96, 32, 7, 1]) && !is_fine([96, 0, 8, 1]));
        let error = Layout::strided([2, 3], [2, 1]).check_overlap().unwrap_err().to_string();
        assert!(error.contains("strides of [2, 1]"), "{error}");
        assert!(Layout::strided([1, 3], [0, 1]).check_overlap().is_ok());
    }

    #[test]
    fn leading_axes_are_rows_if_their_distances_are_equal() {
        let rows = |shape, strides| Layout::strided::<3>(shape, strides).rows().ok();
        assert_eq!(rows([2, 3, 5], [18, 6, 1]), Some(Rows { rows: 6, cols: 5, stride: 6 }));
        assert_eq!(rows([2, 1, 5], [18, 6, 1]), Some(Rows { rows: 2, cols: 5, stride: 18 }));
        assert_eq!(rows([1, 1, 5], [0, 0, 1]), Some(Rows { rows: 1, cols: 5, stride: 5 }));
        assert_eq!(rows([2, 3, 1], [3, 1, 7]), Some(Rows { rows: 6, cols: 1, stride: 1 }));
        assert_eq!(rows([2, usize::MAX, 0], [0, 0, 1]), Some(Rows { rows: usize::MAX, cols: 0, stride: 0 }));
        for strides in [[19, 6, 1], [6, 18, 1], [18, 6, 2], [12, 4, 1], [0, 6, 1]] {
            assert_eq!(rows([2, 3, 5], strides), None, "{strides:?}");
        }
        assert_eq!(Layout::dense([7].into()).rows().ok(), Some(Rows { rows: 1, cols: 7, stride: 7 }));
    }

    #[test]
    fn every_element_is_visited_in_order() {
        let mut offsets = Vec::new();
        Layout::strided([2, 3], [1, 4]).for_each(|offset| offsets.push(offset));
        assert_eq!(offsets, [0, 4, 8, 1, 5, 9]);
    }
}
