//! Random problems of every operation, and their errors as JSON.

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use cuda_std::simt::parse_seed;
use ferrowarp::device::Device;
use ferrowarp_cases::random::{Drawn, Size, Totals, check_all};
use ferrowarp_report::{output_file, print_line};
use serde_json::json;

use crate::check_destination;

/// The most wrong problems to print.
const MOST_PRINTED: usize = 20;
/// Problems of the self-check: a few of each operation.
const FEW: u64 = 200;

/// Checks some random problems of the operations that users call, with the kernels that they choose for the device.
pub fn are_right(device: &Device) -> Result<()> {
    let (.., wrong) = check_all(device, (0, 0..FEW), &Size::SMALL, None, 1);
    ensure!(wrong.is_empty(), "{} of {FEW} random problems are wrong: {}", wrong.len(), wrong.join("; "));
    Ok(())
}

/// Instead, check random problems of every operation against references in f64
#[derive(clap::Args)]
pub struct Random {
    /// The seed of the problems: decimal, or hexadecimal after 0x.
    #[arg(long, value_name = "SEED", default_value = "0", value_parser = parse_seed)]
    seed: u64,
    /// The number of problems.
    #[arg(long, value_name = "NUMBER", default_value = "10000")]
    problems: u64,
    /// The index of the first problem, to repeat one.
    #[arg(long, value_name = "INDEX", default_value = "0")]
    first: u64,
    /// Write the errors by operation, type and layout to this file.
    #[arg(long, value_name = "FILE.json")]
    json: Option<PathBuf>,
}

impl Random {
    /// Checks the problems; returns whether all were right.
    pub fn run(&self, device: &Device, only: Option<&str>) -> Result<bool> {
        self.json.as_deref().map_or(Ok(()), check_destination)?;
        ensure!(
            only.is_none_or(Drawn::is_operation),
            "no operation's name contains `{}`",
            only.unwrap_or_default()
        );
        // On the CPU the kernels use all cores.
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        let (size, threads) = match (device.is_cuda(), device.limits().runs_cpu_only) {
            (true, _) => (Size::GPU, cores),
            (false, true) => (Size::CPU, cores),
            (false, false) => (Size::SMALL, 1),
        };
        let (start, indices) = (Instant::now(), self.first..self.first.saturating_add(self.problems));
        let (totals, refused, wrong) = check_all(device, (self.seed, indices), &size, only, threads);
        for error in wrong.iter().take(MOST_PRINTED) {
            print_line(format_args!("FAIL  {error}"))?;
        }
        if let Some(path) = &self.json {
            self.write(path, device, &totals, refused, &wrong)?;
        }
        print_line(format_args!(
            "{} problems of seed {}: {} wrong, {refused} without a kernel on this device, in {:.0} s",
            self.problems,
            self.seed,
            wrong.len(),
            start.elapsed().as_secs_f64()
        ))?;
        Ok(wrong.is_empty())
    }

    fn write(
        &self,
        path: &Path,
        device: &Device,
        totals: &Totals,
        refused: u64,
        wrong: &[String],
    ) -> Result<()> {
        let entries = totals.0.iter().map(|(class, total)| {
            json!({
                "name": "Ferrowarp",
                "operation": class.operation,
                "types": class.types,
                "layout": class.layout,
                "problems": total.problems,
                "mean": total.mean(),
                "largest": total.largest,
                "bias": total.bias(),
            })
        });
        // The facts of the run are an entry without an operation.
        let facts = json!({
            "name": "Ferrowarp",
            "operation": "",
            "types": "",
            "layout": "",
            "problems": self.problems,
            "mean": 0.0,
            "largest": 0.0,
            "bias": 0.0,
            "seed": self.seed,
            "refused": refused,
            "wrong": wrong.len(),
        });
        let entries: Vec<_> = [facts].into_iter().chain(entries).collect();
        let driver = device.is_cuda().then(|| {
            printed(Command::new("nvidia-smi").args(["--query-gpu=driver_version", "--format=csv,noheader"]))
        });
        let all = json!({
            "machine": device.name(),
            "cpu": device.is_cuda().then(|| Device::cpu().name()),
            "driver": driver.unwrap_or_else(|| "none".to_owned()),
            "date": printed(Command::new("date").args(["-u", "+%Y-%m-%d"])),
            "commit": std::env::var("FERROWARP_COMMIT").unwrap_or_else(|_| {
                printed(Command::new("git").args(["rev-parse", "--short", "HEAD"]))
            }),
            "wrong": wrong,
            "entries": entries,
        });
        output_file::write(path, format!("{all:#}\n").as_bytes())
            .with_context(|| format!("could not write the errors to {}", path.display()))
    }
}

/// The first line that a program prints, or `unknown`.
fn printed(command: &mut Command) -> String {
    let output = command.output().ok().filter(|output| output.status.success());
    let text = output.and_then(|output| String::from_utf8(output.stdout).ok());
    text.and_then(|text| text.lines().next().map(str::to_owned)).unwrap_or_else(|| "unknown".to_owned())
}
