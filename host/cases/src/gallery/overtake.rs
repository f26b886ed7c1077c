//! The size from which a GPU beats a CPU: the same function in plain Rust and as a kernel, by the host's clock.

use std::hint::black_box;
use std::time::Instant;

use anyhow::Context as _;
use cuda_std::launch::RawBuffer;
use ferrowarp::device::Buffer;
use gpu_kernels::gallery::{fusion, vector_add};
use rayon::prelude::*;

use super::prelude::*;
use crate::compare::compare;

/// Maximum time of a trial's samples together; there is at least one.
const BUDGET: Duration = Duration::from_millis(200);

/// The length of the sequence that the inputs repeat.
const NOISE: usize = 1 << 16;

/// Elements of an output that are compared.
const CHECKED: usize = 1024;

/// A contestant: its name and idea, and who computes which function.
type Contestant = (&'static str, &'static str, Function, Place);

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

const CONTESTANTS: &[Contestant] = &[
    ("add, one core", "a loop over slices", Function::Add, Place::OneCore),
    ("add, all cores", "parallel iterators of rayon", Function::Add, Place::AllCores),
    ("add, GPU", "a launch and the wait for it", Function::Add, Place::Gpu),
    ("add, GPU and copies", "and both inputs there, the result back", Function::Add, Place::GpuWithCopies),
    ("gelu, one core", "a loop over slices", Function::Gelu, Place::OneCore),
    ("gelu, all cores", "parallel iterators of rayon", Function::Gelu, Place::AllCores),
    ("gelu, GPU", "a launch and the wait for it", Function::Gelu, Place::Gpu),
    ("gelu, GPU and copies", "and the input there, the result back", Function::Gelu, Place::GpuWithCopies),
];

pub(super) fn trials(scale: Scale) -> Vec<Trial> {
    let powers: Vec<u32> = match scale {
        Scale::Tiny | Scale::Edges => vec![2],
        Scale::Count => vec![10],
        Scale::Laptop => (10..=22).step_by(4).collect(),
        Scale::Gpu => (10..=28).step_by(2).collect(),
    };
    let mut trials = each(CONTESTANTS, &powers, trial);
    // A core takes a second for 2^26 elements of the more expensive function.
    trials.retain(|trial| trial.rung.starts_with("add") || trial.at <= f64::from(1 << 26));
    trials
}

fn trial(&(name, idea, function, place): &'static Contestant, power: u32) -> Trial {
    let len = 1 << power;
    let words = match place {
        Place::OneCore => format!("{len} elements, {}", Device::cpu().name()),
        Place::AllCores => {
            // Querying starts the pool, whose queues cast integers to pointers, which blinds Miri.
            let threads = if cfg!(miri) { 1 } else { rayon::current_num_threads() };
            format!("{len} elements, {}, {threads} threads", Device::cpu().name())
        }
        Place::Gpu | Place::GpuWithCopies => format!("{len} elements"),
    };
    let bytes = if function == Function::Add { 12 } else { 8 };
    Trial::of_host((name, idea), len, words, Work::of_bytes(bytes * len), move |device, samples| {
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
        match self.function {
            Function::Add => rounded(f64::from(self.a[i]) + f64::from(self.b[i])),
            Function::Gelu => super::numbers::gelu(self.a[i].into()),
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
                let kernel = &fused.context("there is no rung gelu_fused")?.steps[0].0[0];
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
