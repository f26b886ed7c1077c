//! The buffers of one check, misaligned as its problem states.

use anyhow::Result;
use cuda_std::launch::{LaunchError, Launcher};
use cuda_std::testing::{Element, Input, KernelTest, Layout, Memory, Output, Results};
use ferrowarp::device::Device;

use super::problem::Problem;

/// One launch on a problem.
pub struct Run {
    test: KernelTest<'static>,
    misalignment: usize,
}

impl Run {
    pub fn new(problem: &Problem) -> Self {
        Self::with_misalignment(problem.misalignment)
    }

    pub fn with_misalignment(misalignment: usize) -> Self {
        Self { test: KernelTest::new(), misalignment }
    }

    fn layout(&self, len: usize) -> Layout {
        Layout::dense(1, len).with_offset(self.misalignment)
    }

    /// An array that a kernel reads.
    pub fn input<T: Element>(&mut self, elements: &[T]) -> Input<T> {
        self.test.input_at("input", elements, self.layout(elements.len()))
    }

    /// An array that a kernel writes.
    pub fn output<T: Element>(&mut self, len: usize) -> Output<T> {
        self.test.unwritten("output", self.layout(len))
    }

    /// An array that a kernel updates.
    pub fn updated<T: Element>(&mut self, elements: &[T]) -> Output<T> {
        self.test.output_at("parameters", elements, self.layout(elements.len()))
    }

    /// Scratch memory of a kernel, aligned.
    pub fn scratch<T: Element>(&mut self, elements: &[T]) -> Output<T> {
        self.test.scratch("scratch", elements)
    }

    /// Launches on these buffers.
    ///
    /// # Errors
    /// The kernel failed, or wrote outside its output.
    pub fn on(
        &self,
        device: &Device,
        launch: impl Fn(&dyn Launcher, &Memory<'_>) -> Result<(), LaunchError>,
    ) -> Result<Results> {
        Ok(self.test.run_on(device, launch)?)
    }
}
