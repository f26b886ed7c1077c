//! The kernel on the CPU, in a fixed order and under 20 shuffled ones.

use cuda_std::launch::LaunchConfig;
use cuda_std::testing::{KernelTest, TestError, Tolerance};
use {crate}_kernels::row_sums_64;

#[test]
fn sums_are_those_of_a_loop() -> Result<(), TestError> {
    for (rows, cols) in [(1, 1), (3, 31), (2, 64), (5, 257)] {
        let numbers: Vec<f32> = (0..rows * cols).map(|i| (i % 17) as f32 - 8.3).collect();
        let expected: Vec<f32> = numbers.chunks(cols).map(|row| row.iter().sum()).collect();

        let mut test = KernelTest::new();
        let inp = test.input("inp", &numbers);
        let sums = test.output("sums", &vec![f32::NAN; rows]);
        // The kernel adds in another order than the loop.
        let tolerance = Tolerance::of::<f32>().and_sum::<f32>(cols, cols as f64 * 8.7);
        test.expect(sums, &expected).tolerance(sums, tolerance).seeds(0..20);
        test.run(|on, memory| {
            let config = LaunchConfig::new(rows as u32, 64);
            // SAFETY: a block of 64 threads for each row, and a sum for each.
            unsafe { row_sums_64::launch(on, config, memory.output(sums), memory.input(inp), cols as u32) }
        })?;
    }
    Ok(())
}
