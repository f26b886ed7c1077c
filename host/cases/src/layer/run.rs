//! Inputs and outputs of one check in the memory of a device.

use anyhow::{Context as _, Result, ensure};
use bytemuck::Pod;
use ferrowarp::device::{Buffer, BufferView, BufferViewMut, Device};

use super::Problem;

/// Elements before and after an output that a kernel must leave alone. A multiple of 16 bytes.
const GUARD: usize = 64;
/// The bytes of the guards, and of an output before the kernel has written it: as f32 a number that no kernel
/// computes.
const FILLER: u8 = 0xa5;

/// One check on one device.
pub struct Run<'a> {
    device: &'a Device,
    misalignment: usize,
}

/// What a kernel reads.
pub struct Input<T> {
    buffer: Buffer<T>,
    start: usize,
}

/// What a kernel writes, between guards.
pub struct Output<T> {
    buffer: Buffer<T>,
    start: usize,
    len: usize,
}

impl<'a> Run<'a> {
    pub fn new(device: &'a Device, problem: &Problem) -> Self {
        Self { device, misalignment: problem.misalignment }
    }

    /// The data, and nothing after it.
    pub fn input<T: Pod>(&self, data: &[T]) -> Result<Input<T>> {
        let mut padded = vec![filler(); self.misalignment];
        padded.extend_from_slice(data);
        Ok(Input { buffer: self.device.upload(&padded)?, start: self.misalignment })
    }

    /// Room for `len` elements.
    pub fn output<T: Pod>(&self, len: usize) -> Result<Output<T>> {
        let mut output = self.updated(&vec![filler(); len])?;
        let mut elements = output.buffer.view_mut(output.start..output.start + len)?;
        // SAFETY: the kernel writes them before anybody reads: if not, that is to be found.
        unsafe { elements.mark_uninit() };
        Ok(output)
    }

    /// The data, for a kernel to change.
    pub fn updated<T: Pod>(&self, data: &[T]) -> Result<Output<T>> {
        let start = GUARD + self.misalignment;
        let mut guarded = vec![filler(); start];
        guarded.extend_from_slice(data);
        guarded.resize(guarded.len() + GUARD, filler());
        Ok(Output { buffer: self.device.upload(&guarded)?, start, len: data.len() })
    }
}

impl<T: Pod> Input<T> {
    pub fn view(&self) -> Result<BufferView<'_, T>> {
        Ok(self.buffer.view(self.start..)?)
    }
}

impl<T: Pod + Into<f64>> Output<T> {
    pub fn view(&mut self) -> Result<BufferViewMut<'_, T>> {
        Ok(self.buffer.view_mut(self.start..self.start + self.len)?)
    }

    /// What the kernel wrote, once it has ended.
    ///
    /// # Errors
    /// The kernel failed, or wrote outside its output.
    pub fn finish(self) -> Result<Vec<f64>> {
        let all = self.buffer.to_vec().context("reading the output")?;
        let end = self.start + self.len;
        for (i, value) in all.iter().enumerate().filter(|(i, _)| !(self.start..end).contains(i)) {
            let at = i as isize - self.start as isize;
            ensure!(
                bytemuck::bytes_of(value).iter().all(|&byte| byte == FILLER),
                "the kernel wrote to index {at} of an output of {} elements",
                self.len
            );
        }
        Ok(all[self.start..end].iter().map(|&value| value.into()).collect())
    }
}

fn filler<T: Pod>() -> T {
    let mut value = T::zeroed();
    bytemuck::bytes_of_mut(&mut value).fill(FILLER);
    value
}
