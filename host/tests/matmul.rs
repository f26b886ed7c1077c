//! Matrix multiplication against its f64 oracle, on the CPU executor and as PTX on the emulator.

use ferrowarp::device::Device;
use ferrowarp_cases::matmul::cases;
use ferrowarp_cases::softmax::Setting;
use ferrowarp_cases::{Case, Scope, assert_right, emulated};

#[test]
fn on_the_executor() {
    let device = Device::cpu();
    assert_right(&cases(&Setting::new(Scope::Executor)), &device, Case::assess);
    assert_right(&cases(&Setting::new(Scope::Small)), &device, Case::assess_twice);
}

#[test]
fn as_ptx() {
    for device in emulated::newer_by_each() {
        assert_right(&cases(&Setting::new(Scope::NewEmulator)), &device, Case::assess);
    }
}
