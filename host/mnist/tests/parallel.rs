//! `train-mnist` on several devices: processes on the CPU, with an NCCL that works on host memory.

mod common;
#[path = "../../tests/support/nccl.rs"]
mod support;

use std::process::{Child, Command};

use common::networks::largest_difference;
use common::{Place, started_with, stopped, succeeds, words};
use ferrowarp_mnist::checkpoint;
use ferrowarp_mnist::model::Parameters;

/// Settings of a run of a few steps; the last batch of an epoch has 57 images, so ranks have unequal parts.
const RUN: &str = "--hidden 20,12 --momentum 0.5 --pipeline deferred";

/// `train-mnist` with the fake NCCL. Ranks that die leave their sockets in `TMPDIR`; a busy machine needs the long limit.
fn train(place: &Place, more: &str) -> Command {
    let mut command = place.train(&words(more));
    command.env("FERROWARP_NCCL", support::fake_nccl()).env("TMPDIR", place.path(""));
    command.env("FERROWARP_COLLECTIVE_SECONDS", "60");
    command
}

fn on(place: &Place, gpus: u32, more: &str) -> String {
    succeeds(train(place, &format!("{RUN} --gpus {gpus} {more}")))
}

/// Checks that weights differ only by the order in which gradients are added.
fn assert_near(one: &Parameters, other: &Parameters) {
    let far = largest_difference(one, other);
    assert!(far > 0.0 && far < 1e-4, "{far}");
}

#[test]
fn several_ranks_train_what_one_trains() {
    let place = Place::with_idx();
    let text = on(&place, 1, "--epochs 2 --save one");
    assert!(!text.contains("train together"), "{text}");
    for gpus in [2, 4] {
        let text = on(&place, gpus, &format!("--epochs 2 --save {gpus}"));
        assert!(text.contains(&format!("one of {gpus} processes that train together")), "{text}");
        assert_eq!(text.matches("test accuracy").count(), 3, "{text}");
        // From run to run the same bits.
        on(&place, gpus, "--epochs 2 --save again");
        assert_eq!(place.read(&gpus.to_string()), place.read("again"));
        assert_near(&parameters(&place, "one"), &parameters(&place, &gpus.to_string()));
    }
}

/// Two operations a step: the gradients of the second layer alone have more than a megabyte.
#[test]
fn gradients_of_wide_layers_are_added_up_separately() {
    let place = Place::with_idx();
    for gpus in [1, 2] {
        let flags = "--hidden 400,700 --pipeline deferred --epochs 1 --batch-size 100";
        succeeds(train(&place, &format!("{flags} --gpus {gpus} --save {gpus}")));
    }
    assert_near(&parameters(&place, "1"), &parameters(&place, "2"));
}

fn parameters(place: &Place, name: &str) -> Parameters {
    checkpoint::load(&place.path(name)).unwrap().parameters
}

#[test]
fn a_run_is_resumed_with_any_number_of_ranks() {
    let place = Place::with_idx();
    on(&place, 2, "--epochs 2 --checkpoint c --checkpoint-every 7");
    on(&place, 2, "--epochs 3 --save whole");
    for gpus in [1, 2, 4] {
        let flags = format!("--resume c --epochs 3 --gpus {gpus} --checkpoint c{gpus} --save {gpus}");
        let text = succeeds(train(&place, &flags));
        assert!(text.contains("continuing from"), "{text}");
    }
    assert_eq!(place.read("2"), place.read("whole"));
    assert_ne!(place.read("4"), place.read("whole"));
}

#[test]
fn processes_of_a_launcher_train_together() {
    let place = Place::with_idx();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port() - 1;
    let start = |rank: &str| -> Child {
        // What torchrun sets.
        let mut command = train(&place, &format!("{RUN} --epochs 2 --save launched"));
        command.envs([
            ("RANK", rank),
            ("LOCAL_RANK", rank),
            ("WORLD_SIZE", "2"),
            ("MASTER_ADDR", "127.0.0.1"),
        ]);
        command.env("MASTER_PORT", port.to_string()).spawn().unwrap()
    };
    let ranks = ["0", "1"].map(start);
    for (child, rank) in ranks.into_iter().zip(0..) {
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(text.is_empty(), rank == 1, "{text}");
    }
    on(&place, 2, "--epochs 2 --save started");
    assert_eq!(place.read("launched"), place.read("started"));
}

#[test]
fn a_rank_that_fails_ends_the_run_with_its_number() {
    let place = Place::with_idx();
    let mut command = train(&place, &format!("{RUN} --gpus 2"));
    command.env("FAKE_NCCL_FAULT", "die:1:9");
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("failed on rank 0 of 2: rank 1 has ended: its connection is closed"), "{text}");
}

#[test]
fn limits_as_long_as_any_work() {
    let place = Place::with_idx();
    for gpus in [1, 2] {
        let mut command = train(&place, &format!("{RUN} --gpus {gpus} --epochs 1"));
        command.env("FERROWARP_COLLECTIVE_SECONDS", "1e19").env("FERROWARP_JOIN_SECONDS", "1e19");
        assert!(succeeds(command).contains("test accuracy"));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_signal_to_one_rank_ends_all_with_its_code() {
    let place = Place::with_idx();
    let mut run = train(&place, &format!("{RUN} --gpus 2 --epochs 1000000 --save w"));
    let (child, _output) = started_with(&mut run, "epoch");
    let pid = child.id();
    let ranks = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    let killed = Command::new("kill").arg("-TERM").arg(ranks.trim()).status().unwrap();
    assert!(killed.success(), "{ranks}");
    let (code, message) = stopped(child);
    assert_eq!(code, Some(143), "{message}");
    assert!(message.contains("interrupted"), "{message}");
}

#[test]
fn settings_that_several_ranks_cannot_train_with_are_refused() {
    let place = Place::with_idx();
    for (flags, says) in [
        ("--gpus 2 --pipeline fused", "--pipeline fused cannot be used | naive or deferred"),
        ("--gpus 4 --batch-size 3", "--batch-size 3 cannot be used | choose at least 4"),
        ("--gpus 2 --profile", "--profile works on one device, not on 2"),
        ("--gpus 0", "--gpus"),
    ] {
        place.refuses(train(&place, flags), &says.split(" | ").collect::<Vec<_>>());
    }
    let mut launched = train(&place, "--gpus 3");
    launched.envs([("RANK", "0"), ("LOCAL_RANK", "0"), ("WORLD_SIZE", "2"), ("MASTER_ADDR", "127.0.0.1")]);
    place.refuses(launched, &["--gpus 3 cannot be used: the launcher has started 2 processes"]);
    let mut without = place.train(&["--gpus", "2"]);
    without.env("FERROWARP_NCCL", "/nowhere/libnccl.so.2").env("FERROWARP_COLLECTIVE_SECONDS", "5");
    let output = without.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && text.contains("loading NCCL from /nowhere/libnccl.so.2 failed"),
        "{text}"
    );
}
