//! Threads that are all waited for at the end. Miri has a `workers` for it.

use std::io;

use super::grid::Name;

/// Runs `f`, which may spawn, and then waits for all threads.
pub(super) fn scope<'env>(f: impl for<'scope> FnOnce(&mut Scope<'scope, 'env>)) {
    system::scope(f);
}

pub(super) use system::Scope;

#[cfg(not(miri))]
mod system {
    use std::thread;

    use super::{Name, io};

    /// Bytes of a thread's stack. Pages that are never touched cost address space only.
    const STACK_BYTES: usize = 512 * 1024;

    /// Where threads are spawned.
    pub(in super::super) struct Scope<'scope, 'env> {
        scope: &'scope thread::Scope<'scope, 'env>,
        /// Kept to the end: to drop the handle of a thread that has ended orders those that start later after it.
        handles: Vec<thread::ScopedJoinHandle<'scope, ()>>,
    }

    pub(super) fn scope<'env>(f: impl for<'scope> FnOnce(&mut Scope<'scope, 'env>)) {
        thread::scope(|scope| f(&mut Scope { scope, handles: Vec::new() }));
    }

    impl<'env> Scope<'_, 'env> {
        /// Spawns a thread of this name.
        ///
        /// # Errors
        /// The system has no more.
        pub fn spawn(&mut self, name: Name, body: impl FnOnce() + Send + 'env) -> io::Result<()> {
            let builder = thread::Builder::new().stack_size(STACK_BYTES).name(name.as_str().to_owned());
            self.handles.push(builder.spawn_scoped(self.scope, body)?);
            Ok(())
        }
    }
}

#[cfg(miri)]
use workers as system;

#[cfg(miri)]
mod workers;
