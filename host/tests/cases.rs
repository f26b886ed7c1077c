//! The cases of each operation against their oracles in f64: on the CPU executor, under shuffled schedules, and as PTX on the
//! emulator.

use std::sync::Arc;

use cuda_std::testing::Layout;
use ferrowarp::device::Device;
use ferrowarp_cases::softmax::{self, Rowwise};
use ferrowarp_cases::{Case, Scope, Setting, Share, assert_right, emulated};
use proptest::prelude::{Strategy, any};
use proptest::test_runner::{Config, TestRunner};

/// The tests of operations.
macro_rules! operations {
    ($($name:ident: $cases:expr;)*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn on_the_executor() {
                assert_right(&$cases(&Setting::new(Scope::Executor)), &Device::cpu(), Case::assess_twice);
            }

            #[test]
            fn as_ptx() {
                emulated::assert_right_as_ptx($cases);
            }
        }
    )*};
}

operations! {
    attention: ferrowarp_cases::attention::cases;
    axis: ferrowarp_cases::axis::cases;
    backward: softmax::backward::cases;
    cross_entropy: softmax::cross_entropy::cases;
    gallery: |setting: &Setting| ferrowarp_cases::gallery::cases(setting.scope, &setting.profile.limits);
    matmul: ferrowarp_cases::matmul::cases;
    norm: ferrowarp_cases::norm::cases;
    sample: softmax::sample::cases;
    sharded: softmax::sharded::cases;
    top_k: softmax::top_k::cases;
}

/// The small cases, twice each, under a few seeds.
macro_rules! shuffled {
    ($($name:ident),*) => {$(
        #[test]
        fn $name() {
            ferrowarp_cases::assert_right_under_shuffled_schedules(ferrowarp_cases::$name::cases);
        }
    )*};
}

mod under_shuffled_schedules {
    shuffled!(attention, axis, matmul, norm);
}

/// Checks problems of any alignment and distance of rows, of all matrices, with rows of at most `widest` columns.
fn assert_any_layout_is_right<P: Rowwise>(on: &Device, widest: usize, problems: u32) {
    let place = || (0usize..9, 0usize..9);
    let layouts = (1usize..20, 1..widest, [place(), place(), place()]).prop_map(|(rows, cols, places)| {
        places.map(|(gap, offset)| Layout::dense(rows, cols).with_stride(cols + gap).with_offset(offset))
    });
    let config =
        Config { cases: Share::of_tests().count(problems), failure_persistence: None, ..Config::default() };
    let check = |(layouts, seed)| {
        let problem = Arc::new(P::random(layouts, seed));
        assert_right(&problem.cases_of_each_type(on.limits()), on, Case::assess);
        Ok(())
    };
    TestRunner::new(config).run(&(layouts, any::<u64>()), check).unwrap_or_else(|error| panic!("{error}"));
}

mod any_layout {
    use softmax::backward::Backward;
    use softmax::cross_entropy::CrossEntropy;
    use softmax::sample::{Sample, SampleTopK};
    use softmax::top_k::TopK;

    use super::*;

    #[test]
    fn on_the_executor() {
        let on = Device::cpu();
        assert_any_layout_is_right::<Backward>(&on, 300, 40);
        assert_any_layout_is_right::<CrossEntropy>(&on, 300, 40);
        assert_any_layout_is_right::<Sample>(&on, 1500, 40);
        assert_any_layout_is_right::<SampleTopK>(&on, 1500, 40);
        assert_any_layout_is_right::<TopK>(&on, 1500, 30);
    }

    #[test]
    fn as_ptx() {
        for on in emulated::by_each() {
            assert_any_layout_is_right::<Backward>(&on, 300, 4);
            assert_any_layout_is_right::<CrossEntropy>(&on, 300, 4);
        }
    }
}
