//! How a tensor is stored.

use attention_kernels::args::Strides;
use ferrowarp_device::error::Error;
use ferrowarp_device::tensor::Operand;

use crate::operation::Operation;

/// Elements in 16 bytes.
const VECTOR: usize = 8;

/// Where the elements of a tensor `[batch, length, heads, head size]` are: in rows without gaps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stored {
    pub shape: [usize; 4],
    /// Elements from one batch entry, position and head to the next. Those along an axis of one index are a multiple of 16 bytes.
    pub strides: [usize; 3],
}

impl Stored {
    pub fn new(operation: Operation<'_>, operand: &'static str, view: &impl Operand) -> Result<Self, Error> {
        let shape @ [batch, length, heads, size] = operation.extents(operand, view)?;
        let layout = view.layout();
        let of = layout.strides();
        if size > 1 && of[3] != 1 && !layout.is_empty() {
            return Err(layout.unfit("no gaps along the last axis").of(operation.name, Some(operand)));
        }
        let is_used = |extent: usize| extent > 1 && !layout.is_empty();
        let stride = |extent: usize, stride: usize| if is_used(extent) { stride } else { VECTOR };
        Ok(Self { shape, strides: [stride(batch, of[0]), stride(length, of[1]), stride(heads, of[2])] })
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }

    /// The strides as kernels take them.
    pub fn strides(&self) -> Strides {
        let [batch, length, head] = self.strides.map(|stride| stride as u64);
        Strides { batch, length, head }
    }

    /// Whether every row of a tensor at this address starts at a multiple of 16 bytes, and no stride makes rows coincide.
    pub fn is_aligned<T>(&self, pointer: *const T) -> bool {
        let is_aligned = |stride: &usize| *stride > 0 && stride.is_multiple_of(VECTOR);
        self.is_empty() || pointer.addr().is_multiple_of(16) && self.strides.iter().all(is_aligned)
    }
}
