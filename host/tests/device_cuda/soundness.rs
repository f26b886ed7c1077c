//! Attacks on the safe functions of a device, on a driver without a GPU and on the CPU.

use ferrowarp_cases::soundness::{ATTACKS, Target};

use super::*;

fn all_are_repelled(device: &Device) {
    let target = Target::with_kernel(device, |stream, out| {
        let len = out.len();
        // SAFETY: as many elements as the view has.
        unsafe { fill::launch(stream, LaunchConfig::new(1, 32), out, len, 1.0) }
    });
    for (claim, attack) in ATTACKS {
        attack(&target).unwrap_or_else(|error| panic!("{claim}: {error:#}"));
    }
}

#[test]
fn attacks_on_a_gpu_are_repelled() {
    isolated("soundness::attacks_on_a_gpu_are_repelled", None, "1", good_ptx, || {
        all_are_repelled(&open(DeviceChoice::Cuda).unwrap().0);
    });
}

#[test]
fn attacks_on_the_cpu_are_repelled() {
    all_are_repelled(&Device::cpu());
}

#[test]
fn the_table_of_safe_functions_names_every_function_of_a_device() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("device/src/device");
    let table = std::fs::read_to_string(folder.join("soundness.md")).unwrap();
    // The files with items that users see.
    let files = "allocate buffer graph handle hung open pinned profile queue raw stack stream tensor_map timing transfer unified";
    for file in files.split(' ') {
        let source = std::fs::read_to_string(folder.join(format!("{file}.rs"))).unwrap();
        let lines = source.lines().map(|line| line.trim_start().replace("pub unsafe fn", "pub fn"));
        let functions = lines.filter_map(|line| Some(line.strip_prefix("pub fn ")?.to_owned()));
        for function in functions {
            let name = function.split(['(', '<']).next().unwrap();
            assert!(table.contains(&format!("{name}`")), "{file}.rs: {name} is not in soundness.md");
        }
    }
}
