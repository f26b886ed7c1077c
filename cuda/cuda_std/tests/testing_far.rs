//! Accesses of kernels far beyond the buffers of a test, and threads that wait after one.

use crate::testing::{config, scaled};
use cuda_std::launch::LaunchConfig;
use cuda_std::testing::{Access, KernelTest, Run, TestError};
use cuda_std::{kernel, thread};

#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "only on Linux there is more than the guards")]
#[cfg_attr(miri, ignore = "Miri ends the program itself")]
fn an_access_far_beyond_names_its_thread() {
    // Beyond the guards, on both sides, as far as the zones go.
    for (at, writes) in [(1 << 12, true), (-1 << 12, true), (1 << 24, false), (-(1 << 24), false)] {
        let mut test = KernelTest::new();
        let out = test.output("out", &[0.0f32; 100]);
        let run = |seeds: u64, test: &mut KernelTest<'_>| {
            test.seeds(0..seeds).run(|on, memory| {
                let (config, writes) = (LaunchConfig::new(3, 64), u32::from(writes));
                // SAFETY: the memory around the buffer belongs to the test.
                unsafe { far::launch(on, config, memory.output(out), at * 4, writes) }
            })
        };
        for seeds in [0, 1] {
            let error = run(seeds, &mut test).unwrap_err();
            let TestError::OutOfBounds { buffer, run: Run::Cpu, origin, access, byte, len: 400, .. } = &error
            else {
                panic!("{error}");
            };
            let did = if writes { Access::Write } else { Access::Read };
            assert!(*access == did || *access == Access::Unknown, "{error}");
            assert_eq!((buffer.as_str(), *byte), ("out", at * 4), "{error}");
            assert_eq!(origin.to_string(), "kernel far, block (2, 0, 0), thread (9, 0, 0)");
        }
    }
}

/// One thread writes past the end and waits for the others, which all end before that.
///
/// # Safety
/// A block of 64 threads.
#[kernel]
pub unsafe fn early(out: *mut f32, len: u32) {
    let tid = thread::thread_idx_x();
    if tid == 63 {
        // SAFETY: the guard takes the write.
        unsafe { *out.add(len as usize) = 1.0 };
    }
    thread::sync_threads();
}

#[test]
#[cfg_attr(miri, ignore = "Miri ends the program itself")]
fn a_thread_that_waits_after_its_write_is_named() {
    let mut test = KernelTest::new();
    let out = test.output("out", &[0.0f32; 100]);
    // SAFETY: the guard takes the write.
    let run = test.run(|on, memory| unsafe {
        scaled::launch(on, config(100), memory.output(out), &[0.0f32; 100], 0.5, 0)?;
        early::launch(on, LaunchConfig::new(2, 64), memory.output(out), 100)
    });
    let error = run.unwrap_err().to_string();
    let thread = "thread (63, 0, 0) wrote to byte 400 of `out`";
    assert!(error.starts_with("on the CPU kernel early, block (") && error.contains(thread), "{error}");
}

/// One thread writes to byte `at` of `out`, or reads there, at any distance.
///
/// # Safety
/// The memory there belongs to the test.
#[kernel]
pub unsafe fn far(out: *mut f32, at: isize, writes: u32) {
    if thread::index_1d() == 2 * 64 + 9 {
        let to = out.wrapping_byte_offset(at);
        // SAFETY: the kernel's contract.
        unsafe { if writes == 1 { to.write_volatile(1.0) } else { *out = to.read_volatile() } };
    }
}
