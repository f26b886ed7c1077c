//! The clock, counters and breakpoints.

/// Stops in the debugger; without one the kernel ends with an error.
///
/// # Panics
/// On the executor, which has no debugger to stop in.
#[doc(alias = "brkpt", alias = "__brkpt")]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn breakpoint() {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the instruction has no precondition.
    unsafe {
        core::arch::asm!("brkpt;", options(nostack, preserves_flags));
    }
    #[cfg(not(target_arch = "nvptx64"))]
    panic!("misc::breakpoint() works on a CUDA device only; on the CPU set the breakpoint in the debugger")
}

/// Ends the kernel with an error, and with it everything queued after it.
///
/// # Panics
/// On the executor, where the launch then answers with a fault that says so.
#[doc(alias = "__trap")]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn trap() -> ! {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the instruction ends the kernel; nothing runs after it.
    unsafe {
        core::arch::nvptx::trap()
    }
    #[cfg(not(target_arch = "nvptx64"))]
    panic!("trap")
}

/// Counts one event on the profiler's counter `counter`, 0 to 7. The executor counts nothing.
///
/// # Panics
/// If `counter` is over 7. The instruction takes a constant, so a `counter` known at compile time is one
/// instruction and any other a choice of eight.
#[doc(alias = "pmevent", alias = "__prof_trigger")]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn profiler_counter(counter: u32) {
    macro_rules! pmevent {
        ($number:literal) => {{
            #[cfg(target_arch = "nvptx64")]
            // SAFETY: the instruction has no precondition.
            unsafe {
                core::arch::asm!(concat!("pmevent ", $number, ";"), options(nostack, preserves_flags));
            }
        }};
    }
    match counter {
        0 => pmevent!(0),
        1 => pmevent!(1),
        2 => pmevent!(2),
        3 => pmevent!(3),
        4 => pmevent!(4),
        5 => pmevent!(5),
        6 => pmevent!(6),
        7 => pmevent!(7),
        _ => panic!("a profiler counter is 0 to 7"),
    }
}

/// The number of the multiprocessor that runs the thread (PTX ISA, `%smid`): a place to be looked at, not to be relied on,
/// for a block that is preempted may go on elsewhere, and the numbers may have gaps.
///
/// On the executor it is the number of the processor's thread that runs the block: 0 for the one that launched, which always
/// takes part, then those that help it. With [`Scheduler::Threads`](crate::simt::Scheduler::Threads), and on the emulator, where
/// one block runs after the other, it is 0.
///
/// # Panics
/// On the host outside of a kernel.
#[doc(alias = "%smid")]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn multiprocessor() -> u32 {
    #[cfg(target_arch = "nvptx64")]
    {
        let number;
        // SAFETY: reading the register has no precondition. It is not `pure`, for it may change.
        unsafe {
            core::arch::asm!("mov.u32 {}, %smid;", out(reg32) number, options(nostack, preserves_flags));
        }
        number
    }
    #[cfg(not(target_arch = "nvptx64"))]
    crate::simt::context::current("misc::multiprocessor", |_| crate::simt::worker())
}

/// The nanoseconds of a clock that all multiprocessors share. It goes by steps, of a microsecond or 32 nanoseconds (PTX ISA,
/// `%globaltimer`, whose resolution depends on the device). On the host they count from the process's first question.
#[doc(alias = "%globaltimer")]
#[inline(always)]
pub fn global_timer() -> u64 {
    #[cfg(target_arch = "nvptx64")]
    {
        let nanos;
        // SAFETY: reading the timer has no precondition. It is not `pure`, and may touch memory in the compiler's eyes, as
        // for `clock`.
        unsafe {
            core::arch::asm!("mov.u64 {}, %globaltimer;", out(reg64) nanos, options(nostack, preserves_flags));
        }
        nanos
    }
    #[cfg(not(target_arch = "nvptx64"))]
    clock()
}

/// A counter of the multiprocessor's clock cycles: differences within one thread measure time. On the host it
/// counts nanoseconds.
#[doc(alias = "%clock64", alias = "clock64")]
#[inline(always)]
pub fn clock() -> u64 {
    #[cfg(target_arch = "nvptx64")]
    {
        let cycles;
        // SAFETY: reading the counter has no precondition. It is not `pure`: every read is another value.
        // It may touch memory in the compiler's eyes, so that what is measured stays between two reads.
        unsafe {
            core::arch::asm!("mov.u64 {}, %clock64;", out(reg64) cycles, options(nostack, preserves_flags));
        }
        cycles
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        use std::sync::LazyLock;
        use std::time::Instant;
        static START: LazyLock<Instant> = LazyLock::new(Instant::now);
        START.elapsed().as_nanos() as u64
    }
}
