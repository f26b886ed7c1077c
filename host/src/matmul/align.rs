//! Copies operands with rows that tensor copies cannot read, or read slowly.

use cuda_std::launch::RawBuffer;
use ferrowarp_device::device::{Buffer, Queue};
use ferrowarp_device::error::Error;
use matmul_kernels::args::{A_ALIGNED, A_TRANSPOSED, B_ALIGNED, B_TRANSPOSED, MatmulLaunch};
use matmul_kernels::operation::align::{AlignLaunch, ROW_BYTES};
use matmul_kernels::operation::{ALIGN, align_config};

use crate::element::Element;

/// A stored operand, and where its copy begins.
struct Copied {
    rows: u32,
    cols: u32,
    matrices: u32,
    /// Byte offset in the buffer of all copies.
    first: u64,
}

impl Copied {
    /// Bytes from one row to the next.
    fn pitch<T>(&self) -> u64 {
        (u64::from(self.cols) * size_of::<T>() as u64).next_multiple_of(ROW_BYTES)
    }

    fn matrix<T>(&self) -> u64 {
        u64::from(self.rows) * self.pitch::<T>()
    }

    fn bytes<T>(&self) -> u64 {
        u64::from(self.matrices) * self.matrix::<T>()
    }
}

/// Copies operands with rows that do not start at multiples of [`ROW_BYTES`], and returns the arguments with the copies in
/// their place, and the memory of the copies.
///
/// # Safety
/// The arguments describe a multiplication, and their memory is valid for it.
pub(super) unsafe fn launch<T: Element>(
    queue: &impl Queue,
    mut args: MatmulLaunch<T>,
) -> Result<(MatmulLaunch<T>, Buffer<u8>), Error> {
    let has = |flag| args.flags & flag != 0;
    let copied =
        |[rows, cols]: [u32; 2], is_transposed: bool, is_fast: bool, batch_pitch: u64, first: u64| {
            let [rows, cols] = if is_transposed { [cols, rows] } else { [rows, cols] };
            let matrices = if batch_pitch == 0 { 1 } else { args.batch };
            Copied { rows, cols, matrices: if is_fast { 0 } else { matrices }, first }
        };
    let size = size_of::<T>() as u64;
    let has_lines = |pitch: u64| (pitch * size).is_multiple_of(ROW_BYTES);
    // Some kernels also need rows of whole chunks of 16 bytes.
    let has_chunks = |elements: u32| (u64::from(elements) * size).is_multiple_of(16);
    let [a_row, b_row] =
        [if has(A_TRANSPOSED) { args.m } else { args.k }, if has(B_TRANSPOSED) { args.k } else { args.n }];
    let is_a_fast = has(A_ALIGNED) && has_lines(args.a_pitch) && has_chunks(a_row);
    let is_b_fast = has(B_ALIGNED) && has_lines(args.b_pitch) && has_chunks(b_row);
    let a = copied([args.m, args.k], has(A_TRANSPOSED), is_a_fast, args.a_batch, 0);
    let b = copied([args.k, args.n], has(B_TRANSPOSED), is_b_fast, args.b_batch, a.bytes::<T>());
    let bytes = a.bytes::<T>() + b.bytes::<T>();
    let mut copies = queue.alloc_unwritten::<u8>(bytes as usize)?;
    let buffer = RawBuffer::<u8>::written(&mut copies);
    let operands = [
        (&a, &mut args.a, &mut args.a_pitch, &mut args.a_batch),
        (&b, &mut args.b, &mut args.b_pitch, &mut args.b_batch),
    ];
    for (to, inp, pitch, batch_pitch) in operands {
        if to.matrices == 0 {
            continue;
        }
        let out = buffer.skip(to.first as usize);
        let align = AlignLaunch {
            out,
            inp: inp.cast(),
            out_pitch: to.pitch::<T>(),
            inp_pitch: *pitch * size,
            inp_batch: *batch_pitch * size,
            rows: to.rows,
            cols: to.cols,
        };
        let config =
            align_config([to.rows, to.cols], size_of::<T>(), to.matrices, queue.device().multiprocessors());
        // SAFETY: the operand is valid by the caller's contract, and the buffer has room for its copy.
        unsafe { ALIGN[usize::from(size_of::<T>() == 4)].launch(queue, config, align)? };
        *inp = out.cast();
        *pitch = to.pitch::<T>() / size;
        *batch_pitch = if *batch_pitch == 0 { 0 } else { to.matrix::<T>() / size };
    }
    Ok((MatmulLaunch { flags: args.flags | A_ALIGNED | B_ALIGNED, ..args }, copies))
}
