//! Names that are not there.

use cuda_builder::EmitOption;
use cuda_builder::{NvvmError, NvvmOption, NvvmProgram, dbg_version, ir_version, nvvm_version};
use cuda_std::vek::Vec3;
use cust::link;
use cust::{context::ContextFlags, context::legacy, external, memory::array};

#[cuda_std::address_space(local)]
static mut X: u32 = 0;

fn main() {}
