//! PTX and architectures that do not fit the GPU or its driver.

use std::path::Path;

use ferrowarp::device::{Device, DeviceChoice, DeviceError, doctor, open};

use super::{CHILD, PTX, child, error_of, fill_all, isolated, no_ptx};

#[test]
fn a_gpu_older_than_the_ptx() {
    let newer = |folder: &Path| {
        std::fs::write(folder.join("k.compute_100.ptx"), PTX.replace("sm_90", "sm_100")).unwrap();
    };
    isolated("versions::a_gpu_older_than_the_ptx", None, "1", newer, || {
        let (device, line) = open(DeviceChoice::Auto).unwrap();
        assert!(!device.is_cuda());
        assert!(line.contains("Fake GPU, which has compute capability 9.0: there is compute_100"), "{line}");
        assert!(matches!(error_of(open(DeviceChoice::Cuda)), DeviceError::NoModuleFor { .. }));
    });
}

#[test]
fn the_code_of_an_older_architecture() {
    let archs = |folder: &Path| {
        for (arch, name) in [("75", "k"), ("80", "k"), ("90", "k"), ("90a", "k.only_90a")] {
            // `fill` is in the PTX for 8.0 alone.
            let fill = if arch == "80" { "fill" } else { "other" };
            let ptx = PTX.replace("sm_90", &format!("sm_{arch}")).replace("fill", fill);
            std::fs::write(folder.join(format!("{name}.compute_{arch}.ptx")), ptx).unwrap();
        }
    };
    if std::env::var_os(CHILD).is_none() {
        for arch in ["compute_80", "75,compute_86", "compute_75,compute_90", "compute_100", "compute_999"] {
            let variables = [("FERROWARP_ARCH", arch)];
            let output = child("versions::the_code_of_an_older_architecture", None, "1", archs, &variables);
            assert!(output.status.success(), "{arch}: {}", String::from_utf8_lossy(&output.stdout));
        }
        return;
    }
    let arch = std::env::var("FERROWARP_ARCH").unwrap();
    let opened = open(DeviceChoice::Auto);
    let (capability, kibibytes, cluster, loaded) = match arch.as_str() {
        "compute_80" => (80, 163, 1, 80),
        "75,compute_86" => (86, 99, 1, 80),
        "compute_75,compute_90" => (90, 227, 16, 90),
        "compute_100" => {
            let text = "FERROWARP_ARCH names compute_100, and Fake GPU, which has compute capability 9.0, runs none of them";
            return assert!(error_of(opened).to_string().starts_with(text));
        }
        _ => {
            let text = "FERROWARP_ARCH is `compute_999`; set it to architectures such as compute_80,compute_90; there are 75, 80, ";
            assert!(error_of(opened).to_string().starts_with(text), "{}", error_of(open(DeviceChoice::Auto)));
            return assert!(open(DeviceChoice::Cpu).is_err());
        }
    };
    let (device, line) = opened.unwrap();
    let name =
        if capability == 90 { "Fake GPU".to_owned() } else { format!("Fake GPU as compute_{capability}") };
    assert!(
        line.starts_with(&format!("running on {name} (CUDA device 0, compute capability 9.0, ")),
        "{line}"
    );
    let limits = device.limits();
    assert_eq!((limits.capability, limits.max_dynamic_shared_bytes >> 10), (capability, kibibytes));
    assert_eq!((limits.max_cluster, limits.runs_cpu_only), (cluster, false));
    let mut buffer = device.alloc_zeroed::<f32>(4).unwrap();
    assert_eq!(fill_all(&device, &mut buffer, 2.0).is_ok(), loaded == 80);
    // PTX for 8.0 on a device that passes for 8.6 may lack kernels.
    assert_eq!(limits.kernels.is_some(), loaded < capability);
}

#[test]
fn ptx_that_the_driver_refuses() {
    isolated("versions::ptx_that_the_driver_refuses", None, "1", no_ptx, || {
        let folder = std::env::var_os("FERROWARP_PTX").unwrap();
        let file = Path::new(&folder).join("kernels.compute_90.ptx");
        let error_for = |text: &str| {
            std::fs::write(&file, text).unwrap();
            let error = error_of(open(DeviceChoice::Auto)).to_string();
            assert!(error.contains(&file.display().to_string()), "{error}");
            assert!(error.contains("cargo xtask build-ptx"), "{error}");
            error
        };
        let error = error_for(&PTX.replace("ret; }", "nonsense }"));
        assert!(error.contains("CUDA_ERROR_INVALID_PTX (218)"), "{error}");
        assert!(error.contains("ptxas application ptx input, line 5; error: syntax"), "{error}");

        // The driver is not asked: it would accept this text.
        let error = error_for(&PTX.replace("8.6", "8.8"));
        let says = "PTX 8.8, too new for the driver, which supports CUDA 12.8; update the driver to one for CUDA 12.9 or later";
        assert!(error.contains(says) && error.contains("FERROWARP_ARCH=compute_80"), "{error}");

        let error = error_for(&PTX[..PTX.len() - 3]);
        assert!(error.contains("truncated"), "{error}");
    });
}

/// Runs the test `name` in a process with these variables for the fake driver.
fn with_driver(name: &str, variables: &[(&str, &str)], prepare: impl FnOnce(&Path), body: impl FnOnce()) {
    if std::env::var_os(CHILD).is_some() {
        return body();
    }
    let devices =
        variables.iter().find(|(name, _)| *name == "FAKE_CUDA_DEVICES").map_or("1", |(_, value)| *value);
    let output = child(&format!("versions::{name}"), None, devices, prepare, variables);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// PTX of `version` for each of these architectures.
fn ptx_for(folder: &Path, version: &str, archs: &[u32]) {
    for arch in archs {
        let ptx = PTX.replace("8.6", version).replace("sm_90", &format!("sm_{arch}"));
        std::fs::write(folder.join(format!("k.compute_{arch}.ptx")), ptx).unwrap();
    }
}

#[test]
fn a_driver_that_is_older_than_the_ptx() {
    let old = [("FAKE_CUDA_VERSION", "12020")];
    with_driver(
        "a_driver_that_is_older_than_the_ptx",
        &old,
        |folder| ptx_for(folder, "8.3", &[90]),
        || {
            let error = error_of(open(DeviceChoice::Auto)).to_string();
            let says = "k.compute_90.ptx failed: it is PTX 8.3, too new for the driver, which supports CUDA 12.2; update the driver \
                    to one for CUDA 12.3 or later, rebuild the PTX with `cargo xtask build-ptx`";
            assert!(error.contains(says), "{error}");
        },
    );
}

#[test]
fn a_driver_as_old_as_the_ptx() {
    let old = [("FAKE_CUDA_VERSION", "12030")];
    with_driver(
        "a_driver_as_old_as_the_ptx",
        &old,
        |folder| ptx_for(folder, "8.3", &[90]),
        || {
            assert!(open(DeviceChoice::Cuda).is_ok());
        },
    );
}

#[test]
fn a_gpu_newer_than_any_ptx_takes_the_newest() {
    let new = [("FAKE_CUDA_CAPABILITIES", "130")];
    let name = "a_gpu_newer_than_any_ptx_takes_the_newest";
    with_driver(
        name,
        &new,
        |folder| ptx_for(folder, "8.6", &[75, 100]),
        || {
            let (device, line) = open(DeviceChoice::Auto).unwrap();
            assert!(line.contains("compute capability 13.0"), "{line}");
            assert!(device.limits().kernels.is_some(), "it is known to lack newer kernels");
        },
    );
}

#[test]
fn a_gpu_older_than_7_5_is_refused() {
    let old = [("FAKE_CUDA_CAPABILITIES", "61")];
    with_driver(
        "a_gpu_older_than_7_5_is_refused",
        &old,
        |folder| ptx_for(folder, "8.6", &[75]),
        || {
            let says = "no PTX for Fake GPU, which has compute capability 6.1: there is compute_75; 7.5 (Turing) is the oldest that \
                    kernels can be built for, so use a newer GPU or the CPU";
            assert_eq!(error_of(open(DeviceChoice::Cuda)).to_string(), says);
            let (device, line) = open(DeviceChoice::Auto).unwrap();
            assert!(!device.is_cuda() && line.ends_with(says), "{line}");
        },
    );
}

#[test]
fn two_gpus_of_different_kinds_get_their_own_modules() {
    let two = [("FAKE_CUDA_DEVICES", "2"), ("FAKE_CUDA_CAPABILITIES", "90,86")];
    let name = "two_gpus_of_different_kinds_get_their_own_modules";
    with_driver(
        name,
        &two,
        |folder| ptx_for(folder, "7.8", &[80, 90]),
        || {
            let [first, second] = [0, 1].map(|ordinal| Device::cuda(ordinal).unwrap());
            assert_eq!([first.limits().capability, second.limits().capability], [90, 86]);
            assert!(first.limits().kernels.is_none() && second.limits().kernels.is_some());
            for device in [first, second] {
                let mut buffer = device.alloc_zeroed::<f32>(4).unwrap();
                fill_all(&device, &mut buffer, 2.0).unwrap();
                assert_eq!(buffer.to_vec().unwrap(), [2.0; 4]);
            }
        },
    );
}

#[test]
fn a_driver_that_does_not_start() {
    let mismatch = [("FAKE_CUDA_INIT", "803")];
    with_driver(
        "a_driver_that_does_not_start",
        &mismatch,
        |folder| ptx_for(folder, "8.6", &[90]),
        || {
            let says = "starting the CUDA driver failed: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803): system has unsupported display driver";
            let error = error_of(open(DeviceChoice::Cuda)).to_string();
            assert!(error.contains(says), "{error}");
            let (device, line) = open(DeviceChoice::Auto).unwrap();
            assert!(!device.is_cuda() && line.contains(says), "{line}");
        },
    );
}

#[test]
fn the_doctor_reports_each_gpu() {
    let two = [("FAKE_CUDA_DEVICES", "2"), ("FAKE_CUDA_CAPABILITIES", "90,61"), ("XDG_CACHE_HOME", "/proc")];
    with_driver(
        "the_doctor_reports_each_gpu",
        &two,
        |folder| ptx_for(folder, "7.8", &[75, 90]),
        || {
            let report = doctor();
            let folder = std::env::var("FERROWARP_PTX").unwrap();
            for line in [
                "libfakecuda.so, for CUDA 12.8, ",
                "\ngpu 0: Fake GPU, compute capability 9.0\ngpu 1: Fake GPU, compute capability 6.1\n",
                &format!(
                    "\nptx: 2 modules, 1 for compute_75 up to PTX 7.8, 1 for compute_90 up to PTX 7.8 in {folder}\n"
                ),
                "\ngpu 0 gets: 1 modules, 1 for compute_90 up to PTX 7.8; 0 of them with machine code\ngpu 0 opens: yes\n",
                "\ngpu 1 opens: no\n",
                "\ncache of build scripts: /proc/ferrowarp cannot be written, so each project builds its own kernels\n",
                "\nmissing: no PTX for Fake GPU, which has compute capability 6.1",
            ] {
                assert!(report.contains(line), "{line}\n{report}");
            }
        },
    );
}

#[test]
fn the_doctor_says_which_variables_are_wrong() {
    let wrong = [
        ("FERROWARP_ARCH", "nonsense"),
        ("FERROWARP_DEVICE", "tpu"),
        ("FERROWARP_SYNC", "2"),
        ("FERROWARP_STACK_BYTES", "-1"),
        ("FERROWARP_SEED", "x"),
    ];
    for (name, value) in wrong.into_iter().chain([
        ("FERROWARP_STACK_KIB", "1"),
        ("FERROWARP_KERNEL_SECONDS", "soon"),
        ("FERROWARP_ARCH", "compute_80"),
    ]) {
        if std::env::var_os(CHILD).is_none() {
            let test = "versions::the_doctor_says_which_variables_are_wrong";
            let output = child(test, None, "1", |folder| ptx_for(folder, "7.8", &[75]), &[(name, value)]);
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        } else if std::env::var(name).as_deref() == Ok(value) {
            let report = doctor();
            let lines = report.lines().filter(|line| line.starts_with("wrong: ")).collect::<Vec<_>>();
            let names = |line: &str| line.contains(&format!("{name} is `{value}`"));
            assert_eq!(lines.len(), usize::from(value != "compute_80"), "{report}");
            assert!(lines.iter().all(|line| names(line)), "{report}");
        }
    }
}

#[test]
fn the_doctor_says_what_is_missing() {
    isolated("versions::the_doctor_says_what_is_missing", Some("/nowhere/libcuda.so.1"), "1", no_ptx, || {
        let report = doctor();
        assert!(
            report.contains("\ndriver: none\nptx: none, which only a GPU needs (no PTX found in "),
            "{report}"
        );
        assert!(
            report.contains("\nwrong: loading the CUDA driver library /nowhere/libcuda.so.1, which FERROWARP_LIBCUDA names, failed"),
            "{report}"
        );
    });
}
