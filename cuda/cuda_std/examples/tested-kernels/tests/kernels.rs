//! Compares the kernels with plain loops: on the CPU, and again under twenty schedules.
//!
//! On a machine with a GPU, add its device: `test.also_on(Some(&device))`.

use cuda_std::launch::LaunchConfig;
use cuda_std::testing::{KernelTest, TestError, Tolerance};
use tested_kernels::{BINS, THREADS, block_sums, histogram};

/// Lengths with full and with partly filled blocks and warps.
const LENGTHS: [usize; 5] = [1, 31, 256, 257, 1000];

#[test]
fn sums_of_blocks() -> Result<(), TestError> {
    for len in LENGTHS {
        let numbers: Vec<f32> = (0..len).map(|i| (i % 17) as f32 - 8.3).collect();
        let expected: Vec<f32> = numbers.chunks(THREADS).map(|block| block.iter().sum()).collect();

        let mut test = KernelTest::new();
        let inp = test.input("inp", &numbers);
        let sums = test.output("sums", &vec![f32::NAN; expected.len()]);
        // The kernel adds in a different order from the loop, so allow for 256 additions of numbers up to 8.7.
        let tolerance = Tolerance::of::<f32>().and_sum::<f32>(THREADS, THREADS as f64 * 8.7);
        test.expect(sums, &expected).tolerance(sums, tolerance).seeds(0..20);
        test.run(|on, memory| {
            let config = LaunchConfig::cover(len, THREADS as u32);
            // SAFETY: blocks of `THREADS` threads, and one sum per block.
            unsafe { block_sums::launch(on, config, memory.output(sums), memory.input(inp)) }
        })?;
    }
    Ok(())
}

#[test]
fn histogram_adds_to_what_is_there() -> Result<(), TestError> {
    for len in LENGTHS {
        let numbers: Vec<u32> = (0..len as u32).map(|i| i.wrapping_mul(2_654_435_761) >> 7).collect();
        let mut expected = [5u32; BINS];
        numbers.iter().for_each(|&number| expected[number as usize % BINS] += 1);

        let mut test = KernelTest::new();
        let inp = test.input("inp", &numbers);
        let counts = test.output("counts", &[5u32; BINS]);
        test.expect(counts, &expected).seeds(0..20);
        test.run(|on, memory| {
            let config = LaunchConfig::cover(len, 96);
            // SAFETY: one count per bin.
            unsafe { histogram::launch(on, config, memory.output(counts), memory.input(inp)) }
        })?;
    }
    Ok(())
}
