//! Runs cases on a GPU, one per thread, with memory soiled before every launch.

pub mod pack;
pub mod results;
pub mod runner;
pub mod split;
pub mod worker;

use std::ffi::c_void;

use anyhow::{Context, ensure};
use cuda_std::launch::{KernelCall, KernelMeta, LaunchConfig, Launcher as _, PtrArg as _, PtrMutArg as _};
use ferrowarp_device::device::{Buffer, Device};

use crate::cases::{self, Case, Place};
use crate::difference::{Difference, What};
use crate::programs::folder::OUTPUT;

/// Threads per block. Few, since a case may need kilobytes of stack.
const THREADS: u32 = 32;

/// The form of the expected outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outputs {
    /// All their bytes.
    Bytes,
    /// Their digests; each output has [`OUTPUT`] bytes.
    Digests,
}

/// Runs the cases of one kernel, and returns those that differ. A fault makes the GPU unusable in this process.
pub fn compare(device: &Device, cases: &[Case], outputs: Outputs) -> Vec<Difference> {
    let found = match outputs {
        Outputs::Bytes => run(device, cases).map(|made| differences(cases, &made).collect()),
        Outputs::Digests => {
            let blank = |case: &Case| Case { output: vec![cases::SOILED; OUTPUT], ..case.clone() };
            let whole: Vec<Case> = cases.iter().map(blank).collect();
            run(device, &whole).map(|made| differing_digests(cases, &made))
        }
    };
    found.unwrap_or_else(|error| {
        let Case { kernel, number, input, .. } = &cases[0];
        let (kernel, number, input_len) = (kernel.clone(), *number, input.len());
        vec![Difference { kernel, number, input_len, what: What::Fault(format!("{error:#}")) }]
    })
}

/// The outputs of one kernel's cases, concatenated.
fn run(device: &Device, cases: &[Case]) -> anyhow::Result<Vec<u8>> {
    let packed = cases::pack(cases);
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

fn differences<'a>(cases: &'a [Case], outputs: &'a [u8]) -> impl Iterator<Item = Difference> + 'a {
    let mut rest = outputs;
    cases.iter().filter_map(move |case| {
        let (got, tail) = rest.split_at(case.output.len());
        rest = tail;
        let what = Difference::of_outputs(&case.output, got)?;
        let Case { kernel, number, input, .. } = case;
        Some(Difference { kernel: kernel.clone(), number: *number, input_len: input.len(), what })
    })
}

/// The cases with different digests; the bytes shown are those of the digests.
fn differing_digests(cases: &[Case], outputs: &[u8]) -> Vec<Difference> {
    let digests: Vec<u8> =
        outputs.chunks(OUTPUT).flat_map(|output| cases::digest(output).to_le_bytes()).collect();
    differences(cases, &digests).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_stand_for_outputs() {
        let (a, b) = ([1; OUTPUT], [2; OUTPUT]);
        let case = |number, output: &[u8]| Case {
            kernel: "k".to_owned(),
            number,
            input: vec![],
            output: cases::digest(output).to_le_bytes().to_vec(),
        };
        let cases = [case(0, &a), case(1, &b)];
        assert_eq!(differing_digests(&cases, &[a, b].concat()), []);
        let found = differing_digests(&cases, &[a, a].concat());
        assert_eq!((found.len(), found[0].number), (1, 1));
    }

    #[test]
    fn each_case_is_held_against_its_own_output() {
        let case = |number, output: &[u8]| Case {
            kernel: "k".to_owned(),
            number,
            input: vec![7],
            output: output.to_vec(),
        };
        let cases = [case(0, &[1, 2]), case(1, &[]), case(2, &[3, 4, 5])];
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
