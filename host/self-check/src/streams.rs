//! Checks of a device's streams, events, asynchronous copies, and graphs.

use anyhow::{Context as _, Result, ensure};
use cuda_std::launch::{LaunchConfig, LaunchError, Launcher};
use ferrowarp::device::{Buffer, Device, DeviceError, InFlight, PinnedBuffer, Stream};
use gpu_kernels::mlp::activation::relu_forward;

/// Elements per buffer: on a GPU enough that a copy is still running while the host queues the next work.
fn elements(device: &Device) -> usize {
    if device.is_cuda() { 1 << 22 } else { 1 << 10 }
}

/// Copies `inp`, which must be above 0, with a ReLU kernel.
fn copy(on: &impl Launcher, out: &mut Buffer<f32>, inp: &Buffer<f32>) -> Result<(), LaunchError> {
    let config = LaunchConfig::new((inp.len() as u32 / 1024).max(1), 1024);
    copy_with(on, config, out, inp)
}

fn copy_with(
    on: &impl Launcher,
    config: LaunchConfig,
    out: &mut Buffer<f32>,
    inp: &Buffer<f32>,
) -> Result<(), LaunchError> {
    // SAFETY: one row; both have as many columns as there are threads.
    unsafe { relu_forward::launch(on, config, out, inp, 1, inp.len() as u32) }
}

fn is_full_of(value: f32, numbers: &[f32]) -> Result<()> {
    let wrong = numbers.iter().enumerate().find(|&(_, &number)| number != value);
    ensure!(wrong.is_none(), "{wrong:?} is not {value}");
    Ok(())
}

/// Checks rounds through two halves: upload, kernel and download each on their own stream, ordered only by events.
pub fn pipeline(device: &Device) -> Result<()> {
    let len = elements(device);
    let [up, kernels, down] = [device.stream()?, device.stream()?, device.stream()?];
    let mut inputs = [device.alloc_zeroed::<f32>(len)?, device.alloc_zeroed(len)?];
    let mut outputs = [device.alloc_zeroed::<f32>(len)?, device.alloc_zeroed(len)?];
    let mut uploads: [Option<InFlight<PinnedBuffer<f32>>>; 2] = [None, None];
    let mut downloads: [Option<(usize, InFlight<PinnedBuffer<f32>>)>; 2] = [None, None];
    let mut computed = [kernels.record()?, kernels.record()?];
    let mut fetched = [down.record()?, down.record()?];
    for round in 0..16 {
        let half = round % 2;
        let mut host = match uploads[half].take() {
            Some(upload) => upload.wait()?,
            None => device.alloc_pinned(len)?,
        };
        host.fill(1.0 + round as f32);
        up.wait(&computed[half])?;
        uploads[half] = Some(up.upload(host, &mut inputs[half])?);
        kernels.wait(&up.record()?)?;
        kernels.wait(&fetched[half])?;
        copy(&kernels, &mut outputs[half], &inputs[half])?;
        computed[half] = kernels.record()?;
        let host = match downloads[half].take() {
            Some((of, download)) => {
                let numbers = download.wait()?;
                is_full_of(1.0 + of as f32, &numbers).with_context(|| format!("round {of}"))?;
                numbers
            }
            None => device.alloc_pinned(len)?,
        };
        down.wait(&computed[half])?;
        downloads[half] = Some((round, down.download(&outputs[half], host)?));
        fetched[half] = down.record()?;
    }
    for (of, download) in downloads.into_iter().flatten() {
        is_full_of(1.0 + of as f32, &download.wait()?).with_context(|| format!("round {of}"))?;
    }
    let time = fetched[1].elapsed_since(&fetched[0])?;
    ensure!(time.as_secs() < 60, "the last round took {time:?}");
    Ok(())
}

/// Checks that unordered work of two streams is refused and not done.
pub fn races(device: &Device) -> Result<()> {
    let len = elements(device);
    let (first, second) = (device.stream()?, device.stream()?);
    let inp = device.upload(&vec![3.0f32; len])?;
    let (mut middle, mut out) = (device.alloc_zeroed(len)?, device.alloc_zeroed(len)?);
    copy(&first, &mut middle, &inp)?;
    let refused = copy(&second, &mut out, &middle).map_err(DeviceError::from);
    ensure!(matches!(refused, Err(DeviceError::Unordered(_))), "a race was let through: {refused:?}");
    second.wait(&first.record()?)?;
    copy(&second, &mut out, &middle)?;
    // It is dropped while both streams may still use it.
    drop(middle);
    is_full_of(3.0, &out.to_vec()?)
}

/// Checks a graph of two streams, launched repeatedly: fork, two copies, join, a copy of a copy.
pub fn graphs(device: &Device) -> Result<()> {
    struct State {
        side: Stream,
        inp: Buffer<f32>,
        outs: [Buffer<f32>; 3],
    }
    let len = elements(device);
    let outs = [device.alloc_zeroed(len)?, device.alloc_zeroed(len)?, device.alloc_zeroed(len)?];
    let mut state = State { side: device.stream()?, inp: device.upload(&vec![5.0f32; len])?, outs };
    copy(device, &mut state.outs[0], &state.inp)?;
    let work = |stream: &Stream, State { side, inp, outs: [a, b, c] }: &mut State| {
        side.wait(&stream.record()?)?;
        copy(stream, a, inp)?;
        copy(&*side, b, inp)?;
        stream.wait(&side.record()?)?;
        Ok::<_, DeviceError>(copy(stream, c, b)?)
    };
    let mut graph = device.record(state, work)?;
    is_full_of(0.0, &graph.state().outs[2].to_vec()?).context("recording ran the work")?;
    (0..4).try_for_each(|_| graph.launch())?;
    let State { side, mut inp, outs, .. } = graph.into_state();
    outs.iter().try_for_each(|out| is_full_of(5.0, &out.to_vec()?))?;
    inp.copy_from(&vec![6.0; len])?;
    let mut graph = device.record(State { side, inp, outs }, work)?;
    let other = device.stream()?;
    graph.launch_on(&other)?;
    other.synchronize()?;
    graph.state().outs.iter().try_for_each(|out| is_full_of(6.0, &out.to_vec()?))
}

/// Checks independent launches that may begin before earlier ones have ended.
pub fn early_launches(device: &Device) -> Result<()> {
    let len = elements(device);
    let inp = device.upload(&vec![2.0f32; len])?;
    let outs = [device.alloc_zeroed::<f32>(len)?, device.alloc_zeroed(len)?];
    let work = |stream: &Stream, (inp, outs): &mut (Buffer<f32>, [Buffer<f32>; 2])| {
        let config = LaunchConfig::new((inp.len() as u32 / 1024).max(1), 1024);
        let config = config.with_programmatic_stream_serialization();
        outs.iter_mut().try_for_each(|out| copy_with(stream, config, out, inp))
    };
    let mut state = (inp, outs);
    work(&device.default_stream(), &mut state)?;
    state.1.iter().try_for_each(|out| is_full_of(2.0, &out.to_vec()?))?;
    state.0.copy_from(&vec![4.0; len])?;
    let mut graph = device.record(state, work)?;
    graph.launch()?;
    graph.state().1.iter().try_for_each(|out| is_full_of(4.0, &out.to_vec()?)).context("in a graph")
}
