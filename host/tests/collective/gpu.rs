//! The operations on a GPU's streams: a driver without a GPU, whose device memory is the host's.

use ferrowarp::collective::{Communicator, Reduction, World};
use ferrowarp::device::Device;

use super::{CHILD, driver, ended, start};

const PTX: &str = "\
.version 8.6
.target sm_90
.address_size 64
.visible .entry nothing() { ret; }
";

/// What a rank does.
fn rank() {
    let world = World::from_environment().unwrap();
    let ordinal = world.local_rank();
    let device = Device::cuda(ordinal).unwrap();
    let communicator = Communicator::connect(&world, &device).unwrap();
    let (first, second) = (device.stream().unwrap(), device.stream().unwrap());
    let mut sums = device.upload(&[1.0f32, 2.0, 3.0]).unwrap();
    communicator.all_reduce(&first, &mut sums, Reduction::Sum).unwrap();
    // The operation is in the order of its stream.
    let race = communicator.all_reduce(&second, &mut sums, Reduction::Sum).unwrap_err().to_string();
    assert!(race.contains("all_reduce on stream 2 failed: it would write bytes 0..12"), "{race}");
    second.wait(&first.record().unwrap()).unwrap();
    communicator.broadcast(&second, &mut sums, 1).unwrap();
    communicator.synchronize(&second).unwrap();
    assert_eq!(sums.to_vec().unwrap(), [2.0, 4.0, 6.0]);

    // A world of one copies in the stream.
    let mut copy = device.alloc_zeroed::<f32>(3).unwrap();
    Communicator::single(&device).all_gather(&second, &sums, &mut copy).unwrap();
    assert_eq!(copy.to_vec().unwrap(), [2.0, 4.0, 6.0]);
}

#[test]
fn operations_run_on_the_streams_of_a_gpu() {
    if std::env::var_os(CHILD).is_some() {
        return rank();
    }
    let folder = tempfile::tempdir().unwrap();
    let library = driver::build_fake_driver(folder.path());
    let ptx = folder.path().join("kernels.compute_90.ptx");
    std::fs::write(&ptx, PTX).unwrap();
    let variables = [
        ("FERROWARP_LIBCUDA", library.to_str().unwrap()),
        ("FERROWARP_PTX", ptx.to_str().unwrap()),
        ("FAKE_CUDA_DEVICES", "2"),
    ];
    let started = start("gpu::operations_run_on_the_streams_of_a_gpu", &[0, 1], 2, &variables);
    for (rank, ended) in ended(started, &[]).into_iter().enumerate() {
        assert!(ended.code == Some(0) && ended.output.contains("1 passed"), "rank {rank}: {ended:?}");
    }
}
