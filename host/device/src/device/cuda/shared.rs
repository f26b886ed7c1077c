//! What the devices of this process share: all devices of a GPU have its primary context, so a kernel that fails on one of
//! them ends them all.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::super::DeviceError;
use super::super::fault::{FaultKind, KernelFault};
use super::super::launches::Launches;
use super::super::panic::DevicePanic;
use super::handles::PanicSlot;
use super::{State, locked};

/// The devices of a GPU in this process, and what ended them.
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

/// By ordinal.
static SHARED: Mutex<BTreeMap<u32, Shared>> = Mutex::new(BTreeMap::new());

fn shared() -> MutexGuard<'static, BTreeMap<u32, Shared>> {
    SHARED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds a device of the GPU.
pub(super) fn join(ordinal: u32, member: &Arc<Member>) {
    let mut all = shared();
    let members = &mut all.entry(ordinal).or_default().members;
    members.retain(|member| member.strong_count() > 0);
    members.push(Arc::downgrade(member));
}

/// The failure of the GPU's context, if a device of this process has reported one.
pub(super) fn known(ordinal: u32) -> Option<Arc<KernelFault>> {
    shared().get(&ordinal)?.fault.clone()
}

/// Keeps the failure of the GPU's context for its other devices.
pub(super) fn keep(ordinal: u32, fault: &Arc<KernelFault>) {
    shared().entry(ordinal).or_default().fault.get_or_insert_with(|| Arc::clone(fault));
}

/// The launches that a failure of the GPU's context may come from, and the panic, if a kernel recorded one: those of the device
/// that has the record, otherwise those of all devices.
pub(super) fn suspects(ordinal: u32) -> (Launches, Option<DevicePanic>) {
    let members: Vec<Arc<Member>> = {
        let all = shared();
        let members = all.get(&ordinal).map_or(&[][..], |shared| &shared.members);
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

/// Adds to an error of a device that is being opened why its GPU's context is unusable, if it is.
pub(super) fn explain(error: DeviceError, ordinal: u32, name: &str) -> DeviceError {
    let Some(status) = error.status() else { return error };
    let Some(kind) = FaultKind::of(status).filter(|kind| !kind.hangs()) else { return error };
    let first = known(ordinal).or_else(|| {
        let (launches, panic) = suspects(ordinal);
        let is_known = panic.is_some() || launches.count() > 0;
        is_known.then(|| Arc::new(KernelFault::new(name, kind, &launches, status, panic)))
    });
    match first {
        Some(first) => {
            keep(ordinal, &first);
            DeviceError::Faulted { device: name.to_owned(), first }
        }
        None => error,
    }
}
