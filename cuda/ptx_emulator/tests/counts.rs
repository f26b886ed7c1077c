//! Counts of launches: their sum, their source lines, and the order of turns. Figures of instructions: `cases/counts.txt`.

use crate::common::{Setup, module};
use cuda_std::launch::LaunchConfig;
use cuda_std::testing::counts::InstructionCounts;
use cuda_std::testing::{Counts, LaunchCounts};
use ptx_emulator::{Emulator, PtxModule, Turns};

fn counts(declarations: &str, body: &str, setup: Setup) -> LaunchCounts {
    setup.count(PtxModule::parse(&module(declarations, body)).unwrap())
}

#[test]
fn launches_add_up_and_those_that_fail_count_nothing() {
    let text = module("", "st.global.u32 [%out], 1;");
    let mut out = [0u32; 1];
    let mut emulator = Emulator::new(PtxModule::parse(&text).unwrap()).with_counts();
    let address = (&raw mut out).addr().to_le_bytes();
    // SAFETY: `out` outlives the launches, and no other code uses it.
    unsafe {
        emulator.lend(&mut out);
        emulator.launch("k", LaunchConfig::new(1, 32), &[&address]).unwrap();
        emulator.launch("k", LaunchConfig::new(3, 32), &[&address]).unwrap();
        emulator.launch("k", LaunchConfig::new(1, 32), &[&8u64.to_le_bytes()]).unwrap_err();
    }
    let launches = emulator.take_counts();
    assert_eq!(launches.iter().map(|one| one.total.global.stores.requests).collect::<Vec<_>>(), [1, 3]);
    let sum: LaunchCounts = launches.into_iter().sum();
    assert_eq!((sum.kernels, sum.total.global.stores.requests), (vec!["k".to_owned()], 4));
    let stores: Vec<_> =
        sum.instructions.iter().filter(|one| one.counts.global.stores.requests > 0).collect();
    assert_eq!((stores.len(), stores[0].counts.global.stores.requests), (1, 4));
}

#[test]
fn instructions_know_their_source() {
    // The places into which something was inlined were named before; line 0 is no line.
    let body = ".loc 1 5 1\n .loc 2 7 9, function_name text, inlined_at 1 5 1\n st.global.u32 [%out], 1;
        .loc 3 4 2, function_name text + 8, inlined_at 2 7 9\n st.global.u32 [%out], 2; st.global.u32 [%out], 3;
        .loc 1 0 0\n st.global.u32 [%out], 4;";
    let files = ".file 1 \"kernel.rs\"\n.file 2 \"a folder/helper.rs\", 0, 0\n.file 3 \"core.rs\"\n";
    let launch = counts(files, body, Setup { config: LaunchConfig::new(1, 32), ..Setup::new() });
    let is_store = |one: &&InstructionCounts| one.counts.global.stores.requests > 0;
    let source = |one: &InstructionCounts| {
        let lines: Vec<String> = one.source.iter().map(ToString::to_string).collect();
        lines.join(" in ")
    };
    let sources: Vec<String> = launch.instructions.iter().filter(is_store).map(source).collect();
    let (helper, core) =
        ("a folder/helper.rs:7 in kernel.rs:5", "core.rs:4 in a folder/helper.rs:7 in kernel.rs:5");
    assert_eq!(sources, [helper, core, core, ""]);
    assert_eq!(launch.of_source("helper.rs", 7).global.stores.requests, 3);
    // The load of the parameter comes before.
    assert_eq!(source(&launch.instructions[0]), "");
}

#[test]
fn the_order_of_turns_changes_nothing_and_the_whole_is_the_sum() {
    let body =
        "mov.u32 %r1, %laneid; setp.lt.u32 %p1, %r1, 16; @%p1 bra E; st.global.u32 [%out], 1; bra.uni D;
        E: st.global.u32 [%out], 2; D: st.global.u32 [%out], 3;";
    let of = |turns| counts("", body, Setup { config: LaunchConfig::new(2, 80), turns, ..Setup::new() });
    let ascending = of(Turns::Ascending);
    assert_eq!(of(Turns::Descending), ascending);
    let sum: Counts = ascending.instructions.iter().map(|one| one.counts).sum();
    assert_eq!((sum, ascending.kernels), (ascending.total, vec!["k".to_owned()]));
}
