//! Threads under Miri: they stay alive, and work for one launch after the other.
//!
//! What Miri stores for an access grows with the number of threads that ever existed, so thousands of short ones are
//! slow. A launch comes after the previous one in any case, so a worker in both adds no order. Within a launch, every
//! GPU thread has its own worker.
//!
//! The workers belong to the launching thread, and end with it. `pthread` calls are one step each; those of the
//! standard library take about a hundred.

use core::cell::{RefCell, UnsafeCell};
use core::ffi::c_void;
use core::marker::PhantomData;
use core::ptr;

use super::{Name, io};

thread_local! {
    static WORKERS: RefCell<Workers> = const { RefCell::new(Workers(Vec::new())) };
}

/// Threads that wait for work. Dropping it ends them and waits for that.
#[derive(Default)]
struct Workers(Vec<Worker>);

struct Worker {
    thread: libc::pthread_t,
    /// From a box, which is freed after the thread is joined.
    post: *mut Post,
}

/// Passes work to a worker, and the news of its end back. Changed under the mutex.
struct Post {
    mutex: UnsafeCell<libc::pthread_mutex_t>,
    changed: UnsafeCell<libc::pthread_cond_t>,
    state: UnsafeCell<State>,
}

enum State {
    Idle,
    Given(Name, Box<dyn FnOnce() + Send>),
    Busy,
    /// The worker shall end.
    Over,
}

// SAFETY: the state is accessed under the mutex.
unsafe impl Sync for Post {}

/// The scope in which threads are spawned.
pub(in super::super) struct Scope<'scope, 'env> {
    workers: Workers,
    /// The number of workers, from the first on, that work for this scope.
    working: usize,
    env: PhantomData<(&'scope (), &'env mut &'env ())>,
}

/// Runs `f`, which may spawn, and then waits for all threads.
pub(in super::super) fn scope<'env>(f: impl for<'scope> FnOnce(&mut Scope<'scope, 'env>)) {
    // While the launching thread ends, there are no workers to reuse.
    let workers = WORKERS.try_with(RefCell::take).unwrap_or_default();
    f(&mut Scope { workers, working: 0, env: PhantomData });
}

impl<'env> Scope<'_, 'env> {
    /// Runs the body on a thread with this name.
    ///
    /// # Errors
    /// If the system has no more threads.
    pub fn spawn(&mut self, name: Name, body: impl FnOnce() + Send + 'env) -> io::Result<()> {
        if self.working == self.workers.0.len() {
            self.workers.0.push(Worker::new()?);
        }
        let body: Box<dyn FnOnce() + Send + 'env> = Box::new(body);
        // SAFETY: the body's borrows outlive the scope, and the body has run when the scope ends.
        let body = unsafe {
            core::mem::transmute::<Box<dyn FnOnce() + Send + 'env>, Box<dyn FnOnce() + Send>>(body)
        };
        self.workers.0[self.working].post().with(|state| *state = State::Given(name, body));
        self.working += 1;
        Ok(())
    }
}

impl Drop for Scope<'_, '_> {
    fn drop(&mut self) {
        for worker in &self.workers.0[..self.working] {
            worker.post().wait_until(|state| matches!(state, State::Idle).then_some(()));
        }
        let workers = core::mem::take(&mut self.workers);
        // If they cannot be kept, the workers end here.
        let _ = WORKERS.try_with(|place| place.replace(workers));
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        for worker in &self.0 {
            worker.post().with(|state| *state = State::Over);
        }
        for worker in &self.0 {
            // SAFETY: each is joined once, and its post is not used after that.
            unsafe {
                libc::pthread_join(worker.thread, ptr::null_mut());
                drop(Box::from_raw(worker.post));
            }
        }
    }
}

impl Worker {
    fn new() -> io::Result<Self> {
        let post = Box::into_raw(Box::new(Post {
            mutex: UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER),
            changed: UnsafeCell::new(libc::PTHREAD_COND_INITIALIZER),
            state: UnsafeCell::new(State::Idle),
        }));
        let mut thread = 0;
        // SAFETY: the post stays where it is until the thread is joined.
        match unsafe { libc::pthread_create(&mut thread, ptr::null(), work, post.cast()) } {
            0 => Ok(Self { thread, post }),
            failed => {
                // SAFETY: no thread has it.
                drop(unsafe { Box::from_raw(post) });
                Err(io::Error::from_raw_os_error(failed))
            }
        }
    }

    fn post(&self) -> &Post {
        // SAFETY: it lives as long as the worker.
        unsafe { &*self.post }
    }
}

impl Post {
    /// Changes the state, and wakes the other side.
    fn with(&self, change: impl FnOnce(&mut State)) {
        // SAFETY: mutex and condition live as long as the post and stay where they are; the state is this thread's while
        // it has the mutex.
        unsafe {
            libc::pthread_mutex_lock(self.mutex.get());
            change(&mut *self.state.get());
            libc::pthread_cond_signal(self.changed.get());
            libc::pthread_mutex_unlock(self.mutex.get());
        }
    }

    /// Waits for a state for which `look` returns something.
    fn wait_until<R>(&self, mut look: impl FnMut(&mut State) -> Option<R>) -> R {
        // SAFETY: only one side waits at a time, the worker while it is idle, the other while it is not.
        unsafe {
            libc::pthread_mutex_lock(self.mutex.get());
            let found = loop {
                match look(&mut *self.state.get()) {
                    Some(found) => break found,
                    None => libc::pthread_cond_wait(self.changed.get(), self.mutex.get()),
                };
            };
            libc::pthread_mutex_unlock(self.mutex.get());
            found
        }
    }
}

/// A worker's loop.
extern "C" fn work(post: *mut c_void) -> *mut c_void {
    // SAFETY: `Worker::new` gives the thread its post, which outlives it.
    let post = unsafe { &*post.cast::<Post>() };
    let next = |state: &mut State| match core::mem::replace(state, State::Busy) {
        State::Given(name, body) => Some(Some((name, body))),
        State::Over => Some(None),
        other => {
            *state = other;
            None
        }
    };
    while let Some((name, body)) = post.wait_until(next) {
        // SAFETY: the calling thread exists, and the name ends with a zero.
        unsafe { libc::pthread_setname_np(libc::pthread_self(), name.as_c_str()) };
        body();
        post.with(|state| *state = State::Idle);
    }
    ptr::null_mut()
}
