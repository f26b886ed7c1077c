//! The transpose of a matrix.

use axis_kernels::args::{DIRECT, TransposeLaunch};
use axis_kernels::{Blocks, TransposeKernels};
use bytemuck::Pod;
use cuda_std::launch::RawBuffer;
use ferrowarp_device::device::Queue;
use ferrowarp_device::error::{Error, Kind};
use ferrowarp_device::tensor::{Rows, Tensor, TensorView, TensorViewMut};

use super::choices::choices;
use crate::operation::{MOST, Operation, starts_aligned};

/// The name in errors.
const NAME: &str = "a transpose";

/// The transpose of a matrix in memory; a view is transposed by [`TensorView::t`]. Elements may have any type of 2 or 4 bytes.
///
/// ```
/// use ferrowarp::device::Device;
/// use ferrowarp::{Error, Transpose};
///
/// let device = Device::cpu();
/// let x = device.tensor(&[1u16, 2, 3, 4, 5, 6], [2, 3])?;
/// assert_eq!(Transpose::new().run(&device, &x)?.to_vec()?, [1, 4, 2, 5, 3, 6]);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "nothing is computed before it is run"]
pub struct Transpose {}

impl Transpose {
    /// The transpose of `[rows, cols]` as `[cols, rows]`.
    pub const fn new() -> Self {
        Self {}
    }

    /// Returns the transpose of a tensor of two axes.
    ///
    /// # Errors
    /// The tensor has another number of axes, is too large, or has gaps within its rows; it lives on another device, or the
    /// device failed.
    pub fn run<'i, T: Pod>(
        self,
        queue: &impl Queue,
        inp: impl Into<TensorView<'i, T>>,
    ) -> Result<Tensor<T>, Error> {
        let inp = inp.into();
        let mut out = Tensor::unwritten(queue, inp.t().shape())?;
        self.run_into(queue, &mut out, inp)?;
        Ok(out)
    }

    /// Writes the transpose.
    ///
    /// # Errors
    /// As for [`Self::run`], or the output has another shape.
    pub fn run_into<'o, 'i, T: Pod>(
        self,
        queue: &impl Queue,
        out: impl Into<TensorViewMut<'o, T>>,
        inp: impl Into<TensorView<'i, T>>,
    ) -> Result<(), Error> {
        self.run_by(queue, out.into(), inp.into(), choices(queue.device().limits())[0])
    }

    /// Runs the kernels for a GPU or for a CPU.
    #[doc(hidden)]
    pub fn run_by<T: Pod>(
        self,
        queue: &impl Queue,
        mut out: TensorViewMut<'_, T>,
        inp: TensorView<'_, T>,
        blocks: Blocks,
    ) -> Result<(), Error> {
        const { assert!(size_of::<T>() == 2 || size_of::<T>() == 4, "elements of 2 or 4 bytes can be transposed") };
        let operation = Operation::new(NAME, queue);
        let got = inp.shape();
        if got.len() != 2 {
            return Err(operation.refuse("input", Kind::Rank { got, needs: "two axes" }));
        }
        let of_inp = operation.matrix("input", &inp, got)?;
        let of_out = operation.matrix("output", &out, [got[1], got[0]])?;
        operation.count("rows", of_inp.rows, MOST)?;
        operation.count("columns", of_inp.cols, MOST)?;
        if got.contains(&0) {
            return Ok(());
        }
        let (out, inp) = (out.raw(), inp.raw());
        if size_of::<T>() == 2 {
            Self::launch::<u16>(queue, blocks, (out.cast(), of_out), (inp.cast(), of_inp))
        } else {
            Self::launch::<u32>(queue, blocks, (out.cast(), of_out), (inp.cast(), of_inp))
        }
    }

    fn launch<W: TransposeKernels>(
        queue: &impl Queue,
        blocks: Blocks,
        (out, of_out): (RawBuffer<W>, Rows),
        (inp, of_inp): (RawBuffer<W>, Rows),
    ) -> Result<(), Error> {
        let (out_stride, inp_stride) = (of_out.stride, of_inp.stride);
        let [rows, cols] = [of_inp.rows as u32, of_inp.cols as u32];
        let is_aligned = starts_aligned(&[(out, out_stride), (inp, inp_stride)]);
        let multiprocessors = queue.device().multiprocessors().max(1) as u32;
        let tiles = W::transpose(blocks, is_aligned).tiles(
            [rows, cols],
            [inp_stride, out_stride].map(|stride| stride as u64),
            is_aligned,
            multiprocessors,
        );
        let kernel = W::transpose(blocks, is_aligned && !tiles.is_direct);
        let args = TransposeLaunch {
            out,
            inp,
            out_stride: out_stride as u64,
            inp_stride: inp_stride as u64,
            rows,
            cols,
            tile_rows: tiles.rows,
            tile_cols: tiles.cols,
            flags: if tiles.is_direct { DIRECT } else { 0 },
        };
        let Some(config) = kernel.config(tiles, size_of::<W>()) else {
            let (value, most) = (tiles.count as usize, i32::MAX as usize);
            return Err(Error::from(Kind::TooLarge { what: "tiles", value, most }).of(NAME, None));
        };
        // SAFETY: shapes and devices were checked, and the output is borrowed exclusively. Elements and words have the same
        // size, and buffers start at multiples of it. Later uses of the memory wait for the device or are queued after this.
        unsafe { kernel.launch(queue, config, args)? };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use axis_kernels::TransposeShape;
    use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

    #[test]
    fn tiles_fit_shared_memory_and_narrow_matrices_fill_them() {
        let mut rng = StdRng::seed_from_u64(71);
        let mut extent = || {
            let log = rng.random_range(1..24);
            rng.random_range(1..=1u32 << log)
        };
        for _ in 0..2000 {
            let ([rows, cols], gaps) = ([extent(), extent()], [extent() % 3, extent() % 3]);
            let strides = [cols + gaps[0], rows + gaps[1]];
            for (kernel, bytes) in
                [(TransposeShape { vector: 8, block: 256 }, 2), (TransposeShape { vector: 4, block: 256 }, 4)]
            {
                let is_aligned = strides.iter().all(|stride| stride.is_multiple_of(kernel.vector));
                let tiles = kernel.tiles([rows, cols], strides.map(u64::from), is_aligned, 132);
                let side = 16 * kernel.vector;
                let context = format!("{rows} x {cols}, strides {strides:?}, {bytes} bytes: {tiles:?}");
                // A square, and a vector more for each of its rows.
                assert!(tiles.shared <= side * (side + 2 * kernel.vector), "{context}");
                assert!(tiles.rows <= rows.max(side) && tiles.cols <= cols.max(side), "{context}");
                let (area, short) = (tiles.rows * tiles.cols, rows.min(cols));
                let is_large = u64::from(rows) * u64::from(cols) >= 1 << 24 && rows.max(cols) >= 1 << 14;
                if is_large && gaps == [0; 2] && short < side {
                    assert!(2 * area >= side * side, "{context}");
                }
            }
        }
    }
}
