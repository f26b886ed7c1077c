//! Checks an operator's arguments by their shapes and types alone, for tracing.

use std::ffi::c_void;
use std::ptr;
use std::sync::OnceLock;

use cuda_std::launch::{KernelCall, LaunchError, Launcher, Limits};
use ferrowarp::device::{Device, Stream};

use crate::call::{Call, MOST_ARGUMENTS, Memory, Value};
use crate::failure::Failure;
use crate::operand::{Dtype, Name, Operand, Place};
use crate::operators::Operator;

/// Runs no kernel.
struct Nothing;

impl Launcher for Nothing {
    unsafe fn submit(&self, _: &KernelCall<'_>) -> Result<(), LaunchError> {
        Ok(())
    }
}

/// Memory that nothing reads or writes.
struct Shapes;

impl Memory for Shapes {
    fn empty(&mut self, like: &Operand, dtype: Dtype, shape: &[usize]) -> Result<Operand, Failure> {
        operand(like.name, dtype, shape)
    }

    fn copy(&mut self, of: &Operand) -> Result<Operand, Failure> {
        operand(of.name, of.dtype, of.shape())
    }
}

/// An operand without memory.
pub fn operand(name: Name, dtype: Dtype, shape: &[usize]) -> Result<Operand, Failure> {
    /// An address that every kernel takes.
    const ADDRESS: *mut c_void = ptr::without_provenance_mut(1 << 12);
    Operand::dense((name, Place::Cpu, dtype), (ADDRESS, ptr::null_mut()), shape)
}

/// Fails as the operator does with operands like these.
pub fn check(
    operator: &'static Operator,
    arguments: &[Value; MOST_ARGUMENTS],
    results: usize,
) -> Result<(), Failure> {
    static DEVICE: OnceLock<Device> = OnceLock::new();
    let device = DEVICE.get_or_init(|| Device::with_launcher(Nothing, Limits::default()));
    // SAFETY: the device has no streams of another library.
    let stream = unsafe { Stream::borrow_raw(device, ptr::null_mut()) };
    let stream = stream.map_err(|error| Failure::other(error.to_string()))?;
    Call::new(operator, arguments, &stream, &mut Shapes, results).run().map(drop)
}
