//! Waits for words that other blocks store.

use core::sync::atomic::Ordering;

use super::Watchdog;
use crate::atomic::mid;

/// Waits until `condition` holds for the word, and returns what it held then.
///
/// With `Ordering::Acquire` the thread then sees what the thread that stored the word with
/// [`store_release`](super::store_release) had done and seen before. With `Ordering::Relaxed` it sees only the word
/// (PTX ISA, `ld.acquire.gpu` and `ld.relaxed.gpu`). Any thread of a block may wait; a barrier of the block afterwards
/// shows the other threads what it has acquired.
///
/// On the device the thread polls the word without a time limit; [`Watchdog::wait_until`] has one. `condition` is
/// called any number of times, and must depend only on its argument.
///
/// # Safety
/// `word` is valid for reads and aligned. Until the wait is over, only atomic instructions access it.
///
/// # Panics
/// With other orderings, and on the executor in a launch that is not cooperative.
///
/// # Examples
/// A chain: each block waits for the previous one.
/// ```
/// use core::sync::atomic::Ordering;
///
/// use cuda_std::launch::LaunchConfig;
/// use cuda_std::simt::Executor;
/// use cuda_std::{grid, kernel, thread};
///
/// /// `words[b + 1]` becomes `words[b] + 1`, for every block `b`.
/// ///
/// /// # Safety
/// /// Blocks of one thread, and one word more than blocks; the first is not zero, the others are.
/// #[kernel(cooperative)]
/// pub unsafe fn count_on(words: *mut u32) {
///     let block = thread::block_idx_x() as usize;
///     // SAFETY: only these functions access the words.
///     unsafe {
///         let before = grid::wait_until(words.add(block), Ordering::Relaxed, |word| word != 0);
///         grid::store_relaxed(words.add(block + 1), before + 1);
///     }
/// }
///
/// let mut words = [7, 0, 0, 0];
/// // SAFETY: one word more than blocks.
/// unsafe { count_on::launch(&Executor::new(), LaunchConfig::new(3, 1), &mut words) }?;
/// assert_eq!(words, [7, 8, 9, 10]);
/// # Ok::<(), cuda_std::launch::LaunchError>(())
/// ```
#[doc(alias = "ld.acquire.gpu", alias = "ld.relaxed.gpu")]
#[inline(always)]
#[track_caller]
pub unsafe fn wait_until(word: *const u32, ordering: Ordering, condition: impl Fn(u32) -> bool) -> u32 {
    // SAFETY: the caller guarantees a valid pointer.
    unsafe { Watchdog::OFF.wait_until(word, ordering, condition) }
}

/// Waits until `condition` holds for four words, which are loaded at once and in relaxed order, and returns them.
///
/// Each word is one that a thread has stored, but it may be older or newer than its neighbour. So the condition must
/// check every word separately.
///
/// # Safety
/// `words` is valid for reads and aligned to 16 bytes (the executor panics if it is not). Until the wait is over, only
/// atomic instructions such as [`store_all`](super::store_all) access it.
///
/// # Panics
/// On the executor in a launch that is not cooperative.
///
/// # Examples
/// Sends numbers below 2^31, with their highest bit as the flag; nothing else orders them.
/// ```
/// use cuda_std::launch::LaunchConfig;
/// use cuda_std::mem::u32x4;
/// use cuda_std::simt::Executor;
/// use cuda_std::{grid, kernel, thread};
///
/// /// Each of two blocks sends 10 * block + 0, 1, 2 and 3 to the other, which writes their sum to `out`.
/// ///
/// /// # Safety
/// /// Two blocks of one thread each; `out` and `mail` have two elements, and `mail` is zero.
/// #[kernel(cooperative)]
/// pub unsafe fn exchange(out: *mut u32, mail: *mut [u32; 4]) {
///     const SENT: u32 = 1 << 31;
///     let block = thread::block_idx_x();
///     let (own, other) = (block as usize, 1 - block as usize);
///     // SAFETY: only these functions access the words.
///     unsafe {
///         grid::store_all(mail.add(other), [0, 1, 2, 3].map(|i| SENT | (10 * block + i)));
///         let words = grid::wait_until_all(mail.add(own), |words| words.iter().all(|word| word & SENT != 0));
///         *out.add(own) = words.iter().map(|word| word & !SENT).sum();
///     }
/// }
///
/// let (mut out, mut mail) = ([0, 0], [u32x4::splat(0); 2]);
/// // SAFETY: two blocks of one thread. A `u32x4` is four words at a multiple of 16.
/// unsafe {
///     let mail = core::slice::from_raw_parts_mut(mail.as_mut_ptr().cast::<[u32; 4]>(), 2);
///     exchange::launch(&Executor::new(), LaunchConfig::new(2, 1), &mut out, mail)?;
/// }
/// assert_eq!(out, [46, 6]);
/// # Ok::<(), cuda_std::launch::LaunchError>(())
/// ```
#[doc(alias = "ld.relaxed.gpu.v4")]
#[inline(always)]
#[track_caller]
pub unsafe fn wait_until_all(words: *const [u32; 4], condition: impl Fn([u32; 4]) -> bool) -> [u32; 4] {
    // SAFETY: the caller guarantees a valid pointer.
    unsafe { Watchdog::OFF.wait_until_all(words, condition) }
}

/// Same as [`wait_until_all`], for several groups of four words. Each poll loads all of them, so that the loads
/// overlap, and the wait ends when the condition holds for every group.
///
/// # Safety
/// Same as for [`wait_until_all`], for each pointer.
///
/// # Panics
/// Same as for [`wait_until_all`].
///
/// # Examples
/// ```
/// use cuda_std::launch::LaunchConfig;
/// use cuda_std::mem::u32x4;
/// use cuda_std::simt::Executor;
/// use cuda_std::{grid, kernel, thread};
///
/// /// The first two blocks send their index plus 1, in four copies, and the last block adds all of these numbers.
/// ///
/// /// # Safety
/// /// Three blocks of one thread each; one element of `out`, and two of `mail`, which are zero.
/// #[kernel(cooperative)]
/// pub unsafe fn add_two(out: *mut u32, mail: *mut [u32; 4]) {
///     let block = thread::block_idx_x();
///     // SAFETY: only these functions access the words.
///     unsafe {
///         if block < 2 {
///             return grid::store_all(mail.add(block as usize), [block + 1; 4]);
///         }
///         let both = [mail.cast_const(), mail.add(1).cast_const()];
///         let words = grid::wait_until_each(both, |words| !words.contains(&0));
///         *out = words.as_flattened().iter().sum();
///     }
/// }
///
/// let (mut out, mut mail) = ([0], [u32x4::splat(0); 2]);
/// // SAFETY: three blocks of one thread. A `u32x4` is four words at a multiple of 16.
/// unsafe {
///     let mail = core::slice::from_raw_parts_mut(mail.as_mut_ptr().cast::<[u32; 4]>(), 2);
///     add_two::launch(&Executor::new(), LaunchConfig::new(3, 1), &mut out, mail)?;
/// }
/// assert_eq!(out, [12]);
/// # Ok::<(), cuda_std::launch::LaunchError>(())
/// ```
#[doc(alias = "ld.relaxed.gpu.v4")]
#[inline(always)]
#[track_caller]
pub unsafe fn wait_until_each<const N: usize>(
    words: [*const [u32; 4]; N],
    condition: impl Fn([u32; 4]) -> bool,
) -> [[u32; 4]; N] {
    // SAFETY: the caller guarantees valid pointers.
    unsafe { Watchdog::OFF.wait_until_each(words, condition) }
}

impl Watchdog {
    /// Same as [`wait_until`], but waits at most as long as this watchdog allows.
    ///
    /// # Safety
    /// Same as for [`wait_until`].
    ///
    /// # Panics
    /// Same as for [`wait_until`], and on the device if it takes longer.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn wait_until(
        self,
        word: *const u32,
        ordering: Ordering,
        condition: impl Fn(u32) -> bool,
    ) -> u32 {
        // SAFETY: the caller guarantees a valid pointer.
        let load = || unsafe { mid::atomic_load_32_device(word.cast_mut(), ordering) };
        self.wait("grid::wait_until", load, condition)
    }

    /// Same as [`wait_until_all`], but waits at most as long as this watchdog allows.
    ///
    /// # Safety
    /// Same as for [`wait_until_all`].
    ///
    /// # Panics
    /// Same as for [`wait_until_all`], and on the device if it takes longer.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn wait_until_all(
        self,
        words: *const [u32; 4],
        condition: impl Fn([u32; 4]) -> bool,
    ) -> [u32; 4] {
        // SAFETY: the caller guarantees a valid pointer.
        self.wait("grid::wait_until_all", || unsafe { super::load_all(words) }, condition)
    }

    /// Same as [`wait_until_each`], but waits at most as long as this watchdog allows.
    ///
    /// # Safety
    /// Same as for [`wait_until_each`].
    ///
    /// # Panics
    /// Same as for [`wait_until_each`], and on the device if it takes longer.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn wait_until_each<const N: usize>(
        self,
        words: [*const [u32; 4]; N],
        condition: impl Fn([u32; 4]) -> bool,
    ) -> [[u32; 4]; N] {
        // SAFETY: the caller guarantees valid pointers.
        let load = || words.map(|words| unsafe { super::load_all(words) });
        // Constant indices and no early exit keep the words in registers.
        self.wait("grid::wait_until_each", load, |words| {
            (0..N).fold(true, |all, i| all & condition(words[i]))
        })
    }
}
