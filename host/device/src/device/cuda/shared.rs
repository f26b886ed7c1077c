//! What the devices of a context share: a kernel that fails on one of them ends them all. All devices that open a GPU have its
//! primary context.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::super::error::DeviceError;
use super::super::fault::{FaultKind, KernelFault};
use super::super::launches::{Launches, QueuedLaunches};
use super::super::panic::DevicePanic;
use super::found::locked;
use super::handles::PanicSlot;
use super::lane::Queue;

/// A context.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Which {
    /// The primary one of the GPU with this ordinal.
    Primary(u32),
    /// The one at this address, to which a device was attached.
    Attached(usize),
}

/// What a device knows of its work.
#[derive(Default)]
pub(super) struct State {
    /// Launches since the last synchronisation.
    pub queued: QueuedLaunches,
    /// The additional streams, by number.
    pub streams: Vec<(u32, Queue)>,
    /// The streams of the recording in progress, by the number of the stream that each stands for.
    pub recording: Vec<(u32, Queue)>,
    /// The first failure of a kernel or of the GPU.
    pub fault: Option<Arc<KernelFault>>,
}

/// The devices of a context, and what ended them.
#[derive(Default)]
struct Shared {
    members: Vec<Weak<Member>>,
    fault: Option<Arc<KernelFault>>,
}

/// The part of a device that the others need to name its failure.
pub(super) struct Member {
    pub state: Mutex<State>,
    pub panic_slot: PanicSlot,
}

static SHARED: Mutex<BTreeMap<Which, Shared>> = Mutex::new(BTreeMap::new());

fn shared() -> MutexGuard<'static, BTreeMap<Which, Shared>> {
    SHARED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds a device whose objects have been created.
pub(super) fn join(which: Which, member: &Arc<Member>) {
    let mut all = shared();
    let Shared { members, fault } = all.entry(which).or_default();
    members.retain(|member| member.strong_count() > 0);
    if members.is_empty() {
        // That of an earlier context at this address.
        *fault = None;
    }
    members.push(Arc::downgrade(member));
}

/// The failure of the context, if one of its devices has reported it.
pub(super) fn known(which: Which) -> Option<Arc<KernelFault>> {
    shared().get(&which)?.fault.clone()
}

/// Keeps the failure of the context for its other devices.
pub(super) fn keep(which: Which, fault: &Arc<KernelFault>) {
    shared().entry(which).or_default().fault.get_or_insert_with(|| Arc::clone(fault));
}

/// The launches that a failure of the context may come from, and the panic, if a kernel recorded one: those of the device
/// that has the record, otherwise those of all devices.
pub(super) fn suspects(which: Which) -> (Launches, Option<DevicePanic>) {
    let members: Vec<Arc<Member>> = {
        let all = shared();
        let members = all.get(&which).map_or(&[][..], |shared| &shared.members);
        members.iter().filter_map(Weak::upgrade).collect()
    };
    let slots: Vec<&PanicSlot> = members.iter().map(|member| &member.panic_slot).collect();
    let queued = |member: &Arc<Member>| locked(&member.state).queued.all();
    if let Some((at, panic)) = PanicSlot::read_first(&slots) {
        return (queued(&members[at]), Some(panic));
    }
    let mut all = Launches::default();
    members.iter().for_each(|member| all.note_all(&queued(member)));
    (all, None)
}

/// Adds to an error of a device that is being opened why its context is unusable, if it is.
pub(super) fn explain(error: DeviceError, which: Which, name: &str) -> DeviceError {
    let Some(status) = error.status() else { return error };
    let Some(kind) = FaultKind::of(status).filter(|kind| !kind.hangs()) else { return error };
    let first = known(which).or_else(|| {
        let (launches, panic) = suspects(which);
        let is_known = panic.is_some() || launches.count() > 0;
        is_known.then(|| Arc::new(KernelFault::new(name, kind, &launches, status, panic)))
    });
    match first {
        Some(first) => {
            keep(which, &first);
            DeviceError::Faulted { device: name.to_owned(), first }
        }
        None => error,
    }
}
