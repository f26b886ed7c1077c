//! Threads that are all waited for at the end.
//!
//! Miri runs what the standard library does for a thread as it runs all code, some 7000 steps, which is more than most
//! kernels take. Under it threads are made by `pthread_create` as it is.

use std::io;

/// Runs `f`, which may spawn, and then waits for all threads.
pub(super) fn scope<'env>(f: impl for<'scope> FnOnce(&mut Scope<'scope, 'env>)) {
    system::scope(f);
}

pub(super) use system::Scope;

#[cfg(not(miri))]
mod system {
    use std::thread;

    use super::io;

    /// Bytes of a thread's stack. Pages that are never touched cost address space only.
    const STACK_BYTES: usize = 512 * 1024;

    /// Where threads are spawned.
    pub(in super::super) struct Scope<'scope, 'env> {
        scope: &'scope thread::Scope<'scope, 'env>,
        /// Kept to the end: to drop the handle of a thread that has ended orders those that start later behind it.
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
        pub fn spawn(&mut self, name: &str, body: impl FnOnce() + Send + 'env) -> io::Result<()> {
            let builder = thread::Builder::new().stack_size(STACK_BYTES).name(name.to_owned());
            self.handles.push(builder.spawn_scoped(self.scope, body)?);
            Ok(())
        }
    }
}

#[cfg(miri)]
mod system {
    use core::ffi::c_void;
    use core::marker::PhantomData;
    use core::ptr;

    use super::io;

    /// Where threads are spawned.
    pub(in super::super) struct Scope<'scope, 'env> {
        threads: Vec<libc::pthread_t>,
        env: PhantomData<(&'scope (), &'env mut &'env ())>,
    }

    pub(super) fn scope<'env>(f: impl for<'scope> FnOnce(&mut Scope<'scope, 'env>)) {
        f(&mut Scope { threads: Vec::new(), env: PhantomData });
    }

    impl<'env> Scope<'_, 'env> {
        /// Spawns a thread of this name.
        ///
        /// # Errors
        /// The system has no more.
        pub fn spawn<F: FnOnce() + Send + 'env>(&mut self, name: &str, body: F) -> io::Result<()> {
            let mut thread = 0;
            let body = Box::into_raw(Box::new(body));
            // SAFETY: `entry` takes the body that it is given, once; what that borrows lives longer than the scope, at
            // whose end the thread is waited for.
            let failed = unsafe { libc::pthread_create(&mut thread, ptr::null(), entry::<F>, body.cast()) };
            if failed != 0 {
                // SAFETY: no thread has taken it.
                drop(unsafe { Box::from_raw(body) });
                return Err(io::Error::from_raw_os_error(failed));
            }
            self.threads.push(thread);
            let mut shown = [0u8; 16];
            let len = name.len().min(15);
            shown[..len].copy_from_slice(&name.as_bytes()[..len]);
            // SAFETY: the thread has not been waited for; the name ends with a zero.
            unsafe { libc::pthread_setname_np(thread, shown.as_ptr().cast()) };
            Ok(())
        }
    }

    impl Drop for Scope<'_, '_> {
        fn drop(&mut self) {
            for &thread in &self.threads {
                // SAFETY: each is waited for once.
                unsafe { libc::pthread_join(thread, ptr::null_mut()) };
            }
        }
    }

    extern "C" fn entry<F: FnOnce()>(body: *mut c_void) -> *mut c_void {
        // SAFETY: `spawn` gives the thread its body.
        let body = unsafe { Box::from_raw(body.cast::<F>()) };
        body();
        ptr::null_mut()
    }
}
