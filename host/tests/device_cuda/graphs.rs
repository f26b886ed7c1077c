//! Graphs: what is recorded runs when it is launched and not before, and fails as launches do.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use super::*;

type Nothing = Result<(), DeviceError>;

/// The driver's clock advances a millisecond for every kernel.
const KERNEL: Duration = Duration::from_millis(1);

#[test]
fn a_graph_runs_what_was_recorded_each_time_it_is_launched() {
    let name = "graphs::a_graph_runs_what_was_recorded_each_time_it_is_launched";
    isolated(name, None, "1", good_ptx, || {
        let (device, _) = open(DeviceChoice::Cuda).unwrap();
        let buffers = [device.upload(&[1.0f32; 2]).unwrap(), device.upload(&[1.0f32; 3]).unwrap()];
        let fill_both = |stream: &Stream, buffers: &mut [Buffer<f32>; 2]| {
            buffers.iter_mut().try_for_each(|buffer| fill_all(stream, buffer, 9.0))
        };
        let mut graph = device.record(buffers, fill_both).unwrap();
        assert_eq!(format!("{graph:?}"), "Graph(2 launches on CUDA device 0)");
        assert_eq!(graph.state()[0].to_vec().unwrap(), [1.0; 2]);
        let (_, time) = device.time(|| graph.launch()).unwrap();
        assert_eq!(time, 2 * KERNEL);
        drop(device);
        graph.launch().unwrap();
        let [_, mut three] = graph.into_state();
        assert_eq!(three.to_vec().unwrap(), [9.0; 3]);
        three.copy_from(&[4.0; 3]).unwrap();
        assert_eq!(three.to_vec().unwrap(), [4.0; 3]);
    });
}

#[test]
fn a_recording_that_fails_leaves_the_device_in_order() {
    let name = "graphs::a_recording_that_fails_leaves_the_device_in_order";
    isolated(name, None, "1", good_ptx, || {
        let (device, _) = open(DeviceChoice::Cuda).unwrap();
        a_recording_that_fails(&device);
    });
}

#[test]
fn a_recording_on_the_cpu_fails_alike() {
    a_recording_that_fails(&Device::cpu());
}

/// On either device.
fn a_recording_that_fails(device: &Device) {
    let mut buffer = device.alloc_zeroed::<f32>(1).unwrap();
    let not_recordable = |error: DeviceError, expected: &str| {
        assert!(
            matches!(&error, DeviceError::NotRecordable { action, .. } if *action == expected),
            "{error}"
        );
    };
    let of = device.clone();
    not_recordable(error_of(device.record((), move |_, ()| of.synchronize())), "synchronising");
    // The work keeps the error to itself, and there is no graph all the same.
    type Act = fn(&Stream, &mut Option<Buffer<f32>>);
    let acts: [(&str, Act); 6] = [
        ("synchronising a stream", |stream, _| drop(stream.synchronize())),
        ("allocating a buffer", |stream, _| drop(stream.device().alloc_zeroed::<f32>(1))),
        ("freeing a buffer", |_, buffer| drop(buffer.take())),
        ("copying from the device", |_, buffer| drop(buffer.as_ref().unwrap().to_vec())),
        ("opening a stream", |stream, _| drop(stream.device().stream())),
        ("allocating page-locked memory", |stream, _| drop(stream.device().alloc_pinned::<u8>(0))),
    ];
    for (action, act) in acts {
        let kept = Some(device.alloc_zeroed::<f32>(1).unwrap());
        let error = error_of(device.record(kept, move |stream, buffer| {
            act(stream, buffer);
            Nothing::Ok(())
        }));
        not_recordable(error, action);
    }
    let nested =
        device.record(device.clone(), |_, device| device.record((), |_, ()| Nothing::Ok(())).map(drop));
    assert!(matches!(error_of(nested), DeviceError::AlreadyRecording { .. }));
    let refused = LaunchConfig::new(0, 1);
    // SAFETY: the launch is refused.
    let error = error_of(device.record((), move |on, ()| unsafe { shared_hungry::launch(on, refused) }));
    assert!(error.to_string().contains("launch of shared_hungry failed"), "{error}");
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        device.record((), |_, ()| -> Nothing { panic!("on purpose") }).map(drop)
    }));
    assert!(panicked.is_err());

    fill_all(device, &mut buffer, 3.0).unwrap();
    assert_eq!(buffer.to_vec().unwrap(), [3.0]);
    let graph = device.record(buffer, |stream, buffer| fill_all(stream, buffer, 4.0)).unwrap();
    assert_eq!(graph.into_state().to_vec().unwrap(), [3.0]);
}

#[test]
fn a_fault_in_a_graph_names_its_kernels() {
    isolated("graphs::a_fault_in_a_graph_names_its_kernels", None, "1", good_ptx, || {
        let (device, _) = open(DeviceChoice::Cuda).unwrap();
        let buffer = device.alloc_zeroed::<f32>(4).unwrap();
        let mut graph = device
            .record(buffer, |stream, buffer| {
                fill_all(stream, buffer, 1.0)?;
                // SAFETY: the kernel has no contract.
                unsafe { broken::launch(stream, LaunchConfig::new(1, 1)) }
            })
            .unwrap();
        device.synchronize().unwrap();
        graph.launch().unwrap();
        let error = device.synchronize().unwrap_err().to_string();
        assert!(error.starts_with("one of the queued kernels panicked in block (3, 1, 0)"), "{error}");
        assert!(error.contains("fill (grid") && error.contains("broken (grid"), "{error}");
        assert!(matches!(error_of(graph.launch()), DeviceError::Faulted { .. }));
    });
}

/// What a graph of two streams works on: `both` after `left` and `right`, which are at the same time.
struct Halves {
    side: Arc<Stream>,
    left: Buffer<f32>,
    right: Buffer<f32>,
}

fn halves(device: &Device) -> Halves {
    let of = |value| device.upload(&[value; 2]).unwrap();
    Halves { side: Arc::new(device.stream().unwrap()), left: of(1.0), right: of(2.0) }
}

fn over_two_streams(device: &Device) {
    let fork_and_join = |stream: &Stream, Halves { side, left, right }: &mut Halves| {
        side.wait(&stream.record()?)?;
        fill_all(stream, left, 5.0)?;
        fill_all(&**side, right, 6.0)?;
        stream.wait(&side.record()?)?;
        Ok::<_, DeviceError>(fill_all(stream, right, 7.0)?)
    };
    let mut graph = device.record(halves(device), fork_and_join).unwrap();
    assert_eq!(graph.state().right.to_vec().unwrap(), [2.0; 2]);
    graph.launch().unwrap();
    assert_eq!(graph.state().left.to_vec().unwrap(), [5.0; 2]);
    assert_eq!(graph.state().right.to_vec().unwrap(), [7.0; 2]);
    // As a whole it comes after nothing of another stream.
    let other = device.stream().unwrap();
    graph.launch_on(&other).unwrap();
    let error = error_of(graph.launch());
    assert!(matches!(&error, DeviceError::Unordered(race) if race.first.stream == other.number()), "{error}");
    device.default_stream().wait(&other.record().unwrap()).unwrap();
    graph.launch().unwrap();

    let error = error_of(device.record(halves(device), |stream, Halves { side, right, .. }| {
        side.wait(&stream.record()?)?;
        Ok::<_, DeviceError>(fill_all(&**side, right, 6.0)?)
    }));
    assert!(matches!(error, DeviceError::Unjoined { .. }), "{error}");
    let error = error_of(device.record(halves(device), |stream, Halves { side, right, .. }| {
        side.wait(&stream.record()?)?;
        fill_all(&**side, right, 6.0)?;
        Ok::<_, DeviceError>(fill_all(stream, right, 7.0)?)
    }));
    assert!(matches!(error, DeviceError::Unordered(_)), "{error}");
    let outside = other.record().unwrap();
    let error = error_of(device.record((), move |stream, ()| stream.wait(&outside)));
    assert!(matches!(error, DeviceError::EventOfRecording { .. }), "{error}");
    device.synchronize().unwrap();
}

#[test]
fn a_graph_forks_and_joins_streams() {
    isolated("graphs::a_graph_forks_and_joins_streams", None, "1", good_ptx, || {
        over_two_streams(&open(DeviceChoice::Cuda).unwrap().0);
    });
}

#[test]
fn a_graph_forks_and_joins_streams_on_the_cpu() {
    over_two_streams(&Device::cpu());
}

#[test]
fn a_recording_loads_only_what_it_launches() {
    let name = "graphs::a_recording_loads_only_what_it_launches";
    if std::env::var_os("FAKE_CUDA_TRACE").is_some() {
        for limit in [None, Some(Duration::from_secs(60))] {
            let (device, _) = open(DeviceChoice::Cuda).unwrap();
            let device = match limit {
                Some(limit) => device.with_time_limit(limit),
                None => device,
            };
            let buffer = device.upload(&[1.0f32; 2]).unwrap();
            let mut graph = device
                .record(buffer, |stream, buffer: &mut Buffer<f32>| fill_all(stream, buffer, 9.0))
                .unwrap();
            assert_eq!(format!("{graph:?}"), "Graph(1 launches on CUDA device 0)");
            graph.launch().unwrap();
            assert_eq!(graph.into_state().to_vec().unwrap(), [9.0; 2]);
        }
        return;
    }
    let modules = |folder: &Path| {
        let head = ".version 8.6\n.target sm_90\n.address_size 64\n.visible .global .align 8 .u64 __ferrowarp_panic_slot;\n";
        for (file, kernel) in [("a", "broken()"), ("b", "fill(.param .u64 a)"), ("c", "shared_hungry()")] {
            let text = format!("{head}.visible .entry {kernel} {{ ret; }}\n");
            std::fs::write(folder.join(format!("{file}.compute_90.ptx")), text).unwrap();
        }
    };
    let output = child(name, None, "1", modules, &[("FAKE_CUDA_TRACE", "1")]);
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
    let loads = |kernel| text.matches(&format!("the module of {kernel}\n")).count();
    assert_eq!([loads("broken"), loads("fill"), loads("shared_hungry")], [2, 2, 0], "{text}");
}

#[test]
fn a_driver_that_compiles_for_long_is_named() {
    let name = "graphs::a_driver_that_compiles_for_long_is_named";
    if std::env::var_os("FAKE_CUDA_TRACE").is_some() {
        open(DeviceChoice::Cuda).unwrap();
        return;
    }
    for (comment, is_named) in [("takes long", true), ("is short", false)] {
        let prepare = |folder: &Path| {
            std::fs::write(folder.join("kernels.compute_90.ptx"), format!("{PTX}// It {comment}.\n"))
                .unwrap();
        };
        let output = child(name, None, "1", prepare, &[("FAKE_CUDA_TRACE", "1")]);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}");
        let line = "kernels.compute_90.ptx and has taken 2 s; machine code avoids this: ";
        assert_eq!(text.contains(line), is_named, "{text}");
    }
}
