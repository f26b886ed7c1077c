//! `cargo bench random`: problems drawn by [`ferrowarp_cases::random::bench`] from a seed. The other benches time shapes of a
//! list, and prepare them here.

pub mod attention;
pub mod axis;
mod every;
pub mod gradients;
pub mod matmul;
mod norm;
mod operands;
pub mod softmax;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use cuda_std::half::{bf16, f16};
use ferrowarp::device::{Device, DeviceError};
use ferrowarp::{Error, Kind};
use ferrowarp_cases::random::Size;
use ferrowarp_cases::random::bench::{Operation as Drawn, Problem, Type, families};
use ferrowarp_cases::reference::Number;

use every::{every, model};

use crate::contest::on_device;
use crate::rotation::Rotation;
use crate::serve::serve;
use crate::timed::{BATCH, Prepared, Timed, count_of_sets};

/// An operation on operands that are stored in a set. The sets differ only in where they are.
pub trait Operation: Send + Sync + 'static {
    /// The operands and results of one launch.
    type Set: Send + 'static;
    /// The kernels to run.
    type By: Copy + Send + Sync + 'static;

    /// Bytes that a launch must read or write.
    fn bytes(&self) -> usize;

    /// Creates a set.
    ///
    /// # Errors
    /// There is not enough memory, or the device failed.
    fn set(&self) -> anyhow::Result<Self::Set>;

    /// Runs the operation by its own choice of kernels, or by another one.
    ///
    /// # Errors
    /// The launch failed.
    fn run(&self, device: &Device, set: &mut Self::Set, by: Option<Self::By>) -> Result<(), Error>;

    /// All kernels that can do the problem, the default first, with their names; empty if there is no choice.
    fn choices(&self) -> Vec<(String, Self::By)> {
        Vec::new()
    }

    /// Compares results with f64. Returns their [`Timed::relative_error`].
    ///
    /// # Errors
    /// A result is wrong.
    fn check(&self, set: &Self::Set) -> anyhow::Result<f64>;
}

/// The length of a batch of launches, and the most sets that they rotate through.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    seconds: f64,
    most_sets: usize,
}

impl Pace {
    /// For one of many problems, as in `benches/peers/random_problems.py`.
    pub const OF_MANY: Self = Self { seconds: BATCH / 4.0, most_sets: 400 };
    /// For one of many problems with many kernels.
    pub const OF_KERNELS: Self = Self { seconds: BATCH / 10.0, most_sets: 200 };
    /// For a shape of a list.
    pub const OF_LIST: Self = Self { seconds: BATCH, most_sets: usize::MAX };
}

/// A launch of its own on the operands of an operation: a rung of a ladder, or a copy.
pub struct Instead<O, F>(pub O, pub F);

impl<O, F> Operation for Instead<O, F>
where
    O: Operation,
    F: Fn(&Device, &mut O::Set) -> Result<(), Error> + Send + Sync + 'static,
{
    type Set = O::Set;
    type By = ();

    fn bytes(&self) -> usize {
        self.0.bytes()
    }

    fn set(&self) -> anyhow::Result<O::Set> {
        self.0.set()
    }

    fn run(&self, device: &Device, set: &mut O::Set, _: Option<()>) -> Result<(), Error> {
        (self.1)(device, set)
    }

    fn check(&self, set: &O::Set) -> anyhow::Result<f64> {
        self.0.check(set)
    }
}

/// A problem whose launches are ready to be timed.
struct Ready<O: Operation> {
    device: Device,
    operation: Arc<O>,
    /// `None` after a launch failed.
    rotation: Option<Rotation<Vec<O::Set>>>,
    launches: u64,
    sets: usize,
    kernels: String,
    relative_error: f64,
}

impl<O: Operation> Ready<O> {
    fn rotation(
        device: &Device,
        operation: &Arc<O>,
        sets: Vec<O::Set>,
        by: Option<O::By>,
    ) -> Result<Rotation<Vec<O::Set>>, DeviceError> {
        let (on, operation) = (device.clone(), operation.clone());
        Rotation::new(device, sets, move |set| Ok(operation.run(&on, set, by)?))
    }
}

impl<O: Operation> Timed for Ready<O> {
    fn time(&mut self) -> Result<f64, DeviceError> {
        let rotation = self.rotation.as_mut().expect("no launch failed");
        Ok(rotation.time(&self.device, self.launches)?.as_secs_f64() / self.launches as f64)
    }

    fn sets(&self) -> usize {
        self.sets
    }

    fn launches(&self) -> usize {
        self.rotation.as_ref().map_or(0, Rotation::launches)
    }

    fn relative_error(&self) -> f64 {
        self.relative_error
    }

    fn others(&mut self, most: usize) -> anyhow::Result<Vec<(String, f64)>> {
        let (mut times, mut best) = (Vec::new(), f64::INFINITY);
        let others = self.operation.choices().into_iter().filter(|(name, _)| *name != self.kernels);
        for (name, by) in others.take(most) {
            let sets = self.rotation.take().context("a launch failed")?.into_sets();
            let mut rotation = Self::rotation(&self.device, &self.operation, sets, Some(by))
                .with_context(|| format!("by {name}"))?;
            let mut time = rotation.time(&self.device, 1)?.as_secs_f64();
            // Ranks the fast ones reliably.
            if time < 1.2 * best {
                time = time.min(rotation.time(&self.device, 1)?.as_secs_f64());
            }
            best = best.min(time);
            self.rotation = Some(rotation);
            times.push((name, time));
        }
        Ok(times)
    }
}

/// Prepares an operation with its own choice of kernels or another one, and checks its results.
///
/// # Errors
/// The device has not enough memory, a launch failed, or a result is wrong.
pub fn ready<O: Operation>(
    device: &Device,
    operation: O,
    by: Option<O::By>,
    pace: Pace,
) -> anyhow::Result<Prepared> {
    let mut sets = vec![operation.set()?];
    device.start_profile();
    let ran = operation.run(device, &mut sets[0], by);
    let names: Vec<String> = device.take_profile().iter().map(|times| times.what.to_string()).collect();
    ran?;
    let relative_error = operation.check(&sets[0])?;
    for _ in 1..count_of_sets(device, operation.bytes())?.min(pace.most_sets) {
        sets.push(operation.set()?);
    }
    // The name of a choice also has the number of splits.
    let names = names.join(" + ");
    let choices = operation.choices().into_iter().map(|(name, _)| name);
    let kernels = choices.into_iter().find(|name| name.starts_with(&names)).unwrap_or(names);
    let (count, operation) = (sets.len(), Arc::new(operation));
    let mut rotation = Ready::rotation(device, &operation, sets, by)?;
    let once = rotation.time(device, 1)?.as_secs_f64();
    let launches = (pace.seconds / once.max(1e-7)).ceil() as u64;
    let of = kernels.clone();
    let ready = Ready {
        device: device.clone(),
        operation,
        rotation: Some(rotation),
        launches,
        sets: count,
        kernels,
        relative_error,
    };
    Ok((Box::new(ready), of))
}

/// Work with an operation of any type.
pub trait Visitor {
    /// The result.
    type Output;

    /// Does it.
    ///
    /// # Errors
    /// The work failed.
    fn visit<O: Operation>(self, operation: O) -> anyhow::Result<Self::Output>;
}

/// Does something with the operation of a problem.
///
/// # Errors
/// There is not enough memory for its operands, or the work failed.
pub fn visit<V: Visitor>(device: &Device, problem: &Problem, with: V) -> anyhow::Result<V::Output> {
    match (&problem.operation, problem.dtype) {
        (Drawn::Attention(of), Type::F16) => with.visit(attention::Forward::<f16>::new(device, of, None)?),
        (Drawn::Attention(of), _) => with.visit(attention::Forward::<bf16>::new(device, of, None)?),
        (Drawn::AttentionBackward(of), Type::F16) => {
            with.visit(gradients::Backward::<f16>::new(device, of, None)?)
        }
        (Drawn::AttentionBackward(of), _) => with.visit(gradients::Backward::<bf16>::new(device, of, None)?),
        (_, Type::Bf16) => visit_as::<bf16, V>(device, problem, with),
        (_, Type::F16) => visit_as::<f16, V>(device, problem, with),
        (_, Type::Tf32 | Type::F32) => visit_as::<f32, V>(device, problem, with),
    }
}

fn visit_as<T: Number, V: Visitor>(device: &Device, problem: &Problem, with: V) -> anyhow::Result<V::Output> {
    let drawn = &problem.operation;
    match drawn {
        Drawn::Matmul { .. } => with.visit(matmul::Matmul::<T>::new(device, problem)?),
        Drawn::Norm { .. } => with.visit(norm::Forward::<T>::new(device, drawn)?),
        Drawn::NormBackward { .. } => with.visit(norm::Backward::<T>::new(device, drawn)?),
        Drawn::Reduce { .. } | Drawn::CumulativeSum { .. } | Drawn::Transpose { .. } => {
            with.visit(axis::Axis::<T>::drawn(device, drawn)?)
        }
        Drawn::Softmax { .. } => with.visit(softmax::Forward::<T>::new(device, drawn)?),
        _ => with.visit(softmax::Other::<T>::new(device, drawn)?),
    }
}

/// Prepares a problem, and checks its results.
///
/// # Errors
/// The device has no kernel or not enough memory, a launch failed, or a result is wrong.
pub fn prepare(device: &Device, problem: &Problem, pace: Pace) -> anyhow::Result<Prepared> {
    struct Prepare<'a>(&'a Device, Pace);
    impl Visitor for Prepare<'_> {
        type Output = Prepared;

        fn visit<O: Operation>(self, operation: O) -> anyhow::Result<Prepared> {
            ready(self.0, operation, None, self.1)
        }
    }
    visit(device, problem, Prepare(device, pace)).map_err(|error| {
        let kind = error.downcast_ref().map(Error::kind);
        let is_refused = matches!(kind, Some(Kind::Unsupported { .. } | Kind::Alignment { .. }));
        if is_refused { error.context("no kernel") } else { error }
    })
}

/// An operation on dense operands of a type, to be timed at a shape of a list.
///
/// # Errors
/// See [`prepare`].
pub fn prepare_listed(device: &Device, dtype: Type, operation: Drawn) -> anyhow::Result<Prepared> {
    prepare(device, &Problem { family: String::new(), dtype, operation }, Pace::OF_LIST)
}

/// Answers a question about the problems: `families` with the names of the families, `draw SEED INDEX` with a problem and
/// `draw SEED INDEX FAMILY` with one of a family: its description, a tab, and the words for `prepare`.
pub fn tell(size: &Size, request: &str) -> Option<anyhow::Result<String>> {
    if request == "families" {
        return Some(Ok(families().collect::<Vec<_>>().join(",")));
    }
    let rest = request.strip_prefix("draw ")?;
    let draw = || {
        let mut words = rest.splitn(3, ' ');
        let mut number = || -> anyhow::Result<u64> {
            let word = words.next().with_context(|| format!("send `draw SEED INDEX`, not `{request}`"))?;
            word.parse().with_context(|| format!("`{word}` is not a number"))
        };
        let (seed, index) = (number()?, number()?);
        let family = words.next();
        if let Some(family) = family.filter(|family| !families().any(|known| known == *family)) {
            bail!("no family `{family}`; pass one of {}", families().collect::<Vec<_>>().join(", "))
        }
        let problem = Problem::new(seed, index, size, family);
        Ok(format!("{problem}\t{}", serde_json::to_string(&problem)?))
    };
    Some(draw())
}

/// Runs the bench: with `--serve` it answers requests, otherwise it times problems.
pub fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    on_device(|device| {
        let size = if device.is_cuda() { &Size::TIMED } else { &Size::CPU };
        if arguments.iter().any(|argument| argument == "--serve") {
            let prepare = |_: &str, words: &[&str]| {
                prepare(device, &serde_json::from_str(&words.join(" "))?, Pace::OF_MANY)
            };
            return serve(prepare, |request| tell(size, request)).map(|()| Vec::new());
        }
        let after = |flag: &str| {
            let at = arguments.iter().position(|argument| argument == flag)?;
            arguments.get(at + 1).map(String::as_str)
        };
        let number = |flag: &str, default: u64| {
            let parse = |word: &str| word.parse().with_context(|| format!("{flag} {word} is not a number"));
            after(flag).map_or(Ok(default), parse)
        };
        let (seed, problems, family) = (number("--seed", 1)?, number("--problems", 32)?, after("--family"));
        if let Some(family) = family.filter(|family| !families().any(|known| known == *family)) {
            bail!("no family `{family}`; pass one of {}", families().collect::<Vec<_>>().join(", "))
        }
        let drawn = (0..problems).map(|index| Problem::new(seed, index, size, family));
        if arguments.iter().any(|argument| argument == "--every") {
            return every(device, drawn);
        }
        if let Some(file) = after("--model") {
            return model(file).map(|()| Vec::new());
        }
        let mut failed = Vec::new();
        for problem in drawn {
            let prepared = prepare(device, &problem, Pace::OF_MANY);
            let timed = prepared.and_then(|(mut timed, kernels)| Ok((timed.time()?, kernels)));
            match timed {
                Ok((time, kernels)) => {
                    println!("{}: {problem}: {:.2} us, {kernels}", problem.family, time * 1e6)
                }
                Err(error) => failed.push(format!("{error:#}")),
            }
        }
        Ok(failed)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks results that no kernel has written.
    struct Idle;

    impl Visitor for Idle {
        type Output = f64;

        fn visit<O: Operation>(self, operation: O) -> anyhow::Result<f64> {
            operation.check(&operation.set()?)
        }
    }

    #[test]
    fn problems_of_every_family_are_right_on_a_cpu() {
        for family in families() {
            for index in 0..6 {
                let problem = Problem::new(7, index, &Size::SMALL, Some(family));
                let words = serde_json::to_string(&problem).unwrap();
                assert_eq!(serde_json::from_str::<Problem>(&words).unwrap(), problem);
                match prepare(&Device::cpu(), &problem, Pace::OF_MANY) {
                    Ok((mut timed, _)) => drop((timed.time().unwrap(), timed.others(16).unwrap())),
                    Err(error) => assert!(error.to_string() == "no kernel", "{problem}: {error:#}"),
                }
                let error = visit(&Device::cpu(), &problem, Idle).err();
                assert!(error.is_some(), "{problem}: a result that is not written is not found");
            }
        }
    }

    #[test]
    fn questions_are_answered() {
        let families = tell(&Size::CPU, "families").unwrap().unwrap();
        assert!(families.starts_with("softmax,softmax gradient,"), "{families}");
        let (description, words) = {
            let line = tell(&Size::CPU, "draw 3 4 matmul with epilogue").unwrap().unwrap();
            let (description, words) = line.split_once('\t').unwrap();
            (description.to_owned(), words.to_owned())
        };
        let problem: Problem = serde_json::from_str(&words).unwrap();
        assert_eq!((problem.to_string(), problem.family.as_str()), (description, "matmul with epilogue"));
        let error = tell(&Size::CPU, "draw 3 4 nothing").unwrap().unwrap_err().to_string();
        assert!(error.starts_with("no family `nothing`; pass one of softmax, "), "{error}");
        assert!(tell(&Size::CPU, "draw 3").unwrap().is_err() && tell(&Size::CPU, "time ours").is_none());
    }
}
