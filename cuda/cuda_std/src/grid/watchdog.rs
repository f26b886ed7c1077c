//! The time limit of a wait on the device.

#[cfg(not(target_arch = "nvptx64"))]
use crate::simt::context::{check_cooperative, unwinds, wait_until_ready};

/// The number of times a thread checks its words before it reads the clock again.
#[cfg(target_arch = "nvptx64")]
const LOOKS: u32 = 256;

/// Ends waits that take too long, instead of a hang: the kernel panics with the wait's description and line.
///
/// The clock is `%globaltimer`. It is read at every 256th check of the words, and the time of a wait starts at the
/// first reading. A shorter wait never reads it.
///
/// The executor times nothing, since it detects waits that cannot end.
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
/// /// Only atomic instructions store the word.
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
    /// Does not limit a wait.
    pub const OFF: Watchdog = Watchdog { what: "", nanos: u64::MAX };

    /// Limits a wait for `what` to `nanos` nanoseconds; `u64::MAX` means no limit. Only the first 256 bytes of `what`
    /// are reported.
    pub const fn new(what: &'static str, nanos: u64) -> Watchdog {
        Watchdog { what, nanos }
    }

    /// Loads until `condition` holds, and returns the last value.
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

    /// Same as above. Between two loads the thread is suspended until the condition has held. A thread that unwinds does
    /// not wait for it.
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
            if condition(value) || unwinds() {
                return value;
            }
            wait_until_ready(name, &|| condition(load()));
        }
    }
}
