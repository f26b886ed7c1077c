//! What goes wrong: each failure ends all ranks within the time limit, with the documented message.

use std::time::Duration;

use ferrowarp::collective::{Communicator, Reduction, World};
use ferrowarp::device::Device;

use super::{CHILD, Ended, LIMIT, ended, start};

/// What a rank does: five operations, or what `ROLE` says. Prints how it ended.
fn rank() {
    let world = World::from_environment().unwrap();
    let role = std::env::var("ROLE").unwrap_or_default();
    let is_odd_one = world.rank() == 1;
    let work = || {
        let device = Device::cpu();
        let communicator = Communicator::connect(&world, &device)?;
        let stream = device.default_stream();
        let mut sums = device.upload(&[1.0f32; 4]).unwrap();
        for step in 1..=5 {
            if is_odd_one && step == 3 {
                match role.as_str() {
                    "leaves" => return Ok(()),
                    "aborts" => {
                        communicator.abort();
                        return Ok(());
                    }
                    "panics" => panic!("an error of the program's own"),
                    "stops" => {
                        let own = std::process::id().to_string();
                        std::process::Command::new("kill").args(["-STOP", &own]).status().unwrap();
                    }
                    _ => {}
                }
            }
            communicator.all_reduce(&stream, &mut sums, Reduction::Sum)?;
        }
        communicator.synchronize(&stream)
    };
    match work() {
        Ok(()) => println!("ENDED WELL"),
        Err(error) => println!("ENDED WITH {error} END"),
    }
}

/// The ranks of a world of four, with these variables; rank 1 is the odd one.
fn world(test: &str, variables: &[(&str, &str)], stuck: &[usize]) -> Option<Vec<Ended>> {
    if std::env::var_os(CHILD).is_some() {
        rank();
        return None;
    }
    Some(ended(start(&format!("failures::{test}"), &[0, 1, 2, 3], 4, variables), stuck))
}

/// All ranks except 1 end in time and name it so.
fn others_report(ended: &[Ended], operation: &str, expected: &str) {
    for (rank, ended) in ended.iter().enumerate().filter(|(rank, _)| *rank != 1) {
        let expected = format!("ENDED WITH {operation} failed on rank {rank} of 4: {expected}");
        assert!(ended.output.contains(&expected), "expected {expected}; rank {rank}: {ended:?}");
        // A busy machine takes its time to start processes.
        assert!(ended.time < LIMIT + Duration::from_secs(60), "rank {rank}: {ended:?}");
    }
}

const SUM: &str = "all_reduce of 4 f32 (sum)";

#[test]
fn a_rank_that_dies_is_named() {
    let Some(ended) = world("a_rank_that_dies_is_named", &[("FAKE_NCCL_FAULT", "die:1:3")], &[]) else {
        return;
    };
    assert_eq!(ended[1].code, Some(9), "{ended:?}");
    others_report(&ended, SUM, "rank 1 has ended: its connection is closed; see the output of rank 1 END");
}

#[test]
fn rank_0_that_dies_is_named() {
    let Some(ended) = world("rank_0_that_dies_is_named", &[("FAKE_NCCL_FAULT", "die:0:3")], &[]) else {
        return;
    };
    for (rank, ended) in ended.iter().enumerate().skip(1) {
        let expected =
            format!("{SUM} failed on rank {rank} of 4: rank 0 has ended: its connection is closed");
        assert!(ended.output.contains(&expected), "rank {rank}: {ended:?}");
    }
}

#[test]
fn a_rank_that_hangs_is_named() {
    let Some(ended) = world("a_rank_that_hangs_is_named", &[("FAKE_NCCL_FAULT", "hang:1:3")], &[1]) else {
        return;
    };
    others_report(
        &ended,
        SUM,
        "rank 1 hangs or computes for longer than the time limit: it has begun 2 operations, and others wait in the next",
    );
}

#[test]
fn an_operation_that_never_ends_is_given_up() {
    let variables = [("FAKE_NCCL_FAULT", "stall:1:3")];
    let Some(ended) = world("an_operation_that_never_ends_is_given_up", &variables, &[]) else { return };
    others_report(&ended, SUM, "it did not end within 6s, though all ranks have begun it; check the GPUs");
    assert!(ended[1].output.contains("though all ranks have begun it"), "{ended:?}");
}

#[test]
fn an_error_of_nccl_is_named_on_its_rank_and_on_the_others() {
    let test = "an_error_of_nccl_is_named_on_its_rank_and_on_the_others";
    if std::env::var_os(CHILD).is_some() {
        return rank();
    }
    for (fault, code) in [
        ("fail:1:3:2", "ncclSystemError (2): unhandled system error (run with NCCL_DEBUG=INFO for details)"),
        ("async:1:3:6", "ncclRemoteError (6): remote process exited or there was a network error"),
    ] {
        let Some(ended) = world(test, &[("FAKE_NCCL_FAULT", fault)], &[]) else { return };
        others_report(&ended, SUM, "rank 1 has failed; see the output of rank 1 END");
        let expected = format!(
            "ENDED WITH {SUM} failed on rank 1 of 4: {code}; NCCL's last error: the fake was told to fail; NCCL_DEBUG=WARN"
        );
        assert!(ended[1].output.contains(&expected), "{ended:?}");
    }
}

#[test]
fn an_error_of_the_creation_is_named() {
    let variables = [("FAKE_NCCL_FAULT", "fail:1:0:2")];
    let Some(ended) = world("an_error_of_the_creation_is_named", &variables, &[]) else { return };
    others_report(&ended, "creating a communicator", "rank 1 has failed; see the output of rank 1");
    assert!(
        ended[1]
            .output
            .contains("ENDED WITH creating a communicator failed on rank 1 of 4: ncclSystemError (2)"),
        "{ended:?}"
    );
}

#[test]
fn a_rank_that_leaves_is_named() {
    let Some(ended) = world("a_rank_that_leaves_is_named", &[("ROLE", "leaves")], &[]) else { return };
    others_report(
        &ended,
        SUM,
        "rank 1 has dropped its communicator; let all ranks perform the same operations",
    );
}

#[test]
fn a_rank_that_aborts_or_panics_is_named() {
    if std::env::var_os(CHILD).is_some() {
        return rank();
    }
    for role in ["aborts", "panics"] {
        let Some(ended) = world("a_rank_that_aborts_or_panics_is_named", &[("ROLE", role)], &[]) else {
            return;
        };
        others_report(&ended, SUM, "rank 1 has failed; see the output of rank 1 END");
    }
}

#[test]
fn a_rank_whose_process_is_stopped_is_named() {
    let Some(ended) = world("a_rank_whose_process_is_stopped_is_named", &[("ROLE", "stops")], &[1]) else {
        return;
    };
    for (rank, ended) in ended.iter().enumerate().filter(|(rank, _)| *rank != 1) {
        let text = &ended.output;
        // Whether the silence or the missing operation is noticed first depends on the moment.
        assert!(
            text.contains(&format!("{SUM} failed on rank {rank} of 4: rank 1 is silent"))
                || text.contains(&format!("{SUM} failed on rank {rank} of 4: rank 1 hangs")),
            "rank {rank}: {ended:?}"
        );
    }
}

#[test]
fn a_missing_rank_is_named() {
    if std::env::var_os(CHILD).is_some() {
        return rank();
    }
    let variables = [("FERROWARP_JOIN_SECONDS", "8")];
    let started = start("failures::a_missing_rank_is_named", &[0, 3], 4, &variables);
    for ended in ended(started, &[]) {
        assert!(ended.output.contains("ranks 1 and 2 of 4 did not connect within 8s"), "{ended:?}");
    }
}

/// The output of a rank that has this library.
fn with_library(test: &str, variables: &[(&str, &str)]) -> String {
    ended(start(&format!("failures::{test}"), &[0], 2, variables), &[]).remove(0).output
}

#[test]
fn a_library_that_is_missing_too_old_or_incomplete_is_named() {
    let test = "a_library_that_is_missing_too_old_or_incomplete_is_named";
    if std::env::var_os(CHILD).is_some() {
        return rank();
    }
    let output = with_library(test, &[("FERROWARP_NCCL", "/nowhere/libnccl.so.2")]);
    for expected in [
        "ENDED WITH loading NCCL from /nowhere/libnccl.so.2 failed: ",
        "No such file or directory; install NCCL 2.18.0 or later",
        "or set FERROWARP_NCCL to the path of libnccl.so.2 END",
    ] {
        assert!(output.contains(expected), "{output}");
    }
    let output = with_library(test, &[("FAKE_NCCL_VERSION", "21705")]);
    let expected =
        "libfakenccl.so is NCCL 2.17.5, and 2.18.0 is the oldest supported version; install a later one";
    assert!(output.contains(expected), "{output}");
    let folder = tempfile::tempdir().unwrap();
    let library = super::support::build_fake_nccl(folder.path(), &["--cfg", "without_finalize"]);
    let output = with_library(test, &[("FERROWARP_NCCL", library.to_str().unwrap())]);
    let expected = "libfakenccl.so has no function ncclCommFinalize, so it is not a complete NCCL";
    assert!(output.contains(expected), "{output}");
}
