//! Matrices of any type in memory, with rows apart from each other.

use crate::reference::Number;
use cuda_std::launch::Launcher;
use cuda_std::simt::Executor;
use cuda_std::{bf16, f16};
use gpu_kernels::softmax::operation::Variant;

/// What lies around the rows.
const AROUND: f32 = 7.0;

/// Where the elements of a matrix `[rows, cols]` lie.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub cols: usize,
    /// Elements from the start of a row to that of the next.
    pub stride: usize,
    /// Elements before the first row.
    pub offset: usize,
}

impl Layout {
    /// One row after the other from the start on.
    pub fn dense(rows: usize, cols: usize) -> Self {
        Self { rows, cols, stride: cols, offset: 0 }
    }

    /// The memory of a matrix with these elements, and of no element after the last row.
    pub fn spread<T: Number>(&self, elements: &[f32]) -> Vec<T> {
        let len = self.offset + (self.rows - 1) * self.stride + self.cols;
        let mut memory = vec![T::nearest(AROUND); len];
        for (row, elements) in elements.chunks(self.cols).enumerate() {
            let place = &mut memory[self.offset + row * self.stride..][..self.cols];
            place.iter_mut().zip(elements).for_each(|(to, &from)| *to = T::nearest(from));
        }
        memory
    }

    /// The elements of the matrix in this memory, in which nothing has changed around them.
    pub fn gather<T: Number>(&self, memory: &[T]) -> Vec<f32> {
        let is_element = |i: usize| i >= self.offset && (i - self.offset) % self.stride < self.cols;
        let mut elements = Vec::new();
        for (i, x) in memory.iter().map(|x| x.value()).enumerate() {
            if is_element(i) {
                elements.push(x);
            } else {
                assert_eq!(x, AROUND, "element {i} lies outside of all rows of {self:?}");
            }
        }
        elements
    }
}

/// One problem for all kernels of an operation.
pub trait Problem {
    /// What the kernels are launched with.
    type Args<T: Number>: 'static;
    /// What they give.
    type Results;

    /// Rows and columns.
    fn shape(&self) -> [usize; 2];
    /// The kernels for a type.
    fn variants<T: Number>() -> &'static [Variant<Self::Args<T>>];
    /// What a kernel gives, in memory of its own or in that of what it reads.
    fn run<T: Number>(
        &self,
        on: &dyn Launcher,
        variant: &Variant<Self::Args<T>>,
        in_place: bool,
    ) -> Self::Results;
    /// What is wrong with results, if anything. NaN must be where the oracle has it.
    fn complaint<T: Number>(&self, got: &Self::Results) -> Option<String>;
    /// The bits of all results.
    fn bits(results: &Self::Results) -> Vec<u32>;

    /// The kernels that take the width.
    fn suitable<T: Number>(&self) -> impl Iterator<Item = &'static Variant<Self::Args<T>>> {
        let [_, cols] = self.shape();
        Self::variants::<T>().iter().filter(move |variant| cols <= variant.elements as usize)
    }

    /// All kernels that take the width, in place and not, and each a second time for the same bits.
    fn check<T: Number>(&self, on: &dyn Launcher) {
        for variant in self.suitable::<T>() {
            for in_place in [false, true] {
                let got = self.run::<T>(on, variant, in_place);
                let what = format!("{} {:?}, in place {in_place}", variant.meta.name, self.shape());
                assert_eq!(self.complaint::<T>(&got), None, "{what}");
                let again = self.run::<T>(on, variant, in_place);
                assert_eq!(Self::bits(&got), Self::bits(&again), "{what}: other bits");
            }
        }
    }

    /// [`Self::check`] for each type, on the executor.
    fn check_all_types(&self) {
        let on = &Executor::new();
        self.check::<f32>(on);
        self.check::<f16>(on);
        self.check::<bf16>(on);
    }

    /// Each kernel that takes the width once, every other in place.
    fn check_once<T: Number>(&self, on: &dyn Launcher) {
        for (i, variant) in self.suitable::<T>().enumerate() {
            let got = self.run::<T>(on, variant, i % 2 == 1);
            assert_eq!(self.complaint::<T>(&got), None, "{} {:?}", variant.meta.name, self.shape());
        }
    }

    /// [`Self::check_once`] for each type.
    fn check_all_types_once(&self, on: &dyn Launcher) {
        self.check_once::<f32>(on);
        self.check_once::<f16>(on);
        self.check_once::<bf16>(on);
    }
}

/// Whether a result is the expected one, NaN for NaN, within `tolerance`.
pub fn is_close(got: f32, want: f64, tolerance: f64) -> bool {
    let got = f64::from(got);
    got.is_nan() && want.is_nan() || got == want || (got - want).abs() <= tolerance
}

/// The numbers as the type has them.
pub fn rounded<T: Number>(numbers: &[f32]) -> Vec<f32> {
    numbers.iter().map(|&x| T::nearest(x).value()).collect()
}

/// Bits to compare by, the same for all NaN.
pub fn bits(numbers: &[f32]) -> Vec<u32> {
    numbers.iter().map(|x| if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() }).collect()
}
