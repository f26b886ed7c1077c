//! Where A and B lie: panels in shared memory, and registers.

use core::marker::PhantomData;
use core::mem::MaybeUninit;

#[cfg(target_arch = "nvptx64")]
use super::Registers;
use super::{Element, Element16};
use crate::mma;

#[cfg(not(target_arch = "nvptx64"))]
use super::host::{self, SourceA, View};

/// Bytes of a row of a panel.
const ROW: usize = 128;

/// `ROWS` rows of 128 bytes in shared memory, a multiple of 8 rows, with the swizzle of 128 bytes: the 16-byte chunk `c` of row
/// `r` lies at chunk `c ^ r % 8`. A tensor copy with [`Swizzle::Bytes128`](crate::tensor::Swizzle::Bytes128) fills one,
/// with a tile that is 128 bytes wide.
///
/// A panel is aligned to 1024 bytes. [`dynamic_shared_mem_aligned`](crate::shared::dynamic_shared_mem_aligned) returns
/// such memory.
#[derive(Clone, Copy)]
#[repr(C, align(1024))]
pub struct Panel<T, const ROWS: usize> {
    rows: [[MaybeUninit<u8>; ROW]; ROWS],
    element: PhantomData<T>,
}

impl<T, const ROWS: usize> core::fmt::Debug for Panel<T, ROWS> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Panel").finish_non_exhaustive()
    }
}

impl<T: Element, const ROWS: usize> Panel<T, ROWS> {
    /// Its size in bytes, which a tensor copy of the whole panel counts at its barrier.
    pub const BYTES: u32 = {
        assert!(ROWS > 0 && ROWS.is_multiple_of(8), "a panel has a multiple of 8 rows");
        (ROWS * ROW) as u32
    };

    /// Returns the `COUNT` rows from row `first` on as an operand: rows of A or columns of B, with contiguous elements
    /// along K. `first` is a multiple of 8.
    ///
    /// Creating the operand is safe. The multiplication reads its memory.
    #[inline(always)]
    pub fn k_major<const COUNT: usize>(this: *const Self, first: u32) -> KMajor<T, COUNT> {
        const { assert!(COUNT <= ROWS && COUNT.is_multiple_of(8), "more rows than the panel has") };
        #[cfg(target_arch = "nvptx64")]
        {
            // The distance of two panels has no meaning here.
            let descriptor = device::descriptor(this.cast(), 1) + first * (ROW as u32 / 16);
            KMajor { descriptor, element: PhantomData }
        }
        #[cfg(not(target_arch = "nvptx64"))]
        KMajor { view: View::k_major(this.cast(), first, COUNT, ROWS), element: PhantomData }
    }
}

impl<T: Element16, const ROWS: usize> Panel<T, ROWS> {
    /// Returns the first `COUNT` columns as an operand with one row per K: rows of A or columns of B, which are
    /// contiguous. Each panel has 64 of them. Further ones are in the panels that follow this one in memory.
    ///
    /// Creating the operand is safe. The multiplication reads its memory.
    #[inline(always)]
    pub fn mn_major<const COUNT: usize>(this: *const Self) -> MnMajor<T, COUNT> {
        const { assert!(ROWS.is_multiple_of(16) && COUNT.is_multiple_of(8), "K goes by 16, columns by 8") };
        #[cfg(target_arch = "nvptx64")]
        {
            let descriptor = device::descriptor(this.cast(), (ROWS * ROW / 16) as u32);
            MnMajor { descriptor, element: PhantomData }
        }
        #[cfg(not(target_arch = "nvptx64"))]
        MnMajor { view: View::mn_major(this.cast(), COUNT, ROWS), element: PhantomData }
    }
}

impl<T, const ROWS: usize> Panel<T, ROWS> {
    /// Returns a pointer to the 16-byte chunk `chunk`, below 8, of row `row`. [`stmatrix`](crate::mma::stmatrix) stores
    /// a row of a matrix there.
    ///
    /// Creating the pointer is safe. It is valid if `this` is, and the panel has the row and the chunk.
    #[inline(always)]
    pub fn chunk(this: *mut Self, row: u32, chunk: u32) -> *mut T {
        this.cast::<u8>().wrapping_add((row * ROW as u32 + (chunk ^ (row % 8)) * 16) as usize).cast()
    }

    /// Returns a pointer to the element at `row` and `column`, for kernels that access a panel directly.
    ///
    /// Creating the pointer is safe. It is valid if `this` is, and the panel has the row and the column.
    #[inline(always)]
    pub fn element(this: *mut Self, row: u32, column: u32) -> *mut T {
        let in_chunk = (16 / size_of::<T>()) as u32;
        Self::chunk(this, row, column / in_chunk).wrapping_add((column % in_chunk) as usize)
    }
}

/// `ROWS` rows of A or columns of B in a [`Panel`], with contiguous elements along K: one instruction's share, 32 bytes
/// of each row.
#[derive(Clone, Copy, Debug)]
pub struct KMajor<T, const ROWS: usize> {
    /// The lower word of the descriptor.
    #[cfg(target_arch = "nvptx64")]
    descriptor: u32,
    #[cfg(not(target_arch = "nvptx64"))]
    view: View,
    element: PhantomData<T>,
}

/// `COLUMNS` contiguous rows of A or columns of B in a [`Panel`] with one row per K: one instruction's share, 16 rows.
#[derive(Clone, Copy, Debug)]
pub struct MnMajor<T, const COLUMNS: usize> {
    /// The lower word of the descriptor.
    #[cfg(target_arch = "nvptx64")]
    descriptor: u32,
    #[cfg(not(target_arch = "nvptx64"))]
    view: View,
    element: PhantomData<T>,
}

impl<T: Element, const ROWS: usize> KMajor<T, ROWS> {
    /// Returns the operand of the instruction that is `steps` further along K. A panel has 4: step `i` multiplies
    /// elements `i * T::K` up to `(i + 1) * T::K` of each row.
    #[inline(always)]
    pub fn step(self, steps: u32) -> Self {
        #[cfg(target_arch = "nvptx64")]
        {
            Self { descriptor: self.descriptor + 2 * steps, ..self }
        }
        #[cfg(not(target_arch = "nvptx64"))]
        Self { view: self.view.step(steps), ..self }
    }
}

impl<T: Element16, const COLUMNS: usize> MnMajor<T, COLUMNS> {
    /// Returns the operand of the instruction that is `steps` further along K: 16 rows each.
    #[inline(always)]
    pub fn step(self, steps: u32) -> Self {
        #[cfg(target_arch = "nvptx64")]
        {
            Self { descriptor: self.descriptor + 128 * steps, ..self }
        }
        #[cfg(not(target_arch = "nvptx64"))]
        Self { view: self.view.step(steps), ..self }
    }
}

/// A lane's share of 64 rows of A in registers. Each warp of the warpgroup has 16 of the rows, in the layout of
/// [`mma::FragmentA`].
///
/// Create it before the [`fence`](super::fence) that the multiplication needs.
#[derive(Clone, Copy, Debug)]
pub struct FragmentA<T> {
    registers: [u32; 4],
    #[cfg(not(target_arch = "nvptx64"))]
    made: host::Stamp,
    element: PhantomData<T>,
}

impl<T: Element> FragmentA<T> {
    /// Creates the fragment from these registers.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn from_registers(registers: [u32; 4]) -> Self {
        #[cfg(target_arch = "nvptx64")]
        {
            let mut registers = registers;
            device::pin(&mut registers);
            Self { registers, element: PhantomData }
        }
        #[cfg(not(target_arch = "nvptx64"))]
        Self { registers, made: host::now("wgmma::FragmentA::from_registers"), element: PhantomData }
    }
}

impl<T: Element + mma::Element> From<mma::FragmentA<T>> for FragmentA<T> {
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn from(fragment: mma::FragmentA<T>) -> Self {
        Self::from_registers(fragment.registers())
    }
}

mod sealed {
    pub trait SealedA {}
    pub trait SealedB {}
}

/// An operand A, 64 rows: [`KMajor`], [`MnMajor`] or [`FragmentA`].
pub trait OperandA<T: Element>: Copy + sealed::SealedA {
    /// Executes one instruction.
    ///
    /// # Safety
    /// See [the module](super#safety-of-the-collectives).
    #[cfg(target_arch = "nvptx64")]
    #[doc(hidden)]
    unsafe fn multiply<D: Registers, const TRANS_B: i32>(self, d: &mut D, b: u64, keep: u32);
    #[cfg(not(target_arch = "nvptx64"))]
    #[doc(hidden)]
    fn source(self) -> SourceA;
}

/// An operand B: [`KMajor`] or [`MnMajor`], with the accumulators' number of columns.
pub trait OperandB<T: Element>: Copy + sealed::SealedB {
    /// Its columns, N.
    const COLUMNS: usize;
    /// Executes one instruction.
    ///
    /// # Safety
    /// See [the module](super#safety-of-the-collectives).
    #[cfg(target_arch = "nvptx64")]
    #[doc(hidden)]
    unsafe fn multiply<D: Registers, A: OperandA<T>>(self, d: &mut D, a: A, keep: u32);
    #[cfg(not(target_arch = "nvptx64"))]
    #[doc(hidden)]
    fn view(self) -> View;
}

macro_rules! shared_operands {
    ($($name:ident, $element:ident, $trans:literal;)*) => {$(
        impl<T> sealed::SealedA for $name<T, 64> {}
        impl<T, const N: usize> sealed::SealedB for $name<T, N> {}

        impl<T: $element> OperandA<T> for $name<T, 64> {
            #[cfg(target_arch = "nvptx64")]
            #[inline(always)]
            unsafe fn multiply<D: Registers, const TRANS_B: i32>(self, d: &mut D, b: u64, keep: u32) {
                // SAFETY: all threads of the warpgroup execute this.
                unsafe { d.multiply_shared::<T, $trans, TRANS_B>(device::whole(self.descriptor), b, keep) };
            }

            #[cfg(not(target_arch = "nvptx64"))]
            fn source(self) -> SourceA {
                SourceA::Shared(self.view)
            }
        }

        impl<T: $element, const N: usize> OperandB<T> for $name<T, N> {
            const COLUMNS: usize = N;

            #[cfg(target_arch = "nvptx64")]
            #[inline(always)]
            unsafe fn multiply<D: Registers, A: OperandA<T>>(self, d: &mut D, a: A, keep: u32) {
                // SAFETY: all threads of the warpgroup execute this.
                unsafe { a.multiply::<D, $trans>(d, device::whole(self.descriptor), keep) };
            }

            #[cfg(not(target_arch = "nvptx64"))]
            fn view(self) -> View {
                self.view
            }
        }
    )*};
}

shared_operands! {
    KMajor, Element, 0;
    MnMajor, Element16, 1;
}

impl<T> sealed::SealedA for FragmentA<T> {}

impl<T: Element> OperandA<T> for FragmentA<T> {
    #[cfg(target_arch = "nvptx64")]
    #[inline(always)]
    unsafe fn multiply<D: Registers, const TRANS_B: i32>(self, d: &mut D, b: u64, keep: u32) {
        // SAFETY: all threads of the warpgroup execute this.
        unsafe { d.multiply_registers::<T, TRANS_B>(self.registers, b, keep) };
    }

    #[cfg(not(target_arch = "nvptx64"))]
    fn source(self) -> SourceA {
        SourceA::Registers(self.registers, self.made)
    }
}

#[cfg(target_arch = "nvptx64")]
mod device {
    /// Returns the lower word of the descriptor of a matrix in the 128-byte swizzle. `leading` is the distance of two
    /// panels in units of 16 bytes (PTX ISA, "Matrix descriptor").
    #[inline(always)]
    pub(super) fn descriptor(panel: *const u8, leading: u32) -> u32 {
        let address: u32;
        // SAFETY: the instructions compute an address.
        unsafe {
            core::arch::asm!(
                "{{ .reg .b64 address; cvta.to.shared.u64 address, {panel}; cvt.u32.u64 {address}, address; }}",
                panel = in(reg64) panel,
                address = out(reg32) address,
                options(pure, nomem, nostack, preserves_flags),
            );
        }
        (address & 0x3_ffff) >> 4 | leading << 16
    }

    /// Returns the descriptor: the upper word has the distance of 8 rows, in units of 16 bytes, and the swizzle.
    ///
    /// Steps are added only to the lower word, and an instruction joins the words. With 64-bit sums, ptxas 13.0.88 at
    /// its default level drops the upper word if an operand starts at a computed row.
    #[inline(always)]
    pub(super) fn whole(lower: u32) -> u64 {
        let descriptor: u64;
        // SAFETY: the instruction joins two numbers.
        unsafe {
            core::arch::asm!(
                "mov.b64 {descriptor}, {{{lower}, {upper}}};",
                lower = in(reg32) lower,
                upper = in(reg32) 64 | 1 << 30,
                descriptor = out(reg64) descriptor,
                options(pure, nomem, nostack, preserves_flags),
            );
        }
        descriptor
    }

    /// Keeps the computation of the registers before the call, without an instruction.
    #[inline(always)]
    pub(super) fn pin([a, b, c, d]: &mut [u32; 4]) {
        // SAFETY: there is no instruction, and the registers keep their values.
        unsafe {
            core::arch::asm!(
                "/* {} {} {} {} */",
                inout(reg32) * a,
                inout(reg32) * b,
                inout(reg32) * c,
                inout(reg32) * d,
                options(nostack, preserves_flags)
            );
        }
    }
}
