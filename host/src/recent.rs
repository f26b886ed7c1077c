//! The kernels that were chosen last in this thread. To choose may take longer than to launch.

use std::any::Any;
use std::cell::RefCell;

use ferrowarp_device::DeviceProfile;
use ferrowarp_device::device::Device;
use ferrowarp_device::error::Error;

/// The most choices that are kept. A training step has about twenty problems.
const KEPT: usize = 64;

thread_local! {
    /// The number of a device, and the problem with the choice.
    static RECENT: RefCell<Vec<(u64, Box<dyn Any>)>> = const { RefCell::new(Vec::new()) };
}

/// Returns the kernels for a problem on a device: what was chosen for them before, or else what `choose` returns.
///
/// # Errors
/// Those of `choose`.
pub(crate) fn recent<P: Copy + PartialEq + 'static, C: Copy + 'static>(
    device: &Device,
    problem: P,
    choose: impl FnOnce(&DeviceProfile, &P) -> Result<C, Error>,
) -> Result<C, Error> {
    let number = device.serial_number();
    let known = |(of, kept): &(u64, Box<dyn Any>)| {
        let (known, choice) = kept.downcast_ref::<(P, C)>().filter(|_| *of == number)?;
        (*known == problem).then_some(*choice)
    };
    if let Some(choice) = RECENT.with_borrow(|recent| recent.iter().find_map(known)) {
        return Ok(choice);
    }
    let choice = choose(&DeviceProfile::from(device), &problem)?;
    RECENT.with_borrow_mut(|recent| {
        if recent.len() == KEPT {
            recent.remove(0);
        }
        recent.push((number, Box::new((problem, choice))));
    });
    Ok(choice)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_choice_is_made_once_for_a_problem_of_a_device() {
        let (devices, made) = ([Device::cpu(), Device::cpu()], Cell::new(0));
        let choose = |_: &DeviceProfile, problem: &usize| {
            made.set(made.get() + 1);
            Ok(10 * problem)
        };
        for (device, problem, expected) in [(0, 1, 1), (0, 1, 1), (1, 1, 2), (0, 2, 3), (0, 1, 3), (1, 1, 3)]
        {
            assert_eq!(recent(&devices[device], problem, choose).unwrap(), 10 * problem);
            assert_eq!(made.get(), expected, "{problem} on {device}");
        }
        (0..2 * KEPT)
            .for_each(|problem| assert_eq!(recent(&devices[0], problem, choose).unwrap(), 10 * problem));
        assert!(RECENT.with_borrow(Vec::len) == KEPT);
    }
}
