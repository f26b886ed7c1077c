//! Problems in words.

use std::fmt;

use super::{Activation, Attention, Causal, Operation, Problem};
use crate::place::Place;

/// How the operands are stored, in a word.
fn stored(place: &Place) -> &'static str {
    let is_aligned = [&[place.first], &place.strides[..]].concat().iter().all(|at| at.is_multiple_of(8));
    let is_dense = place.first == 0 && place.shape[3] == place.strides[2];
    match (is_dense, is_aligned) {
        (true, true) => "",
        (true, false) => ", rows not at 16 bytes",
        (false, true) => ", gaps",
        (false, false) => ", at any element",
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let matrix = |place: &Place| format!("{} x {}{}", place.shape[2], place.shape[3], stored(place));
        write!(f, "{} ", self.dtype.name())?;
        match &self.operation {
            Operation::Softmax { log, inp, .. } | Operation::SoftmaxBackward { log, y: inp, .. } => {
                write!(f, "{}{}", matrix(inp), if *log { ", log" } else { "" })
            }
            Operation::CrossEntropy { logits, gradient } => {
                let end = if gradient.is_some() { ", gradient" } else { "" };
                write!(f, "{}{end}", matrix(logits))
            }
            Operation::TopK { k, logits } => write!(f, "{k} of {}", matrix(logits)),
            Operation::Sample { temperature, top_k, top_p, logits } => {
                write!(f, "{}, temperature {temperature}", matrix(logits))?;
                top_k.map_or(Ok(()), |k| write!(f, ", top {k}"))?;
                if *top_p < 1.0 { write!(f, ", top-p {top_p}") } else { Ok(()) }
            }
            Operation::Norm { centred, inp, residual, .. } => {
                let end = if residual.is_some() { ", residual" } else { "" };
                write!(f, "{}, {}{end}", matrix(inp), if *centred { "LayerNorm" } else { "RMSNorm" })
            }
            Operation::NormBackward { centred, inp, .. } => {
                write!(f, "{}, {}", matrix(inp), if *centred { "LayerNorm" } else { "RMSNorm" })
            }
            Operation::Reduce { reduction, inp, .. } => write!(f, "{}, {reduction:?}", matrix(inp)),
            Operation::CumulativeSum { inp, .. } | Operation::Transpose { inp, .. } => {
                f.write_str(&matrix(inp))
            }
            Operation::Matmul { a, b, out, bias, residual, activation } => {
                let [_, batch, m, n] = out.shape;
                let k = a.place.shape[if a.transposed { 2 } else { 3 }];
                if batch > 1 {
                    write!(f, "{batch} x ")?;
                }
                let [of_a, of_b] = [a.transposed, b.transposed];
                let layout = format!("{}{}", if of_a { 'm' } else { 'k' }, if of_b { 'k' } else { 'n' });
                write!(f, "{m} x {n} x {k}, {layout}{}", stored(&a.place))?;
                f.write_str(if *bias { ", bias" } else { "" })?;
                f.write_str(if residual.is_some() { ", residual" } else { "" })?;
                match activation {
                    Activation::None => Ok(()),
                    Activation::Relu => f.write_str(", ReLU"),
                    Activation::Gelu => f.write_str(", GeLU"),
                }
            }
            Operation::Attention(attention) | Operation::AttentionBackward(attention) => {
                let Attention { q, k, causal, window, lengths, paged } = attention;
                let [batch, _, heads, size] = q.shape;
                let [queries, keys] = attention.lengths();
                write!(f, "{batch} x {queries} x {keys}, heads {heads}:{} of {size}", k.shape[2])?;
                f.write_str(stored(q))?;
                match causal {
                    None => Ok(()),
                    Some(Causal::TopLeft) => f.write_str(", causal"),
                    Some(Causal::BottomRight) => f.write_str(", causal from the end"),
                }?;
                window.map_or(Ok(()), |window| write!(f, ", window {window}"))?;
                f.write_str(if lengths.is_some() { ", lengths" } else { "" })?;
                if paged.is_some() { write!(f, ", pages of {}", k.shape[1]) } else { Ok(()) }
            }
        }
    }
}
