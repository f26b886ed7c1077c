//! Launches and kernels that must not compile, with the compiler's messages, and some that must compile and run.

#[path = "right/instances.rs"]
mod right_instances;
#[path = "right/launch.rs"]
mod right_launch;

#[test]
fn right_launches_and_kernels_do_what_they_say() {
    right_instances::main();
    right_launch::main();
}

#[test]
fn wrong_launches_and_kernels_are_refused_at_compile_time() {
    trybuild::TestCases::new().compile_fail("tests/ui/wrong_*.rs");
}
