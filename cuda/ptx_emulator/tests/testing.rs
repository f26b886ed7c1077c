//! A `KernelTest` on the emulator: an access beyond a buffer or to an input names kernel, block and thread.

use crate::common::module;
use cuda_std::launch::{LaunchConfig, LaunchError, Limits};
use cuda_std::testing::KernelTest;
use cuda_std::{kernel, thread};
use ptx_emulator::{Emulator, PtxModule};

/// On the CPU as it should be; the PTX of the tests is something else.
///
/// # Safety
/// As many elements as threads.
#[kernel]
pub unsafe fn k(out: *mut u32) {
    let i = thread::index_1d();
    // SAFETY: the kernel's contract.
    unsafe { *out.add(i as usize) = i };
}

/// # Safety
/// None is needed; it does nothing.
#[kernel(cpu_only)]
pub unsafe fn on_the_cpu() {}

/// What the test says if thread `i` writes to element `i + shift`.
fn told(shift: u32) -> Option<String> {
    let body = format!(
        "mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x; mad.lo.u32 %r3, %r1, 32, %r2; add.u32 %r4, %r3, {shift};
         mul.wide.u32 %rd1, %r4, 4; add.u64 %rd2, %out, %rd1; st.global.u32 [%rd2], %r3;"
    );
    let device = Emulator::new(PtxModule::parse(&module("", &body)).unwrap());
    let mut test = KernelTest::new();
    let out = test.output("out", &[0u32; 64]);
    test.also_on(Some(&device));
    // SAFETY: as many elements as threads; beyond them the emulator lets nothing be written.
    let run = test.run(|on, memory| unsafe { k::launch(on, LaunchConfig::new(2, 32), memory.output(out)) });
    run.err().map(|error| format!("{error:?}"))
}

#[test]
fn a_kernel_for_the_cpu_is_refused() {
    let emulator = || Emulator::new(PtxModule::parse(&module("", "")).unwrap());
    // The limits of the executor do not make it one.
    for emulator in [emulator(), emulator().with_limits(Limits::default())] {
        // SAFETY: the kernel does nothing.
        let error = unsafe { on_the_cpu::launch(&emulator, LaunchConfig::new(1, 1)) }.unwrap_err();
        assert!(matches!(error, LaunchError::CpuOnly { kernel: "on_the_cpu" }), "{error}");
    }
}

#[test]
fn a_write_beyond_a_buffer_names_the_thread() {
    assert_eq!(told(0), None);
    for (shift, block, thread) in [(1, 1, 31), (40, 0, 24), (1 << 20, 0, 0)] {
        let told = told(shift).unwrap();
        assert!(told.starts_with("the launch on the PTX emulator failed: "), "{told}");
        let place = format!("kernel k, block [{block}, 0, 0], thread [{thread}, 0, 0]: store of 4 bytes");
        assert!(told.contains("outside of every allocation of global memory"), "{told}");
        assert!(told.contains(&place), "{told}");
    }
}

#[test]
fn what_is_counted_is_compared_too() {
    let body = "mov.u32 %r1, %tid.x; mad.wide.u32 %rd1, %r1, 4, %out; st.global.u32 [%rd1], %r1;";
    let device = Emulator::new(PtxModule::parse(&module("", body)).unwrap());
    let count = |expected: u32| {
        let mut test = KernelTest::new();
        let out = test.output("out", &[0u32; 32]);
        test.expect(out, &(expected..expected + 32).collect::<Vec<_>>());
        // SAFETY: as many elements as threads.
        test.count(&device, |on, memory| unsafe {
            k::launch(on, LaunchConfig::new(1, 32), memory.output(out))?;
            k::launch(on, LaunchConfig::new(1, 32), memory.output(out))
        })
    };
    let counts = count(0).unwrap();
    assert_eq!((counts.kernels, counts.total.global.stores.sectors), (vec!["k".to_owned()], 2 * 4));
    let error = count(1).unwrap_err().to_string();
    assert!(
        error.starts_with("`out` of kernel k on the PTX emulator differs from the expectation: 32 of 32"),
        "{error}"
    );
}
