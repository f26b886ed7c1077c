//! The times and the work of a run's kernels.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The launches of one kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KernelRecord {
    /// The kernel, or a graph of several.
    pub kernel: String,
    /// The number of launches.
    pub launches: u64,
    /// Total seconds of all launches, each waited for separately.
    pub seconds: f64,
    /// Bytes that they had to read and write, computed from their shapes, if known.
    pub bytes: Option<u64>,
    /// Operations that they had to do, if known.
    pub flop: Option<u64>,
    /// The least time for these at the device's peak rates, as a share of the time taken, 0 to 1; `None` if the peaks are
    /// unknown.
    pub roofline: Option<f64>,
}

/// The launches of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    /// One record per kernel.
    pub kernels: Vec<KernelRecord>,
    /// The device's peak operations and bytes per second, if it reports them.
    pub peaks: Option<[f64; 2]>,
}

impl fmt::Display for Profile {
    /// Writes a table with a row per kernel, the longest time first, and a line that explains the last column.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut kernels: Vec<&KernelRecord> = self.kernels.iter().collect();
        kernels.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        let names = kernels.iter().map(|record| record.kernel.len()).max().unwrap_or(0).max(24);
        writeln!(
            f,
            "{:<names$} {:>9} {:>9} {:>11} {:>9} {:>10} {:>9}",
            "launches, one at a time", "number", "seconds", "mean, us", "MB each", "MFLOP each", "roofline"
        )?;
        for record in kernels {
            let KernelRecord { kernel, launches, seconds, bytes, flop, roofline } = record;
            let each = |number: f64| number / *launches as f64;
            let millions = |number: &Option<u64>| {
                number.map_or_else(String::new, |number| format!("{:.3}", each(number as f64 / 1e6)))
            };
            let mean = each(1e6 * seconds);
            let roofline = roofline.map_or_else(String::new, |share| format!("{:.1} %", 100.0 * share));
            let (bytes, flop) = (millions(bytes), millions(flop));
            let line = format!(
                "{kernel:<names$} {launches:>9} {seconds:>9.3} {mean:>11.2} {bytes:>9} {flop:>10} {roofline:>9}"
            );
            writeln!(f, "{}", line.trim_end())?;
        }
        match self.peaks {
            Some([flops, bytes]) => writeln!(
                f,
                "roofline from the device's clocks: {:.1} TFLOP/s of f32 without tensor cores, {:.0} GB/s",
                flops / 1e12,
                bytes / 1e9
            ),
            None => writeln!(f, "no roofline: the peak of the CPU is unknown"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kernel: &str, launches: u64, seconds: f64, roofline: Option<f64>) -> KernelRecord {
        let (bytes, flop) = (Some(1_500_000 * launches), Some(250_000 * launches));
        KernelRecord { kernel: kernel.to_owned(), launches, seconds, bytes, flop, roofline }
    }

    #[test]
    fn the_longest_comes_first_and_figures_are_those_of_a_launch() {
        let mut unknown = record("other", 1, 0.001, None);
        (unknown.bytes, unknown.flop) = (None, None);
        let kernels =
            vec![record("short", 4, 0.002, Some(0.25)), record("long", 10, 0.5, Some(0.0625)), unknown];
        let profile = Profile { kernels, peaks: Some([60e12, 4.8e12]) };
        assert_eq!(
            profile.to_string(),
            "\
launches, one at a time     number   seconds    mean, us   MB each MFLOP each  roofline
long                            10     0.500    50000.00     1.500      0.250     6.2 %
short                            4     0.002      500.00     1.500      0.250    25.0 %
other                            1     0.001     1000.00
roofline from the device's clocks: 60.0 TFLOP/s of f32 without tensor cores, 4800 GB/s
"
        );
        let of_cpu = Profile { kernels: vec![record("k", 1, 1.0, None)], peaks: None }.to_string();
        assert!(of_cpu.ends_with("0.250\nno roofline: the peak of the CPU is unknown\n"), "{of_cpu}");
    }
}
