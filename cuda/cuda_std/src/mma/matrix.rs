//! Moves matrices of 8 x 8 16-bit numbers between shared memory and registers, and transposes them.
//!
//! The instructions are assembly, which the builder marks as convergent. LLVM's intrinsics for the accesses take
//! pointers to shared memory, for which Rust has no type; for the transposition libNVVM has no intrinsic.

#[cfg(not(target_arch = "nvptx64"))]
use super::exchange;
use crate::shared::SharedPtr;

#[cfg(not(target_arch = "nvptx64"))]
#[track_caller]
fn check_rows(name: &str, rows: &[*mut u8]) {
    for row in rows {
        assert!(row.addr().is_multiple_of(16), "{name}() got the row {row:p}; align rows to 16 bytes");
    }
}

/// Returns the lane's registers of `N` matrices.
///
/// # Safety
/// Same as for [`ldmatrix`].
#[cfg(not(target_arch = "nvptx64"))]
#[inline(always)]
#[track_caller]
unsafe fn load<const N: usize, const TRANS: bool>(name: &'static str, row: *mut u8) -> [u32; N] {
    let rows = exchange::rows(name, N, TRANS, row);
    let lane = crate::warp::lane_id() as usize;
    check_rows(name, &rows[..if TRANS { 2 * N } else { N }]);
    core::array::from_fn(|i| {
        if TRANS {
            let element = |row: *mut u8| {
                // SAFETY: the row has 16 bytes, and `lane / 4` is the index of one of its `u16`s.
                u32::from(unsafe { row.cast::<u16>().add(lane / 4).read() })
            };
            element(rows[2 * i]) | element(rows[2 * i + 1]) << 16
        } else {
            // SAFETY: the row has 16 bytes, and `lane % 4` is the index of one of its `u32`s.
            unsafe { rows[i].cast::<u32>().add(lane % 4).read() }
        }
    })
}

/// Writes the lane's registers of `N` matrices.
///
/// # Safety
/// Same as for [`stmatrix`].
#[cfg(not(target_arch = "nvptx64"))]
#[inline(always)]
#[track_caller]
unsafe fn store<const N: usize, const TRANS: bool>(name: &'static str, row: *mut u8, registers: [u32; N]) {
    let rows = exchange::rows(name, N, TRANS, row);
    let lane = crate::warp::lane_id() as usize;
    check_rows(name, &rows[..if TRANS { 2 * N } else { N }]);
    for (i, register) in registers.into_iter().enumerate() {
        if TRANS {
            for (row, value) in [(rows[2 * i], register as u16), (rows[2 * i + 1], (register >> 16) as u16)] {
                // SAFETY: the row has 16 bytes, and `lane / 4` is the index of one of its `u16`s.
                unsafe { row.cast::<u16>().add(lane / 4).write(value) };
            }
        } else {
            // SAFETY: the row has 16 bytes, and `lane % 4` is the index of one of its `u32`s.
            unsafe { rows[i].cast::<u32>().add(lane % 4).write(register) };
        }
    }
}

macro_rules! loads {
    ($($(#[$doc:meta])* $name:ident = $trans:literal, $modifier:literal;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// - See [the module](super#safety-of-the-collectives).
        /// - `row` of the lanes below `8 * N` points to 16 aligned bytes of the block's shared memory. No thread writes
        ///   them without a barrier in between, nor do the other lanes of the warp before the next
        ///   [`sync_warp`](crate::warp::sync_warp). `row` of the other lanes is ignored.
        #[doc(alias = "ldmatrix.sync.aligned.m8n8")]
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub unsafe fn $name<const N: usize, T>(row: impl Into<SharedPtr<T>>) -> [u32; N] {
            const { assert!(matches!(N, 1 | 2 | 4), "1, 2 or 4 matrices") };
            let row = row.into();
            #[cfg(target_arch = "nvptx64")]
            {
                let mut registers = [0; 4];
                let [a, b, c, d] = &mut registers;
                // SAFETY: the caller guarantees the rows, and that all lanes execute this.
                unsafe {
                    match N {
                        1 => core::arch::asm!(
                            concat!("ldmatrix.sync.aligned.m8n8.x1", $modifier, ".shared.b16 {{{a}}}, [{row}];"),
                            a = out(reg32) *a, row = in(reg32) row.address(), options(nostack, preserves_flags)),
                        2 => core::arch::asm!(
                            concat!("ldmatrix.sync.aligned.m8n8.x2", $modifier, ".shared.b16 {{{a}, {b}}}, [{row}];"),
                            a = out(reg32) *a, b = out(reg32) *b, row = in(reg32) row.address(),
                            options(nostack, preserves_flags)),
                        _ => core::arch::asm!(
                            concat!("ldmatrix.sync.aligned.m8n8.x4", $modifier,
                                ".shared.b16 {{{a}, {b}, {c}, {d}}}, [{row}];"),
                            a = out(reg32) *a, b = out(reg32) *b, c = out(reg32) *c, d = out(reg32) *d,
                            row = in(reg32) row.address(), options(nostack, preserves_flags)),
                    }
                }
                core::array::from_fn(|i| registers[i])
            }
            #[cfg(not(target_arch = "nvptx64"))]
            // SAFETY: the caller guarantees the rows.
            unsafe {
                load::<N, $trans>(concat!("mma::", stringify!($name)), row.pointer().cast())
            }
        }
    )*};
}

loads! {
    /// Loads `N` matrices, 1, 2 or 4, of 8 rows of 16 bytes from shared memory (compute capability 7.5 and later).
    ///
    /// Lane `8 * i + r` passes row `r` of matrix `i`. From each matrix a lane gets the two 16-bit numbers at row
    /// `lane / 4` and columns `lane % 4 * 2` and the next, or one [`tf32`](super::tf32). Four matrices are the parts
    /// of a [`FragmentA`](super::FragmentA), in this order: upper left, lower left, upper right, lower right (PTX
    /// ISA, `ldmatrix`).
    ldmatrix = false, "";
    /// Same as [`ldmatrix`], for the transposed matrices: a lane gets the numbers at column `lane / 4` and rows
    /// `lane % 4 * 2` and the next. For a matrix that is stored by rows, this is a [`FragmentB`](super::FragmentB).
    ldmatrix_trans = true, ".trans";
}

macro_rules! stores {
    ($($(#[$doc:meta])* $name:ident = $trans:literal, $modifier:literal;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// - See [the module](super#safety-of-the-collectives).
        /// - `row` of the lanes below `8 * N` points to 16 aligned bytes of the block's shared memory. No other thread,
        ///   also of the same warp, reads or writes them without a barrier in between.
        #[doc(alias = "stmatrix.sync.aligned.m8n8")]
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub unsafe fn $name<const N: usize, T>(row: *mut T, registers: [u32; N]) {
            const { assert!(matches!(N, 1 | 2 | 4), "1, 2 or 4 matrices") };
            #[cfg(target_arch = "nvptx64")]
            {
                let [a, b, c, d]: [u32; 4] = core::array::from_fn(|i| if i < N { registers[i] } else { 0 });
                // SAFETY: the caller guarantees the rows, and that all lanes execute this.
                unsafe {
                    match N {
                        1 => core::arch::asm!(
                            concat!("{{ .reg .b64 address; cvta.to.shared.u64 address, {row}; stmatrix.sync.aligned.m8n8.x1",
                                $modifier, ".shared.b16 [address], {{{a}}}; }}"),
                            a = in(reg32) a, row = in(reg64) row, options(nostack, preserves_flags)),
                        2 => core::arch::asm!(
                            concat!("{{ .reg .b64 address; cvta.to.shared.u64 address, {row}; stmatrix.sync.aligned.m8n8.x2",
                                $modifier, ".shared.b16 [address], {{{a}, {b}}}; }}"),
                            a = in(reg32) a, b = in(reg32) b, row = in(reg64) row,
                            options(nostack, preserves_flags)),
                        _ => core::arch::asm!(
                            concat!("{{ .reg .b64 address; cvta.to.shared.u64 address, {row}; stmatrix.sync.aligned.m8n8.x4",
                                $modifier, ".shared.b16 [address], {{{a}, {b}, {c}, {d}}}; }}"),
                            a = in(reg32) a, b = in(reg32) b, c = in(reg32) c, d = in(reg32) d,
                            row = in(reg64) row, options(nostack, preserves_flags)),
                    }
                }
            }
            #[cfg(not(target_arch = "nvptx64"))]
            // SAFETY: the caller guarantees the rows.
            unsafe {
                store::<N, $trans>(concat!("mma::", stringify!($name)), row.cast(), registers);
            }
        }
    )*};
}

stores! {
    /// Stores `N` matrices, 1, 2 or 4, of 8 rows of 16 bytes into shared memory (compute capability 9.0 and later): the
    /// inverse of [`ldmatrix`].
    stmatrix = false, "";
    /// The inverse of [`ldmatrix_trans`] (compute capability 9.0 and later).
    stmatrix_trans = true, ".trans";
}

/// Transposes a matrix of 8 x 8 16-bit numbers. Each lane holds two, as [`ldmatrix`] returns them (compute capability
/// 7.5 and later).
///
/// # Safety
/// See [the module](super#safety-of-the-collectives).
#[doc(alias = "movmatrix.sync.aligned.m8n8.trans.b16")]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn movmatrix_trans(register: u32) -> u32 {
    #[cfg(target_arch = "nvptx64")]
    {
        let transposed;
        // SAFETY: all lanes execute this. It accesses no memory, but without side effects it would not be convergent.
        unsafe {
            core::arch::asm!("movmatrix.sync.aligned.m8n8.trans.b16 {}, {};", out(reg32) transposed,
                in(reg32) register, options(nomem, nostack, preserves_flags));
        }
        transposed
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        let lane = crate::warp::lane_id();
        let element = |row: u32| {
            let pair = exchange::shuffle("mma::movmatrix_trans", register.into(), 4 * row + lane / 8);
            pair as u32 >> (16 * (lane / 4 % 2)) & 0xffff
        };
        let row = lane % 4 * 2;
        element(row) | element(row + 1) << 16
    }
}
