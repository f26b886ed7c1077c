//! Times all kernels that can do a problem, and compares the choice with them.

use cuda_std::half::{bf16, f16};
use cuda_std::launch::Limits;
use ferrowarp::DeviceProfile;
use ferrowarp::device::Device;
use ferrowarp::matmul::KernelChoice;
use ferrowarp_cases::random::bench::{Problem, Type};
use ferrowarp_cases::reference::Number;
use serde::{Deserialize, Serialize};

use super::{Pace, matmul, prepare};

/// The kernels of a problem and their microseconds, the chosen ones first.
#[derive(Serialize, Deserialize)]
struct Times {
    problem: Problem,
    microseconds: Vec<(String, f64)>,
}

/// Prints the [`Times`] of each problem as a line of JSON, and the ratios of the chosen kernels to the fastest. Returns errors.
pub fn every(device: &Device, problems: impl Iterator<Item = Problem>) -> anyhow::Result<Vec<String>> {
    let (mut failed, mut ratios) = (Vec::new(), Vec::new());
    for problem in problems {
        let timed = || -> anyhow::Result<Vec<(String, f64)>> {
            let (mut timed, kernels) = prepare(device, &problem, Pace::OF_KERNELS)?;
            let chosen = [(kernels, timed.time()?.min(timed.time()?))];
            let all = chosen.into_iter().chain(timed.others(usize::MAX)?);
            Ok(all.map(|(kernels, seconds)| (kernels, seconds * 1e6)).collect())
        };
        match timed() {
            Ok(microseconds) => {
                ratios.push(microseconds[0].1 / fastest(&microseconds));
                println!("{}", serde_json::to_string(&Times { problem, microseconds })?);
            }
            Err(error) => failed.push(format!("{error:#}")),
        }
    }
    print_summary(ratios);
    Ok(failed)
}

/// Reads the lines that [`every`] printed for multiplications on an H200, and prints how much longer than the fastest kernels
/// those take that the model chooses among them now.
pub fn model(file: &str) -> anyhow::Result<()> {
    let mut ratios = Vec::new();
    for line in std::fs::read_to_string(file)?.lines().filter(|line| line.starts_with('{')) {
        let Times { problem, microseconds } = serde_json::from_str(line)?;
        let ranked = match problem.dtype {
            Type::Bf16 => ranked::<bf16>(&problem),
            Type::F16 => ranked::<f16>(&problem),
            Type::Tf32 | Type::F32 => ranked::<f32>(&problem),
        };
        let chosen = ranked.iter().find_map(|name| microseconds.iter().find(|(timed, _)| timed == name));
        if let Some((name, time)) = chosen {
            let ratio = time / fastest(&microseconds);
            println!("{ratio:.3} {problem}: {name}");
            ratios.push(ratio);
        }
    }
    print_summary(ratios);
    Ok(())
}

/// The choices for an H200, the best first.
fn ranked<T: Number>(problem: &Problem) -> Vec<String> {
    let limits = Limits {
        capability: 90,
        runs_cpu_only: false,
        max_dynamic_shared_bytes: 232_448,
        ..Limits::default()
    };
    let profile = DeviceProfile { limits, multiprocessors: 132, is_cpu: false };
    let ranked = KernelChoice::<T>::ranked(&profile, &matmul::problem(problem));
    ranked.iter().map(|(choice, _)| choice.to_string()).collect()
}

fn fastest(times: &[(String, f64)]) -> f64 {
    times.iter().map(|(_, time)| *time).fold(f64::INFINITY, f64::min)
}

fn print_summary(mut ratios: Vec<f64>) {
    ratios.sort_by(f64::total_cmp);
    if let Some(percentile) = ratios.get(ratios.len() * 95 / 100) {
        let mean = ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64;
        let (count, mean) = (ratios.len(), mean.exp());
        println!(
            "chosen / fastest at {count} problems: geometric mean {mean:.3}, 95th percentile {percentile:.3}"
        );
    }
}
