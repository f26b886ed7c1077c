//! Every kernel against the oracle, whatever the operation would choose: on the executor, and as PTX on the emulator.

use ferrowarp::softmax::KernelChoice;
use ferrowarp_cases::softmax::forward;
use ferrowarp_cases::{Case, Scope, Setting, assert_right, emulated, for_each_pair};

use super::executor;

/// The rows of that name in the table.
fn cases(scope: Scope, name: &str) -> Vec<Case> {
    forward::cases(&Setting::new(scope), |it| it == name)
}

fn assert_right_on_the_executor(name: &str) {
    assert_right(&cases(Scope::Executor, name), &executor(), Case::assess_twice);
}

#[test]
fn narrow_rows_agree_with_the_oracle() {
    assert_right_on_the_executor("narrow rows");
}

#[test]
fn rows_of_some_warps_agree_with_the_oracle() {
    assert_right_on_the_executor("rows of some warps");
}

#[test]
fn wide_rows_agree_with_the_oracle() {
    assert_right_on_the_executor("wide rows");
}

/// The widest row of every kernel, and one more, which it must not get.
#[test]
fn every_kernel_is_reached_at_its_widest() {
    let cases = cases(Scope::Executor, "widest rows");
    assert_right(&cases, &executor(), Case::assess_twice);
    let profile = Setting::new(Scope::Executor).profile;
    for_each_pair!(|kernels| {
        for variant in kernels.variants.iter().chain(kernels.narrow).chain(kernels.clusters) {
            let mut reached = cases.iter().flat_map(Case::kernels);
            assert!(reached.any(|name| name == variant.meta.name), "{}", variant.meta.name);
        }
        for variant in kernels.variants.iter().chain(kernels.narrow) {
            let wider = variant.elements as usize + 16 / size_of::<I>();
            let choices = KernelChoice::<I, O>::every(&profile, 3, wider).unwrap();
            let mut names = choices.iter().flat_map(KernelChoice::kernels).map(|meta| meta.name);
            assert!(names.all(|name| name != variant.meta.name), "{}", variant.meta.name);
        }
    });
}

#[test]
fn edge_rows_come_out_as_defined() {
    assert_right(&cases(Scope::Executor, "hard rows"), &executor(), Case::assess);
}

/// The same bits in place as from one matrix into another that lies as far from a boundary.
#[test]
fn in_place_gives_the_same() {
    assert_right(&cases(Scope::Executor, "in place"), &executor(), Case::assess);
}

#[test]
fn kernels_agree_with_the_oracle_as_ptx() {
    emulated::assert_right_as_ptx(|setting| forward::cases(setting, |_| true));
}
