//! Kernels from which host code chooses.

use core::fmt;
use core::marker::PhantomData;
use core::ops::Deref;

use super::{Arg, ArgList, KernelMeta, LaunchConfig, LaunchError, Launcher};
use crate::param::VALUE;

/// A kernel of a list, with its typed launch. `#[kernel(args = A, facts: F = ..)]` creates one for each instance.
///
/// `A` is a struct with a field of the same name for each parameter of the kernel; other fields are ignored. `F` holds
/// the kernel's facts, and an instance derefs to it.
#[derive(Debug)]
pub struct Instance<A, F = ()> {
    /// The kernel.
    pub meta: &'static KernelMeta,
    /// Launches the kernel.
    ///
    /// # Safety
    /// The kernel's contract holds.
    pub launch: unsafe fn(&dyn Launcher, LaunchConfig, A) -> Result<(), LaunchError>,
    /// The kernel's facts.
    pub facts: F,
}

impl<A, F> Deref for Instance<A, F> {
    type Target = F;

    fn deref(&self) -> &F {
        &self.facts
    }
}

/// A kernel with the struct `A` as its only argument. It derefs to its facts `F`.
pub struct KernelOf<A, F = ()> {
    /// The kernel.
    pub meta: &'static KernelMeta,
    /// The kernel's facts.
    pub facts: F,
    args: PhantomData<fn(A)>,
}

/// The kernels that `#[kernel(args, ..)]` creates from a function, with the struct `A` as their only argument.
pub trait KernelsOf<A: 'static> {
    /// The facts of each kernel.
    type Facts: 'static;
    /// The kernels, in the order of their list.
    const INSTANCES: &'static [KernelOf<A, Self::Facts>];
}

impl<A, F> KernelOf<A, F> {
    /// # Safety
    /// The kernel's only parameter is an `A` by value.
    #[doc(hidden)]
    pub const unsafe fn new(meta: &'static KernelMeta, facts: F) -> Self {
        Self { meta, facts, args: PhantomData }
    }

    /// Launches the kernel with an `A`, or with its counterpart on the host: see [`KernelArgs`](macro@crate::KernelArgs).
    ///
    /// # Errors
    /// If the launch does not fit the device, an argument lives elsewhere, or the kernel failed.
    ///
    /// # Safety
    /// The kernel's own contract holds for this grid and these arguments, and the buffers stay alive and unchanged until
    /// the launch has ended.
    pub unsafe fn launch(
        &self,
        on: &(impl Launcher + ?Sized),
        config: LaunchConfig,
        mut args: impl Arg<A, VALUE>,
    ) -> Result<(), LaunchError> {
        let mut list = ArgList::<2>::default();
        let mut flat = args.flatten("args", &mut list.buffers);
        list.push(&mut flat);
        // SAFETY: the kernel takes an `A`, and the list holds its parts. The caller guarantees the kernel's contract.
        unsafe { on.submit(&list.call(self.meta, config)) }
    }
}

impl<A, F> Deref for KernelOf<A, F> {
    type Target = F;

    fn deref(&self) -> &F {
        &self.facts
    }
}

impl<A, F: fmt::Debug> fmt::Debug for KernelOf<A, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KernelOf").field("meta", self.meta).field("facts", &self.facts).finish()
    }
}
