//! PTX and architectures that do not fit the GPU or its driver.

use std::path::Path;

use ferrowarp::device::{DeviceChoice, DeviceError, open};

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
        for arch in ["compute_80", "75,compute_86", "compute_75,compute_90", "compute_100", "new"] {
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
            let text = "FERROWARP_ARCH is `new`; set it to architectures such as compute_80,compute_90";
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

        let error = error_for(&PTX.replace("8.6", "9.9"));
        assert!(error.contains("PTX 9.9, too new for the driver, which supports CUDA 12.8"), "{error}");

        let error = error_for(&PTX[..PTX.len() - 3]);
        assert!(error.contains("truncated"), "{error}");
    });
}
