//! Values of this process. A process begins with a copy of its parent's memory, but without the parent's other threads, so it
//! must not use what they shared: their work never ends, and the locks that they held stay locked.

use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

/// A value that each process makes when it first asks for it. The copy of a parent's value is leaked.
pub(super) struct PerProcess<T: 'static> {
    current: AtomicPtr<Of<T>>,
    make: fn() -> T,
}

struct Of<T> {
    process: u32,
    value: T,
}

impl<T: Send + Sync> PerProcess<T> {
    pub const fn new(make: fn() -> T) -> Self {
        Self { current: AtomicPtr::new(ptr::null_mut()), make }
    }

    /// This process's value.
    pub fn get(&self) -> &'static T {
        let process = std::process::id();
        let mut known = self.current.load(Ordering::Acquire);
        loop {
            // SAFETY: a pointer that is not null came from `Box::into_raw` below and is never freed.
            if let Some(of) = unsafe { known.as_ref() }.filter(|of| of.process == process) {
                return &of.value;
            }
            let new = Box::into_raw(Box::new(Of { process, value: (self.make)() }));
            let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
            known = match self.current.compare_exchange(known, new, success, failure) {
                Ok(_) => new,
                Err(other) => {
                    // SAFETY: no other thread has seen it.
                    drop(unsafe { Box::from_raw(new) });
                    other
                }
            };
        }
    }
}
