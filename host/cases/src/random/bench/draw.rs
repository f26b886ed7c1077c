//! Draws the problems of each family.

use rand::{RngExt as _, rngs::StdRng};

use super::models::{HEADS, HIDDEN, LAYERS, LENGTHS, VOCABULARIES};
use super::{Activation, Attention, Causal, Operand, Operation, Reduction, Type};
use crate::place::Place;
use crate::random::drawn::pick;
use crate::random::layout::{Layout, Size};

/// Draws the operation of a problem.
type Draw = fn(&mut StdRng, &Size, Type) -> Operation;

/// The families, how often of 32 problems each is drawn, its types, and what draws it.
pub const FAMILIES: [(&str, u32, &[Type], Draw); 16] = [
    ("softmax", 2, &Type::ELEMENTS, softmax),
    ("softmax gradient", 1, &Type::ELEMENTS, softmax_backward),
    ("cross entropy", 1, &Type::ELEMENTS, cross_entropy),
    ("top-k", 1, &Type::ELEMENTS, top_k),
    ("sampling", 1, &Type::ELEMENTS, sample),
    ("norm", 2, &Type::ELEMENTS, norm),
    ("norm gradient", 2, &Type::ELEMENTS, norm_backward),
    ("row reduction", 1, &Type::ELEMENTS, |rng, size, ty| reduce(rng, size, ty, true)),
    ("column reduction", 1, &Type::ELEMENTS, |rng, size, ty| reduce(rng, size, ty, false)),
    ("cumulative sum", 1, &Type::ELEMENTS, cumulative_sum),
    ("transpose", 1, &Type::ELEMENTS, transpose),
    ("matmul", 6, &OF_MATMUL, |rng, size, ty| matmul(rng, size, ty, false)),
    ("matmul with epilogue", 3, &OF_MATMUL, |rng, size, ty| matmul(rng, size, ty, true)),
    ("attention", 4, &OF_ATTENTION, |rng, size, ty| attention(rng, size, ty, Kind::Forward)),
    ("attention of few queries", 2, &OF_ATTENTION, |rng, size, ty| {
        attention(rng, size, ty, Kind::FewQueries)
    }),
    ("attention gradient", 3, &OF_ATTENTION, |rng, size, ty| attention(rng, size, ty, Kind::Backward)),
];
const OF_MATMUL: [Type; 6] = [Type::Bf16, Type::Bf16, Type::Bf16, Type::F16, Type::Tf32, Type::F32];
const OF_ATTENTION: [Type; 3] = [Type::Bf16, Type::Bf16, Type::F16];

/// A number whose logarithm is drawn evenly, often rounded down to a multiple of 8 or 64.
fn extent(rng: &mut StdRng, least: usize, most: usize) -> usize {
    let most = most.max(least);
    let any = least as f64 * (most as f64 / least as f64).powf(rng.random::<f64>());
    let step = pick(rng, &[1, 8, 8, 64, 64]);
    let any = any as usize;
    (if any < step { any } else { any / step * step }).clamp(least, most)
}

/// One of the extents of models that are at most `most`, in half of the cases, or any from `least` on.
fn of_models(rng: &mut StdRng, models: &[usize], [least, most]: [usize; 2]) -> usize {
    let models: Vec<usize> = models.iter().copied().filter(|extent| *extent <= most).collect();
    let is_of_model = rng.random_bool(0.5) && !models.is_empty();
    if is_of_model { pick(rng, &models) } else { extent(rng, least, most.min(1 << 18)) }
}

/// Rows and columns of a matrix: `models` in half of the cases.
fn matrix(rng: &mut StdRng, size: &Size, models: &[usize]) -> [usize; 2] {
    let cols = of_models(rng, models, [16, size.elements]);
    [extent(rng, (size.elements / (1 << 14) / cols).max(1), size.elements / cols), cols]
}

/// Half of the operands are dense, and most of the others have rows at multiples of 16 bytes.
fn layout(rng: &mut StdRng) -> Layout {
    let (dense, aligned) = (Layout::Dense, Layout::Aligned);
    pick(rng, &[dense, dense, dense, dense, aligned, aligned, Layout::Anywhere])
}

/// Places for `N` matrices of this shape.
fn places<const N: usize>(rng: &mut StdRng, ty: Type, shape: [usize; 2]) -> [Place; N] {
    let layout = layout(rng);
    [(); N].map(|()| place(rng, layout, ty, shape))
}

fn place(rng: &mut StdRng, layout: Layout, ty: Type, shape: [usize; 2]) -> Place {
    match ty.bytes() {
        2 => layout.matrix::<u16>(rng, shape),
        _ => layout.matrix::<u32>(rng, shape),
    }
}

/// The widths of rows of logits and of attention weights.
fn widths(rng: &mut StdRng) -> Vec<usize> {
    if rng.random_bool(0.5) { VOCABULARIES.to_vec() } else { LENGTHS.to_vec() }
}

fn softmax(rng: &mut StdRng, size: &Size, ty: Type) -> Operation {
    let widths = widths(rng);
    let shape = matrix(rng, size, &widths);
    let [inp, out] = places(rng, ty, shape);
    Operation::Softmax { log: rng.random_ratio(1, 3), inp, out }
}

fn softmax_backward(rng: &mut StdRng, size: &Size, ty: Type) -> Operation {
    let widths = widths(rng);
    let shape = matrix(rng, size, &widths);
    let [y, dy, dx] = places(rng, ty, shape);
    Operation::SoftmaxBackward { log: rng.random_ratio(1, 3), y, dy, dx }
}

fn cross_entropy(rng: &mut StdRng, size: &Size, ty: Type) -> Operation {
    let shape = matrix(rng, size, &VOCABULARIES);
    let [logits, gradient] = places(rng, ty, shape);
    Operation::CrossEntropy { logits, gradient: Some(gradient).filter(|_| rng.random_bool(0.75)) }
}

/// Rows of logits of the next tokens, or scores of experts.
fn of_tokens(rng: &mut StdRng, size: &Size, ty: Type) -> Place {
    let [rows, cols] = if rng.random_ratio(1, 4) {
        let cols = pick(rng, &[8, 32, 64, 128, 256]);
        [extent(rng, 1, (size.elements / cols).min(1 << 16)), cols]
    } else {
        let cols = of_models(rng, &VOCABULARIES, [128, size.elements]);
        [extent(rng, 1, size.elements / cols / 2), cols]
    };
    let [logits] = places(rng, ty, [rows, cols]);
    logits
}

fn top_k(rng: &mut StdRng, size: &Size, ty: Type) -> Operation {
    let logits = of_tokens(rng, size, ty);
    let k = pick(rng, &[1, 2, 4, 6, 8, 8, 16, 40, 50, 64, 100, 128]).min(logits.shape[3]);
    Operation::TopK { k, logits }
}

fn sample(rng: &mut StdRng, size: &Size, ty: Type) -> Operation {
    let temperature = pick(rng, &[1.0, 0.7, 0.6]);
    let (top_k, top_p) =
        (pick(rng, &[None, None, Some(20), Some(40), Some(64)]), pick(rng, &[1.0, 1.0, 0.9, 0.95]));
    Operation::Sample { temperature, top_k, top_p, logits: of_tokens(rng, size, ty) }
}

fn norm(rng: &mut StdRng, size: &Size, ty: Type) -> Operation {
    let shape = matrix(rng, size, &HIDDEN);
    let [inp, out, residual, sum] = places(rng, ty, shape);
    let with_residual = rng.random_ratio(1, 3);
    let [residual, sum] = [residual, sum].map(|place| Some(place).filter(|_| with_residual));
    Operation::Norm { centred: rng.random_bool(0.5), inp, out, residual, sum }
}

fn norm_backward(rng: &mut StdRng, size: &Size, ty: Type) -> Operation {
    let shape = matrix(rng, size, &HIDDEN);
    let [inp, d_out, d_inp] = places(rng, ty, shape);
    Operation::NormBackward { centred: rng.random_bool(0.5), inp, d_out, d_inp }
}

/// Any matrix.
fn any(rng: &mut StdRng, size: &Size) -> [usize; 2] {
    let [rows, cols] = matrix(rng, size, &HIDDEN);
    if rng.random_ratio(1, 4) { [cols, rows] } else { [rows, cols] }
}

fn reduce(rng: &mut StdRng, size: &Size, ty: Type, rows: bool) -> Operation {
    let shape = any(rng, size);
    let [inp] = places(rng, ty, shape);
    let reduction =
        pick(rng, &[Reduction::Sum, Reduction::Sum, Reduction::Mean, Reduction::Max, Reduction::Min]);
    Operation::Reduce { reduction, rows, inp }
}

fn cumulative_sum(rng: &mut StdRng, size: &Size, ty: Type) -> Operation {
    let shape = any(rng, size);
    let [inp, out] = places(rng, ty, shape);
    Operation::CumulativeSum { inp, out }
}

fn transpose(rng: &mut StdRng, size: &Size, ty: Type) -> Operation {
    let shape @ [rows, cols] = any(rng, size);
    let layout = layout(rng);
    let [inp, out] = [shape, [cols, rows]].map(|shape| place(rng, layout, ty, shape));
    Operation::Transpose { inp, out }
}

fn matmul(rng: &mut StdRng, size: &Size, ty: Type, has_epilogue: bool) -> Operation {
    let layers: Vec<_> = LAYERS.into_iter().filter(|[n, k]| n * k <= size.terms).collect();
    let is_of_model = rng.random_bool(0.5) && !layers.is_empty();
    let (batch, [m, n, k], transposed) = if is_of_model {
        let [n, k] = pick(rng, &layers);
        let m = extent(rng, 1, (size.terms / (n * k)).min(1 << 15));
        // The result of a layer, the gradient of its input, or that of its weights.
        match rng.random_range(0..4) {
            0 => (1, [m, k, n], [false, false]),
            1 => (1, [n, k, m], [true, false]),
            _ => (1, [m, n, k], [false, true]),
        }
    } else {
        let batch = if rng.random_ratio(1, 4) { extent(rng, 2, 64) } else { 1 };
        let most = size.terms / batch;
        let side = ((most / 16) as f64).sqrt() as usize;
        let [m, n] = [(); 2].map(|()| extent(rng, 16, side.min(1 << 13)));
        let k = extent(rng, 16, (most / (m * n)).min(1 << 15));
        (batch, [m, n, k], [rng.random_bool(0.5), rng.random_bool(0.5)])
    };
    let layout = layout(rng);
    let mut stored = |[rows, cols]: [usize; 2], is_transposed: bool| {
        let [rows, cols] = if is_transposed { [cols, rows] } else { [rows, cols] };
        let shape = [1, batch, rows, cols];
        match ty.bytes() {
            2 => layout.place::<u16>(rng, shape, [2, 1, 0]),
            _ => layout.place::<u32>(rng, shape, [2, 1, 0]),
        }
    };
    let [a, b] = [([m, k], transposed[0]), ([k, n], transposed[1])]
        .map(|(shape, transposed)| Operand { place: stored(shape, transposed), transposed });
    let [out, residual] = [(); 2].map(|()| stored([m, n], false));
    if !has_epilogue {
        return Operation::Matmul { a, b, out, bias: false, residual: None, activation: Activation::None };
    }
    let (bias, residual, activation) = match rng.random_range(0..6) {
        0 => (true, None, Activation::None),
        1 => (true, None, Activation::Relu),
        2 => (true, None, Activation::Gelu),
        3 => (true, Some(residual), Activation::None),
        4 => (false, Some(residual), Activation::None),
        _ => (false, None, Activation::Gelu),
    };
    Operation::Matmul { a, b, out, bias, residual, activation }
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Forward,
    FewQueries,
    Backward,
}

fn attention(rng: &mut StdRng, size: &Size, ty: Type, kind: Kind) -> Operation {
    let heads: Vec<_> = HEADS.into_iter().filter(|[heads, ..]| 1 << 18 < size.terms / heads).collect();
    let is_of_model = rng.random_bool(0.5) && !heads.is_empty();
    let [heads, key_heads, head_size] = if is_of_model {
        pick(rng, &heads)
    } else {
        let (key_heads, group) = (pick(rng, &[1, 2, 3, 4, 8, 12, 16]), pick(rng, &[1, 1, 1, 2, 4, 5, 8]));
        [key_heads * group, key_heads, 8 * rng.random_range(2..=32)]
    };
    let (most, batch) = (size.terms / (2 * heads * head_size), extent(rng, 1, 64));
    let longest = (most as f64).sqrt() as usize;
    let [queries, keys] = if kind == Kind::FewQueries {
        let queries = pick(rng, &[1, 1, 1, 1, 2, 4, 5, 8, 16]);
        [queries, extent(rng, 64, (most / queries).min(1 << 17))]
    } else {
        let length = |rng: &mut StdRng| of_models(rng, &LENGTHS, [16, longest.min(1 << 14)]);
        let keys = length(rng);
        let queries = if rng.random_ratio(1, 4) { length(rng) } else { keys };
        [queries, keys]
    };
    // No more terms than for a multiplication, and no larger tensors.
    let largest = queries.max(keys) * heads * head_size;
    let batch = batch.min(most / (queries * keys)).min(4 * size.elements / largest).max(1);
    let causal = match rng.random_range(0..4) {
        0 | 1 => None,
        2 if queries == keys || queries < keys && kind != Kind::FewQueries => Some(Causal::TopLeft),
        _ => Some(Causal::BottomRight),
    };
    let window = causal.filter(|_| rng.random_ratio(1, 4)).map(|_| extent(rng, 16, keys.max(16)));
    let (mut lengths, mut paged) = (None, None);
    if kind != Kind::Backward {
        let is_paged = rng.random_bool(if kind == Kind::FewQueries { 0.4 } else { 0.1 });
        paged = Some(keys).filter(|_| is_paged);
        if is_paged || rng.random_ratio(1, 4) {
            lengths = Some((0..batch).map(|_| rng.random_range(keys.div_ceil(2)..=keys) as u32).collect());
        }
    }
    // Gradients need aligned rows.
    let layout = match layout(rng) {
        Layout::Anywhere => Layout::Aligned,
        layout => layout,
    };
    debug_assert_eq!(ty.bytes(), 2);
    let mut stored = |[batch, length, heads]: [usize; 3]| {
        let order = pick(rng, &[[2, 1, 0], [2, 1, 0], [1, 2, 0]]);
        layout.place::<u16>(rng, [batch, length, heads, head_size], order)
    };
    let q = stored([batch, queries, heads]);
    let k = match paged {
        Some(keys) => {
            let page = 16 << (keys % 3);
            stored([batch * keys.div_ceil(page), page, key_heads])
        }
        None => stored([batch, keys, key_heads]),
    };
    let attention = Attention { q, k, causal, window, lengths, paged };
    if kind == Kind::Backward {
        Operation::AttentionBackward(attention)
    } else {
        Operation::Attention(attention)
    }
}
