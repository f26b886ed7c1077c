//! Kernels as a user writes them, built by `cuda_builder` and counted by a test: figures follow from shapes.

use crate::common::kernels::emulators;
use cuda_std::launch::LaunchConfig;
use cuda_std::testing::counts::{GlobalRequests, SharedRequests};
use cuda_std::testing::{Counter, Counts, KernelTest, LaunchCounts};
use ptx_emulator_kernels::costs::*;

/// Rows and columns of the matrix: two tiles.
const SIZE: usize = 2 * TILE;
/// Warps: each has a row of a tile, and its place in the transpose.
const WARPS: u64 = (SIZE * SIZE / 32) as u64;

/// What a kernel does that transposes a matrix.
macro_rules! count {
    ($emulator:expr, $kernel:ident) => {
        on!($emulator, count, $kernel).unwrap()
    };
}

/// Tests the kernel by `$run` on an emulator.
macro_rules! on {
    ($emulator:expr, $run:ident, $kernel:ident) => {{
        let numbers: Vec<f32> = (0..SIZE * SIZE).map(|i| i as f32).collect();
        let transposed: Vec<f32> = (0..SIZE * SIZE).map(|i| numbers[i % SIZE * SIZE + i / SIZE]).collect();
        let mut test = KernelTest::new();
        let inp = test.input("inp", &numbers);
        let out = test.output("out", &[0.0f32; SIZE * SIZE]);
        test.expect(out, &transposed);
        test.$run($emulator, |on, memory| {
            let config = LaunchConfig::new((2, 2), (TILE as u32, TILE as u32));
            // SAFETY: two tiles along x and y.
            unsafe { $kernel::launch(on, config, memory.output(out), memory.input(inp), SIZE as u32) }
        })
    }};
}

/// Requests of all warps, each of 32 floats, which touch `sectors` sectors and `lines` lines.
fn of_floats(sectors: u64, lines: u64) -> GlobalRequests {
    let (requests, bytes) = (WARPS, WARPS * 128);
    GlobalRequests {
        requests,
        sectors: WARPS * sectors,
        lines: WARPS * lines,
        ideal_sectors: WARPS * 4,
        bytes,
    }
}

/// Requests of all warps, each of 32 floats, in `passes` passes.
fn in_passes(passes: u64) -> SharedRequests {
    let (requests, bytes) = (WARPS, WARPS * 128);
    SharedRequests { requests, wavefronts: WARPS * passes, ideal_wavefronts: WARPS, bytes }
}

#[test]
fn a_column_costs_a_sector_an_element() {
    for emulator in emulators() {
        let total = count!(&emulator, transpose_by_columns).total;
        assert_eq!(total.global.loads, of_floats(4, 1));
        // A column's elements lie 256 bytes apart.
        assert_eq!(total.global.stores, of_floats(32, 32));
        assert_eq!((total.global.total().sectors_per_request(), total.bank_conflicts()), (18.0, 0));
        assert_eq!((total.global.stores.efficiency(), total.efficiency()), (0.125, 1.0));
        assert_eq!(total.branches.divergent, 0);
    }
}

#[test]
fn a_tile_costs_conflicts_and_a_padded_one_nothing() {
    for emulator in emulators() {
        let tile = count!(&emulator, transpose_by_tile).total;
        let padded = count!(&emulator, transpose_by_padded_tile).total;
        for total in [tile, padded] {
            assert_eq!((total.global.loads, total.global.stores), (of_floats(4, 1), of_floats(4, 1)));
            assert_eq!((total.shared.stores, total.collectives.barriers), (in_passes(1), WARPS));
        }
        // A column of the tile lies in one bank.
        assert_eq!((tile.shared.loads, padded.shared.loads), (in_passes(32), in_passes(1)));
        assert_eq!((tile.bank_conflicts(), padded.bank_conflicts()), (31 * WARPS, 0));
    }
}

#[test]
fn lines_of_the_source_have_their_share() {
    let source = include_str!("kernels/src/costs.rs");
    let line_of = |text: &str| source.lines().position(|line| line.contains(text)).unwrap() as u32 + 1;
    let mut has_callers = false;
    for emulator in emulators() {
        let counts = count!(&emulator, transpose_by_columns);
        let of = |text: &str| counts.of_source("tests/kernels/src/costs.rs", line_of(text)).global;
        assert_eq!(of("// read a row").total(), counts.total.global.loads);
        assert_eq!(of("// write a column").total(), counts.total.global.stores);
        assert_eq!(counts.of_source("other.rs", 1).global.total(), GlobalRequests::default());
        assert_eq!(counts.of_text("st.global").global.total(), counts.total.global.stores);
        // What is inlined belongs to its caller too, which libNVVM names.
        let tile = count!(&emulator, transpose_by_tile);
        let of = |text: &str| tile.of_source("tests/kernels/src/costs.rs", line_of(text));
        assert_eq!(of("*out.add((block_x + y)").shared.loads, tile.total.shared.loads);
        if tile.instructions.iter().any(|one| one.source.len() > 1) {
            let caller = of("transpose_by(tile, TILE, out");
            assert_eq!((caller.global, caller.shared), (tile.total.global, tile.total.shared));
            has_callers = true;
        }
        assert_eq!(of("transpose_by(tile, TILE + 1, out"), Counts::default());
    }
    assert!(has_callers);
}

#[test]
fn who_gives_an_emulator_away_keeps_the_counter() {
    for emulator in emulators() {
        let alone = count!(&emulator, transpose_by_tile);
        let counter = Counter::new();
        let emulator = emulator.with_counter(&counter);
        let run = || on!(&emulator, run_on, transpose_by_tile).map(|_| ());
        std::thread::scope(|scope| {
            [scope.spawn(run), scope.spawn(run)].map(|run| run.join().unwrap().unwrap())
        });
        let launches = counter.take();
        assert_eq!(launches, [alone.clone(), alone.clone()]);
        assert_eq!(emulator.take_counts(), []);
        // A test that counts on its own leaves nothing behind.
        assert_eq!(
            (count!(&emulator, transpose_by_tile), counter.take()),
            (alone, Vec::<LaunchCounts>::new())
        );
    }
}
