//! A device in a forked process.

use std::io::{Read as _, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};

use anyhow::{Context as _, Result, bail, ensure};
use ferrowarp::device::{DeviceChoice, open};

use super::{LEN, Target, holds, refused, slot};

pub(super) fn forked(target: &Target) -> Result<()> {
    let device = &target.device;
    let (mut buffer, side) = (target.full_of(2.0)?, device.stream()?);
    let (slot, event, pinned) =
        (slot(target.full_of(0.0)?), side.record()?, device.alloc_pinned::<f32>(LEN)?);
    let graph = target.record(&slot)?;
    let kept = target.full_of(9.0)?;
    in_child(|| {
        let launched = target.fill(&device.default_stream(), &mut buffer);
        if device.is_cuda() {
            let part = "was started before this process was forked";
            refused(launched, part)?;
            refused(buffer.to_vec().map(drop), part)?;
            refused(device.upload(&[1.0f32]).map(drop), part)?;
            refused(device.synchronize(), part)?;
            refused(side.synchronize(), part)?;
            refused(event.synchronize(), part)?;
            refused(device.stream().map(drop), part)?;
            refused(open(DeviceChoice::Cuda).map(drop), part)?;
        } else {
            launched?;
            holds(&buffer, 1.0)?;
        }
        drop((buffer, side, event, pinned, graph, device.clone()));
        Ok(())
    })?;
    holds(&kept, 9.0).context("in the parent")?;
    target.works().context("in the parent")
}

/// Runs `check` in a copy of this process.
fn in_child(check: impl FnOnce() -> Result<()>) -> Result<()> {
    let (mut reader, mut writer) = std::io::pipe()?;
    // SAFETY: the child uses only what its one thread may: no lock of another thread is needed by what it checks, and it ends
    // without exit handlers.
    match unsafe { libc::fork() } {
        -1 => bail!("fork failed: {}", std::io::Error::last_os_error()),
        0 => {
            // SAFETY: it has no precondition. A child that waits for ever must end.
            unsafe { libc::alarm(120) };
            let text = match catch_unwind(AssertUnwindSafe(check)) {
                Ok(Ok(())) => "fine".to_owned(),
                Ok(Err(error)) => format!("{error:#}"),
                Err(_) => "it panicked".to_owned(),
            };
            let _ = writer.write_all(text.as_bytes());
            // SAFETY: it has no precondition.
            unsafe { libc::_exit(0) }
        }
        child => {
            drop(writer);
            let (mut text, mut status) = (String::new(), 0);
            reader.read_to_string(&mut text)?;
            // SAFETY: the child is this function's, and the out parameter is valid.
            ensure!(unsafe { libc::waitpid(child, &mut status, 0) } == child, "the child is gone");
            ensure!(status == 0, "the forked process ended with status {status:#x} after `{text}`");
            ensure!(text == "fine", "in the forked process: {text}");
            Ok(())
        }
    }
}
