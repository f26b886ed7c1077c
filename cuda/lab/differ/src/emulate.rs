//! Runs cases on the emulator, one launch each.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use cuda_std::launch::LaunchConfig;
use ptx_emulator::{Emulator, EmulatorError, PtxModule};

use crate::cases::{self, Case};
use crate::difference::{Difference, What};

/// Runs all cases, `threads` at a time, and returns those that differ, in order. A case of more than `most_steps`
/// instructions counts as endless.
pub fn compare(module: Arc<PtxModule>, cases: &[Case], threads: usize, most_steps: u64) -> Vec<Difference> {
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut emulator = Emulator::new(Arc::clone(&module)).with_max_steps(most_steps);
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(case) = cases.get(index) else { return };
                    if let Some(what) = run(&mut emulator, case) {
                        found.lock().unwrap_or_else(PoisonError::into_inner).push((index, what));
                    }
                }
            });
        }
    });
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_by_key(|(index, _)| *index);
    let difference = |(index, what): (usize, What)| {
        let Case { kernel, number, input, .. } = &cases[index];
        Difference { kernel: kernel.clone(), number: *number, input_len: input.len(), what }
    };
    found.into_iter().map(difference).collect()
}

/// The difference of one case, if any.
fn run(emulator: &mut Emulator, case: &Case) -> Option<What> {
    let mut packed = cases::pack(core::slice::from_ref(case));
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
        Err(EmulatorError::Fault(fault)) => Some(What::Fault(fault.to_string())),
        Err(error) => Some(What::Fault(error.to_string())),
        Ok(()) => Difference::of_outputs(&case.output, &packed.outputs)
            .or_else(|| emulator.undefined_in(&packed.outputs).map(|byte| What::Undefined(byte.to_string()))),
    }
}
