//! Clusters: ranks, the barrier in two halves, shared memory of other blocks, and what is refused.

use crate::common::{fault, module, run_module};
use cuda_std::launch::{LaunchConfig, LaunchError, Limits};
use ptx_emulator::{Cause, Emulator, EmulatorError, PtxModule, Turns};

const SYNC: &str = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;";
const MAP: &str = "mov.u64 %rd1, tile; cvta.shared.u64 %rd2, %rd1; mapa.u64 %rd3, %rd2,";

fn cluster_module(body: &str) -> String {
    module(".shared .align 8 .b8 tile[64];", body).replace("sm_75", "sm_90")
}

fn config(blocks: u32, threads: u32, cluster: u32) -> LaunchConfig {
    LaunchConfig::new(blocks, threads).with_cluster(cluster)
}

fn cause_of(body: &str, config: LaunchConfig) -> Cause {
    fault(&cluster_module(body), config, &mut [0u32; 64]).0
}

#[test]
fn blocks_write_to_each_other() {
    // Block `r` of `n` writes 10 * ctaid to place `r` of block `(r + 1) % n`, which stores it at out[ctaid].
    let body = format!(
        "barrier.cluster.arrive.relaxed.aligned;
         mov.u32 %r1, %cluster_ctarank; mov.u32 %r2, %cluster_nctarank; mov.u32 %r3, %ctaid.x;
         add.u32 %r4, %r1, 1; rem.u32 %r4, %r4, %r2; mul.lo.u32 %r5, %r3, 10;
         {MAP} %r4; mad.wide.u32 %rd4, %r1, 4, %rd3;
         barrier.cluster.wait.aligned; st.u32 [%rd4], %r5; {SYNC}
         add.u32 %r6, %r1, %r2; sub.u32 %r6, %r6, 1; rem.u32 %r6, %r6, %r2;
         mad.wide.u32 %rd5, %r6, 4, %rd1; ld.shared.u32 %r7, [%rd5];
         mad.wide.u32 %rd6, %r3, 4, %out; st.global.u32 [%rd6], %r7;"
    );
    for turns in [Turns::Ascending, Turns::Descending] {
        for size in [1, 2, 5, 16] {
            let mut out = vec![0u32; 2 * size as usize];
            let module = PtxModule::parse(&cluster_module(&body)).unwrap();
            let mut emulator = Emulator::new(module).with_turns(turns);
            let address = out.as_mut_ptr().addr() as u64;
            // SAFETY: `out` outlives the launch, and no other code uses it.
            unsafe {
                emulator.lend(&mut out);
                emulator.launch("k", config(2 * size, 3, size), &[&address.to_le_bytes()]).unwrap();
            }
            let expected = |i: u32| 10 * (i / size * size + (i % size + size - 1) % size);
            assert!(out.iter().enumerate().all(|(i, &x)| x == expected(i as u32)), "{size}: {out:?}");
        }
    }
}

#[test]
fn rounds_of_the_barrier_count_all_threads() {
    // Every thread adds to out[0]; between the rounds each sees the whole sum.
    let body = format!(
        "atom.global.add.u32 %r1, [%out], 1; {SYNC} ld.global.u32 %r2, [%out]; {SYNC}
         atom.global.add.u32 %r1, [%out], 1; {SYNC} ld.global.u32 %r3, [%out];
         sub.u32 %r4, %r3, %r2; atom.global.max.u32 %r5, [%out+4], %r4;"
    );
    let mut out = [0u32; 2];
    run_module(&cluster_module(&body), config(4, 40, 4), &mut out).unwrap();
    assert_eq!(out, [320, 160]);
}

#[test]
fn a_thread_that_does_not_come() {
    let half = format!("mov.u32 %r1, %ctaid.x; setp.eq.u32 %p1, %r1, 1; @%p1 exit; {SYNC}");
    let Cause::ClusterBarrier { block, missing, instead } = cause_of(&half, config(2, 2, 2)) else {
        panic!()
    };
    assert_eq!((block, missing), ([1, 0, 0], [0, 0, 0]));
    assert!(instead.starts_with("has exited"), "{instead}");

    let two = format!("mov.u32 %r1, %ctaid.x; setp.eq.u32 %p1, %r1, 1; @%p1 bra B; {SYNC} exit; B: {SYNC}");
    let Cause::ClusterBarrier { instead, .. } = cause_of(&two, config(2, 2, 2)) else { panic!() };
    assert!(instead.starts_with("waits"), "{instead}");
}

#[test]
fn halves_of_the_barrier_in_a_wrong_order() {
    for (body, reason) in [
        ("barrier.cluster.wait.aligned;", "without barrier.cluster.arrive"),
        ("barrier.cluster.arrive; barrier.cluster.arrive;", "after an arrival that was not waited for"),
    ] {
        let Cause::Cluster(text) = cause_of(body, config(2, 1, 2)) else { panic!("{body}") };
        assert!(text.contains(reason), "{text}");
    }
}

#[test]
fn shared_memory_of_others_has_a_life_and_bounds() {
    let other = "mov.u32 %r1, %cluster_ctarank; xor.b32 %r2, %r1, 1;";
    let before = format!("{other} {MAP} %r2; st.u32 [%rd3], 1; {SYNC}");
    let after = format!(
        "{other} {MAP} %r2; {SYNC} setp.eq.u32 %p1, %r1, 0; @%p1 exit; ld.u32 %r3, [%rd3]; st.global.u32 [%out], %r3;"
    );
    for (body, reason) in [(before, "may not have started"), (after, "has exited")] {
        let Cause::Cluster(text) = cause_of(&body, config(2, 1, 2)) else { panic!("{body}") };
        assert!(text.contains(reason), "{text}");
    }
    let outside = format!("{other} {MAP} %r2; {SYNC} st.u32 [%rd3+64], 1; {SYNC}");
    assert!(matches!(cause_of(&outside, config(2, 1, 2)), Cause::OutOfBounds { .. }));
    let beyond = format!("mov.u32 %r2, 2; {MAP} %r2;");
    // What fails to compute an address leaves a register without a value, or stops at once.
    assert!(matches!(cause_of(&beyond, config(2, 1, 2)), Cause::Cluster(_)));
    let global = "mov.u32 %r2, 1; mapa.u64 %rd3, %out, %r2;";
    assert!(matches!(cause_of(global, config(2, 1, 2)), Cause::WrongSpace { .. }));
}

#[test]
fn launches_that_are_refused() {
    let odd = run_module(&cluster_module(""), config(3, 1, 2), &mut [0u32]);
    assert!(matches!(odd, Err(EmulatorError::Cluster { grid: 3, cluster: 2, .. })), "{odd:?}");

    let limits = |text: &str| Emulator::new(PtxModule::parse(text).unwrap()).limits().clone();
    let newest = limits(&cluster_module(""));
    assert_eq!((newest.max_cluster, newest.capability), (16, 90));
    let old = limits(&module("", ""));
    assert_eq!((old.max_cluster, old.capability), (1, 75));
    let error = old.check("k", &config(2, 1, 2)).unwrap_err();
    assert!(matches!(error, LaunchError::ClusterSize { got: 2, max: 1, .. }), "{error}");
    assert_eq!(Limits::default().max_cluster, 16);
}
