//! Copies operands with rows that tensor copies cannot read, or read slowly, or whose terms a kernel needs as neighbours.

use cuda_std::launch::RawBuffer;
use ferrowarp_device::device::{Buffer, Queue};
use ferrowarp_device::error::Error;
use matmul_kernels::args::{A_ALIGNED, A_TRANSPOSED, B_ALIGNED, B_TRANSPOSED, MatmulLaunch};
use matmul_kernels::operation::align::{AlignLaunch, ROW_BYTES};
use matmul_kernels::operation::split::SplitLaunch;
use matmul_kernels::operation::{ALIGN, FOLD, TRANSPOSE, align_config, split_config};

use crate::element::Element;

/// Which operands are copied.
#[derive(Clone, Copy, Debug)]
pub(super) struct Copies {
    /// A or B, to rows that start at multiples of [`ROW_BYTES`].
    pub aligns: [bool; 2],
    /// A or B, transposed, if its terms are not neighbours. Only for elements of 4 bytes.
    pub along_k: [bool; 2],
}

/// A stored operand, and its copy.
struct Copied {
    /// Rows and columns as they are stored.
    stored: [u32; 2],
    /// The number of matrices; 0 without a copy.
    matrices: u32,
    is_transposed: bool,
    /// Byte offset in the buffer of all copies.
    first: u64,
}

impl Copied {
    /// Bytes from one row of the copy to the next.
    fn pitch<T>(&self) -> u64 {
        let cols = self.stored[usize::from(!self.is_transposed)];
        (u64::from(cols) * size_of::<T>() as u64).next_multiple_of(ROW_BYTES)
    }

    fn matrix<T>(&self) -> u64 {
        u64::from(self.stored[usize::from(self.is_transposed)]) * self.pitch::<T>()
    }

    fn bytes<T>(&self) -> u64 {
        u64::from(self.matrices) * self.matrix::<T>()
    }
}

/// Copies operands. Returns the arguments with the copies in their place, and the memory of the copies.
///
/// # Safety
/// The arguments describe a multiplication, and their memory is valid for it.
pub(super) unsafe fn launch<T: Element>(
    queue: &impl Queue,
    mut args: MatmulLaunch<T>,
    copies: Copies,
) -> Result<(MatmulLaunch<T>, Buffer<u8>), Error> {
    let flags = args.flags;
    let has = |flag| flags & flag != 0;
    let size = size_of::<T>() as u64;
    let copied = |i: usize, stored: [u32; 2], along_k: bool, batch_pitch| {
        let is_transposed = copies.along_k[i] && !along_k;
        let matrices = if batch_pitch == 0 { 1 } else { args.batch };
        let matrices = if is_transposed || copies.aligns[i] { matrices } else { 0 };
        Copied { stored, matrices, is_transposed, first: 0 }
    };
    let MatmulLaunch { m, n, k, .. } = args;
    let (a_along_k, b_along_k) = (!has(A_TRANSPOSED), has(B_TRANSPOSED));
    let a = if a_along_k { [m, k] } else { [k, m] };
    let a = copied(0, a, a_along_k, args.a_batch);
    let b = if b_along_k { [n, k] } else { [k, n] };
    let b = copied(1, b, b_along_k, args.b_batch);
    let b = Copied { first: a.bytes::<T>(), ..b };
    let mut memory = queue.alloc_unwritten::<u8>((a.bytes::<T>() + b.bytes::<T>()) as usize)?;
    let buffer = RawBuffer::<u8>::written(&mut memory);
    let operands = [
        (&a, &mut args.a, &mut args.a_pitch, &mut args.a_batch, (A_TRANSPOSED, A_ALIGNED)),
        (&b, &mut args.b, &mut args.b_pitch, &mut args.b_batch, (B_TRANSPOSED, B_ALIGNED)),
    ];
    for (to, inp, pitch, batch_pitch, (transposed, aligned)) in operands {
        if to.matrices == 0 {
            continue;
        }
        let (out, [rows, cols]) = (buffer.skip(to.first as usize), to.stored);
        // SAFETY: the operand is valid by the caller's contract, and the buffer has room for its copy.
        unsafe {
            if to.is_transposed {
                let split = SplitLaunch {
                    out: out.cast(),
                    inp: inp.cast(),
                    out_pitch: to.pitch::<T>() / size,
                    inp_pitch: *pitch,
                    inp_batch: *batch_pitch,
                    rows: cols,
                    terms: rows,
                    is_transposed: 1,
                };
                TRANSPOSE.launch(queue, split_config(cols, rows, to.matrices), split)?;
            } else {
                let align = AlignLaunch {
                    out,
                    inp: inp.cast(),
                    out_pitch: to.pitch::<T>(),
                    inp_pitch: *pitch * size,
                    inp_batch: *batch_pitch * size,
                    rows,
                    cols,
                };
                let multiprocessors = queue.device().multiprocessors();
                let config = align_config([rows, cols], size_of::<T>(), to.matrices, multiprocessors);
                ALIGN[usize::from(size == 4)].launch(queue, config, align)?;
            }
        }
        args.flags = (args.flags ^ if to.is_transposed { transposed } else { 0 }) | aligned;
        *inp = out.cast();
        *pitch = to.pitch::<T>() / size;
        *batch_pitch = if *batch_pitch == 0 { 0 } else { to.matrix::<T>() / size };
    }
    Ok((args, memory))
}

/// Copies A for maps of B with folded rows, and a kernel whose stages have `depth` terms. Returns the arguments with the copy in
/// its place, and its memory.
///
/// # Safety
/// Same as for [`launch`]. The terms are a multiple of [`group`].
pub(super) unsafe fn fold<T: Element>(
    queue: &impl Queue,
    args: MatmulLaunch<T>,
    depth: u32,
) -> Result<(MatmulLaunch<T>, Buffer<T>), Error> {
    let size = size_of::<T>() as u64;
    let folded = (args.k / group::<T>()).next_multiple_of(depth);
    let (k, matrices) = (folded * group::<T>(), if args.a_batch == 0 { 1 } else { args.batch });
    let matrix = u64::from(args.m) * u64::from(k);
    let mut copy = queue.alloc_unwritten::<T>(matrices as usize * matrix as usize)?;
    let out = RawBuffer::<T>::written(&mut copy);
    let fold = AlignLaunch {
        out: out.cast(),
        inp: args.a.cast(),
        out_pitch: u64::from(k) * size,
        inp_pitch: args.a_pitch * size,
        inp_batch: args.a_batch * size,
        rows: args.m,
        cols: args.k,
    };
    let config = align_config([args.m, k], size_of::<T>(), matrices, queue.device().multiprocessors());
    // SAFETY: the operand is valid by the caller's contract, and the buffer has room for its copy.
    unsafe { FOLD[usize::from(size == 4)].launch(queue, config, fold)? };
    let a_batch = if args.a_batch == 0 { 0 } else { matrix };
    Ok((MatmulLaunch { a: out, a_pitch: k.into(), a_batch, folded, ..args }, copy))
}

/// Rows of a group: the number of elements in 16 bytes, so that the groups start at multiples of 16 bytes.
pub(super) const fn group<T>() -> u32 {
    16 / size_of::<T>() as u32
}
