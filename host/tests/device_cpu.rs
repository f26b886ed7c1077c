//! The CPU as a device: buffers, views, launches and their errors.

use cuda_std::launch::{LaunchConfig, LaunchError, PtrMutArg as _, SliceArg as _};
use cuda_std::{kernel, thread};
use ferrowarp::device::{Device, DeviceError};

/// y += a * x
///
/// # Safety
/// `y` holds as many elements as `x`, and at least as many threads are launched.
#[kernel]
pub unsafe fn axpy(a: f32, x: &[f32], y: *mut f32) {
    let i = thread::index_1d() as usize;
    if i < x.len() {
        // SAFETY: `i` is in bounds, and each thread has an element of its own.
        unsafe { *y.add(i) += a * x[i] };
    }
}

/// Reads one element past the end.
///
/// # Safety
/// None: the bounds check catches it.
#[kernel]
pub unsafe fn reads_too_far(x: &[f32], y: *mut f32) {
    // SAFETY: `y` has one element.
    unsafe { *y = x[x.len()] };
}

fn count_up(n: usize) -> Vec<f32> {
    (0..n).map(|i| i as f32).collect()
}

#[test]
fn a_kernel_works_on_buffers() {
    let device = Device::cpu();
    for n in [1, 31, 33, 1000] {
        let x = device.upload(&count_up(n)).unwrap();
        let mut y = device.upload(&vec![1.0; n]).unwrap();
        // SAFETY: as many elements in both, and enough threads.
        unsafe { axpy::launch(&device, LaunchConfig::cover(n, 64), 2.0, &x, &mut y) }.unwrap();
        device.synchronize().unwrap();
        let expected: Vec<f32> = (0..n).map(|i| 1.0 + 2.0 * i as f32).collect();
        assert_eq!(y.to_vec().unwrap(), expected);
    }
}

#[test]
fn views_reach_their_part_alone() {
    let device = Device::cpu();
    let x = device.upload(&count_up(10)).unwrap();
    let mut y = device.alloc_zeroed::<f32>(10).unwrap();
    let config = LaunchConfig::cover(3, 32);
    // SAFETY: three elements in both views.
    unsafe { axpy::launch(&device, config, 1.0, x.view(2..5).unwrap(), y.view_mut(6..9).unwrap()) }.unwrap();
    assert_eq!(y.to_vec().unwrap(), [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 2.0, 3.0, 4.0, 0.0]);
    assert_eq!(y.view(7..).unwrap().to_vec().unwrap(), [3.0, 4.0, 0.0]);

    let (mut low, high) = y.split_at_mut(5).unwrap();
    // SAFETY: the views do not overlap, and both have five elements.
    unsafe { axpy::launch(&device, LaunchConfig::cover(5, 32), 10.0, &high, &mut low) }.unwrap();
    low.copy_from(&[9.0; 4]).unwrap_err();
    assert_eq!(y.view(..5).unwrap().to_vec().unwrap(), [0.0, 20.0, 30.0, 40.0, 0.0]);

    let error = y.view_mut(4..11).map(|_| ()).unwrap_err();
    assert_eq!(error.to_string(), "a view of 4..11 does not fit a buffer of 10 elements");
    let error = y.split_at_mut(11).map(|_| ()).unwrap_err();
    assert_eq!(error.to_string(), "a view of 0..11 does not fit a buffer of 10 elements");
}

#[test]
fn empty_buffers_have_an_aligned_address() {
    let device = Device::cpu();
    let mut empty = device.upload::<u64>(&[]).unwrap();
    assert!(empty.is_empty());
    assert!(empty.to_vec().unwrap().is_empty());
    let (pointer, len) = (&empty).as_raw_slice();
    assert!(!pointer.is_null() && pointer.is_aligned());
    assert_eq!(len, 0);
    assert!(!(&mut empty).as_raw_mut_ptr().is_null());
    empty.copy_from(&[]).unwrap();
}

#[test]
fn memory_is_zeroed_and_aligned_for_vectors() {
    let device = Device::cpu();
    for len in [1, 7, 4096] {
        let buffer = device.alloc_zeroed::<u8>(len).unwrap();
        assert_eq!((&buffer).as_raw_slice().0.addr() % 256, 0);
        assert_eq!(buffer.to_vec().unwrap(), vec![0; len]);
    }
}

#[test]
fn wrong_lengths_and_too_much_memory_are_errors() {
    let device = Device::cpu();
    let mut buffer = device.alloc_zeroed::<f32>(4).unwrap();
    let error = buffer.copy_from(&[0.0; 5]).unwrap_err().to_string();
    assert!(error.contains("the buffer has 4 elements and the slice 5"), "{error}");
    assert!(matches!(
        buffer.copy_to(&mut [0.0; 3]),
        Err(DeviceError::LengthMismatch { buffer: 4, slice: 3, .. })
    ));

    for len in [usize::MAX, usize::MAX / 8, 1 << 55] {
        let error = device.alloc_zeroed::<f32>(len).map(|_| ()).unwrap_err();
        assert!(matches!(error, DeviceError::OutOfMemory { elements, .. } if elements == len), "{error}");
    }
}

#[test]
fn a_panicking_kernel_is_an_error_with_its_place() {
    let device = Device::cpu();
    let x = device.upload(&[1.0f32; 3]).unwrap();
    let mut y = device.alloc_zeroed::<f32>(1).unwrap();
    // SAFETY: `y` has one element.
    let error = unsafe { reads_too_far::launch(&device, LaunchConfig::new(1, 1), &x, &mut y) }.unwrap_err();
    let error = DeviceError::from(error).to_string();
    for part in [
        "reads_too_far",
        "device_cpu.rs",
        "block (0, 0, 0)",
        "thread (0, 0, 0)",
        "the len is 3 but the index is 3",
    ] {
        assert!(error.contains(part), "{part:?} in {error}");
    }
}

#[test]
fn a_launch_over_the_limits_is_refused() {
    let device = Device::cpu();
    let x = device.upload(&[1.0f32]).unwrap();
    let mut y = device.alloc_zeroed::<f32>(1).unwrap();
    let max = device.limits().max_threads_per_block;
    // SAFETY: one element in both.
    let error =
        unsafe { axpy::launch(&device, LaunchConfig::new(1, (max, 2)), 1.0, &x, &mut y) }.unwrap_err();
    assert!(matches!(error, LaunchError::TooManyThreads { kernel: "axpy", .. }), "{error}");
}

#[test]
fn copies_are_counted() {
    let device = Device::cpu();
    let buffer = device.upload(&[1u32; 100]).unwrap();
    buffer.to_vec().unwrap();
    buffer.view(..10).unwrap().to_vec().unwrap();
    let times = device.clone().transfer_times();
    assert_eq!((times.host_to_device.bytes, times.host_to_device.copies), (400, 1));
    assert_eq!((times.device_to_host.bytes, times.device_to_host.copies), (440, 2));
    assert!(!times.host_to_device.time.is_zero());
}

#[test]
fn buffers_go_to_other_threads() {
    let device = Device::cpu();
    let mut buffer = device.alloc_zeroed::<f32>(8).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| buffer.copy_from(&[2.0; 8]).unwrap());
    });
    assert_eq!(buffer.to_vec().unwrap(), [2.0; 8]);
    assert!(device.name().len() > 2);
    assert!(device.multiprocessors() >= 1);
}
