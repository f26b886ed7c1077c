//! The time limit of a wait on the device.

#[cfg(not(target_arch = "nvptx64"))]
use crate::simt::context::{check_cooperative, wait_until_ready};

/// How often a thread looks at its words before it looks at the clock again.
#[cfg(target_arch = "nvptx64")]
const LOOKS: u32 = 256;

/// Ends waits that take too long, in place of a hang: the kernel panics with what was waited for, and the line of the wait.
///
/// The time is that of `%globaltimer`. It starts again for each wait, at the 256th check of the words, and is read at
/// every 256th check. A shorter wait never reads it.
///
/// On the executor, which sees that a wait is in vain, nothing is timed.
///
/// ```
/// use core::sync::atomic::Ordering;
///
/// use cuda_std::grid::Watchdog;
/// use cuda_std::kernel;
///
/// /// Waits until the word is 1, for half a second at most.
/// ///
/// /// # Safety
/// /// A word that is stored by atomic instructions.
/// #[kernel(cooperative)]
/// pub unsafe fn wait_for_one(word: *const u32) {
///     const NEIGHBOUR: Watchdog = Watchdog::new("the neighbour's flag", 500_000_000);
///     // SAFETY: the kernel's contract.
///     unsafe { NEIGHBOUR.wait_until(word, Ordering::Acquire, |word| word == 1) };
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watchdog {
    what: &'static str,
    nanos: u64,
}

impl Watchdog {
    /// Lets a wait take any time.
    pub const OFF: Watchdog = Watchdog { what: "", nanos: u64::MAX };

    /// Lets a wait for `what` take `nanos` nanoseconds; `u64::MAX` is any time. Of a text of more than 256 bytes the rest is
    /// not reported.
    pub const fn new(what: &'static str, nanos: u64) -> Watchdog {
        Watchdog { what, nanos }
    }

    /// Loads until `condition` holds, and returns what was loaded then.
    #[cfg(target_arch = "nvptx64")]
    #[inline(always)]
    #[track_caller]
    pub(super) fn wait<T: Copy>(
        self,
        _name: &'static str,
        load: impl Fn() -> T,
        condition: impl Fn(T) -> bool,
    ) -> T {
        let (mut looks, mut end) = (0, u64::MAX);
        loop {
            let value = load();
            if condition(value) {
                return value;
            }
            if self.nanos == u64::MAX {
                continue;
            }
            looks += 1;
            if looks == LOOKS {
                looks = 0;
                let now = crate::misc::global_timer();
                if end == u64::MAX {
                    end = now.saturating_add(self.nanos);
                } else if now > end {
                    crate::panic::waited_in_vain(self.what, self.nanos, core::panic::Location::caller());
                }
            }
        }
    }

    /// As above; between two loads the thread is suspended until the condition has held.
    #[cfg(not(target_arch = "nvptx64"))]
    #[inline(always)]
    #[track_caller]
    pub(super) fn wait<T: Copy>(
        self,
        name: &'static str,
        load: impl Fn() -> T,
        condition: impl Fn(T) -> bool,
    ) -> T {
        check_cooperative(name);
        loop {
            let value = load();
            if condition(value) {
                return value;
            }
            wait_until_ready(name, &|| condition(load()));
        }
    }
}
