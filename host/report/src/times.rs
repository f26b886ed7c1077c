//! The times of a run's parts.

use std::fmt;
use std::time::Duration;

/// Wall-clock times of a run's parts. They do not overlap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Fetching the data set, if it was missing.
    pub fetch: Duration,
    /// Reading and checking the data set.
    pub load: Duration,
    /// Copies to the device.
    pub host_to_device: Duration,
    /// Training without copies: kernels, and the host's waits for them.
    pub train_kernels: Duration,
    /// Evaluation without copies: kernels, and the host's waits for them.
    pub test_kernels: Duration,
    /// Copies from the device.
    pub device_to_host: Duration,
    /// Checking and writing checkpoints, without copies.
    pub checkpoints: Duration,
    /// The whole run.
    pub total: Duration,
}

impl Times {
    /// The time outside these parts.
    pub fn other(&self) -> Duration {
        let around = self.fetch + self.load;
        let transfers = self.host_to_device + self.device_to_host;
        let kernels = self.train_kernels + self.test_kernels;
        self.total.saturating_sub(around + transfers + kernels + self.checkpoints)
    }
}

impl fmt::Display for Times {
    /// Writes a table of the parts and the total, in seconds and as shares of the total. Fetching, which only the first run
    /// does, and checkpoints have a row only if they took time.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = [
            ("fetch the data", self.fetch),
            ("load the data", self.load),
            ("host to device", self.host_to_device),
            ("kernels, training", self.train_kernels),
            ("kernels, test", self.test_kernels),
            ("device to host", self.device_to_host),
            ("checkpoints", self.checkpoints),
            ("other", self.other()),
            ("total", self.total),
        ];
        writeln!(f, "{:<20} {:>9} {:>9}", "where the time went", "seconds", "share")?;
        let is_rare = |name| ["fetch the data", "checkpoints"].contains(&name);
        for (name, time) in rows.iter().filter(|(name, time)| !(is_rare(*name) && time.is_zero())) {
            let seconds = time.as_secs_f64();
            let share = 100.0 * seconds / self.total.as_secs_f64().max(f64::MIN_POSITIVE);
            writeln!(f, "{name:<20} {seconds:>9.3} {share:>7.1} %")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_add_up_to_the_total() {
        let times = Times {
            fetch: Duration::ZERO,
            load: Duration::from_millis(100),
            host_to_device: Duration::from_millis(50),
            train_kernels: Duration::from_millis(1500),
            test_kernels: Duration::from_millis(200),
            device_to_host: Duration::from_millis(10),
            checkpoints: Duration::ZERO,
            total: Duration::from_millis(2000),
        };
        assert_eq!(times.other(), Duration::from_millis(140));
        assert_eq!(
            times.to_string(),
            "\
where the time went    seconds     share
load the data            0.100     5.0 %
host to device           0.050     2.5 %
kernels, training        1.500    75.0 %
kernels, test            0.200    10.0 %
device to host           0.010     0.5 %
other                    0.140     7.0 %
total                    2.000   100.0 %
"
        );
        let saved = Times { checkpoints: Duration::from_millis(40), ..times };
        assert_eq!(saved.other(), Duration::from_millis(100));
        assert!(saved.to_string().contains("checkpoints              0.040     2.0 %\nother"));
        let fetched = Times { fetch: Duration::from_millis(140), ..times };
        assert_eq!(fetched.other(), Duration::ZERO);
        assert!(fetched.to_string().contains("fetch the data           0.140     7.0 %\nload the data"));
    }

    #[test]
    fn a_run_of_no_time_can_be_shown() {
        assert!(Times::default().to_string().contains("total                    0.000     0.0 %"));
    }
}
