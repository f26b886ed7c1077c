//! The pipeline of many steps a launch, through the program: it learns what the fused one does, stops and goes on between
//! any two steps, and where it cannot train a network it says why.

use crate::common::Place;
use serde_json::Value;

const SMALL: [&str; 8] = ["--hidden", "32,16", "--batch-size", "20", "--lr", "0.3", "--seed", "7"];

/// What the program warns of, on its standard error.
fn warnings(place: &Place, flags: &[&str]) -> String {
    let output = place.train(flags).output().unwrap();
    let warnings = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{warnings}");
    warnings
}

fn train(place: &Place, pipeline: &str, more: &[&str]) -> String {
    warnings(place, &[&SMALL[..], &["--pipeline", pipeline], more].concat())
}

/// The weights in a file, without its description.
fn weights(place: &Place, name: &str) -> Vec<f32> {
    let bytes = place.read(name);
    let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let numbers = bytes[8 + header..].chunks_exact(4);
    numbers.map(|number| f32::from_le_bytes(number.try_into().unwrap())).collect()
}

fn last_loss(place: &Place, name: &str) -> f64 {
    let text = String::from_utf8(place.read(name)).unwrap();
    let epoch: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    epoch["train_loss"].as_f64().unwrap()
}

/// After 64 steps.
#[test]
fn it_learns_what_the_fused_pipeline_does_and_the_same_each_time() {
    let place = Place::with_idx();
    for (pipeline, name) in [("fused", "fused"), ("resident", "a"), ("resident", "b")] {
        let warned =
            train(&place, pipeline, &["--epochs", "2", "--save", name, "--metrics", &format!("{name}.m")]);
        assert_eq!(warned, "");
    }
    assert!(place.read("a") == place.read("b"), "two runs differ");
    let (fused, resident) = (weights(&place, "fused"), weights(&place, "a"));
    let far = fused.iter().zip(&resident).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(far <= 2e-4 && fused.len() == resident.len(), "weights {far} apart");
    let (fused, resident) = (last_loss(&place, "fused.m"), last_loss(&place, "a.m"));
    assert!((fused - resident).abs() <= 1e-3 * fused, "{fused} and {resident}");
}

#[test]
fn checkpoints_lie_between_any_two_steps() {
    let place = Place::with_idx();
    train(&place, "resident", &["--epochs", "2", "--save", "whole"]);
    train(
        &place,
        "resident",
        &["--epochs", "1", "--checkpoint", "c", "--checkpoint-every", "11", "--checkpoint-keep", "9"],
    );
    assert!(place.path("c").read_dir().unwrap().count() >= 2, "a checkpoint every 11 steps");
    train(&place, "resident", &["--epochs", "2", "--resume", "c", "--save", "parts"]);
    assert!(weights(&place, "whole") == weights(&place, "parts"), "where a launch ends matters");
}

#[test]
fn what_it_cannot_train_the_fused_pipeline_does() {
    let unfit: [(&[&str], &str); 5] = [
        (&["--hidden", ""], "takes two hidden layers, but the network has 0"),
        (&["--hidden", "8,8,8"], "takes two hidden layers, but the network has 3"),
        (&["--hidden", "8,128"], "the size of the second hidden layer is 128, but it takes at most 127"),
        (&["--batch-size", "65"], "the batch size is 65, but it takes at most 64"),
        (&["--momentum", "0.5"], "the momentum is 0.5, but it takes only 0"),
    ];
    for (flags, why) in unfit {
        let place = Place::with_idx();
        let flags = |pipeline, name| {
            [&["--lr", "0.1", "--epochs", "1", "--seed", "3", "--pipeline", pipeline, "--save", name], flags]
                .concat()
        };
        warnings(&place, &flags("fused", "fused"));
        let warned = warnings(&place, &flags("resident", "resident"));
        assert!(warned.contains(why) && warned.contains("and fused runs instead"), "{why}: {warned}");
        assert!(weights(&place, "fused") == weights(&place, "resident"), "{why}");
    }
}
