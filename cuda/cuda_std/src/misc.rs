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

/// Ends the kernel and everything queued after it with an error.
///
/// # Panics
/// On the executor, where the launch then returns a fault that reports the trap.
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
/// If `counter` is over 7. The instruction takes a constant, so a `counter` known at compile time costs one
/// instruction, any other a choice of eight.
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

/// Returns the number of the multiprocessor that runs the thread (PTX ISA, `%smid`). Do not rely on it: a preempted
/// block may continue on another multiprocessor, and the numbers may have gaps.
///
/// On the executor it is the number of the OS thread that runs the block: 0 for the launching thread, which always
/// takes part, then its helpers. It is 0 with [`Scheduler::Threads`](crate::simt::Scheduler::Threads), and on the
/// emulator, which runs one block after the other.
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
        // SAFETY: reading the register has no precondition. It is not `pure`, since it may change.
        unsafe {
            core::arch::asm!("mov.u32 {}, %smid;", out(reg32) number, options(nostack, preserves_flags));
        }
        number
    }
    #[cfg(not(target_arch = "nvptx64"))]
    crate::simt::context::current("misc::multiprocessor", |_| crate::simt::worker())
}

/// Returns the nanoseconds of a clock that all multiprocessors share. Its resolution depends on the device: a
/// microsecond or 32 nanoseconds (PTX ISA, `%globaltimer`). On the host they count from the process's first call.
#[doc(alias = "%globaltimer")]
#[inline(always)]
pub fn global_timer() -> u64 {
    #[cfg(target_arch = "nvptx64")]
    {
        let nanos;
        // SAFETY: reading the timer has no precondition. It is not `pure`, and for the compiler it may access memory,
        // as for `clock`.
        unsafe {
            core::arch::asm!("mov.u64 {}, %globaltimer;", out(reg64) nanos, options(nostack, preserves_flags));
        }
        nanos
    }
    #[cfg(not(target_arch = "nvptx64"))]
    clock()
}

/// Returns the multiprocessor's count of clock cycles: differences within one thread measure time. On the host it
/// counts nanoseconds.
#[doc(alias = "%clock64", alias = "clock64")]
#[inline(always)]
pub fn clock() -> u64 {
    #[cfg(target_arch = "nvptx64")]
    {
        let cycles;
        // SAFETY: reading the counter has no precondition. It is not `pure`: every read returns another value. For the
        // compiler it may access memory, so the measured code stays between two reads.
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
