//! Runs cases on a GPU, one per thread, with memory soiled before every launch.

pub mod pack;
pub mod run;
pub mod work;

use std::ffi::c_void;

use anyhow::{Context, ensure};
use cuda_std::launch::{KernelCall, KernelMeta, LaunchConfig, Launcher as _, PtrArg as _, PtrMutArg as _};
use ferrowarp_device::device::{Buffer, Device};

use crate::cases::{self, Case, Place};
use crate::difference::{Difference, What};

/// Threads per block. Few, since a case may need kilobytes of stack.
const THREADS: u32 = 32;

/// Runs the cases of one kernel, and returns those that differ. A fault makes the GPU unusable in this process.
pub fn compare(device: &Device, cases: &[&Case]) -> Vec<Difference> {
    match run(device, cases) {
        Ok(made) => differences(cases, &made).collect(),
        Err(error) => vec![cases[0].differs(What::Fault(format!("{error:#}")))],
    }
}

/// The outputs of one kernel's cases, concatenated.
fn run(device: &Device, cases: &[&Case]) -> anyhow::Result<Vec<u8>> {
    let packed = cases::pack(cases.iter().copied());
    let places = device.upload(&words(&packed.places))?;
    // An empty allocation has no address on a GPU.
    let inputs = device.upload(&[packed.inputs.as_slice(), &[cases::SOILED]].concat())?;
    let mut outputs = device.upload(&[packed.outputs.as_slice(), &[cases::SOILED]].concat())?;
    let count = u32::try_from(cases.len()).context("more cases than a launch counts")?;
    launch(device, &cases[0].kernel, (&places, count, &inputs, &mut outputs))?;
    let mut made = outputs.to_vec()?;
    let tail = made.pop();
    ensure!(tail == Some(cases::SOILED), "the kernel wrote beyond its outputs");
    Ok(made)
}

/// The description of a kernel that exists as PTX alone.
pub fn meta(kernel: &str) -> &'static KernelMeta {
    // A device stores its data about a kernel under its name, which must live longer than the device.
    Box::leak(Box::new(KernelMeta {
        name: kernel.to_owned().leak(),
        file: "",
        line: 0,
        min_arch: 0,
        arch_specific: false,
        max_threads: 0,
        min_blocks: 0,
        cooperative: false,
        cpu_only: false,
        call: |_| unreachable!("these kernels have no code for the host here"),
    }))
}

fn launch(
    device: &Device,
    kernel: &str,
    (places, count, inputs, mut outputs): (&Buffer<u32>, u32, &Buffer<u8>, &mut Buffer<u8>),
) -> anyhow::Result<()> {
    let meta = meta(kernel);
    let config = LaunchConfig::cover(count as usize, THREADS);
    let (mut places, mut count, mut inputs, mut outputs) =
        (places.as_raw_ptr(), count, inputs.as_raw_ptr(), outputs.as_raw_mut_ptr());
    let args: [*mut c_void; 4] = [
        (&raw mut places).cast(),
        (&raw mut count).cast(),
        (&raw mut inputs).cast(),
        (&raw mut outputs).cast(),
    ];
    let call = KernelCall { meta, config, args: &args, buffers: &[] };
    // SAFETY: every kernel of differ-crates takes these four arguments. Each place lies within the inputs and the outputs,
    // which no other code uses until reading the outputs has waited for the device.
    unsafe { device.submit(&call) }?;
    Ok(device.synchronize()?)
}

/// The places as words, in the order of their fields.
fn words(places: &[Place]) -> Vec<u32> {
    let of_place =
        |place: &Place| [place.input_at, place.input_len, place.number, place.output_at, place.output_len];
    places.iter().flat_map(of_place).collect()
}

fn differences(cases: &[&Case], outputs: &[u8]) -> impl Iterator<Item = Difference> {
    let mut rest = outputs;
    cases.iter().filter_map(move |case| {
        let (got, tail) = rest.split_at(case.output.len());
        rest = tail;
        Some(case.differs(Difference::of_outputs(&case.output, got)?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_case_is_held_against_its_own_output() {
        let case = |number, output: &[u8]| Case {
            kernel: "k".to_owned(),
            number,
            input: vec![7],
            output: output.to_vec(),
        };
        let cases = [case(0, &[1, 2]), case(1, &[]), case(2, &[3, 4, 5])];
        let cases: Vec<&Case> = cases.iter().collect();
        assert_eq!(differences(&cases, &[1, 2, 3, 4, 5]).count(), 0);
        let found: Vec<_> = differences(&cases, &[1, 2, 3, 9, 5]).collect();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].number, 2);
        assert!(matches!(found[0].what, What::Output { at: 1, count: 1, .. }), "{}", found[0]);
    }

    #[test]
    fn places_are_words_in_the_order_of_their_fields() {
        let places = [Place { input_at: 1, input_len: 2, number: 3, output_at: 4, output_len: 5 }];
        assert_eq!(words(&places), [1, 2, 3, 4, 5]);
        assert_eq!(size_of::<Place>(), 20);
    }
}
