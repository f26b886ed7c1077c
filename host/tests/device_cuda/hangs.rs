//! A kernel that never ends: with a time limit an error, and a process that can end.

use std::time::{Duration, Instant};

use super::*;

/// The variable that makes the test a child's, and says which way it goes to the wait.
const WAY: &str = "FERROWARP_TEST_WAY";

/// Far above the limit that the children set, and short enough for a test run.
const PATIENCE: Duration = Duration::from_secs(60);

const LIMIT: Duration = Duration::from_millis(150);

/// What waits for the kernel that hangs, and the error of it.
fn wait(way: &str, device: &Device, buffer: Buffer<f32>) -> DeviceError {
    match way {
        "synchronize" => error_of(device.synchronize()),
        "copy" => error_of(buffer.to_vec()),
        "allocate" => error_of(device.alloc_zeroed::<f32>(1)),
        "time" => error_of(device.time(|| Ok::<_, DeviceError>(()))),
        "drop" => {
            // The drop cannot tell; the next call does.
            drop(buffer);
            error_of(device.synchronize())
        }
        "launch" => {
            let launch = || {
                // SAFETY: the kernel has no contract.
                unsafe { shared_hungry::launch(device, LaunchConfig::new(1, 1)) }
            };
            (0..10_000).find_map(|_| launch().err()).expect("the launches are waited for now and then").into()
        }
        other => panic!("no way is called {other}"),
    }
}

#[test]
fn a_wait_with_a_limit_ends() {
    if let Ok(way) = std::env::var(WAY) {
        // Should anything wait for the kernel after all.
        std::thread::spawn(|| {
            std::thread::sleep(PATIENCE);
            std::process::abort();
        });
        let (device, _) = open(DeviceChoice::Cuda).unwrap();
        let device = device.with_time_limit(LIMIT);
        let mut buffer = device.alloc_zeroed::<f32>(4).unwrap();
        let graph = device.record((), |_, ()| Ok::<_, DeviceError>(())).unwrap();
        // SAFETY: the buffer has four elements.
        unsafe { fill::launch(&device, LaunchConfig::new(3, 32), &mut buffer, 4, 1.0) }.unwrap();
        let start = Instant::now();
        let error = wait(&way, &device, buffer);
        assert!(start.elapsed() >= LIMIT, "{way}: {error}");
        let fault = error.fault().unwrap_or_else(|| panic!("{error}"));
        assert_eq!(fault.kind, FaultKind::TimedOut { limit: LIMIT });
        assert!(fault.launches.iter().any(|launch| launch.kernel == "fill"), "{error}");
        if way == "synchronize" {
            let text = error.to_string();
            assert!(text.starts_with("kernel fill (grid (3, 1, 1), block (32, 1, 1), 0 bytes"), "{text}");
            assert!(text.contains(
                "did not end within the time limit of 150ms; the driver says CUDA_ERROR_NOT_READY"
            ));
        }
        drop((graph, device));
        // The driver's exit handler waits for the kernel for ever.
        println!("dropped everything: {error}");
        ferrowarp::device::exit_if_hung(1);
        panic!("the device was not abandoned");
    }
    for way in ["synchronize", "copy", "allocate", "time", "drop", "launch"] {
        let start = Instant::now();
        let variables = [("FAKE_CUDA_FAULTS", "kernel 1 hang"), (WAY, way)];
        let output = child("hangs::a_wait_with_a_limit_ends", None, "1", good_ptx, &variables);
        let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{way}, after {:?}: {text}", start.elapsed());
        assert!(text.contains("dropped everything: ") && !text.contains("panicked at"), "{way}: {text}");
    }
}

#[test]
fn a_limit_changes_nothing_for_work_that_ends() {
    isolated("hangs::a_limit_changes_nothing_for_work_that_ends", None, "1", good_ptx, || {
        let (device, _) = open(DeviceChoice::Cuda).unwrap();
        let device = device.with_time_limit(LIMIT);
        let mut buffer = device.alloc_zeroed::<f32>(4).unwrap();
        for i in 0..1000 {
            // SAFETY: the buffer has four elements.
            unsafe { fill::launch(&device, LaunchConfig::new(1, 32), &mut buffer, 4, i as f32) }.unwrap();
        }
        assert_eq!(buffer.to_vec().unwrap(), [999.0; 4]);
        drop((buffer, device));
        ferrowarp::device::exit_if_hung(9);
    });
}
