//! Sets of buffers that launches rotate through, so that no launch finds its data in the cache.

use anyhow::{Context, ensure};
use ferrowarp::device::{Buffer, Device, DeviceError};

use crate::op::{Number, Op, Wanted, complaint, complaint_of_largest};
use crate::shapes::Shape;

/// Checked rows of a matrix; smaller matrices are checked entirely.
const CHECKED_ROWS: usize = 64;

/// Size of the block of numbers that matrices repeat: a prime, so that rows differ.
const NOISE: usize = 1_048_583;

/// All sets together are at least this many times as large as the cache.
const CACHES: usize = 4;

/// Maximum number of sets. If they do not fill the cache, launches are so small that cold and warm make no difference.
const MOST_SETS: usize = 1000;

/// The buffers of one launch, all `[rows, cols]` unless stated otherwise.
pub struct Set<T> {
    /// The output if it is a matrix; else empty.
    pub out: Buffer<T>,
    /// The input.
    pub inp: Buffer<T>,
    /// The gradient at the result, for [`Op::Backward`]; else empty.
    pub gradient: Buffer<T>,
    /// A class per row, for [`Op::CrossEntropy`]; else empty.
    pub targets: Buffer<u32>,
    /// A loss per row, for [`Op::CrossEntropy`]; else empty.
    pub losses: Buffer<f32>,
    /// `[rows, k]`, the largest probabilities for [`Op::TopK`]; else empty.
    pub probabilities: Buffer<f32>,
    /// `[rows, k]`, their columns, or a token per row, for [`Op::Sample`] and [`Op::SampleTopP`]; else empty.
    pub indices: Buffer<u32>,
}

/// The sets of a shape, and the expected results.
pub struct Sets<T> {
    /// At least one.
    pub sets: Vec<Set<T>>,
    op: Op,
    shape: Shape,
    /// The checked rows and their expected results.
    oracle: Vec<(usize, Wanted)>,
}

impl<T> AsMut<[Set<T>]> for Sets<T> {
    fn as_mut(&mut self) -> &mut [Set<T>] {
        &mut self.sets
    }
}

impl<T: Number> Sets<T> {
    /// Creates enough sets to leave the cache cold; on the CPU one.
    ///
    /// # Errors
    /// The sets take over a third of the free memory, or the device failed.
    pub fn new(device: &Device, op: Op, shape: Shape) -> anyhow::Result<Self> {
        let count = count(device, op.matrices() * shape.len() * size_of::<T>())?;
        let Numbers { block, gradients, targets } = Numbers::new(op, shape);
        let sets = (0..count).map(|_| Set::new(device, op, shape, [&block, &gradients], &targets));
        let of_row = |row: usize| {
            let values = |block: &[T]| -> Vec<f32> {
                let elements = row * shape.cols..(row + 1) * shape.cols;
                elements.map(|i| block[i % block.len()].value()).collect()
            };
            let of_row = (row, &values(&block)[..]);
            (row, op.wanted(of_row, &values(&gradients), target(row, shape), shape.rows))
        };
        // Sorting wide rows takes time.
        let rows: Vec<usize> = checked_rows(shape.rows).collect();
        let of_rows = |rows: &[usize]| rows.iter().map(|&row| of_row(row)).collect::<Vec<_>>();
        let oracle = std::thread::scope(|scope| {
            let parts: Vec<_> = rows.chunks(8).map(|rows| scope.spawn(move || of_rows(rows))).collect();
            parts.into_iter().flat_map(|part| part.join().expect("the oracle does not panic")).collect()
        });
        Ok(Self { sets: sets.collect::<Result<_, _>>()?, op, shape, oracle })
    }

    /// Runs `launch` on the first set with its output unwritten, and compares the result with the oracle.
    ///
    /// # Errors
    /// The launch failed, or a row is wrong.
    pub fn check(
        &mut self,
        launch: impl FnOnce(&mut Set<T>) -> Result<(), DeviceError>,
    ) -> anyhow::Result<()> {
        let (cols, selected, set) = (self.shape.cols, self.op.results_a_row(), &mut self.sets[0]);
        let unwritten = vec![T::nearest(f32::NAN); cols];
        for &(row, _) in &self.oracle {
            if self.op.writes_matrix() {
                set.out.view_mut(row * cols..(row + 1) * cols)?.copy_from(&unwritten)?;
            } else {
                set.indices
                    .view_mut(row * selected..(row + 1) * selected)?
                    .copy_from(&vec![u32::MAX; selected])?;
            }
        }
        launch(set).context("the launch failed")?;
        for (row, want) in &self.oracle {
            let results = row * selected..(row + 1) * selected;
            let complaint = match want {
                Wanted::Elements(want) => {
                    complaint(&set.out.view(row * cols..(row + 1) * cols)?.to_vec()?, want)
                }
                Wanted::Largest(want) => {
                    let indices = set.indices.view(results.clone())?.to_vec()?;
                    complaint_of_largest(&indices, &set.probabilities.view(results)?.to_vec()?, want)
                }
                Wanted::Token(tokens) => {
                    let token = set.indices.view(results)?.to_vec()?[0];
                    (!tokens.contains(&token)).then(|| format!("the token is {token}, expected {tokens:?}"))
                }
            };
            if let Some(complaint) = complaint {
                anyhow::bail!("{} of {}: row {row}: {complaint}", self.op.name(), self.shape);
            }
        }
        Ok(())
    }
}

/// The contents of every set.
struct Numbers<T> {
    /// The block that the input repeats.
    block: Vec<T>,
    /// The block that the gradient repeats.
    gradients: Vec<T>,
    targets: Vec<u32>,
}

impl<T: Number> Numbers<T> {
    fn new(op: Op, shape: Shape) -> Self {
        let noise = noise();
        let element = |i: usize| T::nearest(op.element(noise[i % NOISE], shape.cols));
        Self {
            block: (0..NOISE.min(shape.len())).map(element).collect(),
            gradients: noise.iter().rev().take(shape.len()).map(|&x| T::nearest(x)).collect(),
            targets: (0..shape.rows).map(|row| target(row, shape) as u32).collect(),
        }
    }
}

impl<T: Number> Set<T> {
    /// Creates a single set; its results are not used.
    ///
    /// # Errors
    /// There is not enough memory, or the device failed.
    pub fn alone(device: &Device, op: Op, shape: Shape) -> Result<Self, DeviceError> {
        let Numbers { block, gradients, targets } = Numbers::new(op, shape);
        Self::new(device, op, shape, [&block, &gradients], &targets)
    }

    fn new(
        device: &Device,
        op: Op,
        shape: Shape,
        [elements, gradients]: [&[T]; 2],
        targets: &[u32],
    ) -> Result<Self, DeviceError> {
        let len_if = |is_used: bool, len| if is_used { len } else { 0 };
        let of_rows = len_if(op == Op::CrossEntropy, shape.rows);
        Ok(Self {
            out: device.alloc_zeroed(len_if(op.writes_matrix(), shape.len()))?,
            inp: repeated(device, elements, shape.len())?,
            gradient: repeated(device, gradients, len_if(op == Op::Backward, shape.len()))?,
            targets: device.upload(&targets[..of_rows])?,
            losses: device.alloc_zeroed(of_rows)?,
            probabilities: device
                .alloc_zeroed(len_if(matches!(op, Op::TopK(_)), shape.rows * op.results_a_row()))?,
            indices: device.alloc_zeroed(shape.rows * op.results_a_row())?,
        })
    }
}

/// The number of sets of `bytes` bytes that leaves the cache cold; on the CPU one.
///
/// # Errors
/// They take over a third of the free memory, or the device failed.
pub fn count(device: &Device, bytes: usize) -> anyhow::Result<usize> {
    let (Some(l2), Some(free)) = (device.l2_bytes()?, device.free_bytes()?) else { return Ok(1) };
    let count = (CACHES * l2).div_ceil(bytes.max(1)).clamp(2, MOST_SETS);
    ensure!(count * bytes <= free / 3, "{count} sets of {bytes} bytes are over a third of {free} free");
    Ok(count)
}

/// Creates a buffer of `len` elements that repeats `block`.
fn repeated<T: Number>(device: &Device, block: &[T], len: usize) -> Result<Buffer<T>, DeviceError> {
    let mut buffer = device.alloc_zeroed(len)?;
    for start in (0..len).step_by(block.len()) {
        let end = len.min(start + block.len());
        buffer.view_mut(start..end)?.copy_from(&block[..end - start])?;
    }
    Ok(buffer)
}

/// Numbers from -1 to 1, the same in every run.
fn noise() -> Vec<f32> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let next = |_| {
        // xorshift64 (Marsaglia 2003).
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / 8_388_608.0 - 1.0
    };
    (0..NOISE).map(next).collect()
}

fn target(row: usize, shape: Shape) -> usize {
    row * 7919 % shape.cols
}

/// At most [`CHECKED_ROWS`] rows, evenly spread from the first to the last.
fn checked_rows(rows: usize) -> impl Iterator<Item = usize> {
    let count = rows.min(CHECKED_ROWS);
    (0..count).map(move |i| if count == 1 { 0 } else { i * (rows - 1) / (count - 1) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checked_rows_are_spread_from_the_first_to_the_last() {
        for rows in [1, 2, 63, 64, 65, 4096, 131_072] {
            let checked: Vec<usize> = checked_rows(rows).collect();
            assert_eq!(checked.len(), rows.min(64));
            assert_eq!((checked[0], checked[checked.len() - 1]), (0, rows - 1));
            assert!(checked.is_sorted_by(|a, b| a < b));
        }
    }

    #[test]
    fn an_output_that_is_not_written_is_found() {
        let device = Device::cpu();
        let shape = Shape { rows: 100, cols: 3 };
        let mut sets = Sets::<f32>::new(&device, Op::Softmax, shape).unwrap();
        let write_right = |set: &mut Set<f32>| {
            let right = ferrowarp_cases::reference::softmax(&set.inp.to_vec()?, 3);
            set.out.copy_from(&right.into_iter().map(|y| y as f32).collect::<Vec<_>>())
        };
        sets.check(write_right).unwrap();
        let error = sets.check(|_| Ok(())).unwrap_err().to_string();
        assert!(error.starts_with("softmax of 100x3: row 0: column 0 is NaN, expected "), "{error}");
        let forgets_the_last_row = |set: &mut Set<f32>| {
            write_right(set)?;
            set.out.view_mut(297..)?.copy_from(&[0.5; 3])
        };
        assert!(sets.check(forgets_the_last_row).unwrap_err().to_string().contains("row 99"));
    }

    #[test]
    fn tokens_and_places_that_are_not_written_are_found() {
        let (device, shape) = (Device::cpu(), Shape { rows: 3, cols: 70 });
        for op in [Op::Sample, Op::SampleTopP, Op::TopK(64)] {
            let launch = crate::operations::launch::<f32>(&device, op, shape).unwrap();
            let mut sets = Sets::<f32>::new(&device, op, shape).unwrap();
            sets.check(&*launch).unwrap();
            let error = sets.check(|_| Ok(())).unwrap_err().to_string();
            assert!(error.contains("70: row 0: ") && error.contains("4294967295"), "{error}");
        }
    }
}
