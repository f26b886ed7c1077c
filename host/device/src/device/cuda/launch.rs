//! Kernel launches, and the blocks that fit on the device at once.

use cuda_std::launch::{KernelCall, KernelMeta, LaunchConfig, LaunchError};
use cust::error::CudaError;

use super::super::error::DeviceError;
use super::super::launches::Launch;
use super::gpu::{CudaDevice, Handles};
use super::kernels::{self, Function};
use super::lane::Lane;

/// The smallest compute capability that can begin a launch before the previous one has ended.
const PROGRAMMATIC_LAUNCH: u32 = 90;

impl CudaDevice {
    /// The number of blocks of this kernel, with the block size, shared memory and cluster of `config`, that fit at once.
    pub fn resident_blocks(
        &self,
        meta: &'static KernelMeta,
        config: &LaunchConfig,
        is_recorded: bool,
    ) -> Result<u64, DeviceError> {
        self.enter()?;
        let Handles { kernels, member, .. } = &*self.handles;
        if !is_recorded && self.time_limit().is_some() && !kernels.is_ready(meta.name) {
            self.synchronize()?;
        }
        let function = self.recheck(kernels.prepare(meta.name, config, &self.limits, &member.panic_slot))?;
        self.recheck(kernels::resident_blocks(meta.name, function.raw, config, self.multiprocessors))
    }

    /// Queues a launch, or records it if the stream is part of a recording.
    ///
    /// # Safety
    /// Same as for [`cuda_std::launch::Launcher::submit`].
    pub unsafe fn submit(
        &self,
        call: &KernelCall<'_>,
        lane: &Lane,
        is_recorded: bool,
    ) -> Result<(), LaunchError> {
        call.check(self.residence(), &self.limits)?;
        // SAFETY: the caller's contract is the callee's.
        Ok(unsafe { self.queue_launch(call, lane, is_recorded) }?)
    }

    /// # Safety
    /// Same as for [`Self::submit`].
    unsafe fn queue_launch(
        &self,
        call: &KernelCall<'_>,
        lane: &Lane,
        is_recorded: bool,
    ) -> Result<(), DeviceError> {
        self.enter()?;
        let launch = Launch::of(call);
        let Handles { kernels, member, .. } = &*self.handles;
        let lane = &self.lane_in_recording(lane, is_recorded)?;
        let stream = self.stream_of(lane);
        if !is_recorded && self.time_limit().is_some() && !kernels.is_ready(launch.kernel) {
            // Loading a module waits for queued work.
            self.synchronize()?;
        }
        let (config, slot) = (&launch.config, &member.panic_slot);
        let prepared = if call.meta.cooperative {
            kernels.prepare_cooperative(launch.kernel, config, (&self.limits, self.multiprocessors), slot)
        } else {
            kernels.prepare(launch.kernel, config, &self.limits, slot)
        };
        let Function { raw: function, ptx_version, .. } = self.recheck(prepared)?;
        let mut config = call.config;
        // A kernel compiled for an earlier capability does not wait, even on a newer device.
        config.programmatic_stream_serialization = config.programmatic_stream_serialization
            && self.limits.capability >= PROGRAMMATIC_LAUNCH
            && ptx_version >= PROGRAMMATIC_LAUNCH;
        if let Some(soil) = self.handles.soil.get() {
            self.recheck(soil.spread(function, stream))?;
            // The kernel must start after the soil is written.
            config.programmatic_stream_serialization = false;
        }
        // SAFETY: the function and the stream belong to this context. By the caller's contract there is one pointer per
        // parameter, each to a value of the parameter's type.
        let launched =
            unsafe { kernels::launch(function, (&config, call.meta.cooperative), stream, call.args) };
        if let Err(status @ (CudaError::LaunchOutOfResources | CudaError::OutOfMemory)) = launched {
            let needs = kernels::needs(function);
            return Err(DeviceError::TooManyResources { launch, needs, status });
        }
        self.check_launch(launched, launch)?;
        if is_recorded { Ok(()) } else { self.launched(launch, lane) }
    }
}
