//! Launches and kernels that must not compile, and what the compiler says to them.

#[test]
fn wrong_launches_and_kernels_are_refused_at_compile_time() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/ui/right_*.rs");
    cases.compile_fail("tests/ui/wrong_*.rs");
}
