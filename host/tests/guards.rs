//! In a debug build the CPU device reports a kernel that accesses memory beyond a buffer: kernel, block, thread, argument.

#![cfg(all(target_os = "linux", debug_assertions))]

use cuda_std::launch::{LaunchConfig, LaunchError, PtrArg as _, PtrMutArg as _};
use cuda_std::simt::{BeyondBuffer, FaultKind};
use cuda_std::{kernel, thread};
use ferrowarp::device::{Buffer, Device};

/// `out[i + offset] = i` for each thread `i` from `first` on.
///
/// # Safety
/// The elements are in `out`, which the tests break.
#[kernel]
pub unsafe fn fill(out: *mut u32, first: u32, offset: i64) {
    let i = thread::index_1d();
    if i >= first {
        // SAFETY: the kernel's contract; a test that breaks it runs where memory beyond the buffer is guarded.
        unsafe { *out.offset(i as isize + offset as isize) = i };
    }
}

/// `out[0] = inp[index]`
///
/// # Safety
/// The element is in `inp`, which a test breaks.
#[kernel]
pub unsafe fn fetch(out: *mut u32, inp: *const u32, index: i64) {
    // SAFETY: as above; there is one thread.
    unsafe { *out = *inp.offset(index as isize) };
}

fn launch(device: &Device, out: &mut Buffer<u32>, first: u32, offset: i64) -> Result<(), LaunchError> {
    // SAFETY: accesses beyond `out` stay within its guards.
    unsafe { fill::launch(device, LaunchConfig::new(2, 32), out, first, offset) }
}

fn fault(result: Result<(), LaunchError>) -> String {
    match result {
        Err(LaunchError::Fault(fault)) => {
            assert!(matches!(fault.kind, FaultKind::BeyondBuffer { beyond: BeyondBuffer { .. }, .. }));
            fault.to_string()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_write_close_to_the_end_names_the_first_thread() {
    let device = Device::cpu();
    // Buffers that end in the guard, at its beginning, and in the middle of a word of it.
    for len in [8usize, 60, 63] {
        let mut out = device.upload(&vec![7u32; len]).unwrap();
        let said = fault(launch(&device, &mut out, len as u32, 0));
        let (block, thread) = (len / 32, len % 32);
        let expected = format!(
            "kernel fill failed in block ({block}, 0, 0), thread ({thread}, 0, 0): wrote to byte {bytes} of `out`, which \
             has {bytes} bytes; compare the index with the length first",
            bytes = 4 * len
        );
        assert!(said.starts_with(&expected), "{said}");
        assert_eq!(out.to_vec().unwrap(), vec![7; len], "nothing of the buffer was written");
        // It is reported again, and a launch that stays within is not.
        fault(launch(&device, &mut out, len as u32, 0));
        launch(&device, &mut out, 64 - len as u32, len as i64 - 64).unwrap();
    }
}

#[test]
fn accesses_far_beyond_and_before_are_reported_at_once() {
    let device = Device::cpu();
    let mut out = device.alloc_zeroed::<u32>(64).unwrap();
    for (offset, byte) in [(1 << 20, 4 * ((1 << 20) + 63)), (-(1 << 20), 4 * (63 - (1 << 20))), (1, 256)] {
        for _ in 0..2 {
            let said = fault(launch(&device, &mut out, 63, offset));
            let place = "block (1, 0, 0), thread (31, 0, 0)";
            assert!(said.contains(place) && said.contains(&format!("byte {byte} of `out`")), "{said}");
        }
    }
    let inp = device.upload(&[1u32; 64]).unwrap();
    // SAFETY: the accesses beyond `inp` stay within its guards.
    let mut read = |index| unsafe { fetch::launch(&device, LaunchConfig::new(1, 1), &mut out, &inp, index) };
    let said = fault(read(64));
    assert!(said.contains("byte 256 of `inp`, which has 256 bytes"), "{said}");
    #[cfg(target_arch = "x86_64")]
    assert!(said.contains("read from"), "{said}");
    read(63).unwrap();
    assert_eq!(out.to_vec().unwrap()[0], 1);
}

#[test]
fn a_bystander_is_named_without_an_argument() {
    let device = Device::cpu();
    let other = device.alloc_zeroed::<u32>(1).unwrap();
    let address = (&other).as_raw_ptr() as i64;
    let mut out = device.alloc_zeroed::<u32>(64).unwrap();
    let distance = (address - (&mut out).as_raw_mut_ptr() as i64) / 4;
    // Thread 63 alone writes, one element beyond the other buffer.
    let said = fault(launch(&device, &mut out, 63, distance - 63 + 1));
    assert!(said.contains("thread (31, 0, 0): wrote to byte 4 of a buffer, which has 4 bytes"), "{said}");
}
