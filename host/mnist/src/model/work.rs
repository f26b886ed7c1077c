//! The work of a training step's kernels, computed from the shapes.

use mlp_kernels::resident::{COUNTER, Extents};
use mlp_kernels::short;

use super::pipeline::Pipeline;

/// The work of a kernel in one or several steps.
///
/// Bytes count each array that a launch reads and each that it writes once. This is the traffic between the multiprocessors
/// and L2 or memory, if registers, shared memory and L1 serve all other accesses. An addition, a multiplication, a division,
/// a comparison, an exponential and a logarithm each count as one operation, so a multiply-add counts as two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelWork {
    /// The kernel's name; instances of one kernel share it.
    pub kernel: &'static str,
    /// The number of launches. A launch of [`Pipeline::Resident`] covers many steps; each step counts as one launch here.
    pub launches: u64,
    /// Bytes read and written.
    pub bytes: u64,
    /// Operations.
    pub flop: u64,
}

/// A network, and how it is trained.
#[derive(Clone, Copy, Debug)]
pub struct Trained<'a> {
    /// Widths of the network from the input to the output.
    pub sizes: &'a [usize],
    /// Whether there is momentum.
    pub has_momentum: bool,
    /// Whether fused steps are [short](super::Network::is_short).
    pub is_short: bool,
}

/// A layer's extents.
#[derive(Clone, Copy)]
pub(super) struct Layer {
    pub inputs: u64,
    pub outputs: u64,
}

impl Layer {
    fn weights(self) -> u64 {
        self.inputs * self.outputs
    }

    pub fn parameters(self) -> u64 {
        self.weights() + self.outputs
    }
}

/// Bytes and operations of a launch.
#[derive(Clone, Copy, Default)]
pub(super) struct Work {
    /// 4-byte elements.
    words: u64,
    /// 1-byte elements.
    bytes: u64,
    flop: u64,
}

impl Work {
    pub fn of(words: u64, flop: u64) -> Self {
        Self { words, bytes: 0, flop }
    }

    pub fn and(self, other: Self) -> Self {
        Self {
            words: self.words + other.words,
            bytes: self.bytes + other.bytes,
            flop: self.flop + other.flop,
        }
    }
}

/// The number of samples of a batch, and whether there is momentum.
#[derive(Clone, Copy)]
pub(super) struct Step {
    pub rows: u64,
    has_momentum: bool,
}

impl KernelWork {
    /// Lists the kernels of a step with a batch of `rows` samples. Kernels that gather the next step's samples gather `next`. A
    /// kernel that is launched more than once appears once.
    ///
    /// The bytes of [`Pipeline::Resident`] are per step. They exclude the parameters, which a launch reads and writes once.
    /// They include the inner products of a batch with the previous one, though a launch's first batch has none.
    pub fn of_step(pipeline: Pipeline, trained: Trained<'_>, [rows, next]: [usize; 2]) -> Vec<KernelWork> {
        let Trained { sizes, has_momentum, is_short } = trained;
        let layers: Vec<Layer> =
            sizes.windows(2).map(|pair| Layer { inputs: pair[0] as u64, outputs: pair[1] as u64 }).collect();
        let (step, next) = (Step { rows: rows as u64, has_momentum }, next as u64);
        let mut all = Vec::new();
        match pipeline {
            Pipeline::Naive | Pipeline::Deferred => step.naive(&layers, "shuffled_batch", &mut all),
            Pipeline::Overlapped => step.naive(&layers, "ordered_batch", &mut all),
            Pipeline::Fused | Pipeline::Graph if is_short => step.short(&layers, next, &mut all),
            Pipeline::Fused | Pipeline::Graph => step.fused(&layers, next, &mut all),
            Pipeline::Resident => step.resident(&layers, &mut all),
        }
        Self::merged(all)
    }

    /// Merges kernels of the same name.
    fn merged(all: All) -> Vec<KernelWork> {
        let mut kernels: Vec<KernelWork> = Vec::new();
        for (kernel, Work { words, bytes, flop }) in all {
            let work = KernelWork { kernel, launches: 1, bytes: 4 * words + bytes, flop };
            match kernels.iter_mut().find(|found| found.kernel == kernel) {
                Some(found) => found.add(&work),
                None => kernels.push(work),
            }
        }
        kernels
    }

    /// Adds more work of the same kernel.
    pub fn add(&mut self, work: &KernelWork) {
        self.launches += work.launches;
        self.bytes += work.bytes;
        self.flop += work.flop;
    }
}

/// Kernels in the order in which a step launches them.
pub(super) type All = Vec<(&'static str, Work)>;

impl Step {
    /// Adds the kernels of the fused pipeline.
    fn fused(&self, layers: &[Layer], next: u64, all: &mut All) {
        let Some((last, hidden)) = layers.split_last() else { return };
        for layer in hidden {
            let relu = Work::of(0, self.rows * layer.outputs);
            all.push(("linear_act_forward", self.forward(*layer).and(relu)));
        }
        let mut head = self.head(*last, !hidden.is_empty());
        if next > 0 {
            head = head.and(gather(next, layers[0].inputs));
        }
        all.push(("head", head));
        for l in (1..hidden.len()).rev() {
            let (layer, above) = (layers[l], layers[l + 1]);
            let len = self.rows * layer.inputs;
            let gradient = self.input_gradient(layer).and(Work::of(len, len));
            all.push(("linear_backward", gradient.and(self.update(above))));
        }
        let updates = layers.iter().take(2).map(|layer| self.update(*layer));
        all.push(("linear_updates", updates.fold(Work::default(), Work::and)));
    }

    /// Adds the three kernels of a short step: the first layer's partial sums, the work per row, and all updates.
    fn short(&self, layers: &[Layer], next: u64, all: &mut All) {
        let &[first, second, last] = layers else { return };
        let (rows, shares) = (self.rows, short::shares(first.inputs as usize) as u64);
        let flop = |work: Work| Work { words: 0, bytes: 0, ..work };
        let sums = shares * rows * first.outputs;
        let product = 2 * rows * first.weights();
        // The additions of the partial sums and the biases come later.
        all.push(("short_first", Work::of(rows * first.inputs + first.weights() + sums, product - sums)));
        let units = rows * (first.outputs + second.outputs);
        let parameters = first.outputs + second.parameters() + last.parameters();
        // Labels, losses and hits; the units, the gradients at them, and those at the logits.
        let words = sums + parameters + 3 * rows + 2 * units + rows * last.outputs;
        let gradient = self.input_gradient(second).and(Work::of(0, rows * second.inputs));
        let work = Work::of(words, sums + units).and(flop(self.forward(second))).and(flop(gradient));
        let work = work.and(flop(self.head(last, true)));
        let next = if next > 0 { gather(next, first.inputs) } else { Work::default() };
        all.push(("short_rows", work.and(next)));
        let updates = layers.iter().map(|layer| self.update(*layer));
        all.push(("short_updates", updates.fold(Work::default(), Work::and)));
    }

    /// Adds the resident kernel: the weights stay in place, and the blocks exchange sums.
    fn resident(&self, layers: &[Layer], all: &mut All) {
        let &[first, second, last] = layers else { return };
        let rows = self.rows;
        let extents = Extents {
            features: first.inputs as usize,
            hidden1: first.outputs as usize,
            hidden2: second.outputs as usize,
            classes: last.outputs as usize,
            batch: rows as usize,
        };
        // One of the two word buffers, written and read.
        let sent = Work::of((extents.mail_words() - COUNTER) as u64, 0);
        let flop = |work: Work| Work { words: 0, bytes: 0, ..work };
        let mut work = Work { words: 2 * rows, bytes: rows * (first.inputs + 1), flop: 0 }.and(sent);
        work = work.and(inner_products(rows, first));
        for layer in [first, second] {
            work = work.and(flop(self.forward(layer))).and(Work::of(0, rows * layer.outputs));
        }
        work = work.and(flop(self.head(last, true)));
        work = work.and(flop(self.input_gradient(second))).and(Work::of(0, rows * second.inputs));
        work = layers.iter().fold(work, |work, layer| work.and(flop(self.update(*layer))));
        // The pixels are scaled where they are used.
        all.push(("resident_epoch", work.and(Work::of(0, rows * first.inputs))));
    }

    /// The matrix multiplication and the biases.
    pub fn forward(&self, layer: Layer) -> Work {
        let (rows, Layer { inputs, outputs }) = (self.rows, layer);
        Work::of(rows * inputs + layer.parameters() + rows * outputs, 2 * rows * layer.weights())
    }

    /// The gradient at a layer's input.
    pub fn input_gradient(&self, layer: Layer) -> Work {
        let (rows, Layer { inputs, outputs }) = (self.rows, layer);
        Work::of(rows * outputs + layer.weights() + rows * inputs, 2 * rows * layer.weights())
    }

    /// The gradient of a layer's parameters, and their update.
    pub fn update(&self, layer: Layer) -> Work {
        let (rows, Layer { inputs, outputs }, parameters) = (self.rows, layer, layer.parameters());
        let arrays = if self.has_momentum { 2 } else { 1 };
        let gradient = 2 * rows * layer.weights() + rows * outputs;
        // Read and written; a multiplication and an addition per array.
        Work::of(rows * (inputs + outputs) + 2 * arrays * parameters, gradient + 2 * arrays * parameters)
    }

    /// The last layer, loss and hits, and the gradients at the logits and, if there is a layer below, at its input.
    fn head(&self, layer: Layer, has_below: bool) -> Work {
        let rows = self.rows;
        let logits = rows * layer.outputs;
        let forward = self.forward(layer);
        // Labels, losses and hits; the logits of `forward` count as their gradient. Per logit: the comparisons for the
        // maximum and for the hit, a subtraction, an exponential, an addition, a multiplication and a subtraction. Per row:
        // a logarithm, two subtractions and a division.
        let work = forward.and(Work::of(3 * rows, 7 * logits + 4 * rows));
        if !has_below {
            return work;
        }
        let len = rows * layer.inputs;
        work.and(Work::of(len, 2 * rows * layer.weights() + len))
    }
}

/// The inner products of a batch with the previous one, and the corrections to the next step's sums computed from them.
fn inner_products(rows: u64, layer: Layer) -> Work {
    let Layer { inputs, outputs } = layer;
    // The pixels of both batches are read, and the pixels of one written; the products, for the largest batch, are written
    // and read.
    let moved = Work { words: 2 * Extents::gram_len(1) as u64, bytes: 3 * rows * inputs, flop: 0 };
    // The bias is a feature that is always 1. A sum's change takes multiplications with the rate and the difference.
    moved.and(Work::of(0, rows * rows * 2 * inputs + rows * outputs * (2 * rows + 1)))
}

/// The work to convert samples of bytes to a batch of `f32`.
pub(super) fn gather(rows: u64, features: u64) -> Work {
    let (pixels, labels) = (rows * features, rows);
    Work { words: pixels + labels, bytes: pixels + labels, flop: pixels }
}
