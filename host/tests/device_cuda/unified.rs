//! Unified memory on a driver without a GPU: the calls to the driver, and what is refused.

use ferrowarp::device::{Advice, Place};

use super::*;

/// The variable that makes the test a child's.
const DEED: &str = "FERROWARP_TEST_DEED";

/// What the child writes, and whether it ended well.
fn run(test: &str, variables: &[(&str, &str)]) -> (bool, String) {
    let variables = [variables, &[(DEED, "1")]].concat();
    let output = child(test, None, "1", good_ptx, &variables);
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (output.status.success(), text.into_owned())
}

#[test]
fn host_and_kernels_use_the_same_elements() {
    let name = "unified::host_and_kernels_use_the_same_elements";
    if std::env::var_os(DEED).is_some() {
        let (device, _) = open(DeviceChoice::Cuda).unwrap();
        let mut numbers = device.alloc_unified::<f32>(8).unwrap();
        assert_eq!(numbers.host().unwrap(), [0.0; 8]);
        numbers.host_mut().unwrap()[7] = 7.0;
        let stream = device.stream().unwrap();
        eprintln!("telling");
        numbers.advise(.., Advice::ReadMostly).unwrap();
        numbers.advise(..4, Advice::PreferredPlace(Place::Host)).unwrap();
        numbers.advise(4.., Advice::AccessedBy(Place::Device)).unwrap();
        numbers.prefetch(2..6, Place::Device, &stream).unwrap();
        numbers.prefetch(3..3, Place::Host, &stream).unwrap();
        numbers.prefetch(.., Place::Host, &stream).unwrap();
        eprintln!("reading");
        let view = numbers.view_mut(1..3).unwrap();
        // SAFETY: the view has as many elements.
        unsafe { fill::launch(&stream, LaunchConfig::new(1, 32), view, 2, 1.0) }.unwrap();
        assert_eq!(numbers.host().unwrap(), [0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 7.0]);
        eprintln!("read");
        numbers.host_mut().unwrap()[0] = 0.0;
        eprintln!("written");
        assert_eq!(numbers.view(6..).unwrap().to_vec().unwrap(), [0.0, 7.0]);
        eprintln!("freeing");
        drop(numbers);
        eprintln!("done");
        return;
    }
    let (is_well, text) = run(name, &[("FAKE_CUDA_TRACE", "calls")]);
    assert!(is_well, "{text}");
    let told = "telling\nfake driver, in order: advice 1 for 32 bytes and device 0\nfake driver, in order: advice 3 for 16 \
                bytes and host\nfake driver, in order: advice 5 for 16 bytes and device 0\nfake driver, in order: 16 bytes \
                to device 0\nfake driver, in order: 32 bytes to host\nreading\n";
    assert!(text.contains(told), "{text}");
    let all = "fake driver: synchronize 0\nfake driver: synchronize 1\n";
    let waited = format!("reading\n{all}read\n{all}written\n");
    assert!(text.contains(&waited), "the host waits for all streams before it reads or writes: {text}");
    let freed = "freeing\nfake driver: synchronize 0\nfake driver: synchronize 1\nfake driver, in order: memory\ndone\n";
    assert!(text.contains(freed), "{text}");
}

#[test]
fn two_streams_that_race_on_it_are_refused() {
    isolated("unified::two_streams_that_race_on_it_are_refused", None, "1", good_ptx, || {
        let (device, _) = open(DeviceChoice::Cuda).unwrap();
        let mut numbers = device.alloc_unified::<f32>(8).unwrap();
        let (first, second) = (device.stream().unwrap(), device.stream().unwrap());
        let mut fill_on = |stream: &Stream| {
            // SAFETY: the view has as many elements.
            unsafe { fill::launch(stream, LaunchConfig::new(1, 32), numbers.view_mut(..).unwrap(), 8, 1.0) }
        };
        fill_on(&first).unwrap();
        let error: DeviceError = fill_on(&second).unwrap_err().into();
        assert!(matches!(error, DeviceError::Unordered(_)), "{error}");
    });
}

#[test]
fn what_is_missing_is_said() {
    let name = "unified::what_is_missing_is_said";
    if std::env::var_os(DEED).is_some() {
        let (device, _) = open(DeviceChoice::Cuda).unwrap();
        match device.alloc_unified::<f32>(8) {
            Ok(numbers) => {
                let error = error_of(numbers.prefetch(.., Place::Host, &device.default_stream()));
                assert!(matches!(error, DeviceError::NoUnifiedMemory { .. }), "{error}");
                eprintln!("{error}");
                assert_eq!(numbers.host().unwrap(), [0.0; 8], "the device goes on");
                let error = error_of(device.alloc_unified::<u8>((1 << 30) + 1));
                assert!(matches!(error, DeviceError::OutOfMemory { .. }), "{error}");
                assert!(error.to_string().contains("must have room on the device; 1024 of"), "{error}");
                let error = error_of(numbers.view(..9));
                assert!(error.to_string().contains("buffer of 8 elements"), "{error}");
            }
            Err(error) => eprintln!("{error}"),
        }
        return;
    }
    let (is_well, text) = run(name, &[("FAKE_CUDA_FAULTS", "prefetch 1 801")]);
    assert!(is_well, "{text}");
    let said = "prefetching unified memory on Fake GPU failed: CUDA_ERROR_NOT_SUPPORTED (801): operation not supported; use \
                buffers and copies there\n";
    assert!(text.contains(said), "{text}");
    let (is_well, text) = run(name, &[("FAKE_CUDA_EXCLUSIVE", "1")]);
    assert!(is_well, "{text}");
    assert!(text.contains("host and device cannot use it at the same time"), "{text}");
}
