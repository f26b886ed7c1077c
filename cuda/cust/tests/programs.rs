//! Programs written for upstream's cust, run on a driver without a GPU.
//!
//! One test, since the environment and the loaded library belong to the whole process.

#[path = "../examples/host_api.rs"]
mod host_api;
mod support;
#[path = "../examples/vecadd.rs"]
mod vecadd;

#[test]
fn programs_for_upstream_run() {
    let directory = tempfile::tempdir().unwrap();
    let library = support::build_fake_driver(directory.path());
    // SAFETY: this process has one test and no other thread that reads the environment.
    unsafe { std::env::set_var(cust::LIBRARY_VARIABLE, &library) };
    vecadd::main().unwrap();
    host_api::main().unwrap();
}
