//! Spawns threads, and waits for all of them at the end. Under Miri, `workers` does it.

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

    /// The scope in which threads are spawned.
    pub(in super::super) struct Scope<'scope, 'env> {
        scope: &'scope thread::Scope<'scope, 'env>,
        /// Kept to the end: dropping the handle of a thread that has ended orders later threads after it.
        handles: Vec<thread::ScopedJoinHandle<'scope, ()>>,
    }

    pub(super) fn scope<'env>(f: impl for<'scope> FnOnce(&mut Scope<'scope, 'env>)) {
        thread::scope(|scope| f(&mut Scope { scope, handles: Vec::new() }));
    }

    impl<'env> Scope<'_, 'env> {
        /// Spawns a thread with this name.
        ///
        /// # Errors
        /// If the system has no more threads.
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
