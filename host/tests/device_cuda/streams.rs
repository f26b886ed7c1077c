//! Streams, events and copies that the host does not wait for, on a driver without a GPU: the calls to the driver, and
//! what is left behind after a fault. `tests/streams.rs` tests races.

use std::time::{Duration, Instant};

use ferrowarp::device::{Launch, Queue as _, StreamWork};

use super::*;

/// The variable that makes the test a child's, and says what to do there.
const DEED: &str = "FERROWARP_TEST_DEED";

const LIMIT: Duration = Duration::from_millis(150);

/// What the child writes to its standard error, and whether it ended well.
fn traced(test: &str, variables: &[(&str, &str)]) -> (bool, String) {
    let output = child(test, None, "1", good_ptx, variables);
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (output.status.success(), text.into_owned())
}

#[test]
fn the_driver_is_told_of_streams_events_and_waits() {
    let name = "streams::the_driver_is_told_of_streams_events_and_waits";
    if std::env::var_os(DEED).is_some() {
        let (device, _) = open(DeviceChoice::Cuda).unwrap();
        let mut buffer = device.alloc_zeroed::<f32>(4).unwrap();
        eprintln!("opening");
        let (first, second) = (device.stream().unwrap(), device.stream().unwrap());
        eprintln!("working");
        fill_all(&first, &mut buffer, 1.0).unwrap();
        second.wait(&first.record().unwrap()).unwrap();
        fill_all(&second, &mut buffer, 2.0).unwrap();
        eprintln!("reading");
        assert_eq!(buffer.to_vec().unwrap(), [2.0; 4]);
        eprintln!("waiting");
        second.synchronize().unwrap();
        eprintln!("closing");
        drop((first, second));
        eprintln!("closed");
        drop(buffer);
        eprintln!("freed");
        return;
    }
    let (is_well, text) = traced(name, &[(DEED, "1"), ("FAKE_CUDA_TRACE", "calls")]);
    assert!(is_well, "{text}");
    let calls = |from: &str, to: &str| -> Vec<String> {
        let (_, rest) = text.split_once(&format!("\n{from}\n")).unwrap();
        let (part, _) = rest.split_once(&format!("{to}\n")).unwrap();
        part.lines().filter_map(|line| line.strip_prefix("fake driver: ")).map(str::to_owned).collect()
    };
    assert_eq!(calls("opening", "working"), ["record 0", "wait 1", "record 0", "wait 2"]);
    assert_eq!(calls("working", "reading"), ["record 1", "wait 2"]);
    let all = ["synchronize 0", "synchronize 1", "synchronize 2"];
    assert_eq!(calls("reading", "waiting"), [all, all].concat(), "before the copy and after it");
    assert_eq!(calls("waiting", "closing"), ["synchronize 2"]);
    assert_eq!(calls("closing", "closed"), ["synchronize 1", "destroy 1", "synchronize 2", "destroy 2"]);
    assert_eq!(calls("closed", "freed"), [""; 0], "the driver itself waits for its one stream");
}

#[test]
fn memory_waits_for_every_stream() {
    let name = "streams::memory_waits_for_every_stream";
    if std::env::var_os(DEED).is_some() {
        let (device, _) = open(DeviceChoice::Cuda).unwrap();
        let side = device.stream().unwrap();
        eprintln!("allocating");
        let mut buffer = device.alloc_zeroed::<f32>(4).unwrap();
        eprintln!("freeing");
        fill_all(&side, &mut buffer, 1.0).unwrap();
        drop(buffer);
        eprintln!("unwritten");
        let mut result = side.alloc_unwritten::<f32>(4).unwrap();
        fill_all(&side, &mut result, 1.0).unwrap();
        device.default_stream().wait(&side.record().unwrap()).unwrap();
        eprintln!("using");
        fill_all(&device, &mut result, 1.0).unwrap();
        eprintln!("done");
        return;
    }
    let (is_well, text) = traced(name, &[(DEED, "1"), ("FAKE_CUDA_TRACE", "calls")]);
    assert!(is_well, "{text}");
    let calls = |text: &str| -> Vec<String> {
        let (_, rest) = text.split_once("\nallocating\n").unwrap();
        let (part, _) = rest.split_once("unwritten\n").unwrap();
        part.lines()
            .map(|line| line.trim_start_matches("fake driver").trim_start_matches([':', ',', ' ']).to_owned())
            .collect()
    };
    let waiting = ["record 0", "freeing", "wait 1", "synchronize 0", "synchronize 1", "in order: memory"];
    assert_eq!(calls(&text), waiting, "a driver without pools frees at once");
    let pools = ("FAKE_CUDA_POOLS", "1");
    let (is_well, text) = traced(name, &[(DEED, "1"), ("FAKE_CUDA_TRACE", "calls"), pools]);
    assert!(is_well, "{text}");
    // Stream 1 is the pool's own, and 2 the test's.
    let queued =
        ["allocate 0", "record 0", "freeing", "wait 2", "record 0", "wait 1", "record 2", "wait 1", "free 1"];
    assert_eq!(calls(&text), queued, "memory is freed after all of its users, without waiting");
    let (_, rest) = text.split_once("\nunwritten\n").unwrap();
    let (before, after) = rest.split_once("using\n").unwrap();
    assert_eq!(before.matches("record").count(), 1, "no event for the allocation of a result: {before}");
    assert!(after.contains("record 2") && after.contains("wait 0"), "its first use elsewhere waits: {after}");
}

#[test]
fn events_tell_the_time_of_a_stream() {
    isolated("streams::events_tell_the_time_of_a_stream", None, "1", good_ptx, || {
        let (device, _) = open(DeviceChoice::Cuda).unwrap();
        let stream = device.stream().unwrap();
        let mut buffer = device.alloc_zeroed::<f32>(4).unwrap();
        let start = stream.record().unwrap();
        (0..3).for_each(|i| fill_all(&stream, &mut buffer, i as f32).unwrap());
        let end = stream.record().unwrap();
        assert_eq!(end.elapsed_since(&start).unwrap(), Duration::from_millis(3));
        assert_eq!(start.elapsed_since(&end).unwrap(), Duration::ZERO);
        assert!(end.is_complete().unwrap());
        let text = format!("{stream:?}, {end:?}, {:?}", device.default_stream());
        assert_eq!(
            text,
            "Stream(stream 1 of CUDA device 0), Event(on CUDA device 0), Stream(the default stream of CUDA device 0)"
        );
        drop(device);
        stream.synchronize().unwrap();
    });
}

#[test]
fn copies_go_both_ways_and_keep_their_memory() {
    isolated("streams::copies_go_both_ways_and_keep_their_memory", None, "1", good_ptx, || {
        let (device, _) = open(DeviceChoice::Cuda).unwrap();
        let stream = device.stream().unwrap();
        let mut buffer = device.alloc_zeroed::<f32>(4).unwrap();
        let mut pinned = device.alloc_pinned::<f32>(2).unwrap();
        assert_eq!(*pinned, [0.0; 2]);
        pinned.copy_from_slice(&[1.0, 2.0]);
        let upload = stream.upload(pinned, buffer.view_mut(1..3).unwrap()).unwrap();
        assert!(upload.is_complete().unwrap());
        let pinned = upload.wait().unwrap();
        let all = stream.download(&buffer, device.alloc_pinned(4).unwrap()).unwrap();
        assert_eq!((&*all.wait().unwrap(), &*pinned), (&[0.0, 1.0, 2.0, 0.0][..], &[1.0, 2.0][..]));

        let error = error_of(stream.upload(pinned, &mut buffer));
        assert!(matches!(error, DeviceError::LengthMismatch { buffer: 4, slice: 2, .. }), "{error}");
        let error = error_of(stream.download(&buffer, Device::cpu().alloc_pinned(4).unwrap()));
        assert!(matches!(error, DeviceError::OtherDevice { .. }), "{error}");
        let nothing = stream.upload(device.alloc_pinned::<f32>(0).unwrap(), buffer.view_mut(..0).unwrap());
        assert_eq!(*nothing.unwrap().wait().unwrap(), [0.0; 0]);
        let full = error_of(device.alloc_pinned::<u16>(1 << 40));
        assert!(matches!(full, DeviceError::OutOfMemory { elements, .. } if elements == 1 << 40), "{full}");
    });
}

#[test]
fn races_are_refused_on_a_gpu_too() {
    isolated("streams::races_are_refused_on_a_gpu_too", None, "1", good_ptx, || {
        let (device, _) = open(DeviceChoice::Cuda).unwrap();
        let mut buffer = device.alloc_zeroed::<f32>(4).unwrap();
        // With one stream there are none, whatever came before.
        fill_all(&device, &mut buffer, 1.0).unwrap();
        let side = device.stream().unwrap();
        fill_all(&side, &mut buffer, 2.0).unwrap();
        let error = DeviceError::from(fill_all(&device, &mut buffer, 3.0).unwrap_err());
        let DeviceError::Unordered(race) = &error else { panic!("{error}") };
        assert_eq!((race.first.work, race.first.stream), (StreamWork::Launch("fill"), 1));
        assert_eq!((race.second.argument, race.second.bytes.clone()), ("out", 0..16));
        let error = error_of(device.default_stream().download(&buffer, device.alloc_pinned(4).unwrap()));
        assert!(matches!(error, DeviceError::Unordered(_)), "{error}");
        assert_eq!(buffer.to_vec().unwrap(), [2.0; 4], "refused work does not run");
        fill_all(&device, &mut buffer, 3.0).unwrap();
    });
}

#[test]
fn a_fault_names_the_launches_of_all_streams() {
    isolated("streams::a_fault_names_the_launches_of_all_streams", None, "1", good_ptx, || {
        let (device, _) = open(DeviceChoice::Cuda).unwrap();
        let (first, second) = (device.stream().unwrap(), device.stream().unwrap());
        let mut buffer = device.alloc_zeroed::<f32>(4).unwrap();
        fill_all(&first, &mut buffer, 1.0).unwrap();
        first.synchronize().unwrap();
        let config = LaunchConfig::new(1, 1);
        let pinned = device.alloc_pinned::<f32>(4).unwrap();
        let download = first.download(&buffer, pinned).unwrap();
        // SAFETY: neither kernel has a contract.
        unsafe {
            shared_hungry::launch(&first, config).unwrap();
            broken::launch(&second, config).unwrap();
        }
        let error = error_of(first.synchronize());
        let fault = error.fault().unwrap_or_else(|| panic!("{error}"));
        let mut queued: Vec<_> = fault.launches.iter().map(|&Launch { kernel, .. }| kernel).collect();
        queued.sort_unstable();
        assert_eq!(queued, ["broken", "shared_hungry"], "fill had been waited for");
        let later = [
            error_of(second.synchronize()),
            error_of(second.record()),
            error_of(device.stream()),
            error_of(device.alloc_pinned::<f32>(1)),
            error_of(download.wait()),
            error_of(buffer.to_vec()),
        ];
        for error in later {
            assert!(matches!(error, DeviceError::Faulted { .. }), "{error}");
        }
    });
}

/// What waits for a stream whose kernel never ends.
fn wait(deed: &str, device: &Device, side: Stream, mut buffer: Buffer<f32>) -> DeviceError {
    let pinned = device.alloc_pinned::<f32>(4).unwrap();
    let event = device.default_stream().record().unwrap();
    let other = device.stream().unwrap();
    fill_all(&side, &mut buffer, 1.0).unwrap();
    let result = match deed {
        "synchronize" => side.synchronize(),
        "device" => device.synchronize(),
        "event" => event.synchronize(),
        "copy" => buffer.to_vec().map(drop),
        "drop" => {
            drop(side);
            device.synchronize()
        }
        "in flight" => {
            other.wait(&side.record().unwrap()).unwrap();
            drop(other.upload(pinned, &mut buffer).unwrap());
            drop(buffer);
            device.synchronize()
        }
        other => panic!("no deed is called {other}"),
    };
    error_of(result)
}

#[test]
fn a_wait_for_any_stream_has_a_limit() {
    if let Ok(deed) = std::env::var(DEED) {
        let (device, _) = open(DeviceChoice::Cuda).unwrap();
        let device = device.with_time_limit(LIMIT);
        let buffer = device.alloc_zeroed::<f32>(4).unwrap();
        let side = device.stream().unwrap();
        let error = wait(&deed, &device, side, buffer);
        let fault = error.fault().unwrap_or_else(|| panic!("{error}"));
        assert_eq!(fault.kind, FaultKind::TimedOut { limit: LIMIT });
        assert_eq!(fault.culprit().map(|launch| launch.kernel), Some("fill"), "{error}");
        drop(device);
        println!("dropped everything");
        ferrowarp::device::exit_if_hung(1);
        panic!("the device was not abandoned");
    }
    for deed in ["synchronize", "device", "event", "copy", "drop", "in flight"] {
        let start = Instant::now();
        let variables = [("FAKE_CUDA_FAULTS", "kernel 1 hang"), (DEED, deed)];
        let (is_well, text) = traced("streams::a_wait_for_any_stream_has_a_limit", &variables);
        let took = start.elapsed();
        assert!(!is_well && text.contains("dropped everything"), "{deed}, after {took:?}: {text}");
        assert!(!text.contains("panicked at"), "{deed}: {text}");
    }
}

#[test]
fn page_locked_memory_in_flight_outlives_a_fault() {
    let name = "streams::page_locked_memory_in_flight_outlives_a_fault";
    if std::env::var_os(DEED).is_some() {
        let (device, _) = open(DeviceChoice::Cuda).unwrap();
        let pinned = device.alloc_pinned::<f32>(4).unwrap();
        let buffer = device.alloc_zeroed::<f32>(4).unwrap();
        let download = device.default_stream().download(&buffer, pinned).unwrap();
        // SAFETY: the kernel has no contract.
        unsafe { broken::launch(&device, LaunchConfig::new(1, 1)) }.unwrap();
        drop(download);
        drop(buffer);
        return;
    }
    let (is_well, text) = traced(name, &[(DEED, "1"), ("FAKE_CUDA_TRACE", "1")]);
    assert!(is_well, "{text}");
    // The one is the panic record's, which nothing writes to any more.
    assert_eq!(
        (text.matches("in order: memory").count(), text.matches("broken: memory").count()),
        (0, 1),
        "{text}"
    );
}
