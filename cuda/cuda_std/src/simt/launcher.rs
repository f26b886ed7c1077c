//! Launches of kernels with their arguments.

use super::Executor;
use crate::launch::{KernelCall, LaunchError, Launcher, Residence};

impl Launcher for Executor {
    unsafe fn submit(&self, call: &KernelCall<'_>) -> Result<(), LaunchError> {
        call.check(Residence::Host, &self.limits)?;
        let args = SharedArgs(call.args.as_ptr());
        let entry = call.meta.call;
        let body = move || {
            // Captures the whole wrapper, so that the closure is `Sync`.
            let args: &SharedArgs = &args;
            // SAFETY: the caller of `submit` guarantees the arguments and the kernel's contract; they outlive this
            // call, which returns after the last thread.
            unsafe { entry(args.0) }
        };
        self.run_body(call.meta.name, call.config, call.meta.cooperative, &body)
    }
}

/// The argument array of a launch, which every thread of the grid reads.
struct SharedArgs(*const *mut core::ffi::c_void);

// SAFETY: the threads only read the array and the values behind it; what those values point to is shared as
// the kernel's contract says.
unsafe impl Sync for SharedArgs {}
// SAFETY: the threads only read the array and the values that it points to.
unsafe impl Send for SharedArgs {}
