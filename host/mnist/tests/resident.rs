//! The pipeline with many steps per launch, through the program: it learns what the fused one does, stops and continues
//! between any two steps, and says why it cannot train a network.

use crate::common::networks::largest_difference;
use crate::common::{Place, words};
use ferrowarp_mnist::checkpoint;
use ferrowarp_mnist::model::Parameters;
use ferrowarp_report::EpochRecord;

/// Trains, and returns the warnings.
fn train(place: &Place, more: &str) -> String {
    let flags = format!("--batch-size 20 --lr 0.1 --seed 7 {more}");
    let output = place.train(&words(&flags)).output().unwrap();
    let warnings = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{warnings}");
    warnings
}

fn weights(place: &Place, name: &str) -> Parameters {
    checkpoint::load(&place.path(name)).unwrap().parameters
}

fn last_loss(place: &Place, name: &str) -> f64 {
    let text = String::from_utf8(place.read(name)).unwrap();
    serde_json::from_str::<EpochRecord>(text.lines().last().unwrap()).unwrap().train_loss
}

#[test]
fn it_learns_what_the_fused_pipeline_does_and_the_same_each_time() {
    let place = Place::with_idx();
    for (pipeline, name) in [("fused", "fused"), ("resident", "a"), ("resident", "b")] {
        let flags =
            format!("--hidden 32,16 --pipeline {pipeline} --epochs 2 --save {name} --metrics {name}.m");
        assert_eq!(train(&place, &flags), "");
    }
    assert!(place.read("a") == place.read("b"), "two runs differ");
    let far = largest_difference(&weights(&place, "fused"), &weights(&place, "a"));
    assert!(far <= 2e-4, "weights {far} apart");
    let (fused, resident) = (last_loss(&place, "fused.m"), last_loss(&place, "a.m"));
    assert!((fused - resident).abs() <= 1e-3 * fused, "{fused} and {resident}");
    // A checkpoint lies between any two steps.
    let flags = "--hidden 32,16 --pipeline resident --checkpoint c --checkpoint-every 11 --checkpoint-keep 9";
    train(&place, &format!("{flags} --epochs 1"));
    assert!(place.path("c").read_dir().unwrap().count() >= 2, "a checkpoint every 11 steps");
    train(&place, "--hidden 32,16 --epochs 2 --resume c --save parts");
    assert!(weights(&place, "a") == weights(&place, "parts"), "where a launch ends matters");
}

#[test]
fn the_fused_pipeline_replaces_it() {
    for (flags, why) in [
        ("--hidden \"\"", "it takes two hidden layers, but the network has 0"),
        ("--hidden 8,8,8", "it takes two hidden layers, but the network has 3"),
        ("--hidden 8,128", "the size of the second hidden layer is 128, but it takes at most 127"),
        ("--hidden 8,8 --momentum 0.5", "the momentum is 0.5, but it takes only 0"),
        ("--hidden 8,8 --precision bf16", "it has no kernels for the precision bf16"),
        ("--hidden 8,8 --precision tf32", "it has no kernels for the precision tf32"),
        ("--hidden 8,8 --precision f16 --momentum 0.5", "the momentum is 0.5, but it takes only 0"),
    ] {
        let place = Place::with_idx();
        train(&place, &format!("{flags} --epochs 1 --pipeline fused --save fused"));
        let warned = train(&place, &format!("{flags} --epochs 1 --pipeline resident --save resident"));
        let says = format!("the pipeline resident cannot run here, and fused runs instead: {why}");
        assert!(warned.contains(&says), "{why}: {warned}");
        assert!(weights(&place, "fused") == weights(&place, "resident"), "{why}");
    }
    let place = Place::with_idx();
    let output = place.train(&words("--batch-size 65 --pipeline resident --epochs 1")).output().unwrap();
    let warned = String::from_utf8(output.stderr).unwrap();
    assert!(warned.contains("the batch size is 65, but it takes at most 64"), "{warned}");
}
