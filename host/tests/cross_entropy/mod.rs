//! Cross entropy of every type and width against the f64 oracle: on the CPU executor, and as PTX on the emulator.

mod edges;

use std::sync::Arc;

use cuda_std::testing::Layout;
use ferrowarp::device::Device;
use ferrowarp_cases::softmax::cross_entropy::{self, CrossEntropy};
use ferrowarp_cases::softmax::{Rowwise as _, Setting, sharded};
use ferrowarp_cases::{Case, Scope, Share, assert_right, emulated};
use proptest::prelude::{Strategy, any, proptest};
use proptest::test_runner::Config;

#[test]
fn every_kernel_agrees_with_the_oracle_on_the_executor() {
    assert_right(&cross_entropy::cases(&Setting::new(Scope::Executor)), &Device::cpu(), Case::assess_twice);
}

#[test]
fn every_kernel_agrees_with_the_oracle_as_ptx() {
    emulated::assert_right_as_ptx(cross_entropy::cases);
}

#[test]
fn shards_agree_with_the_oracle_on_the_executor() {
    assert_right(&sharded::cases(&Setting::new(Scope::Executor)), &Device::cpu(), Case::assess_twice);
}

#[test]
fn shards_agree_with_the_oracle_as_ptx() {
    emulated::assert_right_as_ptx(sharded::cases);
}

/// Any alignment and distance of rows, of both matrices.
fn layouts() -> impl Strategy<Value = [Layout; 3]> {
    let place = || (0usize..9, 0usize..9);
    (1usize..20, 1usize..300, [place(), place(), place()]).prop_map(|(rows, cols, places)| {
        places.map(|(gap, offset)| Layout::dense(rows, cols).with_stride(cols + gap).with_offset(offset))
    })
}

proptest! {
    #![proptest_config(Config { cases: Share::of_tests().count(40), failure_persistence: None, ..Config::default() })]

    #[test]
    fn any_layout_agrees_with_the_oracle(layouts in layouts(), seed in any::<u64>()) {
        let (problem, on) = (Arc::new(CrossEntropy::random(layouts, seed)), Device::cpu());
        assert_right(&problem.cases_of_each_type(on.limits()), &on, Case::assess);
    }
}

proptest! {
    #![proptest_config(Config { cases: Share::of_tests().count(4), failure_persistence: None, ..Config::default() })]

    #[test]
    fn any_layout_agrees_with_the_oracle_as_ptx(layouts in layouts(), seed in any::<u64>()) {
        let problem = Arc::new(CrossEntropy::random(layouts, seed));
        for on in emulated::by_each() {
            assert_right(&problem.cases_of_each_type(on.limits()), &on, Case::assess);
        }
    }
}
