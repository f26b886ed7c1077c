//! `train-mnist` on a GPU without what it needs: an error with the cure, exit code 1, nothing written.

use std::path::Path;
use std::process::Command;

use crate::common::Place;

/// `train-mnist` on a machine whose driver is this library and whose PTX is in the folder `ptx`.
fn train(place: &Place, device: &str, driver: &Path) -> Command {
    let flags = ["--device", device, "--data", "data", "--save", "w.safetensors"];
    let mut command = place.program(env!("CARGO_BIN_EXE_train-mnist"), &flags, &[]);
    command.env("FERROWARP_LIBCUDA", driver).env("FERROWARP_PTX", "ptx");
    command
}

/// A place with a data set, an empty folder `ptx`, and a driver that sees a GPU of compute capability 9.0.
fn with_gpu() -> (Place, std::path::PathBuf) {
    let place = Place::with_idx();
    std::fs::create_dir(place.path("ptx")).unwrap();
    let driver = crate::driver::build_fake_driver(&place.path(""));
    (place, driver)
}

#[test]
fn driver_missing() {
    let place = Place::with_idx();
    let missing = Path::new("/nonexistent/libcuda.so.1");
    place
        .refuses(train(&place, "cuda", missing), &["/nonexistent/libcuda.so.1", "install the NVIDIA driver"]);
}

#[test]
fn driver_that_is_none() {
    let place = Place::with_idx();
    place.write("libcuda.so.1", "no library");
    place.refuses(train(&place, "cuda", &place.path("libcuda.so.1")), &["libcuda.so.1", "NVIDIA driver"]);
}

/// To open it would wait for its writer.
#[cfg(unix)]
#[test]
fn driver_that_is_a_pipe() {
    let (place, elsewhere) = (Place::with_idx(), Place::empty());
    let pipe = elsewhere.path("libcuda.so.1");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    place.refuses(train(&place, "cuda", &pipe), &["libcuda.so.1", "it is not a regular file"]);
}

#[test]
fn ptx_missing() {
    let (place, driver) = with_gpu();
    for device in ["auto", "cuda"] {
        place.refuses(
            train(&place, device, &driver),
            &[
                "could not open a GPU; run on the CPU with --device cpu: no PTX found in",
                "`cargo xtask build-ptx`",
            ],
        );
    }
}

#[test]
fn ptx_damaged() {
    let (place, driver) = with_gpu();
    for text in ["", "no PTX at all", ".version 8.6\n.target sm_75\n.visible .entry k() {"] {
        place.write("ptx/gpu_kernels.compute_75.ptx", text);
        for device in ["auto", "cuda"] {
            place.refuses(
                train(&place, device, &driver),
                &["gpu_kernels.compute_75.ptx", "`cargo xtask build-ptx`"],
            );
        }
    }
}
