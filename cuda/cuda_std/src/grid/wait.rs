//! Waits for words that other blocks store.

use core::sync::atomic::Ordering;

use super::Watchdog;
use crate::atomic::mid;

/// Waits until `condition` holds for the word, and returns what it held then.
///
/// With `Ordering::Acquire` the thread sees from then on what the thread that stored the word, by
/// [`store_release`](super::store_release), had done and seen before; with `Ordering::Relaxed` the word alone (PTX ISA,
/// `ld.acquire.gpu` and `ld.relaxed.gpu`). Which thread of a block waits is the kernel's affair: a barrier of the block
/// afterwards hands on what one thread has acquired.
///
/// On the device the thread loads the word again and again, as long as it takes: see [`Watchdog::wait_until`] for an end.
/// `condition` is asked any number of times, and depends on its argument alone.
///
/// # Safety
/// `word` is valid for reads and aligned, and until the wait is over accessed with atomic instructions alone.
///
/// # Panics
/// With other orderings. On the executor in a launch that is not cooperative.
///
/// # Examples
/// A ring: each block waits for the one before it, as long as that takes.
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
/// /// One word more than blocks of a thread each; the first is not zero, the others are.
/// #[kernel(cooperative)]
/// pub unsafe fn count_on(words: *mut u32) {
///     let block = thread::block_idx_x() as usize;
///     // SAFETY: the words are stored and loaded by these functions alone.
///     unsafe {
///         let before = grid::wait_until(words.add(block), Ordering::Relaxed, |word| word != 0);
///         grid::store_relaxed(words.add(block + 1), before + 1);
///     }
/// }
///
/// let mut words = [7, 0, 0, 0];
/// // SAFETY: a word more than blocks.
/// unsafe { count_on::launch(&Executor::new(), LaunchConfig::new(3, 1), &mut words) }?;
/// assert_eq!(words, [7, 8, 9, 10]);
/// # Ok::<(), cuda_std::launch::LaunchError>(())
/// ```
#[doc(alias = "ld.acquire.gpu", alias = "ld.relaxed.gpu")]
#[inline(always)]
#[track_caller]
pub unsafe fn wait_until(word: *const u32, ordering: Ordering, condition: impl Fn(u32) -> bool) -> u32 {
    // SAFETY: the caller's pointer.
    unsafe { Watchdog::OFF.wait_until(word, ordering, condition) }
}

/// Waits until `condition` holds for four words, which are loaded at once and in relaxed order, and returns them.
///
/// Each word is one that another thread has stored, and may be older or newer than its neighbour, so the condition must
/// check every word on its own.
///
/// # Safety
/// `words` is valid for reads and a multiple of 16 (the executor panics if it is not), and until the wait is over accessed
/// with atomic instructions alone, such as [`store_all`](super::store_all).
///
/// # Panics
/// On the executor in a launch that is not cooperative.
///
/// # Examples
/// Numbers that are not negative, with their sign as the flag of the round: nothing else orders them.
/// ```
/// use cuda_std::launch::LaunchConfig;
/// use cuda_std::mem::u32x4;
/// use cuda_std::simt::Executor;
/// use cuda_std::{grid, kernel, thread};
///
/// /// `out[b]` becomes the sum of the numbers that the other one of two blocks sends: 10 * block + 0, 1, 2 and 3.
/// ///
/// /// # Safety
/// /// Two blocks of a thread each; two elements of `mail`, all zero, and of `out`.
/// #[kernel(cooperative)]
/// pub unsafe fn exchange(out: *mut u32, mail: *mut [u32; 4]) {
///     const SENT: u32 = 1 << 31;
///     let block = thread::block_idx_x();
///     let (own, other) = (block as usize, 1 - block as usize);
///     // SAFETY: the words are stored and loaded by these functions alone.
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
    // SAFETY: the caller's pointer.
    unsafe { Watchdog::OFF.wait_until_all(words, condition) }
}

/// As [`wait_until_all`], for several times four words at once: each look loads all of them, so that their loads are under
/// way together, and the wait is over when the condition holds for each four.
///
/// # Safety
/// Same as for [`wait_until_all`], of each pointer.
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
/// /// The blocks but the last one send four times their number and 1, and the last one adds the numbers of two of them.
/// ///
/// /// # Safety
/// /// Three blocks of a thread each; an element of `out`, and two of `mail`, all zero.
/// #[kernel(cooperative)]
/// pub unsafe fn add_two(out: *mut u32, mail: *mut [u32; 4]) {
///     let block = thread::block_idx_x();
///     // SAFETY: the words are stored and loaded by these functions alone.
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
    // SAFETY: the caller's pointers.
    unsafe { Watchdog::OFF.wait_until_each(words, condition) }
}

impl Watchdog {
    /// As [`wait_until`], for as long as this watchdog allows.
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
        // SAFETY: the caller's pointer.
        let load = || unsafe { mid::atomic_load_32_device(word.cast_mut(), ordering) };
        self.wait("grid::wait_until", load, condition)
    }

    /// As [`wait_until_all`], for as long as this watchdog allows.
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
        // SAFETY: the caller's pointer.
        self.wait("grid::wait_until_all", || unsafe { super::load_all(words) }, condition)
    }

    /// As [`wait_until_each`], for as long as this watchdog allows.
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
        // SAFETY: the caller's pointers.
        let load = || words.map(|words| unsafe { super::load_all(words) });
        // Indices, and no early end: so that the words stay in registers.
        self.wait("grid::wait_until_each", load, |words| {
            (0..N).fold(true, |all, i| all & condition(words[i]))
        })
    }
}
