//! Blocks that wait for each other, as PTX of both back ends: what they compute, and how waits in vain end.

use crate::common::kernels::emulators;
use cuda_std::launch::{LaunchConfig, LaunchError, Launcher, Limits};
use cuda_std::mem::u32x4;
use cuda_std::panic_record::PanicRecord;
use cuda_std::simt::Executor;
use ptx_emulator_kernels::grids::*;

/// Runs a launch on the executor, and on every emulator; all must give what is `expected`.
fn all_give(
    start: &[u32],
    expected: &[u32],
    launch: impl Fn(&dyn Launcher, &mut [u32]) -> Result<(), LaunchError>,
) {
    let mut host = start.to_vec();
    launch(&Executor::new(), &mut host).unwrap();
    assert_eq!(host, expected, "on the executor");
    for emulator in emulators() {
        let mut device = start.to_vec();
        launch(&emulator, &mut device).unwrap();
        assert_eq!(device, expected, "as PTX");
    }
}

#[test]
fn the_barrier_of_a_grid() {
    let (blocks, threads) = (5, 40);
    let len = blocks * threads;
    let start: Vec<u32> = (0..2 * len as u32).collect();
    let round = |row: &[u32]| -> Vec<u32> {
        let sums: Vec<u32> = row.chunks(threads).map(|row| row.iter().sum::<u32>() + 1).collect();
        (0..len).map(|i| sums[(i / threads + 1) % blocks]).collect()
    };
    let second = round(&start[..len]);
    let expected = [round(&second), second].concat();
    all_give(&start, &expected, |on, rows| {
        // The counter serves two launches, of which the second is of other blocks.
        let mut counter = [0];
        let config = LaunchConfig::new(blocks as u32, threads as u32);
        // SAFETY: two rows for all threads of either launch.
        unsafe {
            grid_rounds::launch(on, LaunchConfig::new(2, 3), &mut rows.to_vec(), &mut counter)?;
            grid_rounds::launch(on, config, rows, &mut counter)
        }
    });
}

#[test]
fn chains_of_blocks() {
    let expected: Vec<u32> = (4..4 + 9).collect();
    all_give(&[0; 9], &expected, |on, data| {
        // SAFETY: an element and a flag for each block.
        unsafe { grid_chain::launch(on, LaunchConfig::new(9, 33), data, &mut vec![0; 9], 3) }
    });
    all_give(&[0; 9], &expected, |on, data| {
        // SAFETY: as above.
        unsafe { grid_relaxed_chain::launch(on, LaunchConfig::new(9, 1), data, 3) }
    });
}

#[test]
fn vectors_of_words() {
    let blocks = 6;
    let sum = (0..blocks as u32).map(|block| 40 * block + 6).sum();
    all_give(&[0; 6], &[sum; 6], |on, out| {
        let mut mail = vec![u32x4::splat(0); blocks * blocks];
        // SAFETY: a vector is four words at a multiple of 16; one for each pair.
        unsafe {
            let mail = core::slice::from_raw_parts_mut(mail.as_mut_ptr().cast(), mail.len());
            grid_all_to_all::launch(on, LaunchConfig::new(blocks as u32, 32), out, mail)
        }
    });
}

#[test]
fn clusters_of_a_cooperative_grid() {
    all_give(&[0; 6], &[3, 3, 2, 2, 1, 1], |on, out| {
        let config = LaunchConfig::new(6, 33).with_cluster(2);
        // SAFETY: as many elements as blocks and clusters.
        unsafe { grid_of_clusters::launch(on, config, out, &mut [0; 3]) }
    });
}

#[test]
fn a_watchdog_ends_a_wait_in_vain_with_a_panic() {
    for mut emulator in emulators() {
        let mut record = [PanicRecord::empty()];
        let address = record.as_mut_ptr();
        // SAFETY: the record outlives the launch, and it is read only after it.
        unsafe { emulator.lend(&mut record) };
        emulator.set_global("__ferrowarp_panic_slot", &(address.addr() as u64).to_le_bytes()).unwrap();
        let (mut data, mut flags) = (vec![0; 5], vec![0; 5]);
        // SAFETY: an element and a flag for each block.
        let result =
            unsafe { grid_chain::launch(&emulator, LaunchConfig::new(5, 32), &mut data, &mut flags, 0) };
        let error = result.unwrap_err().to_string();
        assert!(error.contains("kernel grid_chain, block [4, 0, 0], thread [0, 0, 0]: trap"), "{error}");
        // SAFETY: the launch has ended.
        let record = unsafe { address.read() };
        assert_eq!((record.state, record.block, record.thread), (PanicRecord::COMPLETE, [4, 0, 0], [0; 3]));
        let waited = "waited for the number of the block before longer than the 50000000 ns of its watchdog";
        assert_eq!(record.message(), waited);
        let line =
            include_str!("kernels/src/grids.rs").lines().position(|line| line.contains("WATCHDOG.wait"));
        assert_eq!(Some(record.line as usize), line.map(|line| line + 1));
        assert!(record.file().ends_with("grids.rs"), "{}", record.file());
        assert_eq!(data, [1, 2, 3, 4, 0]);
    }
}

#[test]
fn a_wait_in_vain_without_a_watchdog_is_an_error() {
    for emulator in emulators() {
        let mut data = vec![0; 4];
        // SAFETY: an element for each block.
        let result = unsafe { grid_relaxed_chain::launch(&emulator, LaunchConfig::new(4, 2), &mut data, 0) };
        let error = result.unwrap_err().to_string();
        assert!(
            error.contains("kernel grid_relaxed_chain") && error.contains("no thread can continue"),
            "{error}"
        );
    }
}

#[test]
fn a_grid_that_cannot_be_resident_is_refused() {
    for emulator in emulators() {
        let limits = Limits { max_resident_threads: 100, ..emulator.limits().clone() };
        let (emulator, mut data) = (emulator.with_limits(limits), vec![0; 4]);
        // SAFETY: an element for each block.
        let result = unsafe { grid_relaxed_chain::launch(&emulator, LaunchConfig::new(4, 32), &mut data, 1) };
        assert!(matches!(result, Err(LaunchError::NotResident { got: 4, fit: 3, .. })), "{result:?}");
        assert_eq!(data, [0; 4]);
    }
}
