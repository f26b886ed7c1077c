//! The largest probabilities of a softmax.

use anyhow::Result;
use cuda_std::launch::RawBuffer;
use cuda_std::testing::{KernelTest, Layout};
use ferrowarp::Softmax;
use ferrowarp::device::Device;
use gpu_kernels::softmax::operation::{RowVariants, Spread};
use gpu_kernels::softmax::top_k::{LOG, TopKArgs, TopKLaunch, ZERO_MASKED};

use super::backward::rounded;
use super::logits::{edge_rows, logits};
use super::rowwise::{self, Rowwise, Sweep, Widths, sweep};
use crate::case::{Case, wide};
use crate::compare::{Bound, Expected, Outputs};
use crate::reference::{self, Number, RELATIVE};
use crate::scopes::{Scope, Setting};

/// One problem; its numbers are rounded to a kernel's type.
#[derive(Clone, Debug)]
pub struct TopK {
    /// The layouts of the probabilities, the indices and the logits.
    pub layouts: [Layout; 3],
    /// The logits.
    pub logits: Vec<f32>,
    /// Scale and other options.
    pub options: Softmax,
}

/// Every case of the setting.
pub fn cases(setting: &Setting) -> Vec<Case> {
    rowwise::cases::<TopK>(setting)
}

/// Rows of all kinds, starting with the seed's: random ones with outliers, ones with many equal elements, and, if there are
/// enough columns, ones that are hard for a softmax.
pub(super) fn rows_of_all_kinds(rows: usize, cols: usize, seed: u64) -> Vec<f32> {
    let mut numbers = logits(rows, cols);
    let hard = if cols >= 5 { edge_rows(cols) } else { Vec::new() };
    for (row, numbers) in numbers.chunks_mut(cols).enumerate() {
        match (row + seed as usize) % (6 + hard.len()) {
            // 17 different values, each equally often.
            0 => numbers.iter_mut().enumerate().for_each(|(col, x)| *x = (col * 7 % 17) as f32),
            1 => (0..cols).step_by(cols.div_ceil(60)).for_each(|col| numbers[col] += 30.0),
            // All large values are at the same position in every few rounds of a block.
            2 => numbers.iter_mut().skip(3).step_by(2048).for_each(|x| *x += 50.0),
            3 => numbers.sort_by(f32::total_cmp),
            4 => {}
            5 => numbers[..cols - cols.min(3)].fill(f32::NEG_INFINITY),
            kind => numbers.copy_from_slice(&hard[kind - 6].1),
        }
    }
    numbers
}

impl TopK {
    /// Dense matrices; `k` elements of each row are selected.
    pub fn dense(logits: Vec<f32>, cols: usize, k: usize, options: Softmax) -> Self {
        let rows = logits.len() / cols;
        let selected = Layout::dense(rows, k);
        Self { layouts: [selected, selected, Layout::dense(rows, cols)], logits, options }
    }
}

impl Rowwise for TopK {
    type Args<T: Number> = TopKArgs<T>;
    const NAME: &'static str = "top-k";
    const IN_PLACE: bool = false;
    const SWEEPS: &'static [Sweep] = &{
        use Scope::{Device, Executor, NewEmulator, OldEmulator, Small, Tiny};
        use Widths::{All, Staged, UpTo};
        [
            sweep(Tiny, 1, UpTo(&[35]), 1),
            sweep(Small, 3, UpTo(&[35, 1157]), 1),
            sweep(OldEmulator, 3, All(&[1, 33, 1157]), 2),
            // One of the two thread orders exposes a missing barrier.
            sweep(NewEmulator, 2, All(&[33, 257]), 1),
            sweep(NewEmulator, 2, Staged(&[3, 2311]), 1),
            sweep(Executor, 24, All(&[1, 31, 33, 127]), 3),
            sweep(Executor, 24, All(&[1023, 1025, 4099]), 1),
            sweep(Executor, 3, All(&[12_673, 50_257]), 1),
            sweep(Device, 24, All(&[35, 1025]), 2),
            sweep(Device, 6, All(&[50_257]), 2),
        ]
    };

    fn kernels<T: Number>() -> &'static RowVariants<TopKArgs<T>> {
        &T::SAMPLING.top_k
    }

    /// The seed determines the kinds of rows, one of four numbers of elements, and the options.
    fn random([_, _, of_logits]: [Layout; 3], seed: u64) -> Self {
        let Layout { rows, cols, .. } = of_logits;
        let k = [50, 1, 128, 7][seed as usize % 4];
        let plain = Softmax::new();
        let options = [plain, plain.log(), plain.zero_masked(), plain.scale(0.37), plain.log().zero_masked()];
        let gap = of_logits.stride - cols;
        let selected = |gap| Layout::dense(rows, k).with_stride(k + gap).with_offset(of_logits.offset);
        Self {
            layouts: [selected(gap), selected(2 * gap), of_logits],
            logits: rows_of_all_kinds(rows, cols, seed),
            options: options[seed as usize % 5],
        }
    }

    fn layouts(&self) -> &[Layout] {
        &self.layouts
    }

    fn run<T: Number>(&self, device: &Device, kernel: Spread<TopKArgs<T>>, _: bool) -> Result<Outputs> {
        let [of_probabilities, of_indices, of_logits] = self.layouts;
        let Layout { rows, cols, .. } = of_logits;
        let mut test = KernelTest::new();
        let logits = test.input_at("logits", &rounded::<T>(&self.logits), of_logits);
        let probabilities = test.unwritten::<f32>("probabilities", of_probabilities);
        // Neither a valid column nor the marker for no column.
        let indices = test.output_at("indices", &vec![u32::MAX - 1; rows * of_indices.cols], of_indices);
        let results = test.run_on(device, |on, memory| {
            let args = TopKLaunch {
                probabilities: RawBuffer::written(memory.output(probabilities)),
                indices: RawBuffer::written(memory.output(indices)),
                logits: RawBuffer::read(memory.input(logits)),
                rows: rows as u32,
                probabilities_stride: of_probabilities.stride as u64,
                indices_stride: of_indices.stride as u64,
                stride: of_logits.stride as u64,
                cols: cols as u32,
                k: of_probabilities.cols as u32,
                scale: self.options.factor(),
                flags: if self.options.is_log() { LOG } else { 0 }
                    | if self.options.zeroes_masked() { ZERO_MASKED } else { 0 },
            };
            // SAFETY: the buffers have the shapes and strides, and the grid covers the rows.
            unsafe { kernel.variant.launch(on, kernel.config(rows as u32, cols), args) }
        })?;
        Ok(vec![("probabilities", wide(&results.of(probabilities))), ("indices", wide(&results.of(indices)))])
    }

    fn expected<T: Number>(&self) -> Expected {
        let logits: Vec<f32> = rounded::<T>(&self.logits).into_iter().map(|x| x.value()).collect();
        let [Layout { cols: k, .. }, _, Layout { cols, .. }] = self.layouts;
        let (mut probabilities, mut indices) = (Vec::new(), Vec::new());
        for row in logits.chunks(cols) {
            let all = reference::softmax_bounds::<f32>(row, cols, &self.options, RELATIVE);
            let columns = reference::largest(row);
            for place in 0..k {
                let Some(&col) = columns.get(place) else {
                    let none = if self.options.is_log() { f64::NEG_INFINITY } else { 0.0 };
                    probabilities.push(Bound::exact(none));
                    indices.push(Bound::exact(u32::MAX.into()));
                    continue;
                };
                probabilities.push(all[col]);
                indices.push(Bound::exact(col as f64));
            }
        }
        vec![("probabilities", probabilities), ("indices", indices)]
    }
}
