//! What goes wrong in the kernels' PTX is seen: a lost barrier, a wrong instruction, a short buffer, a panic.

use cuda_builder::{Backend, NvvmArch};
use cuda_std::launch::{KernelMeta, KernelsOf, LaunchConfig, Launcher};
use cuda_std::panic_record::PanicRecord;
use ferrowarp_cases::emulated::Emulators;
use ferrowarp_cases::reference::{self, LayerShape};
use ferrowarp_cases::{Share, emulated};
use gpu_kernels::mlp::fused_forward::{LinearArgs, LinearArgsHost, linear_act_forward};
use gpu_kernels::mlp::linear;
use ptx_emulator::Turns;

const SHAPE: LayerShape = LayerShape { batch: 40, inputs: 70, outputs: 33 };

/// The largest difference of `linear_act_forward_32x32` to the oracle; infinite if the launch fails or gives a NaN.
fn error_on(on: &dyn Launcher) -> f64 {
    let LayerShape { batch, inputs, outputs } = SHAPE;
    let values = |len: usize, step: usize| (0..len).map(|i| (i * step % 17) as f32 - 8.0).collect::<Vec<_>>();
    let (inp, weights, biases) = (values(batch * inputs, 5), values(inputs * outputs, 7), values(outputs, 3));
    let mut out = vec![f32::NAN; batch * outputs];
    let kernels = <linear_act_forward as KernelsOf<LinearArgs>>::INSTANCES;
    let kernel = kernels.iter().find(|kernel| kernel.meta.name == "linear_act_forward_32x32").unwrap();
    let (rows, inputs, outputs) = (batch as u32, inputs as u32, outputs as u32);
    let tiles = kernel.tiles(rows, outputs, 1);
    let config = LaunchConfig::new(tiles.count, kernel.threads);
    let args = LinearArgsHost {
        out: &mut out,
        inp: &inp,
        weights: &weights,
        biases: &biases,
        rows,
        inputs,
        outputs,
        relu: 0,
        tile_rows: tiles.rows,
    };
    // SAFETY: the buffers have the layer's shapes, and there is a block for each tile.
    let ended = unsafe { kernel.launch(on, config, args) };
    if ended.is_err() {
        return f64::INFINITY;
    }
    let want = reference::linear_forward(&inp, &weights, &biases, SHAPE);
    let errors = out.iter().zip(&want).map(|(&got, want)| (f64::from(got) - want.value).abs());
    errors.map(|error| if error.is_nan() { f64::INFINITY } else { error }).fold(0.0, f64::max)
}

/// The kernel's text from its name to the end of its body.
fn body_of<'a>(ptx: &'a str, kernel: &str) -> &'a str {
    let start = ptx.find(&format!(".entry {kernel}(")).unwrap();
    let end = ptx[start..].find("\n}").unwrap();
    &ptx[start..start + end]
}

#[test]
fn a_changed_instruction_changes_the_result() {
    let ptx = emulated::ptx_with("linear_act_forward_32x32");
    let body = body_of(&ptx, "linear_act_forward_32x32");
    assert_eq!(error_on(&emulated::emulator_of(&ptx)), 0.0, "sums of small whole numbers are exact");
    // Without barriers, with the threads of a warp for those of the block, with other sums.
    for (from, to) in [("bar.sync \t0;", ""), ("%tid.x", "%laneid"), ("fma.rn.f32", "fma.rn.sat.f32")] {
        assert!(body.contains(from), "the kernel has `{from}`");
        let changed = ptx.replace(body, &body.replace(from, to));
        let error = error_on(&emulated::emulator_of(&changed));
        assert!(error > 0.5, "`{to}` instead of `{from}` goes unseen: the error is {error}");
    }
}

/// Launches `linear_forward` with buffers of these lengths for a layer of 3 samples, 4 inputs, 5 outputs.
fn launch_with(on: &dyn Launcher, [out, inp, weights, biases]: [usize; 4]) -> Option<String> {
    let mut out = vec![0.0f32; out];
    let (inp, weights, biases) = (vec![1.0f32; inp], vec![1.0f32; weights], vec![1.0f32; biases]);
    let config = LaunchConfig::new((1, 1), (5, 3));
    // SAFETY: the emulator checks every access; the grid covers the layer.
    unsafe { linear::linear_forward::launch(on, config, &mut out, &inp, &weights, &biases, 3, 4, 5) }
        .err()
        .map(|error| error.to_string())
}

#[test]
fn a_store_behind_the_end_of_a_buffer_is_refused() {
    let emulator = emulated::emulator_of(&emulated::ptx_with("linear_forward"));
    assert_eq!(launch_with(&emulator, [15, 12, 20, 5]), None);
    let error = launch_with(&emulator, [14, 12, 20, 5]).unwrap();
    assert!(error.contains("block [0, 0, 0], thread [4, 2, 0]: store of 4 bytes at 0x"), "{error}");
    assert!(error.contains("is outside of every allocation of global memory, at PTX line "), "{error}");
}

#[test]
fn a_panic_traps_and_leaves_its_record() {
    let mut emulator = emulated::emulator_of(&emulated::ptx_with("linear_forward"));
    // Without a slot the panic traps all the same.
    assert!(launch_with(&emulator, [15, 12, 19, 5]).unwrap().contains(": trap, at PTX line "));

    let mut record = [PanicRecord::empty()];
    let address = record.as_mut_ptr();
    // SAFETY: the record outlives the launches, and it is read only after them.
    unsafe { emulator.lend(&mut record) };
    emulator.set_global("__ferrowarp_panic_slot", &(address.addr() as u64).to_le_bytes()).unwrap();
    assert_eq!(launch_with(&emulator, [15, 12, 20, 5]), None);
    assert!(launch_with(&emulator, [15, 12, 19, 5]).unwrap().contains(": trap, at PTX line "));
    // SAFETY: the launches have ended.
    let seen = unsafe { address.read() };
    assert_eq!(seen.state, PanicRecord::COMPLETE);
    assert_eq!((seen.block, seen.thread), ([0, 0, 0], [4, 0, 0]));
    assert_eq!(seen.message(), "index out of bounds: the len is 19 but the index is 19");
    assert_eq!(seen.file(), "gpu-kernels/mlp/src/linear.rs");
    let source = include_str!("../../gpu-kernels/mlp/src/linear.rs");
    let line = source.lines().nth(seen.line as usize - 1).unwrap();
    assert!(line[seen.column as usize - 1..].starts_with("weights[i * outputs + col]"), "{line}");
}

#[test]
fn the_ptx_holds_the_kernels_of_the_table_and_no_other() {
    let compiles_all = Share::of_tests().compiles_all();
    let others = [NvvmArch::Compute80, NvvmArch::Compute100].into_iter().filter(|_| compiles_all);
    let archs = emulated::architectures();
    let of_each = emulated::back_ends().flat_map(|backend| archs.iter().map(move |&arch| (backend, arch)));
    for (backend, arch) in of_each.chain(others.map(|arch| (Backend::Nvvm, arch))) {
        let emulators = Emulators::new(backend, arch, Turns::Ascending).unwrap();
        let built = emulators.kernels();
        // Those that the architecture is new enough for or that are for it alone, and none that is for the CPU alone.
        let capability = arch.capability_value();
        let is_in_ptx = |meta: &&&KernelMeta| {
            let has_arch = meta.min_arch == capability || !meta.arch_specific && meta.min_arch < capability;
            has_arch && !meta.cpu_only
        };
        let listed = gpu_kernels::KERNELS.iter().filter(is_in_ptx);
        let mut listed: Vec<&str> = listed.map(|meta| meta.name).collect();
        listed.sort_unstable();
        assert_eq!(built, listed, "{backend} {arch}");
    }
}
