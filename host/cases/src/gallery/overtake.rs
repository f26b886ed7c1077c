//! The size from which a GPU beats a CPU: the same function in plain Rust and as a kernel, by the host's clock.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use cuda_std::launch::RawBuffer;
use ferrowarp::device::{Buffer, Device};
use gpu_kernels::gallery::{fusion, vector_add};
use rayon::prelude::*;

use super::{Axis, Lesson, Measure, Prediction, Scale, Timed, Trial, Work, elements, numbers};
use crate::compare::{Bound, compare};
use crate::reference::Sum;

pub(super) const LESSON: Lesson = Lesson {
    name: "overtake",
    title: "Where the GPU overtakes the CPU",
    axis: Axis { label: "elements", is_log: true },
    measure: Measure::Time,
    rungs: || CONTESTANTS.iter().map(|contestant| (contestant.name, contestant.idea)).collect(),
    trials,
    predictions,
};

/// Maximum time of a trial's samples together; there is at least one.
const BUDGET: Duration = Duration::from_millis(200);

/// The length of the sequence that the inputs repeat.
const NOISE: usize = 1 << 16;

/// Elements of an output that are compared.
const CHECKED: usize = 1024;

/// A contestant: who computes which function.
#[derive(Debug)]
struct Contestant {
    name: &'static str,
    idea: &'static str,
    function: Function,
    place: Place,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Function {
    /// `out = a + b`.
    Add,
    /// `out = gelu(a)`, in its tanh form.
    Gelu,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// A loop.
    OneCore,
    /// Parallel iterators, with one thread per core.
    AllCores,
    /// A launch, and a wait for its end.
    Gpu,
    /// The same, with the inputs copied from ordinary `Vec` memory, and the result copied back.
    GpuWithCopies,
}

const CONTESTANTS: &[Contestant] = &{
    use Function::{Add, Gelu};
    use Place::{AllCores, Gpu, GpuWithCopies, OneCore};
    const fn row(name: &'static str, idea: &'static str, function: Function, place: Place) -> Contestant {
        Contestant { name, idea, function, place }
    }
    [
        row("add, one core", "a loop over slices", Add, OneCore),
        row("add, all cores", "parallel iterators of rayon", Add, AllCores),
        row("add, GPU", "a launch and the wait for it", Add, Gpu),
        row("add, GPU and copies", "and both inputs there, the result back", Add, GpuWithCopies),
        row("gelu, one core", "a loop over slices", Gelu, OneCore),
        row("gelu, all cores", "parallel iterators of rayon", Gelu, AllCores),
        row("gelu, GPU", "a launch and the wait for it", Gelu, Gpu),
        row("gelu, GPU and copies", "and the input there, the result back", Gelu, GpuWithCopies),
    ]
};

fn predictions() -> Vec<Prediction> {
    // Bytes of the longest vectors of both functions; rates over the link, of a core, and of all cores.
    const ADD: f64 = 12.0 * 268_435_456.0;
    const GELU: f64 = 8.0 * 67_108_864.0;
    const LINK: f64 = 63.0e9;
    let us = |bytes: f64, rate: f64| bytes / rate * 1e6;
    vec![
        Prediction::microseconds("add, one core", us(ADD, 16.0 * 64.0 / 100e-9))
            .from("16 cache lines in flight per core, 100 ns each")
            .why("The prefetcher of L2 keeps more lines in flight than the core's own buffers."),
        Prediction::microseconds("add, all cores", us(ADD, 307e9))
            .from("eight channels of DDR5-4800, 307 GB/s")
            .why("The machine is a part of a larger one. Its eight cores cannot keep enough lines in flight for all channels."),
        Prediction::share_of_copy("add, GPU", 1.0)
            .from("12 bytes per addition at the rate of a copy")
            .elsewhere("nearly 200 times one core", "GPUs, RTX 3090 Ti")
            .why("Memory is the limit, and 2^28 elements hide the launch."),
        Prediction::microseconds("add, GPU and copies", us(ADD, LINK))
            .from("12 bytes per addition over the link at 63 GB/s")
            .why("The memory is pageable, so the driver copies every byte once more on one core."),
        Prediction::microseconds("gelu, one core", 67_108_864.0 * 20e-3)
            .from("20 ns per tanh of the scalar library function")
            .why("A scalar `tanh` is not what a core can do: with vectors it would be several times as fast."),
        Prediction::time_over("gelu, all cores", "gelu, one core", 1.0 / 16.0)
            .from("16 threads for 1")
            .why("Arithmetic and not memory is the limit here, so it scales better than the addition."),
        Prediction::share_of_copy("gelu, GPU", 1.0)
            .from("8 bytes per element at the rate of a copy")
            .why("A GPU computes tanh while it waits for memory. The launch takes a part of the time."),
        Prediction::microseconds("gelu, GPU and copies", us(GELU, LINK))
            .from("8 bytes per element over the link at 63 GB/s")
            .why("The memory is pageable, so the driver copies every byte once more on one core."),
    ]
}

fn trials(scale: Scale) -> Vec<Trial> {
    let (powers, most): (Vec<u32>, u32) = match scale {
        Scale::Tiny | Scale::Edges => (vec![2], 2),
        Scale::Count => (vec![10], 10),
        Scale::Laptop => ((10..=22).step_by(4).collect(), 22),
        // A core takes a second for 2^26 elements of the more expensive function.
        Scale::Gpu => ((10..=28).step_by(2).collect(), 26),
    };
    let sizes = |contestant: &'static Contestant| {
        let is_kept = move |power: &u32| contestant.function == Function::Add || *power <= most;
        powers.clone().into_iter().filter(is_kept).map(move |power| trial(contestant, 1 << power))
    };
    CONTESTANTS.iter().flat_map(sizes).collect()
}

fn trial(contestant: &'static Contestant, len: usize) -> Trial {
    let words = match contestant.place {
        Place::OneCore => format!("{len} elements, {}", Device::cpu().name()),
        Place::AllCores => {
            // Querying starts the pool, whose queues cast integers to pointers, which blinds Miri.
            let threads = if cfg!(miri) { 1 } else { rayon::current_num_threads() };
            format!("{len} elements, {}, {threads} threads", Device::cpu().name())
        }
        Place::Gpu | Place::GpuWithCopies => format!("{len} elements"),
    };
    let bytes = if contestant.function == Function::Add { 12 } else { 8 };
    let work = Work::of_bytes((bytes * len) as f64);
    let Contestant { function, place, .. } = *contestant;
    Trial::of_host(contestant.name, len as f64, words, work, move |device, samples| {
        let mut host = Host::new(function, len);
        match place {
            Place::OneCore => host.sampled(samples, Host::on_one_core).map(Timed::Samples),
            Place::AllCores => host.sampled(samples, Host::on_all_cores).map(Timed::Samples),
            Place::Gpu | Place::GpuWithCopies if !device.is_cuda() => {
                Ok(Timed::Lacking("there is no GPU to time".to_owned()))
            }
            Place::Gpu => {
                let mut there = There::new(&host, device)?;
                there.fetch(&host)?;
                let times = host.sampled_without_check(samples, |_| there.launch(true))?;
                there.out.copy_to(&mut host.out)?;
                host.check()?;
                Ok(Timed::Samples(times))
            }
            Place::GpuWithCopies => {
                let mut there = There::new(&host, device)?;
                let round = |host: &mut Host| {
                    there.fetch(host)?;
                    there.launch(false)?;
                    Ok(there.out.copy_to(&mut host.out)?)
                };
                host.sampled(samples, round).map(Timed::Samples)
            }
        }
    })
}

/// The arrays in host memory.
struct Host {
    function: Function,
    a: Vec<f32>,
    /// Empty if the function has one input.
    b: Vec<f32>,
    out: Vec<f32>,
}

/// The arrays on the device.
struct There {
    device: Device,
    function: Function,
    a: Buffer<f32>,
    b: Buffer<f32>,
    out: Buffer<f32>,
}

impl Host {
    fn new(function: Function, len: usize) -> Self {
        let repeated = |len: usize, seed: u64| {
            let block = numbers(NOISE.min(len), seed);
            elements(len, |i| block[i % NOISE])
        };
        let b = if function == Function::Add { len } else { 0 };
        Self { function, a: repeated(len, 1), b: repeated(b, 2), out: elements(len, |_| f32::NAN) }
    }

    fn on_one_core(&mut self) -> Result<()> {
        let Self { function, a, b, out } = self;
        match function {
            Function::Add => out.iter_mut().zip(&*a).zip(&*b).for_each(|((out, a), b)| *out = a + b),
            Function::Gelu => out.iter_mut().zip(&*a).for_each(|(out, &a)| *out = gelu(a)),
        }
        black_box(out);
        Ok(())
    }

    fn on_all_cores(&mut self) -> Result<()> {
        let Self { function, a, b, out } = self;
        match function {
            Function::Add => {
                out.par_iter_mut().zip(&*a).zip(&*b).for_each(|((out, a), b)| *out = a + b);
            }
            Function::Gelu => out.par_iter_mut().zip(&*a).for_each(|(out, &a)| *out = gelu(a)),
        }
        black_box(out);
        Ok(())
    }

    /// The times of some rounds after an untimed one. Checks the results.
    fn sampled(
        &mut self,
        samples: usize,
        round: impl FnMut(&mut Self) -> Result<()>,
    ) -> Result<Vec<Duration>> {
        let times = self.sampled_without_check(samples, round)?;
        self.check()?;
        Ok(times)
    }

    fn sampled_without_check(
        &mut self,
        samples: usize,
        mut round: impl FnMut(&mut Self) -> Result<()>,
    ) -> Result<Vec<Duration>> {
        round(self)?;
        let (begin, mut times) = (Instant::now(), Vec::new());
        while times.len() < samples && (times.is_empty() || begin.elapsed() < BUDGET) {
            let start = Instant::now();
            round(self)?;
            times.push(start.elapsed());
        }
        Ok(times)
    }

    /// Compares some elements with the same in f64.
    fn check(&self) -> Result<()> {
        let step = (self.out.len() / CHECKED).max(1);
        let indices = || (0..self.out.len()).step_by(step);
        let got: Vec<f64> = indices().map(|i| f64::from(self.out[i])).collect();
        let want: Vec<Bound> = indices().map(|i| self.wanted(i)).collect();
        compare("out", &got, &want).with_context(|| format!("of every {step}th element, counted so"))?;
        Ok(())
    }

    fn wanted(&self, i: usize) -> Bound {
        let a = f64::from(self.a[i]);
        match self.function {
            Function::Add => {
                let value = a + f64::from(self.b[i]);
                Sum { value, magnitude: value.abs() }.within(1.0)
            }
            Function::Gelu => {
                let inner = (2.0 / std::f64::consts::PI).sqrt() * (a + 0.044_715 * a * a * a);
                // Near -1, adding to the tanh loses precision.
                Sum { value: 0.5 * a * (1.0 + inner.tanh()), magnitude: a.abs() }.within(16.0)
            }
        }
    }
}

fn gelu(x: f32) -> f32 {
    0.5 * x * (1.0 + (0.797_884_6 * (x + 0.044_715 * x * x * x)).tanh())
}

impl There {
    fn new(host: &Host, device: &Device) -> Result<Self> {
        Ok(Self {
            device: device.clone(),
            function: host.function,
            a: device.alloc_zeroed(host.a.len())?,
            b: device.alloc_zeroed(host.b.len())?,
            out: device.alloc_zeroed(host.out.len())?,
        })
    }

    /// Copies the inputs.
    fn fetch(&mut self, host: &Host) -> Result<()> {
        self.a.copy_from(&host.a)?;
        if !host.b.is_empty() {
            self.b.copy_from(&host.b)?;
        }
        Ok(())
    }

    /// Launches the kernel, and waits for its end if `is_waited_for`; a copy back waits in any case.
    fn launch(&mut self, is_waited_for: bool) -> Result<()> {
        let len = self.out.len();
        let (a, b) = (RawBuffer::slice(&self.a), RawBuffer::slice(&self.b));
        let out = RawBuffer::written(&mut self.out);
        match self.function {
            Function::Add => {
                let kernel = vector_add::RUNGS.last().context("the lesson has rungs")?.kernel;
                let arguments = vector_add::Arguments { out, a, b, len: len as u32 };
                // SAFETY: the three have `len` elements, and the grid is the kernel's for that many.
                unsafe { (kernel.launch)(&self.device, (kernel.config)(len), arguments) }?;
            }
            Function::Gelu => {
                let fused = fusion::RUNGS.iter().find(|rung| rung.name == "gelu_fused");
                let kernel = fused.context("there is no rung gelu_fused")?.steps[0].kernel;
                let arguments = fusion::Arguments { out, a, b, factor: 0.0, len: len as u32 };
                // SAFETY: the kernel reads `a` and not `b`; `out` and `a` have `len` elements, and the grid is the kernel's.
                unsafe { (kernel.launch)(&self.device, (kernel.config)(len), arguments) }?;
            }
        }
        if is_waited_for {
            self.device.synchronize()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_loops_give_what_is_wanted_and_nothing_else_passes() {
        for function in [Function::Add, Function::Gelu] {
            for round in [Host::on_one_core, Host::on_all_cores] {
                let mut host = Host::new(function, 3000);
                assert!(host.check().is_err(), "nothing was written");
                round(&mut host).unwrap();
                host.check().unwrap();
                host.out[2 * 1024] += 0.01;
                assert!(host.check().is_err());
            }
        }
    }
}
