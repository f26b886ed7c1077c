//! Peak rates of GPUs from their datasheets, and checks that no reported figure exceeds them.

use anyhow::ensure;

/// The limits of a GPU from its datasheet: memory, and dense FLOPs of the FP32 units and of the tensor cores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Peaks {
    pub gigabytes_per_second: f64,
    pub fp32_tflops: f64,
    /// With bf16 factors, without sparsity.
    pub tensor_tflops: f64,
    /// The highest clock, at which the peaks above are reached, in MHz.
    pub boost_mhz: f64,
    /// GB/s to other GPUs over NVLink, both directions together; 0 without one.
    pub link: f64,
}

/// By a part of the device's name; more specific names come first.
const DATASHEETS: [(&str, Peaks); 9] = [
    ("H200 NVL", peaks(4800.0, 60.0, 835.0, 1785.0, 900.0)),
    ("H200", peaks(4800.0, 66.9, 989.0, 1980.0, 900.0)),
    ("H100 NVL", peaks(3900.0, 60.0, 835.0, 1785.0, 600.0)),
    ("H100 PCIe", peaks(2039.0, 51.2, 756.0, 1755.0, 600.0)),
    // The HBM3 module, called "H100 80GB HBM3" by its driver.
    ("H100", peaks(3350.0, 66.9, 989.0, 1980.0, 900.0)),
    ("B200", peaks(8000.0, 75.0, 2250.0, 1965.0, 1800.0)),
    ("A100", peaks(2039.0, 19.5, 312.0, 1410.0, 600.0)),
    ("L40S", peaks(864.0, 91.6, 362.0, 2520.0, 0.0)),
    // Its tensor cores take f16 and not bf16.
    ("V100", peaks(900.0, 15.7, 125.0, 1530.0, 300.0)),
];

/// The factor by which a share of a roof may exceed it, because of inexact clocks and timers.
pub const TOLERANCE: f64 = 1.02;

const fn peaks(
    gigabytes_per_second: f64,
    fp32_tflops: f64,
    tensor_tflops: f64,
    boost_mhz: f64,
    link: f64,
) -> Peaks {
    Peaks { gigabytes_per_second, fp32_tflops, tensor_tflops, boost_mhz, link }
}

/// The data-centre GPUs of five generations, the oldest first.
pub fn generations() -> impl Iterator<Item = (&'static str, Peaks)> {
    ["V100", "A100", "H100", "H200", "B200"].into_iter().filter_map(|name| Some((name, of(name)?)))
}

/// The peaks of the device of this name, if its datasheet is known.
pub fn of(machine: &str) -> Option<Peaks> {
    DATASHEETS.iter().find(|(name, _)| machine.contains(name)).map(|(_, peaks)| *peaks)
}

/// Collects impossible figures, to report all of them at once.
#[derive(Default)]
pub struct Check {
    problems: Vec<String>,
    values: Vec<(String, f64, String)>,
}

impl Check {
    /// Checks a share of a roof, as a factor: 1 is the roof.
    pub fn share(&mut self, what: impl FnOnce() -> String, share: f64) {
        if !(0.0..=TOLERANCE).contains(&share) {
            self.problems.push(format!("{} is {:.1} % of its roof", what(), 100.0 * share));
        }
    }

    /// Checks a rate against the peak of its unit.
    pub fn rate(&mut self, what: impl FnOnce() -> String, rate: f64, peak: f64, unit: &str) {
        if !(0.0..=peak * TOLERANCE).contains(&rate) {
            self.problems.push(format!("{} is {rate:.0} {unit}, above the peak of {peak:.0}", what()));
        }
    }

    /// Records the value on `page` for a measurement; another page must have the same, within a millionth.
    pub fn value(&mut self, measurement: &str, value: f64, page: &str) {
        match self.values.iter().find(|(name, ..)| name == measurement) {
            Some((_, other, there)) if (other - value).abs() > 1e-6 * other.abs() => {
                self.problems.push(format!("{measurement} is {value} in {page}, but {other} in {there}"));
            }
            Some(_) => {}
            None => self.values.push((measurement.to_owned(), value, page.to_owned())),
        }
    }

    /// Ends the check.
    ///
    /// # Errors
    /// A figure is impossible; all of them are named.
    pub fn finish(self) -> anyhow::Result<()> {
        ensure!(
            self.problems.is_empty(),
            "{} figures cannot be true; correct their formulas or measure again:\n  {}",
            self.problems.len(),
            self.problems.join("\n  ")
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_special_name_of_a_device_comes_first() {
        let rate = |name: &str| of(name).map(|peaks| peaks.gigabytes_per_second);
        assert_eq!(rate("NVIDIA H100 80GB HBM3"), Some(3350.0));
        assert_eq!(rate("NVIDIA H100 PCIe"), Some(2039.0));
        assert_eq!(rate("NVIDIA H200"), Some(4800.0));
        assert_eq!(rate("NVIDIA GeForce GTX 9990"), None);
    }

    #[test]
    fn impossible_figures_are_all_named() {
        let mut check = Check::default();
        check.share(|| "a".to_owned(), 1.35);
        check.share(|| "b".to_owned(), 1.01);
        check.share(|| "c".to_owned(), f64::NAN);
        check.rate(|| "d".to_owned(), 115_661.0, 66_900.0, "GFLOP/s");
        check.rate(|| "e".to_owned(), 66_000.0, 66_900.0, "GFLOP/s");
        check.value("copy", 4093.0, "one page");
        check.value("copy", 4093.0, "a second page");
        check.value("copy", 4271.0, "a third page");
        let error = check.finish().unwrap_err().to_string();
        for part in [
            "4 figures cannot be true",
            "a is 135.0 % of its roof",
            "c is NaN % of its roof",
            "d is 115661 GFLOP/s, above the peak of 66900",
            "copy is 4271 in a third page, but 4093 in one page",
        ] {
            assert!(error.contains(part), "{part}: {error}");
        }
        assert!(Check::default().finish().is_ok());
    }
}
