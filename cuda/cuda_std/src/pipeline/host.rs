//! Copies on the executor: a thread keeps its copies until it waits for them.

use core::mem::MaybeUninit;
use std::collections::VecDeque;

use crate::simt::context::current;
use crate::simt::states::State;

/// The content of memory that must not be read yet: a NaN in every float format.
const POISON: u8 = 0xff;

/// A copy that has been started.
struct Pending {
    target: *mut u8,
    source: *const u8,
    /// Bytes of the target, and of the source.
    size: usize,
    bytes: usize,
}

/// The copies of a thread.
#[derive(Default)]
pub(crate) struct Copies {
    /// Copies that are not in a group yet.
    open: Vec<Pending>,
    /// The groups that are not complete, the oldest first.
    groups: VecDeque<Vec<Pending>>,
}

impl State for Copies {}

impl Copies {
    /// Groups the open copies.
    pub fn commit(&mut self) {
        self.groups.push_back(core::mem::take(&mut self.open));
    }

    /// Performs the copies of all groups except the latest `left`.
    pub fn wait_prior(&mut self, left: usize) {
        while self.groups.len() > left {
            let group = self.groups.pop_front().unwrap_or_default();
            group.into_iter().for_each(Pending::make);
        }
    }
}

impl Pending {
    fn make(self) {
        let Pending { target, source, size, bytes } = self;
        // SAFETY: the caller that started the copy guarantees that both are valid until now.
        unsafe {
            core::ptr::copy_nonoverlapping(source, target, bytes);
            target.add(bytes).write_bytes(0, size - bytes);
        }
    }
}

/// Hands the running thread's copies to `f`.
#[track_caller]
pub(super) fn with(name: &'static str, f: impl FnOnce(&mut Copies)) {
    current(name, |context| context.channel.with_state(f));
}

/// Starts a copy: the target becomes uninitialised.
///
/// # Safety
/// See [the module](super#safety-of-the-copies).
#[track_caller]
pub(super) unsafe fn copy<T: Copy>(name: &'static str, shared: *mut T, global: *const T, bytes: u32) {
    let (size, bytes) = (size_of::<T>(), bytes as usize);
    assert!(bytes <= size, "{name}() of {bytes} bytes into {size}; copy at most the size of the target");
    for (address, of) in [(shared.addr(), "shared"), (global.addr(), "global")] {
        assert!(
            address.is_multiple_of(size),
            "{name}() got the {of} address {address:#x}; align it to the copy's {size} bytes"
        );
    }
    // SAFETY: the caller guarantees a valid target of this size.
    unsafe {
        if cfg!(miri) {
            shared.cast::<MaybeUninit<T>>().write(MaybeUninit::uninit());
        } else {
            shared.cast::<u8>().write_bytes(POISON, size);
        }
    }
    let pending = Pending { target: shared.cast(), source: global.cast(), size, bytes };
    with(name, |copies| copies.open.push(pending));
}
