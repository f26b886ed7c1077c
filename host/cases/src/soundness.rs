//! Attacks on the safe functions of a device. None may reach memory that is not its own, lose other work, or end the process.
//! `host/device/src/device/soundness.md` lists the functions.

#[cfg(all(unix, not(miri)))]
mod fork;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use cuda_std::launch::{LaunchConfig, LaunchError};
use ferrowarp::device::{Buffer, BufferViewMut, Device, DeviceError, Event, Graph, Stream};
use gpu_kernels::mlp::activation::relu_forward;

/// Elements of each buffer.
const LEN: usize = 1 << 14;

/// How long an attack waits for another thread.
const PATIENCE: Duration = Duration::from_secs(60);

/// Queues a kernel that sets all elements to 1.
type Fill = Arc<dyn Fn(&Stream, BufferViewMut<'_, f32>) -> Result<(), LaunchError> + Send + Sync>;

/// A device, and a kernel on it.
pub struct Target {
    device: Device,
    fill: Fill,
}

/// An attack, with its claim.
type Attack = (&'static str, fn(&Target) -> Result<()>);

/// All attacks. They leave the device usable.
pub const ATTACKS: &[Attack] = &[
    ("a graph owns the memory of its launches", dropped_after_recording),
    ("a recording owns the memory of its launches", dropped_while_recording),
    ("a graph whose buffers were exchanged writes those that it recorded", exchanged),
    ("forgotten graphs, streams, events and copies harm nothing", forgotten),
    ("memory that is dropped while streams use it is nobody else's yet", dropped_in_use),
    ("host slices of unified memory exclude graphs", unified),
    ("a recording leaves other threads' work alone", other_threads),
    ("a recording leaves other threads' work on its streams alone", other_threads_streams),
    ("other threads cannot wait for events of a recording", other_threads_events),
    ("a panic in recorded work ends the recording", panicking),
    ("recorded work that records, launches a graph or drops things is refused", re_entering),
    ("memory of another device is not recorded", of_another_device),
    #[cfg(all(unix, not(miri)))]
    ("a forked process gets errors and ends in order", fork::forked),
];

impl Target {
    /// Attacks with a kernel of the network.
    ///
    /// # Errors
    /// The device is out of memory or failed.
    pub fn new(device: &Device) -> Result<Self> {
        let ones = device.upload(&[1.0f32; LEN])?;
        // SAFETY: one row; both have as many columns as there are threads.
        let fill = move |stream: &Stream, out: BufferViewMut<'_, f32>| unsafe {
            let len = out.len() as u32;
            relu_forward::launch(stream, LaunchConfig::cover(out.len(), 1024), out, &ones, 1, len)
        };
        Ok(Self::with_kernel(device, fill))
    }

    /// Attacks with a kernel that sets all elements to 1.
    pub fn with_kernel(
        device: &Device,
        fill: impl Fn(&Stream, BufferViewMut<'_, f32>) -> Result<(), LaunchError> + Send + Sync + 'static,
    ) -> Self {
        Self { device: device.clone(), fill: Arc::new(fill) }
    }

    fn full_of(&self, value: f32) -> Result<Buffer<f32>> {
        Ok(self.device.upload(&[value; LEN])?)
    }

    fn fill(&self, stream: &Stream, buffer: &mut Buffer<f32>) -> Result<(), DeviceError> {
        Ok((self.fill)(stream, buffer.view_mut(..)?)?)
    }

    /// Records a launch on the buffer in the slot, if there is one.
    fn record(&self, slot: &Slot<Buffer<f32>>) -> Result<Graph<()>, DeviceError> {
        let (slot, fill) = (slot.clone(), self.fill.clone());
        self.device.record((), move |stream, ()| match &mut *lock(&slot) {
            Some(buffer) => Ok::<_, DeviceError>(fill(stream, buffer.view_mut(..)?)?),
            None => Ok(()),
        })
    }

    /// Checks that the device still works.
    fn works(&self) -> Result<()> {
        let mut buffer = self.full_of(2.0)?;
        self.fill(&self.device.default_stream(), &mut buffer)?;
        holds(&buffer, 1.0).context("a launch after the attack")
    }
}

type Slot<T> = Arc<Mutex<Option<T>>>;

fn slot<T>(value: T) -> Slot<T> {
    Arc::new(Mutex::new(Some(value)))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn holds(buffer: &Buffer<f32>, value: f32) -> Result<()> {
    let wrong = buffer.to_vec()?.into_iter().find(|&element| element != value);
    ensure!(wrong.is_none(), "{wrong:?} is in memory that should hold {value}");
    Ok(())
}

fn refused<T>(result: Result<T, DeviceError>, part: &str) -> Result<()> {
    match result {
        Ok(_) => bail!("what should fail with `{part}` succeeded"),
        Err(error) => ensure!(error.to_string().contains(part), "{error} does not contain `{part}`"),
    }
    Ok(())
}

fn dropped_after_recording(target: &Target) -> Result<()> {
    let slot = slot(target.full_of(0.0)?);
    let mut graph = target.record(&slot)?;
    drop(lock(&slot).take());
    let victims: Vec<_> = (0..8).map(|_| target.full_of(7.0)).collect::<Result<_>>()?;
    graph.launch()?;
    victims.iter().try_for_each(|victim| holds(victim, 7.0))?;
    let other = target.device.stream()?;
    graph.launch_on(&other)?;
    drop(graph);
    let later: Vec<_> = (0..8).map(|_| target.full_of(7.0)).collect::<Result<_>>()?;
    victims.iter().chain(&later).try_for_each(|victim| holds(victim, 7.0))?;
    target.works()
}

/// Runs `act` in another thread while this thread records `before`, `act` and `after`, each of them once.
fn while_recording(
    target: &Target,
    before: impl Fn(&Stream) -> Result<(), DeviceError> + Send + Sync + 'static,
    act: impl FnOnce() -> Result<()> + Send,
    after: impl Fn(&Stream) -> Result<(), DeviceError> + Send + Sync + 'static,
) -> Result<Graph<()>> {
    let (open, is_open): (Sender<()>, Receiver<()>) = channel();
    let (done, is_done): (Sender<()>, Receiver<()>) = channel();
    let (is_done, is_first) = (Mutex::new(is_done), AtomicBool::new(true));
    let work = move |stream: &Stream, (): &mut ()| {
        before(stream)?;
        if is_first.swap(false, Ordering::Relaxed) {
            let _ = open.send(());
            let _ = lock(&is_done).recv_timeout(PATIENCE);
        }
        after(stream)
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(move || {
            // Dropping the sender lets the recording go on.
            let _done = done;
            is_open.recv_timeout(PATIENCE).map_err(|_| anyhow!("the recording did not begin"))?;
            act()
        });
        let graph = target.device.record((), work);
        other.join().map_err(|_| anyhow!("the other thread panicked"))?.context("in the other thread")?;
        Ok(graph?)
    })
}

fn dropped_while_recording(target: &Target) -> Result<()> {
    let (slot, fill) = (slot(target.full_of(0.0)?), target.fill.clone());
    let (mine, victims) = (slot.clone(), Mutex::new(Vec::new()));
    let before = move |stream: &Stream| match &mut *lock(&mine) {
        Some(buffer) => Ok(fill(stream, buffer.view_mut(..)?)?),
        None => Ok(()),
    };
    let act = || {
        drop(lock(&slot).take());
        *lock(&victims) = (0..8).map(|_| target.full_of(7.0)).collect::<Result<_>>()?;
        Ok(())
    };
    let mut graph = while_recording(target, before, act, |_| Ok(()))?;
    graph.launch()?;
    lock(&victims).iter().try_for_each(|victim| holds(victim, 7.0))?;
    drop(graph);
    target.works()
}

fn exchanged(target: &Target) -> Result<()> {
    let slot = slot(target.full_of(0.0)?);
    let mut graph = target.record(&slot)?;
    let other = lock(&slot).replace(target.full_of(7.0)?);
    graph.launch()?;
    let (recorded, current) = (other.context("the buffer is gone")?, lock(&slot).take());
    let current = current.context("the buffer is gone")?;
    // A GPU runs what it recorded; the CPU runs the work again.
    let [written, left] = if target.device.is_cuda() { [&recorded, &current] } else { [&current, &recorded] };
    holds(written, 1.0)?;
    holds(left, if target.device.is_cuda() { 7.0 } else { 0.0 })
}

fn forgotten(target: &Target) -> Result<()> {
    let device = &target.device;
    let (slot, side) = (slot(target.full_of(0.0)?), device.stream()?);
    let mut graph = target.record(&slot)?;
    graph.launch()?;
    std::mem::forget(graph);
    let mut buffer = target.full_of(3.0)?;
    std::mem::forget(side.upload(device.alloc_pinned(LEN)?, &mut buffer)?);
    std::mem::forget(side.download(&buffer, device.alloc_pinned(LEN)?)?);
    std::mem::forget(side.record()?);
    drop(buffer);
    drop(lock(&slot).take());
    let mut left = target.full_of(5.0)?;
    target.fill(&side, &mut left)?;
    std::mem::forget(side);
    holds(&left, 1.0)?;
    target.works()
}

fn dropped_in_use(target: &Target) -> Result<()> {
    let device = &target.device;
    let streams = [device.stream()?, device.stream()?];
    for round in 0..16 {
        // Used by one stream, by another one than its own, and by two.
        let mut used = device.alloc_zeroed(LEN)?;
        for _ in 0..64 {
            target.fill(&streams[round % 2], &mut used)?;
        }
        if round % 3 == 0 {
            streams[(round + 1) % 2].wait(&streams[round % 2].record()?)?;
            target.fill(&streams[(round + 1) % 2], &mut used)?;
        }
        drop(used);
        let mut next = device.alloc_zeroed(LEN)?;
        holds(&next, 0.0)?;
        target.fill(&streams[round % 2], &mut next)?;
        holds(&next, 1.0)?;
    }
    target.works()
}

fn unified(target: &Target) -> Result<()> {
    let memory = match target.device.alloc_unified::<f32>(LEN) {
        Err(DeviceError::NoUnifiedMemory { .. }) => return Ok(()),
        memory => memory?,
    };
    let (slot, fill) = (slot(memory), target.fill.clone());
    let mine = slot.clone();
    let mut graph = target.device.record((), move |stream, ()| match &mut *lock(&mine) {
        Some(memory) => Ok::<_, DeviceError>(fill(stream, memory.view_mut(..)?)?),
        None => Ok(()),
    })?;
    let mut memory = lock(&slot).take().context("the memory is gone")?;
    refused(memory.host().map(drop), "a graph touches it")?;
    refused(memory.host_mut().map(drop), "a graph touches it")?;
    graph.launch()?;
    drop(graph);
    memory.host_mut()?.fill(4.0);
    ensure!(memory.host()?.iter().all(|&element| element == 4.0));
    Ok(())
}

fn other_threads(target: &Target) -> Result<()> {
    let Target { device, fill } = target;
    let slots = [slot(target.full_of(0.0)?), slot(target.full_of(0.0)?)];
    let [own, others] = &slots;
    let of_recording = |slot: &Slot<Buffer<f32>>, fill: &Fill| {
        let (slot, fill) = (slot.clone(), fill.clone());
        move |stream: &Stream| match &mut *lock(&slot) {
            Some(buffer) => Ok(fill(stream, buffer.view_mut(..)?)?),
            None => Ok(()),
        }
    };
    let act = || {
        let mut buffer = lock(others).take().context("the buffer is gone")?;
        target.fill(&device.default_stream(), &mut buffer)?;
        holds(&buffer, 1.0).context("a launch while another thread records")?;
        let side = device.stream()?;
        device.time(|| target.fill(&device.default_stream(), &mut buffer))?;
        side.wait(&device.default_stream().record()?)?;
        target.fill(&side, &mut buffer)?;
        let mut pinned = side.download(&buffer, device.alloc_pinned(LEN)?)?.wait()?;
        ensure!(pinned.iter().all(|&element| element == 1.0));
        pinned.fill(6.0);
        side.upload(pinned, &mut buffer)?.wait()?;
        side.synchronize()?;
        device.synchronize()?;
        let event = side.record()?;
        event.synchronize()?;
        ensure!(event.is_complete()?);
        holds(&buffer, 6.0)?;
        drop((side, event));
        drop(target.full_of(8.0)?);
        refused(device.record((), |_, ()| Ok::<_, DeviceError>(())), "another recording is in progress")?;
        *lock(others) = Some(buffer);
        Ok(())
    };
    let mut graph = while_recording(target, of_recording(own, fill), act, of_recording(own, fill))?;
    let text = format!("{graph:?}");
    ensure!(text.starts_with("Graph(2 launches"), "the recording holds other work: {text}");
    graph.launch()?;
    holds(lock(others).as_ref().context("the buffer is gone")?, 6.0)?;
    holds(lock(own).as_ref().context("the buffer is gone")?, 1.0)
}

fn other_threads_streams(target: &Target) -> Result<()> {
    let (side, fill) = (Arc::new(target.device.stream()?), target.fill.clone());
    let (own, mut others) = (slot(target.full_of(0.0)?), target.full_of(0.0)?);
    let (mine, of_recording) = (own.clone(), side.clone());
    let fork = move |stream: &Stream| {
        of_recording.wait(&stream.record()?)?;
        match &mut *lock(&mine) {
            Some(buffer) => Ok(fill(&of_recording, buffer.view_mut(..)?)?),
            None => Ok(()),
        }
    };
    let of_recording = side.clone();
    let join = move |stream: &Stream| stream.wait(&of_recording.record()?);
    let act = || {
        target.fill(&side, &mut others)?;
        side.synchronize()?;
        holds(&others, 1.0).context("a launch on a stream that another thread records")
    };
    let mut graph = while_recording(target, fork, act, join)?;
    others.copy_from(&[0.0; LEN])?;
    graph.launch()?;
    holds(&others, 0.0)?;
    holds(lock(&own).as_ref().context("the buffer is gone")?, 1.0)
}

fn other_threads_events(target: &Target) -> Result<()> {
    let (side, event) = (target.device.stream()?, slot::<Event>(target.device.default_stream().record()?));
    let mine = event.clone();
    let before = move |stream: &Stream| {
        *lock(&mine) = Some(stream.record()?);
        Ok(())
    };
    let act = || {
        let event = lock(&event).take().context("there is no event")?;
        refused(side.wait(&event), "another thread's")?;
        refused(event.synchronize(), "belongs to a recording")?;
        refused(event.is_complete().map(drop), "belongs to a recording")
    };
    while_recording(target, before, act, |_| Ok(()))?.launch()?;
    target.works()
}

fn panicking(target: &Target) -> Result<()> {
    let (slot, fill) = (slot(target.full_of(0.0)?), target.fill.clone());
    let mine = slot.clone();
    let work = move |stream: &Stream, (): &mut ()| -> Result<(), DeviceError> {
        let mut slot = lock(&mine);
        let buffer = slot.as_mut().unwrap_or_else(|| unreachable!("the buffer is put in above"));
        fill(stream, buffer.view_mut(..)?)?;
        // Without the panic hook, whose message nobody needs.
        std::panic::resume_unwind(Box::new("on purpose"))
    };
    let panicked = catch_unwind(AssertUnwindSafe(|| target.device.record((), work).map(drop)));
    ensure!(panicked.is_err(), "the panic was lost");
    holds(lock(&slot).as_ref().context("the buffer is gone")?, 0.0)?;
    target.works()
}

fn re_entering(target: &Target) -> Result<()> {
    let device = &target.device;
    let nothing = || device.record((), |_, ()| Ok::<_, DeviceError>(()));
    let of = device.clone();
    let nested = device.record((), move |_, ()| of.record((), |_, ()| Ok::<_, DeviceError>(())).map(drop));
    refused(nested, "another recording is in progress")?;
    let inner = slot(nothing()?);
    let launching = device.record((), move |_, ()| match &mut *lock(&inner) {
        Some(graph) => graph.launch(),
        None => Ok(()),
    });
    refused(launching, "launching a graph failed while work")?;
    let things = Arc::new(Mutex::new(Some((target.full_of(0.0)?, device.stream()?, device.clone()))));
    let dropping = device.record((), move |_, ()| {
        drop(lock(&things).take());
        Ok::<_, DeviceError>(())
    });
    refused(dropping, "freeing a buffer failed while work")?;
    target.works()
}

fn of_another_device(target: &Target) -> Result<()> {
    let foreign = slot(Device::cpu().upload(&[0.0f32; LEN])?);
    if target.device.is_cuda() {
        ensure!(target.record(&foreign).is_err(), "memory of the CPU was recorded on a GPU");
    }
    target.works()
}
