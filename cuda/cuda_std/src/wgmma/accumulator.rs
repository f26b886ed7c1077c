//! The matrix D, in registers.

use super::position::position;
use super::{Element16, FragmentA, OperandA, OperandB, Registers};
use crate::{thread, warp};

#[cfg(not(target_arch = "nvptx64"))]
use super::host;

/// A thread's share of D, 64 rows of N = `2 * REGISTERS` columns: in each group of 8 columns two neighbours of a row, and two of
/// the row 8 further down (PTX ISA, "Register Fragments for wgmma.mma_async").
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(transparent)]
pub struct Accumulator<const REGISTERS: usize>(pub [f32; REGISTERS]);

impl<const REGISTERS: usize> Accumulator<REGISTERS> {
    /// The share of a matrix of zeros.
    pub const ZERO: Self = Self([0.0; REGISTERS]);

    /// Columns of the matrix, N.
    pub const COLUMNS: usize = 2 * REGISTERS;

    /// Returns row and column of register `i` of the thread with this number in its warpgroup, 0 to 127.
    #[inline(always)]
    pub const fn position(thread: u32, i: usize) -> (usize, usize) {
        position(thread, i)
    }

    /// Calls `f` with row, column and value of each of the calling thread's elements.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn for_each(&self, mut f: impl FnMut(usize, usize, f32)) {
        let (thread, mut i) = (thread_in_warpgroup(), 0);
        while i < REGISTERS {
            let (row, column) = Self::position(thread, i);
            f(row, column, self.0[i]);
            i += 1;
        }
    }

    /// Creates the thread's share of the matrix of `f(row, column)`; `f` is called for the thread's elements only.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn from_fn(mut f: impl FnMut(usize, usize) -> f32) -> Self {
        let (thread, mut values, mut i) = (thread_in_warpgroup(), [0.0; REGISTERS], 0);
        while i < REGISTERS {
            let (row, column) = Self::position(thread, i);
            values[i] = f(row, column);
            i += 1;
        }
        Self(values)
    }

    /// Replaces each element by `f` of its row's number among the thread's two, 0 or 1, and the element.
    #[inline(always)]
    pub fn map_rows(&mut self, mut f: impl FnMut(usize, f32) -> f32) {
        let mut i = 0;
        while i < REGISTERS {
            self.0[i] = f(i / 2 % 2, self.0[i]);
            i += 1;
        }
    }

    /// Multiplies the thread's two rows by factors.
    #[inline(always)]
    pub fn scale_rows(&mut self, factors: [f32; 2]) {
        self.map_rows(|row, x| x * factors[row]);
    }

    /// Replaces the elements for whose row and column `is_hidden` is true by -inf.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn mask(&mut self, mut is_hidden: impl FnMut(usize, usize) -> bool) {
        let (thread, mut i) = (thread_in_warpgroup(), 0);
        while i < REGISTERS {
            let (row, column) = Self::position(thread, i);
            if is_hidden(row, column) {
                self.0[i] = f32::NEG_INFINITY;
            }
            i += 1;
        }
    }

    /// Returns the largest elements of the thread's two rows, at least `least`.
    ///
    /// # Safety
    /// All lanes of the warp call this.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn row_max(&self, least: [f32; 2]) -> [f32; 2] {
        // Two chains per row, because each maximum waits for the one before.
        let (mut pairs, mut i) = ([least; 2], 0);
        while i < REGISTERS {
            let largest = &mut pairs[i % 2][i / 2 % 2];
            *largest = largest.max(self.0[i]);
            i += 1;
        }
        let largest = [pairs[0][0].max(pairs[1][0]), pairs[0][1].max(pairs[1][1])];
        // SAFETY: all lanes execute this; four neighbouring lanes share a row.
        largest.map(|max| unsafe { warp::reduce_max_width::<f32, 4>(u32::MAX, max) })
    }

    /// Returns columns `16 * i` to `16 * i + 15` as the A of another multiplication, rounded to the nearest `T`. D's
    /// registers are in the order of A's, so threads exchange nothing.
    ///
    /// # Panics
    /// If the matrix has fewer columns.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn fragment<T: Element16>(&self, i: usize) -> FragmentA<T> {
        let d = &self.0;
        let pair = |at: usize| T::pack([d[8 * i + at], d[8 * i + at + 1]]);
        FragmentA::from_registers([pair(0), pair(2), pair(4), pair(6)])
    }

    /// Gives the registers to multiplications. A [`fence`](super::fence) comes after it.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn start(self) -> Pending<REGISTERS>
    where
        [f32; REGISTERS]: Registers,
    {
        #[cfg(target_arch = "nvptx64")]
        {
            let mut values = self.0;
            values.pin();
            Pending { values }
        }
        #[cfg(not(target_arch = "nvptx64"))]
        Pending { values: host::start(&self.0) }
    }
}

/// Accumulators that multiplications may be writing. They have no values until [`finish`](Self::finish).
#[derive(Debug)]
#[must_use = "finish it, or its accumulators are lost"]
pub struct Pending<const REGISTERS: usize> {
    #[cfg(target_arch = "nvptx64")]
    values: [f32; REGISTERS],
    #[cfg(not(target_arch = "nvptx64"))]
    values: host::Accumulators,
}

impl<const REGISTERS: usize> Pending<REGISTERS>
where
    [f32; REGISTERS]: Registers,
{
    /// Starts `D = A * B + D` (PTX ISA, `wgmma.mma_async`).
    ///
    /// # Safety
    /// See [the module](super#safety-of-the-collectives).
    #[doc(alias = "wgmma.mma_async.sync.aligned")]
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn multiply<T: super::Element>(&mut self, a: impl OperandA<T>, b: impl OperandB<T>) {
        // SAFETY: all threads of the warpgroup execute this.
        unsafe { self.multiply_keeping(true, a, b) };
    }

    /// Starts `D = A * B + D` if `keep`, else `D = A * B`, which ignores D's old values: the first multiplication of a tile.
    ///
    /// # Safety
    /// See [the module](super#safety-of-the-collectives); `keep` is the same for all threads of the warpgroup.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn multiply_keeping<T: super::Element, A: OperandA<T>, B: OperandB<T>>(
        &mut self,
        keep: bool,
        a: A,
        b: B,
    ) {
        const { assert!(B::COLUMNS == 2 * REGISTERS, "B has as many columns as D, 2 * REGISTERS") };
        #[cfg(target_arch = "nvptx64")]
        // SAFETY: all threads of the warpgroup execute this.
        unsafe {
            b.multiply(&mut self.values, a, u32::from(keep));
        }
        #[cfg(not(target_arch = "nvptx64"))]
        host::multiply(&mut self.values, (T::NUMBER, keep), a.source(), b.view());
    }

    /// Waits until all groups except the latest `N` are complete, and returns the accumulators. The latest groups must
    /// not write them.
    ///
    /// # Safety
    /// See [the module](super#safety-of-the-collectives).
    #[doc(alias = "wgmma.wait_group.sync.aligned", alias = "warpgroup_wait")]
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn finish<const N: usize>(self) -> Accumulator<REGISTERS> {
        #[cfg(target_arch = "nvptx64")]
        {
            let mut values = self.values;
            // SAFETY: all threads of the warpgroup execute this.
            unsafe { super::wait::<N>() };
            values.pin();
            Accumulator(values)
        }
        #[cfg(not(target_arch = "nvptx64"))]
        {
            host::wait("wgmma::Pending::finish", N);
            let mut values = [0.0; REGISTERS];
            host::finish(self.values, N, &mut values);
            Accumulator(values)
        }
    }
}

/// Returns the number of the calling thread in its warpgroup.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn thread_in_warpgroup() -> u32 {
    thread::thread_idx_x() % 128
}
