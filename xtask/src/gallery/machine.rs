//! The table of a CPU and a GPU in chapter 0, from `docs/results/machine.txt`.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;

use crate::chart::number;
use crate::report::table;

/// Vector registers of a thread of x86-64 with AVX-512.
const VECTOR_REGISTERS: f64 = 32.0;

/// The figures of the file by their names.
struct Figures<'a>(BTreeMap<&'a str, &'a str>);

impl Figures<'_> {
    fn get(&self, name: &str) -> anyhow::Result<f64> {
        let value = self.0.get(name).with_context(|| format!("docs/results/machine.txt has no `{name}`"))?;
        value.parse().with_context(|| format!("docs/results/machine.txt: `{name}` is not a number: {value}"))
    }
}

/// The table.
///
/// # Errors
/// The file cannot be read, or lacks a figure.
pub fn section(docs: &Path) -> anyhow::Result<String> {
    let path = docs.join("results/machine.txt");
    let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let figures = Figures(text.lines().filter_map(|line| line.split_once(": ")).collect());
    let get = |name: &str| figures.get(name);
    let (cores, sms) = (get("cpu threads")?, get("gpu multiprocessors")?);
    let threads = sms * get("gpu threads per multiprocessor")?;
    let l1 = [get("cpu L1 data bytes")?, sms * get("gpu shared bytes per multiprocessor")?];
    let l2 = [get("cpu L2 bytes")?, get("gpu L2 bytes")?];
    let l3 = get("cpu L3 bytes")?;
    let registers = [
        cores * VECTOR_REGISTERS * get("cpu vector register bytes")?,
        4.0 * sms * get("gpu registers per multiprocessor")?,
    ];
    let cache = [(l1[0] + l2[0] + l3) / cores, (l1[1] + l2[1]) / threads];
    let row = |what: &str, [cpu, gpu]: [f64; 2], write: fn(f64) -> String| {
        let ratio = match gpu / cpu {
            0.0 => String::new(),
            ratio if ratio < 0.1 => format!("1/{}", number(1.0 / ratio)),
            ratio => number(ratio),
        };
        let or_none = |value: f64| if value == 0.0 { "none".to_owned() } else { write(value) };
        vec![what.to_owned(), or_none(cpu), or_none(gpu), ratio]
    };
    let rows = [
        row("virtual cores, multiprocessors", [cores, sms], number),
        row("threads that are ready to run at once", [cores, threads], number),
        row(
            "highest clock that is reported",
            [get("cpu reported kHz")?, get("gpu highest clock kHz")?],
            |kilohertz| format!("{} GHz", number(kilohertz / 1e6)),
        ),
        row("vector registers; registers", registers, bytes),
        row("L1 for data; shared memory, at most", l1, bytes),
        row("L2", l2, bytes),
        row("L3", [l3, 0.0], bytes),
        row("caches per thread that is ready", cache, bytes),
    ];
    Ok(table(&["", "CPU", "GPU", "GPU / CPU"], 1, &rows))
}

/// A number of bytes in its usual unit.
fn bytes(bytes: f64) -> String {
    match bytes {
        bytes if bytes >= 1e6 => format!("{} MB", number(bytes / 1e6)),
        bytes if bytes >= 1e4 => format!("{} KB", number(bytes / 1e3)),
        bytes => format!("{} bytes", number(bytes)),
    }
}
