//! Reasons for missed targets: Nsight Compute's reports on our launch and the peer's, and hand-written explanations.

use std::path::Path;

use anyhow::{Context, ensure};

use crate::gallery::ncu;
use crate::report::{Profile, Results, table};

/// The report's files, the point as the page prints it, and the reason in a sentence or two.
const REASONS: &[(&str, &str, &str)] = &[
    ("softmax", "softmax f32 8x262144", "Ours takes two launches and QuACK one; the profile shows the first"),
    (
        "softmax",
        "softmax bf16 64x262144",
        "Ours executes twice as many instructions, and they set its time; QuACK waits for memory instead",
    ),
    ("softmax", "softmax bf16 4096x1280", ONE_WAVE),
    ("softmax", "backward f32 64x32000", ONE_WAVE),
    ("softmax", "backward f32 8x262144", ONE_WAVE),
    ("softmax", "backward bf16 8x128256", ONE_WAVE),
    ("softmax", "cross_entropy f32 8x262144", ONE_WAVE),
    ("softmax", "cross_entropy bf16 8x128256", ONE_WAVE),
    ("softmax", "cross_entropy f32 4096x256", ONE_WAVE),
    (
        "softmax",
        "backward bf16 4096x12672",
        "Both move the same bytes, and ours executes more than twice as many instructions",
    ),
];

const ONE_WAVE: &str = "There is one wave of blocks, so the time is that of one block's chain of loads, sums and stores. \
    Ours has more instructions on it";

/// The metrics of the step `missed` of the bundle's `run.sh`.
const TIME: &str = "gpu__time_duration.sum";
const READ: &str = "dram__bytes_read.sum";
const WRITTEN: &str = "dram__bytes_write.sum";
const REGISTERS: &str = "launch__registers_per_thread";
const THREADS: &str = "launch__block_size";
const BLOCKS: &str = "launch__grid_size";
const INSTRUCTIONS: &str = "smsp__inst_executed.sum";
const WARPS: &str = "sm__warps_active.avg.pct_of_peak_sustained_active";
const ACTIVE: &str = "sm__cycles_active.avg";
const ELAPSED: &str = "sm__cycles_elapsed.max";
const ON_MEMORY: &str = "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio";
const AT_BARRIERS: &str = "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio";
const METRICS: [&str; 12] = [
    TIME,
    READ,
    WRITTEN,
    REGISTERS,
    THREADS,
    BLOCKS,
    INSTRUCTIONS,
    WARPS,
    ACTIVE,
    ELAPSED,
    ON_MEMORY,
    AT_BARRIERS,
];

/// The reason for a missed point, if one was found.
pub fn reason(stem: &str, point: &str) -> Option<&'static str> {
    REASONS.iter().find(|(of, name, _)| (*of, *name) == (stem, point)).map(|(.., reason)| *reason)
}

/// Reads the output of `run.sh`: for ours and for the peer, a line with the points, then a table with a launch for each.
pub fn read(path: &Path) -> anyhow::Result<Vec<Profile>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    parse(&text).with_context(|| format!("reading {}", path.display()))
}

fn parse(text: &str) -> anyhow::Result<Vec<Profile>> {
    let mut profiles = Vec::new();
    for part in text.split("==== ").skip(1) {
        let (line, table) = part.split_once('\n').unwrap_or((part, ""));
        let mut words = line.split_whitespace();
        let whose = words.next().context("a part has no name")?;
        let points: Vec<&str> = words.collect();
        let launches = ncu::table(table, &METRICS).with_context(|| format!("in the part {line}"))?;
        ensure!(
            points.len() == launches.len(),
            "the part {line} has {} launches for {} points; see logs.txt of the run",
            launches.len(),
            points.len()
        );
        profiles.extend(points.into_iter().zip(launches).map(|(point, (kernel, values))| Profile {
            point: point.replace('/', " "),
            whose: whose.to_owned(),
            kernel,
            metrics: METRICS.iter().map(|name| (*name).to_owned()).zip(values).collect(),
        }));
    }
    ensure!(!profiles.is_empty(), "it has no part that begins with ====");
    Ok(profiles)
}

/// The table of the profiles; ours and the peer's of a point are next to each other.
pub fn section(results: &Results) -> String {
    if results.profiles.is_empty() {
        return String::new();
    }
    let header = [
        "point",
        "whose",
        "time",
        "read",
        "written",
        "threads x blocks",
        "registers",
        "warps active",
        "SM busy",
        "instructions",
        "stalled on memory",
        "at barriers",
    ];
    let place = |profile: &&Profile| results.profiles.iter().position(|other| other.point == profile.point);
    let mut profiles: Vec<&Profile> = results.profiles.iter().collect();
    profiles.sort_by_key(place);
    let rows = profiles.iter().map(|profile| {
        let of = |metric: &str| profile.metrics.get(metric).copied().unwrap_or(f64::NAN);
        vec![
            profile.point.clone(),
            profile.whose.clone(),
            format!("{:.1} us", of(TIME) / 1e3),
            format!("{:.1} MB", of(READ) / 1e6),
            format!("{:.1} MB", of(WRITTEN) / 1e6),
            format!("{} x {}", of(THREADS), of(BLOCKS)),
            of(REGISTERS).to_string(),
            format!("{:.0} %", of(WARPS)),
            format!("{:.0} %", 100.0 * of(ACTIVE) / of(ELAPSED)),
            format!("{:.2} M", of(INSTRUCTIONS) / 1e6),
            format!("{:.1}", of(ON_MEMORY)),
            format!("{:.1}", of(AT_BARRIERS)),
        ]
    });
    format!(
        "\n### Profiles\n\nOne launch each in Nsight Compute, with a cold cache. SM busy: cycles in which a multiprocessor has a \
         block, over all cycles. Stalls: warps per issued instruction.\n\n{}",
        table(&header, 2, &rows.collect::<Vec<_>>())
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(head: &str, kernels: &[&str]) -> String {
        let quoted = |cells: Vec<String>| {
            cells.iter().map(|cell| format!("\"{cell}\"")).collect::<Vec<_>>().join(",") + "\n"
        };
        let names = METRICS.map(str::to_owned).to_vec();
        let mut text = format!("==== {head}\n==PROF== Connected\n");
        text += &quoted([vec!["ID".to_owned(), "Kernel Name".to_owned()], names].concat());
        text += &quoted(vec![String::new(); METRICS.len() + 2]);
        for kernel in kernels {
            let values = (1..=METRICS.len()).map(|value| format!("{value},000"));
            text += &quoted(["0".to_owned(), (*kernel).to_owned()].into_iter().chain(values).collect());
        }
        text
    }

    #[test]
    fn launches_are_matched_with_their_points() {
        let text = part("quack softmax/f32/1x2 backward/bf16/3x4", &["a", "b"])
            + &part("ours softmax/f32/1x2", &["c"]);
        let profiles = parse(&format!("2026-01-01\n{text}")).unwrap();
        let found: Vec<_> =
            profiles.iter().map(|p| (p.whose.as_str(), p.point.as_str(), p.kernel.as_str())).collect();
        assert_eq!(
            found,
            [
                ("quack", "softmax f32 1x2", "a"),
                ("quack", "backward bf16 3x4", "b"),
                ("ours", "softmax f32 1x2", "c")
            ]
        );
        assert_eq!(profiles[0].metrics[READ], 2000.0);
    }

    #[test]
    fn a_launch_that_is_missing_is_an_error() {
        let error = parse(&part("quack softmax/f32/1x2 backward/bf16/3x4", &["a"])).unwrap_err().to_string();
        assert!(error.contains("has 1 launches for 2 points"), "{error}");
        assert!(parse("nothing").is_err());
    }
}
