//! Runs cases on the emulator, one launch each.

use std::sync::Arc;

use anyhow::Context;
use cuda_std::launch::LaunchConfig;
use ptx_emulator::{Emulator, PtxModule};
use rayon::prelude::*;

use crate::cases::{self, Case};
use crate::compile::Module;
use crate::difference::{Difference, What};

/// Runs those of the cases whose kernels are in the module, and returns those that differ, in order. A case of more than
/// `most_steps` instructions counts as endless.
///
/// # Errors
/// The emulator does not know an instruction of the module.
pub fn compare(module: &Module, cases: &[Case], most_steps: u64) -> anyhow::Result<Vec<Difference>> {
    let parsed = PtxModule::parse(&module.ptx).with_context(|| format!("the PTX of {}", module.name))?;
    let parsed = Arc::new(parsed);
    let emulator = || Emulator::new(Arc::clone(&parsed)).with_max_steps(most_steps);
    let cases = module.cases(cases).into_par_iter();
    Ok(cases
        .map_init(emulator, |emulator, case| Some(case.differs(run(emulator, case)?)))
        .flatten()
        .collect())
}

/// The difference of one case, if any.
fn run(emulator: &mut Emulator, case: &Case) -> Option<What> {
    let mut packed = cases::pack([case]);
    let address = |pointer: usize| (pointer as u64).to_le_bytes();
    let places = address(packed.places.as_mut_ptr().expose_provenance());
    let inputs = address(packed.inputs.as_mut_ptr().expose_provenance());
    let outputs = address(packed.outputs.as_mut_ptr().expose_provenance());
    let arguments: [&[u8]; 4] = [&places, &1u32.to_le_bytes(), &inputs, &outputs];
    // SAFETY: the memory outlives the launch, after which it is taken back, and no other code uses it; the kernel gets the
    // one place with its input and its output.
    let result = unsafe {
        emulator.lend(&mut packed.places);
        emulator.lend(&mut packed.inputs);
        emulator.lend(&mut packed.outputs);
        emulator.launch(&case.kernel, LaunchConfig::new(1, 1), &arguments)
    };
    emulator.take_back();
    match result {
        Err(error) => Some(What::Fault(error.to_string())),
        Ok(()) => Difference::of_outputs(&case.output, &packed.outputs)
            .or_else(|| emulator.undefined_in(&packed.outputs).map(|byte| What::Undefined(byte.to_string()))),
    }
}
