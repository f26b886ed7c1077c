//! What the operations compute.

use std::sync::Arc;

use ferrowarp::collective::{Communicator, Element, Reduction, World};
use ferrowarp::device::{Buffer, Device, DeviceError};
use ferrowarp::{bf16, f16};

use super::{CHILD, each_rank_succeeds, in_each_rank};

const LEN: usize = 37;

/// What rank `rank` has at index `i`: small integers, which all types hold and add without rounding.
fn value(rank: u32, i: usize) -> u32 {
    (i as u32 * 7 + rank * 11) % 23
}

/// A reduction of all ranks' values at `i`.
fn reduced(size: u32, i: usize, reduction: Reduction) -> f64 {
    let values = (0..size).map(|rank| value(rank, i));
    match reduction {
        Reduction::Sum => f64::from(values.sum::<u32>()),
        Reduction::Max => f64::from(values.max().unwrap()),
        Reduction::Min => f64::from(values.min().unwrap()),
        Reduction::Average => f64::from(values.sum::<u32>()) / f64::from(size),
    }
}

/// All operations with elements of one type; `from` rounds as the type does.
fn check<T: Element + PartialEq + std::fmt::Debug>(communicator: &Communicator, from: impl Fn(f64) -> T) {
    let (rank, size) = (communicator.rank(), communicator.size());
    let (device, stream) = (communicator.device(), communicator.device().default_stream());
    let own = |len| (0..len).map(|i| from(f64::from(value(rank, i)))).collect::<Vec<T>>();
    let input = device.upload(&own(LEN)).unwrap();

    for reduction in [Reduction::Sum, Reduction::Max, Reduction::Min, Reduction::Average] {
        let mut buffer = device.upload(&own(LEN)).unwrap();
        communicator.all_reduce(&stream, &mut buffer, reduction).unwrap();
        let expected: Vec<T> = (0..LEN).map(|i| from(reduced(size, i, reduction))).collect();
        assert_eq!(buffer.to_vec().unwrap(), expected, "{reduction}");

        let whole = device.upload(&own(LEN * size as usize)).unwrap();
        let mut part = device.alloc_zeroed::<T>(LEN).unwrap();
        communicator.reduce_scatter(&stream, &whole, &mut part, reduction).unwrap();
        let first = LEN * rank as usize;
        let expected: Vec<T> = (first..first + LEN).map(|i| from(reduced(size, i, reduction))).collect();
        assert_eq!(part.to_vec().unwrap(), expected, "{reduction}");
    }

    let mut all = device.alloc_zeroed::<T>(LEN * size as usize).unwrap();
    communicator.all_gather(&stream, &input, &mut all).unwrap();
    let expected: Vec<T> = (0..size)
        .flat_map(|rank| (0..LEN).map(move |i| value(rank, i)))
        .map(|v| from(f64::from(v)))
        .collect();
    assert_eq!(all.to_vec().unwrap(), expected);

    for root in 0..size {
        let mut buffer = device.upload(&own(LEN)).unwrap();
        communicator.broadcast(&stream, buffer.view_mut(1..).unwrap(), root).unwrap();
        let rest = (1..LEN).map(|i| value(root, i));
        let expected: Vec<T> = [value(rank, 0)].into_iter().chain(rest).map(|v| from(f64::from(v))).collect();
        assert_eq!(buffer.to_vec().unwrap(), expected);
    }

    // A ring, and at the same time a sum.
    let (right, left) = ((rank + 1) % size, (rank + size - 1) % size);
    let mut from_left = device.alloc_zeroed::<T>(LEN).unwrap();
    let mut sums = device.upload(&own(3)).unwrap();
    let group = communicator.group().send(&input, right).receive(&mut from_left, left);
    group.all_reduce(&mut sums, Reduction::Sum).submit(&stream).unwrap();
    communicator.synchronize(&stream).unwrap();
    let expected: Vec<T> = (0..LEN).map(|i| from(f64::from(value(left, i)))).collect();
    assert_eq!(from_left.to_vec().unwrap(), expected);
    let expected: Vec<T> = (0..3).map(|i| from(reduced(size, i, Reduction::Sum))).collect();
    assert_eq!(sums.to_vec().unwrap(), expected);
}

fn check_all(communicator: &Communicator) {
    check::<f32>(communicator, |value| value as f32);
    check::<bf16>(communicator, |value| bf16::from_f32(value as f32));
    check::<f16>(communicator, |value| f16::from_f32(value as f32));
    check::<u32>(communicator, |value| value as u32);
    check::<u64>(communicator, |value| value as u64);
    // Pairs without a group, and nothing at all.
    let (device, stream) = (communicator.device(), communicator.device().default_stream());
    let (rank, size) = (communicator.rank(), communicator.size());
    if rank == 0 && size > 1 {
        communicator.send(&stream, &device.upload(&[5u64]).unwrap(), size - 1).unwrap();
    } else if rank == size - 1 && size > 1 {
        let mut buffer = device.alloc_zeroed::<u64>(1).unwrap();
        communicator.receive(&stream, &mut buffer, 0).unwrap();
        assert_eq!(buffer.to_vec().unwrap(), [5]);
    }
    let mut nothing = device.alloc_zeroed::<f32>(0).unwrap();
    communicator.all_reduce(&stream, &mut nothing, Reduction::Sum).unwrap();
    communicator.group().submit(&stream).unwrap();
    communicator.check().unwrap();
}

#[test]
fn a_world_of_one_needs_no_nccl() {
    check_all(&Communicator::single(&Device::cpu()));
}

#[test]
fn two_ranks_match_the_oracle() {
    in_each_rank("operations::two_ranks_match_the_oracle", 2, check_all);
}

#[test]
fn four_ranks_match_the_oracle() {
    in_each_rank("operations::four_ranks_match_the_oracle", 4, check_all);
}

#[test]
fn a_graph_of_two_ranks_runs_again() {
    if std::env::var_os(CHILD).is_none() {
        return each_rank_succeeds("operations::a_graph_of_two_ranks_runs_again", 2);
    }
    let (device, world) = (Device::cpu(), World::from_environment().unwrap());
    let communicator = Arc::new(Communicator::connect(&world, &device).unwrap());
    let held = Arc::clone(&communicator);
    let sums = device.upload(&[1.0f32, 2.0]).unwrap();
    let mut graph = device
        .record(sums, move |stream, sums: &mut Buffer<f32>| held.all_reduce(stream, sums, Reduction::Sum))
        .unwrap();
    // Nothing has run.
    assert_eq!(graph.state().to_vec().unwrap(), [1.0, 2.0]);
    (0..3).for_each(|_| graph.launch().unwrap());
    communicator.synchronize(&device.default_stream()).unwrap();
    assert_eq!(graph.state().to_vec().unwrap(), [8.0, 16.0]);
}

#[test]
fn operations_of_two_streams_must_be_ordered() {
    let device = Device::cpu();
    let communicator = Communicator::single(&device);
    let (first, second) = (device.stream().unwrap(), device.stream().unwrap());
    let input = device.upload(&[1.0f32; 8]).unwrap();
    let mut output = device.alloc_zeroed::<f32>(8).unwrap();
    communicator.all_gather(&first, &input, &mut output).unwrap();
    let error = communicator.all_reduce(&second, &mut output, Reduction::Sum).unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with(
            "all_reduce of 8 f32 (sum) failed on rank 0 of 1: all_reduce on stream 2 failed: it would write \
             bytes 0..32 of its argument `buffer`, which the all_gather on stream 1 may still write"
        ),
        "{text}"
    );
    assert!(matches!(DeviceError::from(error), DeviceError::Unordered(_)));
    second.wait(&first.record().unwrap()).unwrap();
    communicator.all_reduce(&second, &mut output, Reduction::Sum).unwrap();
}

#[test]
fn senseless_operations_are_refused() {
    let device = Device::cpu();
    let (communicator, stream) = (Communicator::single(&device), device.default_stream());
    let input = device.upload(&[1.0f32; 8]).unwrap();
    let mut output = device.alloc_zeroed::<f32>(9).unwrap();
    let elsewhere = Device::cpu();
    let mut foreign = elsewhere.alloc_zeroed::<f32>(8).unwrap();
    for (result, expected) in [
        (
            communicator.all_gather(&stream, &input, &mut output),
            "all_gather of 8 f32 failed on rank 0 of 1: the output must have the elements of all ranks: 1 times 8 are 8, \
             and it has 9",
        ),
        (
            communicator.reduce_scatter(&stream, &input, &mut output, Reduction::Max),
            "reduce_scatter of 9 f32 (max) failed on rank 0 of 1: the input must have a part for each rank",
        ),
        (
            communicator.broadcast(&stream, &mut output, 1),
            "broadcast of 9 f32 from rank 1 failed on rank 0 of 1: there is no rank 1; ranks are 0 to 0",
        ),
        (
            communicator.send(&stream, &input, 0),
            "send of 8 f32 to rank 0 failed on rank 0 of 1: no receive takes the send of 8 f32 to rank 0",
        ),
        (
            communicator.group().send(&input, 0).receive(&mut output, 0).submit(&stream),
            "make both of one length and type",
        ),
        (communicator.all_reduce(&stream, &mut foreign, Reduction::Sum), "a buffer is on another device"),
        (
            communicator.all_reduce(&elsewhere.default_stream(), &mut output, Reduction::Sum),
            "the stream is another device's",
        ),
    ] {
        let error = result.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
