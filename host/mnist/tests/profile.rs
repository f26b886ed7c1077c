//! `train-mnist --profile`: launches are counted, and what they had to do is what the steps of the run had to do.

use std::collections::BTreeMap;

use crate::common::{Place, succeeds, words};
use ferrowarp_mnist::model::{KernelWork, Pipeline, Trained};
use ferrowarp_report::{EpochRecord, KernelRecord};

const SIZES: [usize; 4] = [784, 24, 16, 10];
const BATCH: usize = 20;
/// 633 images are 31 whole batches and one of 13.
const IMAGES: usize = 633;
const EPOCHS: usize = 2;
const FLAGS: &str = "--hidden 24,16 --batch-size 20 --epochs 2 --seed 7 --metrics m";

/// The program's record of each kernel, and the lines that it prints.
fn profiled(place: &Place, flags: &str) -> (BTreeMap<String, KernelRecord>, String) {
    let printed = succeeds(place.train(&words(&format!("{FLAGS} --profile {flags}"))));
    let metrics = String::from_utf8(place.read("m")).unwrap();
    let lines: Vec<&str> = metrics.lines().collect();
    let (epochs, kernels) = lines.split_at(EPOCHS);
    for line in epochs {
        serde_json::from_str::<EpochRecord>(line).unwrap();
    }
    let kernels = kernels.iter().map(|line| serde_json::from_str::<KernelRecord>(line).unwrap());
    let kernels: BTreeMap<_, _> = kernels.map(|record| (record.kernel.clone(), record)).collect();
    for record in kernels.values() {
        assert!(record.seconds > 0.0 && record.roofline.is_none(), "{record:?}");
        assert!(printed.lines().any(|line| line.starts_with(&format!("{} ", record.kernel))), "{printed}");
    }
    assert!(printed.contains("no roofline: the peak of the CPU is unknown"), "{printed}");
    (kernels, printed)
}

fn step(pipeline: Pipeline, rows: [usize; 2], has_momentum: bool) -> Vec<KernelWork> {
    KernelWork::of_step(pipeline, Trained { sizes: &SIZES, has_momentum, is_short: false }, rows)
}

/// The bytes and operations of all steps of the run.
fn of_steps(pipeline: Pipeline, has_momentum: bool) -> [u64; 2] {
    let mut sum = [0; 2];
    for first in (0..IMAGES).step_by(BATCH) {
        let end = IMAGES.min(first + BATCH);
        let rows = [end - first, BATCH.min(IMAGES - end)];
        for work in step(pipeline, rows, has_momentum) {
            sum = [sum[0] + EPOCHS as u64 * work.bytes, sum[1] + EPOCHS as u64 * work.flop];
        }
    }
    sum
}

/// The gathers of the first batches of the epochs.
fn of_first_batches() -> [u64; 2] {
    let step = step(Pipeline::Naive, [BATCH; 2], false);
    let gather = step.iter().find(|work| work.kernel == "shuffled_batch").unwrap();
    [gather.bytes, gather.flop].map(|n| EPOCHS as u64 * n)
}

fn sum(kernels: &BTreeMap<String, KernelRecord>) -> [u64; 2] {
    kernels
        .values()
        .fold([0; 2], |sum, record| [sum[0] + record.bytes.unwrap(), sum[1] + record.flop.unwrap()])
}

#[test]
fn every_launch_is_there_with_what_it_had_to_do() {
    let place = Place::with_idx();
    let steps = (EPOCHS * IMAGES.div_ceil(BATCH)) as u64;
    for (name, pipeline) in
        [("naive", Pipeline::Naive), ("deferred", Pipeline::Deferred), ("overlapped", Pipeline::Overlapped)]
    {
        let (kernels, _) = profiled(&place, &format!("--pipeline {name}"));
        let launches = |kernel: &str| kernels.get(kernel).map(|record| record.launches);
        assert_eq!(
            (launches("linear_forward"), launches("relu_backward")),
            (Some(3 * steps), Some(2 * steps))
        );
        assert_eq!(kernels.values().map(|record| record.launches).sum::<u64>(), 18 * steps);
        assert_eq!(sum(&kernels), of_steps(pipeline, false), "{name}");
    }
    for (momentum, has_momentum) in [("0", false), ("0.5", true)] {
        let (kernels, _) = profiled(&place, &format!("--pipeline fused --momentum {momentum}"));
        assert_eq!(kernels.values().map(|record| record.launches).sum::<u64>(), 5 * steps + EPOCHS as u64);
        let (steps, first) = (of_steps(Pipeline::Fused, has_momentum), of_first_batches());
        assert_eq!(sum(&kernels), [steps[0] + first[0], steps[1] + first[1]], "momentum {momentum}");
    }
}

#[test]
fn a_graph_is_one_line_with_the_work_of_its_steps() {
    let place = Place::with_idx();
    let (fused, _) = profiled(&place, "--pipeline fused");
    let (kernels, _) = profiled(&place, "--pipeline graph");
    let graphs: Vec<_> = kernels.keys().filter(|name| name.starts_with("graph of ")).collect();
    assert!(!graphs.is_empty(), "{kernels:?}");
    assert_eq!(sum(&kernels), sum(&fused));
    let launches = |record: &KernelRecord| match record.kernel.strip_prefix("graph of ") {
        Some(rest) => record.launches * rest.strip_suffix(" launches").unwrap().parse::<u64>().unwrap(),
        None => record.launches,
    };
    let all = |kernels: &BTreeMap<String, KernelRecord>| kernels.values().map(launches).sum::<u64>();
    assert_eq!(all(&kernels), all(&fused));
}

#[test]
fn a_launch_of_many_steps_is_one_line_and_moves_the_parameters_once() {
    let place = Place::with_idx();
    let (kernels, _) = profiled(&place, "--pipeline resident");
    let [record] = kernels.values().collect::<Vec<_>>()[..] else { panic!("{kernels:?}") };
    // 8 steps a launch on the CPU.
    assert_eq!(record.launches, EPOCHS as u64 * 4);
    let [bytes, flop] = of_steps(Pipeline::Resident, false);
    let parameters = 785 * 24 + 25 * 16 + 17 * 10;
    assert_eq!((record.bytes, record.flop), (Some(bytes + 8 * 2 * 4 * parameters), Some(flop)));
}

#[test]
fn a_profile_changes_no_weights_and_is_not_there_unasked() {
    let place = Place::with_idx();
    for pipeline in ["overlapped", "graph"] {
        profiled(&place, &format!("--pipeline {pipeline} --save with"));
        let printed = succeeds(place.train(&words(&format!("{FLAGS} --pipeline {pipeline} --save without"))));
        assert!(place.read("with") == place.read("without"), "{pipeline}");
        assert!(!printed.contains("roofline"), "{printed}");
        assert_eq!(String::from_utf8(place.read("m")).unwrap().lines().count(), EPOCHS);
    }
}
