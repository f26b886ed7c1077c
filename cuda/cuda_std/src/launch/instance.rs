//! Kernels as host code picks them.

use core::ops::Deref;

use super::{KernelMeta, LaunchConfig, LaunchError, Launcher};

/// A kernel of a list, with its typed launch: what `#[kernel(args = A, facts: F = ..)]` makes of each instance.
///
/// `A` is a struct with a field for each parameter of the kernel, by its name; what it has besides is ignored. `F` is what
/// the kernel says of itself, and what an instance derefs to.
#[derive(Debug)]
pub struct Instance<A, F = ()> {
    /// The kernel.
    pub meta: &'static KernelMeta,
    /// Launches the kernel.
    ///
    /// # Safety
    /// The kernel's contract holds.
    pub launch: unsafe fn(&dyn Launcher, LaunchConfig, A) -> Result<(), LaunchError>,
    /// What the kernel says of itself.
    pub facts: F,
}

impl<A, F> Deref for Instance<A, F> {
    type Target = F;

    fn deref(&self) -> &F {
        &self.facts
    }
}
