//! Cases on a GPU, a thread each, with memory soiled before every launch.

use std::ffi::c_void;
use std::path::Path;

use anyhow::{Context, ensure};
use cuda_std::launch::{KernelCall, KernelMeta, LaunchConfig, Launcher as _, PtrArg as _, PtrMutArg as _};
use ferrowarp::device::{Buffer, Device, PtxModules};

use crate::cases::{self, Case, Place};
use crate::difference::{Difference, What};

/// Threads of a block. Few, since a case may need kilobytes of stack.
const THREADS: u32 = 32;

/// Runs every case with the PTX in a file or folder on GPU 0, and gives those that differ. After a fault, which takes
/// the GPU from this process, nothing more is run.
///
/// # Errors
/// There is no GPU or no such PTX, or the device fails before a kernel runs.
pub fn compare(ptx: &Path, cases: &[Case]) -> anyhow::Result<Vec<Difference>> {
    let device = Device::cuda(0, &PtxModules::read(ptx)?)?.with_soiled_memory()?;
    let mut found = Vec::new();
    for cases in cases::by_kernel(cases) {
        match run(&device, cases) {
            Ok(outputs) => found.extend(differences(cases, &outputs)),
            Err(error) => {
                let Case { kernel, number, input, .. } = &cases[0];
                let what = What::Fault(format!("{error:#}"));
                found.push(Difference {
                    kernel: kernel.clone(),
                    number: *number,
                    input_len: input.len(),
                    what,
                });
                break;
            }
        }
    }
    Ok(found)
}

/// The outputs of one kernel's cases, one after the other.
fn run(device: &Device, cases: &[Case]) -> anyhow::Result<Vec<u8>> {
    let packed = cases::pack(cases);
    let places = device.upload(&words(&packed.places))?;
    // An allocation of no bytes has no address on a GPU.
    let inputs = device.upload(&[packed.inputs.as_slice(), &[cases::SOILED]].concat())?;
    let mut outputs = device.upload(&[packed.outputs.as_slice(), &[cases::SOILED]].concat())?;
    let count = u32::try_from(cases.len()).context("more cases than a launch counts")?;
    launch(device, &cases[0].kernel, (&places, count, &inputs, &mut outputs))?;
    let mut made = outputs.to_vec()?;
    let tail = made.pop();
    ensure!(tail == Some(cases::SOILED), "the kernel wrote beyond its outputs");
    Ok(made)
}

fn launch(
    device: &Device,
    kernel: &str,
    (places, count, inputs, mut outputs): (&Buffer<u32>, u32, &Buffer<u8>, &mut Buffer<u8>),
) -> anyhow::Result<()> {
    // A device keeps what it knows of a kernel as long as it lives, under a name that lives longer.
    let meta = Box::leak(Box::new(KernelMeta {
        name: kernel.to_owned().leak(),
        file: "",
        line: 0,
        min_arch: 0,
        max_threads: 0,
        min_blocks: 0,
        cooperative: false,
        cpu_only: false,
        call: |_| unreachable!("these kernels have no code for the host here"),
    }));
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
    // SAFETY: every kernel of differ-crates takes these four; each place lies in the inputs and the outputs, which
    // nobody else uses until the device has been waited for, by the read of the outputs.
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
