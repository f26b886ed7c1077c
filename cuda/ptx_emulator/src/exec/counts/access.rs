//! The counted actions of an instruction, from its operands.

use cuda_std::testing::counts::Flop;

use super::event::{Collective, Deed, Way};
use crate::exec::row::{Counts, Note};
use crate::exec::space::{self, Home};
use crate::exec::thread::Cx;
use crate::instr::{Addr, Instr, SINK, Slot, Space};

/// The floating-point operations of `threads` threads that execute the instruction.
pub(crate) fn flop(i: &Instr, counts: Counts, threads: u64) -> Flop {
    match counts {
        Counts::Flops(each) if i.form.ty.bits == 32 => Flop { f32: each * threads, ..Flop::default() },
        Counts::Flops(each) => Flop { f64: each * threads, ..Flop::default() },
        Counts::Function => Flop { functions: threads, ..Flop::default() },
        Counts::Matrix(each) => Flop { tensor: each(i) * threads, ..Flop::default() },
        _ => Flop::default(),
    }
}

/// Passes each action to `note`, with its value and the bytes of an access. Undefined or out-of-bounds operands are left to
/// the instruction itself, which ends the launch.
pub(super) fn deeds(cx: &Cx<'_>, i: &Instr, counts: Counts, note: &mut Note<'_>) {
    match counts {
        Counts::Branch => {
            let targets = &i.more().targets;
            // A branch without a condition does not diverge.
            if i.guard.is_some() || targets.len() > 1 {
                let target = targets.get(value(cx, i.a) as usize).copied().unwrap_or_default();
                note(Deed::Branch, target.into(), 0);
            }
        }
        Counts::Matrix(_) => note(Deed::Collective(Collective::Matrix), 0, 0),
        Counts::Collective(collective) => note(Deed::Collective(collective), 0, 0),
        Counts::Access(way) => {
            let elements = (i.more().d.len() + i.more().a.len()).max(1) as u64;
            access(cx, &i.more().at[0], way, elements * i.form.ty.bytes(), note);
        }
        Counts::Deeds(of) => of(cx, i, note),
        Counts::Nothing | Counts::Flops(_) | Counts::Function => {}
    }
}

fn value(cx: &Cx<'_>, slot: Slot) -> u64 {
    cx.value(slot).unwrap_or_default()
}

fn access(cx: &Cx<'_>, at: &Addr, way: Way, bytes: u64, note: &mut Note<'_>) {
    let address = cx.address(at).unwrap_or_default();
    let deed = match space::home(at.space, address) {
        Home::Global => Deed::Global(way),
        Home::Constant => Deed::Constant,
        Home::Local => Deed::Local(way),
        Home::Shared(Some(rank)) if rank != cx.ids.rank => Deed::Cluster,
        Home::Shared(_) => Deed::Shared(way),
        Home::Param => return,
    };
    note(deed, address, bytes as u32);
}

/// `cp.async`.
pub(crate) fn copy(cx: &Cx<'_>, i: &Instr, note: &mut Note<'_>) {
    let bytes = if i.a == SINK { i.form.literal } else { value(cx, i.a) };
    if bytes > 0 {
        access(cx, &i.more().at[1], Way::Copy, bytes, note);
    }
    access(cx, &i.more().at[0], Way::Copy, i.form.literal, note);
}

/// `cp.async.bulk` to shared memory.
pub(crate) fn bulk_copy(cx: &Cx<'_>, i: &Instr, note: &mut Note<'_>) {
    let source = &i.more().at[1];
    let way = if source.space == Space::Global { Way::Load } else { Way::Copy };
    note(Deed::Bulk(way), cx.address(source).unwrap_or_default(), value(cx, i.a) as u32);
}

/// `cp.async.bulk` to global memory.
pub(crate) fn bulk_store(cx: &Cx<'_>, i: &Instr, note: &mut Note<'_>) {
    let target = cx.address(&i.more().at[0]).unwrap_or_default();
    note(Deed::Bulk(Way::Store), target, value(cx, i.a) as u32);
}

/// `cp.async.bulk.tensor` to shared memory, by the bytes within the tensor.
pub(crate) fn tensor_load(cx: &Cx<'_>, i: &Instr, note: &mut Note<'_>) {
    note(Deed::Box(Way::Load), 0, cx.tile(i, 1).map_or(0, |tile| tile.bytes_within() as u32));
}

/// `cp.async.bulk.tensor` to global memory.
pub(crate) fn tensor_store(cx: &Cx<'_>, i: &Instr, note: &mut Note<'_>) {
    note(Deed::Box(Way::Store), 0, cx.tile(i, 0).map_or(0, |tile| tile.bytes_within() as u32));
}

/// `st.async`.
pub(crate) fn store_async(_: &Cx<'_>, i: &Instr, note: &mut Note<'_>) {
    note(Deed::Cluster, 0, (i.form.ty.bytes() * i.more().a.len() as u64) as u32);
}

/// `ldmatrix` and `stmatrix`: each row of a matrix has its address in a lane of its own.
pub(crate) fn matrix(cx: &Cx<'_>, i: &Instr, way: Way, note: &mut Note<'_>) {
    let rows = 8 * (i.more().d.len() + i.more().a.len());
    if (cx.ids.lane as usize) < rows {
        access(cx, &i.more().at[0], way, 16, note);
    }
}
