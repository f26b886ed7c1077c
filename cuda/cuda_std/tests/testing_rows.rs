//! The test helper on matrices with gaps between rows, on unwritten outputs, and on one device only.

use core::error::Error;
use core::sync::atomic::{AtomicUsize, Ordering};

use cuda_std::launch::{KernelCall, LaunchConfig, LaunchError, Launcher};
use cuda_std::simt::Executor;
use cuda_std::testing::{DeviceMemory, KernelTest, Layout, Results, Run, TestDevice, TestError};
use cuda_std::{f16, kernel, thread};

/// `out = inp + 1`, `[rows, cols]` with `stride` elements from one row to the next. Each block has one row.
///
/// # Safety
/// Matrices of that shape; launched with blocks of 32 threads.
#[kernel]
pub unsafe fn increment_rows(out: *mut f32, inp: *const f32, cols: u32, stride: u32) {
    let (row, mut col) = (thread::block_idx_x(), thread::thread_idx_x());
    while col < cols {
        let at = (row * stride + col) as usize;
        // SAFETY: an element of the row.
        unsafe { *out.add(at) = *inp.add(at) + 1.0 };
        col += 32;
    }
}

const LAYOUT: Layout = Layout::dense(3, 40).with_stride(45).with_offset(3);

fn numbers() -> Vec<f32> {
    (0..LAYOUT.len()).map(|i| i as f32).collect()
}

/// Runs the kernel on rows of `cols` columns in the layout [`LAYOUT`].
fn increment(
    test: &mut KernelTest<'_>,
    cols: u32,
    run: impl Fn(&KernelTest<'_>, &Launch<'_>) -> Result<Results, TestError>,
) -> Result<Vec<f32>, TestError> {
    let inp = test.input_at("inp", &numbers(), LAYOUT);
    let out = test.unwritten::<f32>("out", LAYOUT);
    test.expect(out, &numbers().iter().map(|x| x + 1.0).collect::<Vec<_>>());
    let results = run(test, &|on, memory| {
        let (out, inp) = (memory.output(out), memory.input(inp));
        // SAFETY: three rows; columns beyond them lie between the rows or in a guard.
        unsafe { increment_rows::launch(on, LaunchConfig::new(3, 32), out, inp, cols, 45) }
    })?;
    Ok(results.of(out))
}

type Launch<'a> = dyn Fn(&dyn Launcher, &cuda_std::testing::Memory<'_>) -> Result<(), LaunchError> + 'a;

#[test]
fn rows_that_lie_apart_are_given_and_read_one_after_the_other() {
    let incremented: Vec<f32> = numbers().iter().map(|x| x + 1.0).collect();
    let device = Executor::new();
    let mut test = KernelTest::new();
    test.seeds(0..2).also_on(Some(&device));
    assert_eq!(increment(&mut test, 40, |test, launch| test.run(launch)).unwrap(), incremented);
    let alone = increment(&mut KernelTest::new(), 40, |test, launch| test.run_on(&Executor::new(), launch));
    assert_eq!(alone.unwrap(), incremented);
}

#[test]
fn in_place_the_rows_are_an_output_with_a_value() {
    let mut test = KernelTest::new();
    let matrix = test.output_at("matrix", &numbers(), LAYOUT);
    let results = test.run(|on, memory| {
        // SAFETY: both are the same matrix, with three rows.
        unsafe {
            let (out, inp) = (memory.output(matrix), memory.output(matrix));
            increment_rows::launch(on, LaunchConfig::new(3, 32), out, inp, 40, 45)
        }
    });
    assert_eq!(results.unwrap().of(matrix)[119], 120.0);
}

#[test]
#[cfg_attr(miri, ignore = "Miri ends the program itself")]
fn a_write_between_the_rows_names_its_thread() {
    let error = increment(&mut KernelTest::new(), 41, |test, launch| test.run(launch)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "on the CPU kernel increment_rows, block (0, 0, 0), thread (8, 0, 0) wrote to byte 160 of `out`, between its \
         rows; compare the column with the columns first"
    );
    // Past the last row it is beyond the buffer.
    let one_row = Layout { rows: 1, ..LAYOUT };
    let mut test = KernelTest::new();
    let out = test.output_at("out", &[0.0f32; 40], one_row);
    let error = test.run(|on, memory| {
        let (out, inp) = (memory.output(out), &[0.0f32; 41]);
        // SAFETY: the guard takes the last element.
        unsafe { increment_rows::launch(on, LaunchConfig::new(1, 32), out, inp, 41, 0) }
    });
    let error = error.unwrap_err().to_string();
    assert!(error.contains("wrote to byte 160 of `out`, which has 160 bytes"), "{error}");
}

#[test]
#[cfg_attr(miri, ignore = "Miri ends the program itself")]
fn a_write_before_the_first_row_is_before_the_buffer() {
    let mut test = KernelTest::new();
    let out = test.output_at("out", &[0.0f32; 40], Layout { rows: 1, ..LAYOUT });
    let error = test.run(|on, memory| {
        let (out, inp) = (memory.output(out), &[0.0f32; 3]);
        let mut out = out;
        let before = cuda_std::launch::PtrMutArg::as_raw_mut_ptr(&mut out).wrapping_sub(2);
        // SAFETY: the two elements that the offset leaves.
        let before = unsafe { core::slice::from_raw_parts_mut(before, 1) };
        // SAFETY: the guard takes the write before the first row.
        unsafe { increment_rows::launch(on, LaunchConfig::new(1, 32), before, inp, 1, 0) }
    });
    let error = error.unwrap_err().to_string();
    assert!(error.contains("wrote to byte -8 of `out`"), "{error}");
}

#[test]
#[cfg_attr(miri, ignore = "Miri ends the program itself")]
fn what_nobody_wrote_is_found_where_it_is_a_float() {
    let error = increment(&mut KernelTest::new(), 39, |test, launch| test.run(launch)).unwrap_err();
    let told = "nothing wrote element 39 of `out`; make the grid cover it, or initialise it";
    assert_eq!(error.to_string(), format!("on the CPU {told}"));
    let on = Executor::new();
    let error = increment(&mut KernelTest::new(), 39, |test, launch| test.run_on(&on, launch)).unwrap_err();
    assert!(matches!(error, TestError::Unwritten { run: Run::Device(_), index: 39, .. }), "{error}");
    // All `f16` are NaN before; an integer may keep its value.
    let mut test = KernelTest::new();
    let halves = test.unwritten::<f16>("halves", Layout::dense(1, 2));
    let error = test.run_on(&on, |_, _| Ok(())).unwrap_err();
    assert!(matches!(&error, TestError::Unwritten { buffer, index: 0, .. } if buffer == "halves"), "{error}");
    let mut test = KernelTest::new();
    test.unwritten::<u32>("integers", Layout::dense(1, 2));
    test.run_on(&on, |_, _| Ok(())).unwrap();
    let _ = halves;
}

#[test]
fn elements_that_do_not_lie_so_are_refused() {
    let refused = |layout: Layout| {
        let mut test = KernelTest::new();
        test.input_at("inp", &[0.0f32; 6], layout);
        test.run_on(&Executor::new(), |_, _| Ok(())).unwrap_err().to_string()
    };
    assert_eq!(
        refused(Layout::dense(2, 4)),
        "`inp` cannot have 6 elements as 2 rows of 4 columns, one every 4 elements; expected rows * columns elements \
         and a stride of at least the columns"
    );
    for layout in [
        Layout::dense(2, 3).with_stride(2),
        Layout::dense(2, 3).with_stride(usize::MAX),
        Layout::dense(2, 3).with_offset(usize::MAX),
        Layout::dense(usize::MAX, 3),
    ] {
        assert!(refused(layout).starts_with("`inp` cannot have 6 elements as "), "{layout:?}");
    }
    let mut test = KernelTest::new();
    let out = test.unwritten::<f32>("out", Layout::dense(usize::MAX, usize::MAX));
    assert!(matches!(test.run(|_, _| Ok(())), Err(TestError::Layout { .. })));
    let mut nothing = KernelTest::new();
    for layout in
        [Layout::dense(0, 0), Layout::dense(0, 3), Layout::dense(3, 0).with_stride(2).with_offset(1)]
    {
        nothing.unwritten::<f32>("nothing", layout);
    }
    nothing.run(|_, _| Ok(())).unwrap();
    let _ = out;
}

/// The CPU as a device that notes the size of its uploads.
struct Counting(Executor, AtomicUsize);

impl Launcher for Counting {
    unsafe fn submit(&self, call: &KernelCall<'_>) -> Result<(), LaunchError> {
        // SAFETY: the caller's contract is the callee's.
        unsafe { self.0.submit(call) }
    }
}

impl TestDevice for Counting {
    fn name(&self) -> String {
        "a counting device".to_owned()
    }
    fn upload(&self, bytes: &[u8]) -> Result<Box<dyn DeviceMemory>, Box<dyn Error + Send + Sync>> {
        self.1.store(bytes.len(), Ordering::Relaxed);
        self.0.upload(bytes)
    }
}

/// So compute-sanitizer and Miri detect reads beyond it.
#[test]
fn on_a_device_the_memory_of_an_input_ends_with_it() {
    let device = Counting(Executor::new(), AtomicUsize::new(0));
    let uploaded = |is_input: bool| {
        let mut test = KernelTest::new();
        if is_input {
            test.input_at("inp", &numbers(), LAYOUT);
        } else {
            test.output_at("out", &numbers(), LAYOUT);
        }
        test.run_on(&device, |_, _| Ok(())).unwrap();
        device.1.load(Ordering::Relaxed)
    };
    let guard = if cfg!(miri) { 0 } else { 4096 };
    assert_eq!(uploaded(true), guard + (LAYOUT.offset + LAYOUT.span()) * 4);
    assert_eq!(uploaded(false) > uploaded(true), !cfg!(miri));
}
