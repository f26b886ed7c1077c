//! Descriptions of operations, independent of how they are performed.

use std::fmt;

use bytemuck::Pod;
use cuda_std::half::{bf16, f16};
use cust::nccl::{ncclDataType_t, ncclRedOp_t};

use crate::device::buffer::{BufferView, BufferViewMut};
use crate::device::stream::foreign::Access;

/// An element that operations combine or move: `f32`, [`bf16`](struct@bf16), [`f16`](struct@f16), `u32` or `u64`.
///
/// ```
/// use ferrowarp::bf16;
/// use ferrowarp::collective::Element;
///
/// fn name_of<T: Element>() -> &'static str {
///     T::NAME
/// }
/// assert_eq!(name_of::<bf16>(), "bf16");
/// ```
pub trait Element: Pod + sealed::Sealed {
    /// The type's name in messages.
    const NAME: &'static str;
    #[doc(hidden)]
    const DATA_TYPE: ncclDataType_t;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! elements {
    ($($ty:ident $data_type:ident),*) => {
        $(
            impl sealed::Sealed for $ty {}
            impl Element for $ty {
                const NAME: &'static str = stringify!($ty);
                const DATA_TYPE: ncclDataType_t = ncclDataType_t::$data_type;
            }
        )*
    };
}

elements! { f32 FLOAT32, bf16 BFLOAT16, f16 FLOAT16, u32 UINT32, u64 UINT64 }

/// How the elements of all ranks are combined. NCCL's order of float additions depends on the GPUs and their links, but is
/// the same in every run on the same machines.
///
/// ```
/// use ferrowarp::collective::Reduction;
///
/// assert_eq!(Reduction::Average.to_string(), "average");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// The sum.
    Sum,
    /// The largest.
    Max,
    /// The smallest.
    Min,
    /// The sum divided by the number of ranks; integers drop the remainder.
    Average,
}

impl Reduction {
    pub(super) fn code(self) -> ncclRedOp_t {
        match self {
            Reduction::Sum => ncclRedOp_t::SUM,
            Reduction::Max => ncclRedOp_t::MAX,
            Reduction::Min => ncclRedOp_t::MIN,
            Reduction::Average => ncclRedOp_t::AVG,
        }
    }
}

impl fmt::Display for Reduction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reduction::Sum => "sum",
            Reduction::Max => "max",
            Reduction::Min => "min",
            Reduction::Average => "average",
        })
    }
}

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    AllReduce(Reduction),
    AllGather,
    ReduceScatter(Reduction),
    Broadcast { root: u32 },
    Send { to: u32 },
    Receive { from: u32 },
}

/// Elements in a device's memory; null and 0 if an operation has none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Elements {
    pub first: *mut u8,
    pub len: usize,
}

impl Elements {
    pub const NONE: Elements = Elements { first: std::ptr::null_mut(), len: 0 };

    pub fn read<T: Pod>(view: &BufferView<'_, T>) -> Self {
        Self { first: view.first_byte(), len: view.len() }
    }

    pub fn written<T: Pod>(view: &BufferViewMut<'_, T>) -> Self {
        Self { first: view.first_byte(), len: view.len() }
    }
}

/// An operation of one rank. For operations in place, input and output are the same.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operation {
    pub kind: Kind,
    pub input: Elements,
    pub output: Elements,
    pub data_type: ncclDataType_t,
    pub element: &'static str,
    pub element_bytes: usize,
}

impl Operation {
    pub fn of<T: Element>(kind: Kind, input: Elements, output: Elements) -> Self {
        let (element, element_bytes) = (T::NAME, size_of::<T>());
        Self { kind, input, output, data_type: T::DATA_TYPE, element, element_bytes }
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        match self.kind {
            Kind::AllReduce(_) => "all_reduce",
            Kind::AllGather => "all_gather",
            Kind::ReduceScatter(_) => "reduce_scatter",
            Kind::Broadcast { .. } => "broadcast",
            Kind::Send { .. } => "send",
            Kind::Receive { .. } => "receive",
        }
    }

    /// The count to pass to NCCL: the elements of one rank's part.
    pub fn count(&self) -> usize {
        match self.kind {
            Kind::ReduceScatter(_) | Kind::Receive { .. } => self.output.len,
            _ => self.input.len,
        }
    }

    /// Describes what is wrong with it in a world of `size` ranks, or returns `None`.
    pub fn problem(&self, size: u32) -> Option<String> {
        let (input, output) = (self.input.len, self.output.len);
        let (part, whole, parts) = match self.kind {
            Kind::AllGather => (input, output, "the output must have the elements of all ranks"),
            Kind::ReduceScatter(_) => (output, input, "the input must have a part for each rank"),
            Kind::Broadcast { root: peer } | Kind::Send { to: peer } | Kind::Receive { from: peer }
                if peer >= size =>
            {
                return Some(format!("there is no rank {peer}; ranks are 0 to {}", size - 1));
            }
            _ => return None,
        };
        let expected = part.checked_mul(size as usize);
        (expected != Some(whole)).then(|| {
            let expected = expected.map_or_else(|| "too many to count".to_owned(), |count| count.to_string());
            format!("{parts}: {size} times {part} are {expected}, and it has {whole}")
        })
    }

    /// The memory that it reads and writes.
    pub fn accesses(&self) -> impl Iterator<Item = Access> + use<> {
        let access = |argument, elements: Elements, is_write| Access {
            argument,
            first: elements.first,
            bytes: elements.len * self.element_bytes,
            is_write,
        };
        let is_in_place = self.input.first == self.output.first;
        let input = (!is_in_place).then(|| access("input", self.input, false));
        let output = access(if is_in_place { "buffer" } else { "output" }, self.output, true);
        input.into_iter().chain([output])
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} {}", self.name(), self.count(), self.element)?;
        match self.kind {
            Kind::AllReduce(reduction) | Kind::ReduceScatter(reduction) => write!(f, " ({reduction})"),
            Kind::AllGather => Ok(()),
            Kind::Broadcast { root } => write!(f, " from rank {root}"),
            Kind::Send { to } => write!(f, " to rank {to}"),
            Kind::Receive { from } => write!(f, " from rank {from}"),
        }
    }
}

/// A group of operations, displayed as messages name it.
pub(super) struct Named<'a>(pub &'a [Operation]);

impl Named<'_> {
    /// The name by which races between streams are reported.
    pub fn name(&self) -> &'static str {
        match self.0 {
            [one] => one.name(),
            _ => "a group of collective operations",
        }
    }
}

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [one] => one.fmt(f),
            [] => f.write_str("an empty group"),
            [first, others @ ..] => {
                write!(f, "a group of {} operations ({first}", self.0.len())?;
                let shown = &others[..others.len().min(3)];
                shown.iter().try_for_each(|operation| write!(f, "; {operation}"))?;
                f.write_str(if shown.len() < others.len() { "; ..)" } else { ")" })
            }
        }
    }
}

/// A copy within a device's memory.
pub(super) struct Copy {
    pub to: *mut u8,
    pub from: *const u8,
    pub bytes: usize,
}

/// The copies that these operations amount to in a world of one.
///
/// # Errors
/// A send has no receive of the same number of elements and type, or the other way round.
pub(super) fn copies_of(operations: &[Operation]) -> Result<Vec<Copy>, String> {
    let copy = |from: &Operation, to: &Operation| Copy {
        to: to.output.first,
        from: from.input.first,
        bytes: from.input.len * from.element_bytes,
    };
    let own = operations.iter().filter(|operation| {
        matches!(operation.kind, Kind::AllGather | Kind::ReduceScatter(_)) && operation.count() > 0
    });
    let mut copies: Vec<Copy> = own.map(|operation| copy(operation, operation)).collect();
    let sends = operations.iter().filter(|operation| matches!(operation.kind, Kind::Send { .. }));
    let mut receives = operations.iter().filter(|operation| matches!(operation.kind, Kind::Receive { .. }));
    for send in sends {
        let receive =
            receives.next().ok_or_else(|| format!("no receive takes the {send}; add one to the group"))?;
        if (send.count(), send.data_type) != (receive.count(), receive.data_type) {
            return Err(format!("the {send} meets the {receive}; make both of one length and type"));
        }
        if send.count() > 0 {
            copies.push(copy(send, receive));
        }
    }
    match receives.next() {
        Some(receive) => Err(format!("no send has what the {receive} waits for; add one to the group")),
        None => Ok(copies),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elements(len: usize) -> Elements {
        Elements { first: std::ptr::without_provenance_mut(4096_usize.wrapping_add(len)), len }
    }

    #[test]
    fn lengths_and_ranks_are_checked() {
        let operation = |kind, input, output| Operation::of::<f32>(kind, elements(input), elements(output));
        for (operation, expected) in [
            (operation(Kind::AllGather, 3, 12), None),
            (operation(Kind::AllGather, 3, 11), Some("4 times 3 are 12, and it has 11")),
            (operation(Kind::AllGather, usize::MAX, 11), Some("too many to count")),
            (operation(Kind::ReduceScatter(Reduction::Sum), 11, 3), Some("a part for each rank: 4 times 3")),
            (operation(Kind::Broadcast { root: 4 }, 3, 3), Some("there is no rank 4; ranks are 0 to 3")),
            (operation(Kind::Send { to: 3 }, 3, 0), None),
        ] {
            let problem = operation.problem(4);
            match expected {
                None => assert_eq!(problem, None),
                Some(text) => {
                    assert!(problem.as_ref().is_some_and(|problem| problem.contains(text)), "{problem:?}")
                }
            }
        }
    }

    #[test]
    fn operations_and_groups_have_names() {
        let sum = Operation::of::<bf16>(Kind::AllReduce(Reduction::Sum), elements(8), elements(8));
        let send = Operation::of::<u64>(Kind::Send { to: 2 }, elements(5), Elements::NONE);
        assert_eq!(Named(&[sum]).to_string(), "all_reduce of 8 bf16 (sum)");
        assert_eq!(
            Named(&[sum, send]).to_string(),
            "a group of 2 operations (all_reduce of 8 bf16 (sum); send of 5 u64 to rank 2)"
        );
        assert!(Named(&[send; 9]).to_string().ends_with("; ..)"));
    }
}
