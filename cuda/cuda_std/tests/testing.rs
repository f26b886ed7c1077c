//! The test helper: the tests that it accepts, and its message for each kind of mistake.

use core::error::Error;
use core::sync::atomic::Ordering;
use std::process::Command;

use cuda_std::atomic::AtomicF32;
use cuda_std::launch::{KernelCall, LaunchConfig, LaunchError, Launcher, Residence};
use cuda_std::simt::Executor;
use cuda_std::testing::{Against, DeviceMemory, KernelTest, Run, TestDevice, TestError, Tolerance};
use cuda_std::{f16, kernel, shared_array, thread};

/// The number of threads per block in every launch here.
const BLOCK: usize = 64;

pub(crate) fn config(elements: usize) -> LaunchConfig {
    LaunchConfig::cover(elements, BLOCK as u32)
}

/// `out[i] = inp[i] * factor`, and one element further for every thread if `shift` is 1.
///
/// # Safety
/// `out` has the length of `inp`, unless the test is about its guards.
#[kernel]
pub unsafe fn scaled(out: *mut f32, inp: &[f32], factor: f32, shift: u32) {
    let i = thread::index_1d() as usize;
    if i < inp.len() {
        // SAFETY: the kernel's contract.
        unsafe { *out.add(i + shift as usize) = inp[i] * factor };
    }
}

/// Copies the neighbour's value within a block; the barrier between write and read is missing.
///
/// # Safety
/// Launched with whole blocks of 64 threads; `out` has the length of `inp`.
#[kernel]
pub unsafe fn neighbours(out: *mut u32, inp: &[u32]) {
    let tile = shared_array![u32; BLOCK];
    let (i, tid) = (thread::index_1d() as usize, thread::thread_idx_x() as usize);
    // SAFETY: inside the arrays.
    unsafe {
        *tile.add(tid) = inp[i];
        *out.add(i) = *tile.add(tid.saturating_sub(1));
    }
}

/// Adds `inp` to `out[0]`, in the order in which the threads run.
///
/// # Safety
/// `out` has an element.
#[kernel]
pub unsafe fn atomic_sum(out: *mut f32, inp: &[f32]) {
    let i = thread::index_1d() as usize;
    if i < inp.len() {
        // SAFETY: the kernel's contract; all threads add atomically.
        unsafe { AtomicF32::from_ptr(out).fetch_add(inp[i], Ordering::Relaxed) };
    }
}

/// Writes to a buffer that should be an input.
///
/// # Safety
/// `data` has an element.
#[kernel]
pub unsafe fn overwrite(data: *const u32) {
    // SAFETY: the memory belongs to the test.
    unsafe { *data.cast_mut() = 7 };
}

/// A test of `scaled` on 100 numbers, with the expected results.
fn scaled_test<'a>(
    shift: u32,
    expected: &[f32],
    describe: impl FnOnce(&mut KernelTest<'a>),
) -> Result<(), TestError> {
    let numbers: Vec<f32> = (0..100).map(|i| i as f32).collect();
    let mut test = KernelTest::new();
    let (inp, out) = (test.input("inp", &numbers), test.output("out", &[0.0f32; 100]));
    test.expect(out, expected);
    describe(&mut test);
    let results = test.run(|on, memory| {
        // SAFETY: both have 100 elements; with a shift the guard takes the last one.
        unsafe { scaled::launch(on, config(100), memory.output(out), memory.input(inp), 0.5, shift) }
    })?;
    assert_eq!(results.of(out), expected);
    Ok(())
}

fn halves() -> Vec<f32> {
    (0..100).map(|i| i as f32 / 2.0).collect()
}

#[test]
fn right_results_pass_everywhere() {
    let device = Executor::new();
    scaled_test(0, &halves(), |test| {
        test.seeds(0..5).also_on(Some(&device));
    })
    .unwrap();
}

#[test]
fn a_mismatch_names_buffer_index_values_error_tolerance_and_number() {
    let mut expected = halves();
    (expected[3], expected[70]) = (1.25, 0.0);
    let error = scaled_test(0, &expected, |_| ()).unwrap_err();
    assert_eq!(
        format!("{error:?}"),
        "`out` of kernel scaled on the CPU differs from the expectation: 2 of 100 elements differ; the first: [3] is 1.5, \
         not 1.25: off by 2.500e-1, allowed 5.960e-7; the worst: [70] is 35.0, not 0.0: off by 3.500e1, allowed 1.175e-38"
    );
}

/// Writes half of a tile in shared memory, and copies all of it to `out`.
///
/// # Safety
/// One block of 64 threads; `out` has 64 elements.
#[kernel]
pub unsafe fn half_a_tile(out: *mut f32) {
    let (tile, tid) = (shared_array![f32; BLOCK], thread::thread_idx_x() as usize);
    // SAFETY: inside the arrays; nothing orders the accesses, since each thread has its own element.
    unsafe {
        if tid < BLOCK / 2 {
            *tile.add(tid) = 1.0;
        }
        *out.add(tid) = *tile.add(tid);
    }
}

#[test]
#[cfg_attr(miri, ignore = "Miri ends the program itself")]
fn unwritten_shared_memory_is_called_so() {
    let mut test = KernelTest::new();
    let out = test.output("out", &[0.0f32; BLOCK]);
    test.expect(out, &[1.0; BLOCK]);
    // SAFETY: a block for 64 elements.
    let run = test.run(|on, memory| unsafe {
        half_a_tile::launch(on, LaunchConfig::new(1, BLOCK as u32), memory.output(out))
    });
    assert_eq!(
        run.unwrap_err().to_string(),
        "`out` of kernel half_a_tile on the CPU differs from the expectation: 32 of 64 elements differ; the first: [32] \
         is NaN, not 1.0: off by inf, allowed 4.768e-7 (all its bits are 1, as in shared memory that no thread wrote)"
    );
}

#[test]
#[cfg_attr(miri, ignore = "Miri ends the program itself")]
fn a_write_beyond_the_end_names_its_thread() {
    let error = scaled_test(1, &halves(), |_| ()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "on the CPU kernel scaled, block (1, 0, 0), thread (35, 0, 0) wrote to byte 400 of `out`, which has 400 bytes; \
         compare the index with the length first"
    );
}

/// A device does not distinguish threads. It distinguishes kernels as far as it can.
#[test]
#[cfg_attr(miri, ignore = "Miri ends the program itself")]
fn a_device_s_write_beyond_the_end_names_the_kernels() {
    let device = Faulty { executor: Executor::new(), fails: false };
    let on_device = |further: bool| {
        let mut test = KernelTest::new();
        let (out, other) = (test.scratch("out", &[0.0f32; 100]), test.scratch("other", &[0u32]));
        let shift = core::cell::Cell::new(0);
        test.also_on(Some(&device));
        test.run(|on, memory| {
            // The first run is on the CPU.
            let inp = [0.0f32; 100];
            // SAFETY: both have 100 elements; on the device the guard takes the last one.
            unsafe {
                if further {
                    overwrite::launch(on, config(1), memory.output(other))?;
                }
                scaled::launch(on, config(100), memory.output(out), &inp, 0.5, shift.replace(1))
            }
        })
        .unwrap_err()
        .to_string()
    };
    assert!(on_device(false).starts_with("on a faulty GPU kernel scaled wrote to byte 400 of `out`"));
    assert!(on_device(true).starts_with("on a faulty GPU kernel overwrite or scaled wrote to byte 400"));
}

#[test]
fn an_expectation_of_another_length_is_refused() {
    let error = scaled_test(0, &halves()[..99], |_| ()).unwrap_err();
    assert_eq!(error.to_string(), "`out` has 100 elements, but 99 are expected");
}

#[test]
fn a_changed_input_is_found() {
    let mut test = KernelTest::new();
    let data = test.input("data", &[1u32, 2]);
    // SAFETY: the memory belongs to the test, and only one thread writes it.
    let run =
        test.run(|on, memory| unsafe { overwrite::launch(on, LaunchConfig::new(1, 1), memory.input(data)) });
    let error = run.unwrap_err().to_string();
    assert_eq!(
        error,
        "on the CPU kernel overwrite, block (0, 0, 0), thread (0, 0, 0) changed the input `data` at byte 0; make it an \
         output if it should"
    );
}

fn neighbours_test(seeds: u64) -> Result<(), TestError> {
    let numbers: Vec<u32> = (0..128).map(|i| i * 3 + 1).collect();
    let expected: Vec<u32> =
        (0..128).map(|i: usize| numbers[if i.is_multiple_of(BLOCK) { i } else { i - 1 }]).collect();
    let mut test = KernelTest::new();
    let (inp, out) = (test.input("inp", &numbers), test.output("out", &[0u32; 128]));
    test.expect(out, &expected).seeds(0..seeds);
    // SAFETY: two blocks of 64 threads for 128 elements.
    test.run(|on, memory| unsafe {
        neighbours::launch(on, config(128), memory.output(out), memory.input(inp))
    })?;
    Ok(())
}

#[test]
fn a_missing_barrier_is_found_under_a_seed_and_replays() {
    const NAME: &str = "testing::a_missing_barrier_is_found_under_a_seed_and_replays";
    if std::env::var_os("FERROWARP_SEED").is_some() {
        // The process that the test starts below.
        println!("[{}]", neighbours_test(0).unwrap_err());
        return;
    }
    neighbours_test(0).unwrap();
    let error = neighbours_test(8).unwrap_err();
    let TestError::Mismatch { run: Run::Seeded(seed), against: Against::Expectation, .. } = error else {
        panic!("{error}");
    };
    let cure = format!("replay with FERROWARP_SEED={seed:#x}");
    assert!(error.to_string().contains(&cure), "{error}");
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", NAME, "--nocapture"]).env("FERROWARP_SEED", seed.to_string());
    let printed = String::from_utf8(command.output().unwrap().stdout).unwrap();
    assert!(printed.contains(&format!("[{error}]")), "{printed}");
}

#[test]
fn an_order_that_changes_bits_is_found_unless_it_may() {
    let numbers: Vec<f32> = (0..500).map(|i| 1.0 / (i as f32 + 0.7)).collect();
    let sum: f64 = numbers.iter().map(|&x| f64::from(x)).sum();
    let run = |may_depend: bool| {
        let mut test = KernelTest::new();
        let (inp, out) = (test.input("inp", &numbers), test.output("sum", &[0.0f32]));
        test.expect(out, &[sum as f32]).seeds(0..10);
        test.tolerance(out, Tolerance::of::<f32>().and_sum::<f32>(numbers.len(), sum));
        if may_depend {
            test.may_depend_on_order();
        }
        // SAFETY: `out` has one element.
        let run = |on: &dyn Launcher, memory: &cuda_std::testing::Memory<'_>| unsafe {
            atomic_sum::launch(on, config(500), memory.output(out), memory.input(inp))
        };
        test.run(run).map(drop)
    };
    match run(false).unwrap_err() {
        TestError::Mismatch { run: Run::Seeded(_), against: Against::FirstRun, .. } => {}
        other => panic!("{other}"),
    }
    run(true).unwrap();
}

#[test]
fn faults_and_refused_launches_say_where() {
    let mut test = KernelTest::new();
    let out = test.scratch("out", &[f16::ONE; 8]);
    let launch = |threads: u32| {
        test.run(|on, memory| {
            let (pointer, inp) = (memory.output(out), [0.0f32; 1]);
            let _ = pointer;
            // SAFETY: nothing runs, or nothing is written.
            unsafe { scaled::launch(on, LaunchConfig::new(1, threads), &mut [0.0f32; 1], &inp, 1.0, 0) }
        })
    };
    launch(32).unwrap();
    let error = launch(2000).unwrap_err();
    assert_eq!(error.to_string(), "the launch on the CPU failed");
    let told = format!("{error:?}");
    assert!(told.starts_with("the launch on the CPU failed: launch of scaled failed: the block"), "{told}");
    assert_eq!(told.matches("the block (2000").count(), 1, "{told}");
}

/// The CPU as a device that flips a bit of every download, or fails.
struct Faulty {
    executor: Executor,
    fails: bool,
}

struct FaultyMemory {
    memory: Box<dyn DeviceMemory>,
    fails: bool,
}

impl Launcher for Faulty {
    unsafe fn submit(&self, call: &KernelCall<'_>) -> Result<(), LaunchError> {
        // SAFETY: the caller's contract is the callee's.
        unsafe { self.executor.submit(call) }
    }
}

impl TestDevice for Faulty {
    fn name(&self) -> String {
        "a faulty GPU".to_owned()
    }
    fn upload(&self, bytes: &[u8]) -> Result<Box<dyn DeviceMemory>, Box<dyn Error + Send + Sync>> {
        Ok(Box::new(FaultyMemory { memory: self.executor.upload(bytes)?, fails: self.fails }))
    }
}

// SAFETY: the inner memory keeps the contract.
unsafe impl DeviceMemory for FaultyMemory {
    fn pointer(&self) -> *mut u8 {
        self.memory.pointer()
    }
    fn residence(&self) -> Residence {
        self.memory.residence()
    }
    fn download(&self, bytes: &mut [u8]) -> Result<(), Box<dyn Error + Send + Sync>> {
        if self.fails {
            return Err("it fell off the bus".into());
        }
        self.memory.download(bytes)?;
        let middle = bytes.len() / 2;
        // The highest byte of an element, so the error is large.
        bytes[middle / 4 * 4 + 3] ^= 0x20;
        Ok(())
    }
}

#[test]
fn a_device_that_computes_something_else_is_found() {
    let numbers = [1.0f32; 100];
    let run = |expect: bool, fails: bool| {
        let device = Faulty { executor: Executor::new(), fails };
        let mut test = KernelTest::new();
        let (out, inp) = (test.output("out", &[0.0f32; 100]), numbers);
        if expect {
            test.expect(out, &[0.5; 100]);
        }
        test.also_on(Some(&device));
        // SAFETY: both have 100 elements.
        test.run(|on, memory| unsafe { scaled::launch(on, config(100), memory.output(out), &inp, 0.5, 0) })
            .unwrap_err()
    };
    let run = |expect, fails| format!("{:?}", run(expect, fails));
    let error = run(true, false);
    assert!(
        error.starts_with("`out` of kernel scaled on a faulty GPU differs from the expectation: 1 of 100"),
        "{error}"
    );
    let error = run(false, false);
    assert!(
        error.starts_with(
            "`out` of kernel scaled on a faulty GPU differs from the first run on the CPU: 1 of 100"
        ),
        "{error}"
    );
    assert_eq!(run(true, true), "on a faulty GPU: reading `out` failed: it fell off the bus");
}
