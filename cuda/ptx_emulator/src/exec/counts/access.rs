//! The counted actions of an instruction, from its operands.

use super::{Collective, Deed, Way};
use crate::exec::memory::{self, Home};
use crate::exec::thread::Cx;
use crate::instr::{Addr, Instr, Op, Space, Tensor, TensorBox, WarpKind, Wgmma};

/// Whether lanes may diverge here without leaving the function.
pub(super) fn is_branch(instr: &Instr) -> bool {
    match instr.op {
        Op::Bra(_) => instr.guard.is_some(),
        Op::BrxIdx { .. } => true,
        _ => false,
    }
}

/// Calls `note` for each action, with its value and the bytes of an access. Undefined or out-of-bounds operands are left to
/// the instruction itself, which ends the launch.
pub(super) fn deeds(cx: &Cx<'_>, instr: &Instr, mut note: impl FnMut(Deed, u64, u32)) {
    let value = |slot| cx.value(slot).unwrap_or_default();
    let address = |at: &Addr| cx.address(at).unwrap_or_default();
    let mut access = |at: &Addr, way: Way, bytes: u64| {
        let address = address(at);
        if let Some(deed) = deed(cx, at.space, address, way) {
            note(deed, address, bytes as u32);
        }
    };
    match &instr.op {
        Op::Bra(target) if instr.guard.is_some() => note(Deed::Branch, u64::from(*target), 0),
        Op::BrxIdx { index, targets } => {
            let target = targets.get(value(*index) as usize).copied().unwrap_or_default();
            note(Deed::Branch, u64::from(target), 0);
        }
        Op::Ld(ld) => access(&ld.at, Way::Load, u64::from(ld.ty.bits() / 8) * ld.d.len() as u64),
        Op::St(st) => access(&st.at, Way::Store, u64::from(st.ty.bits() / 8) * st.values.len() as u64),
        Op::Atom(atom) => access(&atom.at, Way::Atomic, u64::from(atom.ty.bits / 8)),
        Op::CopyAsync(copy) => {
            let bytes = copy.bytes.map_or(copy.size, value);
            if bytes > 0 {
                access(&copy.source, Way::Copy, bytes);
            }
            access(&copy.target, Way::Copy, copy.size);
        }
        Op::BulkCopy(copy) => {
            let way = if copy.source.space == Space::Global { Way::Load } else { Way::Copy };
            note(Deed::Bulk(way), address(&copy.source), value(copy.bytes) as u32);
        }
        Op::BulkStore(store) => {
            note(Deed::Bulk(Way::Store), address(&store.target), value(store.bytes) as u32)
        }
        Op::TensorLoad(load) => note(Deed::Box(Way::Load), 0, bytes_within(cx, &load.source)),
        Op::TensorStore(store) => note(Deed::Box(Way::Store), 0, bytes_within(cx, &store.target)),
        Op::Wgmma(wgmma) if matches!(**wgmma, Wgmma::Multiply(_)) => {
            note(Deed::Collective(Collective::Matrix), 0, 0);
        }
        Op::StoreAsync(store) => note(Deed::Cluster, 0, (store.bytes * store.values.len() as u64) as u32),
        Op::Tensor(tensor) => match &**tensor {
            Tensor::Load { at, d: rows, .. } | Tensor::Store { at, values: rows, .. } => {
                // Each row of a matrix has its address in a lane of its own.
                if (cx.ids.lane as usize) < 8 * rows.len() {
                    let is_load = matches!(**tensor, Tensor::Load { .. });
                    access(at, if is_load { Way::Load } else { Way::Store }, 16);
                }
            }
            Tensor::Mma { .. } | Tensor::Move { .. } => note(Deed::Collective(Collective::Matrix), 0, 0),
        },
        op => {
            if let Some(collective) = collective(op) {
                note(Deed::Collective(collective), 0, 0);
            }
        }
    }
}

/// The bytes of a box that lie within its tensor.
fn bytes_within(cx: &Cx<'_>, of: &TensorBox) -> u32 {
    cx.tile(of).map_or(0, |tile| tile.bytes_within() as u32)
}

fn deed(cx: &Cx<'_>, space: Space, address: u64, way: Way) -> Option<Deed> {
    Some(match memory::home(space, address) {
        Home::Global => Deed::Global(way),
        Home::Constant => Deed::Constant,
        Home::Local => Deed::Local(way),
        Home::Shared(None) => Deed::Shared(way),
        Home::Shared(Some(rank)) if rank == cx.ids.rank => Deed::Shared(way),
        Home::Shared(Some(_)) => Deed::Cluster,
        Home::Param => return None,
    })
}

fn collective(op: &Op) -> Option<Collective> {
    Some(match op {
        Op::Barrier(_) => Collective::Barrier,
        Op::ClusterWait { .. } => Collective::ClusterBarrier,
        Op::Mbarrier(_) => Collective::Mbarrier,
        Op::ActiveMask { .. } => Collective::Vote,
        Op::Warp(op) => match op.kind {
            WarpKind::Sync => Collective::WarpBarrier,
            WarpKind::Shfl(_) => Collective::Shuffle,
            WarpKind::Tensor => Collective::Matrix,
            WarpKind::Vote(_) | WarpKind::MatchAny(_) | WarpKind::MatchAll(_) | WarpKind::Redux(..) => {
                Collective::Vote
            }
        },
        _ => return None,
    })
}
