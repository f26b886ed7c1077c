//! The tests of whole builds, in one program: each file here is a module.

mod archs;
mod backends;
mod build_script;
mod builds;
mod common;
mod download;
mod fixture;
mod hang;
mod libnvvm;
mod plain;
mod specific;
mod stack;
mod tensor_maps;
mod toolchain;

#[test]
#[ignore = "a part of the other tests"]
fn child() {
    common::child::run();
}
