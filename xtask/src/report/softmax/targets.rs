//! The targets of the softmax operations, the results of a run, and its geometric means over the peers.

use std::fmt::Write as _;

use crate::report::softmax::missed;
use crate::report::softmax::operations::{self, Operation};
use crate::report::softmax::tables::percent;
use crate::report::softmax::{Contest, PEERS, Results, is_decode};
use crate::report::{row, stem, times};

/// The types that the peers are timed with.
const DTYPES: [&str; 2] = ["f32", "bf16"];

/// From this many bytes of a matrix, only memory limits its operation.
const LARGE: f64 = 256e6;

/// The widest rows that share a block with others.
const NARROW: usize = 1024;

/// A target for every operation that it applies to, and every type.
struct Target {
    what: &'static str,
    bound: Bound,
    is_share: bool,
    /// The target of an operation; `None` if it does not apply.
    wanted: fn(&Operation) -> Option<f64>,
    /// The figure at a shape; `None` if the target does not apply.
    figure: fn(&Contest<'_>) -> Option<f64>,
}

/// The comparison of figures with a target.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bound {
    EachAtLeast,
    EachAtMost,
    MeanAtLeast,
    MeanAtMost,
}

const TARGETS: [Target; 6] = [
    Target {
        what: "the best peer's time over ours, at every shape",
        bound: Bound::EachAtLeast,
        is_share: false,
        wanted: |_| Some(1.0),
        figure: |c| c.lead_over(c.best_peer()),
    },
    Target {
        what: "QuACK's time over ours, geometric mean",
        bound: Bound::MeanAtLeast,
        is_share: false,
        // QuACK has no kernel for the others.
        wanted: |op| ["softmax", "backward", "cross_entropy"].contains(&op.name).then_some(1.05),
        figure: |c| c.lead_over(c.peer("quack")),
    },
    Target {
        what: "of the best copy's bandwidth, from 256 MB on, at widths of 512 to 262144",
        bound: Bound::EachAtLeast,
        is_share: true,
        wanted: |op| op.writes_matrix.then_some(0.97),
        figure: |c| {
            let is_large = c.ours?.bytes() >= LARGE && (512..=262_144).contains(&c.cols);
            c.share_of_copy().filter(|_| is_large)
        },
    },
    Target {
        what: "our time over that of reading the logits once, from 256 MB on",
        bound: Bound::EachAtMost,
        is_share: false,
        wanted: |op| (!op.writes_matrix).then_some(if op.name == "sample_top_p" { 3.0 } else { 1.5 }),
        figure: |c| Some(1.0 / c.share_of_copy()?).filter(|_| c.ours.is_some_and(|e| e.bytes() >= LARGE)),
    },
    Target {
        what: "our time over that of our softmax, at widths up to 1024",
        bound: Bound::EachAtMost,
        is_share: false,
        wanted: |op| (!op.writes_matrix).then_some(if op.name == "sample_top_p" { 2.0 } else { 1.0 }),
        figure: |c| Some(1.0 / c.lead_over(c.softmax)?).filter(|_| c.cols <= NARROW),
    },
    Target {
        what: "our time over the best peer's, one token's logits of 1 to 64 rows, geometric mean",
        bound: Bound::MeanAtMost,
        is_share: false,
        wanted: |_| Some(0.9),
        figure: |c| Some(1.0 / c.lead_over(c.best_peer())?).filter(|_| is_decode(c.rows, c.cols)),
    },
];

impl Target {
    fn shown(&self, figure: f64) -> String {
        if self.is_share { percent(Some(figure)) } else { format!("{figure:.3}") }
    }

    fn is_reached(&self, figure: f64, wanted: f64) -> bool {
        match self.bound {
            Bound::EachAtLeast | Bound::MeanAtLeast => figure >= wanted,
            Bound::EachAtMost | Bound::MeanAtMost => figure <= wanted,
        }
    }

    fn shown_wanted(&self, wanted: f64) -> String {
        let sign = if self.is_reached(f64::INFINITY, wanted) { ">=" } else { "<=" };
        format!("{sign} {}", self.shown(wanted))
    }

    /// The result, and whether it reaches the target; adds the shapes that do not to `missed`.
    fn judge(&self, found: &[(&Contest<'_>, f64)], wanted: f64, missed: &mut Vec<Missed>) -> (String, bool) {
        let figures = || found.iter().map(|&(_, figure)| figure);
        if matches!(self.bound, Bound::MeanAtLeast | Bound::MeanAtMost) {
            let mean = geometric_mean(&figures().collect::<Vec<_>>()).unwrap_or(f64::NAN);
            let text = format!("{} over {} shapes", self.shown(mean), found.len());
            return (text, self.is_reached(mean, wanted));
        }
        let beyond: Vec<_> = found.iter().filter(|(_, figure)| !self.is_reached(*figure, wanted)).collect();
        for (contest, figure) in &beyond {
            let Contest { op, dtype, rows, cols, .. } = contest;
            let figure = format!("{} {}", self.shown(*figure), self.what);
            missed.push(Missed { point: format!("{op} {dtype} {rows}x{cols}"), figure });
        }
        let (word, worst) = match self.bound {
            Bound::EachAtMost => ("most", figures().fold(f64::NEG_INFINITY, f64::max)),
            _ => ("least", figures().fold(f64::INFINITY, f64::min)),
        };
        let reached = found.len() - beyond.len();
        (format!("{reached} of {}, the {word} {}", found.len(), self.shown(worst)), beyond.is_empty())
    }
}

/// A shape at which a target is missed.
struct Missed {
    point: String,
    figure: String,
}

/// A table for each target, and the shapes that miss one, with the reason.
pub fn tables(results: &Results, contests: &[Contest<'_>]) -> String {
    let mut text = String::new();
    let mut missed = Vec::new();
    let ops = operations::rows(results);
    for target in &TARGETS {
        let _ = writeln!(text, "### Target: {}\n", target.what);
        text += &row(&["operation", "wanted", "f32", "bf16"].map(str::to_owned));
        text += &row(&["---", "---:", "---", "---"].map(str::to_owned));
        for op in &ops {
            let Some(wanted) = operations::of(op).and_then(target.wanted) else { continue };
            let found = DTYPES.map(|dtype| {
                let of_it = contests.iter().filter(|c| (c.op, c.dtype) == (op, dtype));
                let found: Vec<_> = of_it.filter_map(|c| Some((c, (target.figure)(c)?))).collect();
                if found.is_empty() {
                    return "not measured".to_owned();
                }
                let (figure, is_reached) = target.judge(&found, wanted, &mut missed);
                if is_reached { format!("yes: {figure}") } else { format!("**no**: {figure}") }
            });
            let [f32, bf16] = found;
            text += &row(&[op.clone(), target.shown_wanted(wanted), f32, bf16]);
        }
        text.push('\n');
    }
    text + &explained(&missed, &stem("softmax", &results.machine))
}

/// The points that miss a target, each with the results of a profile.
fn explained(missed: &[Missed], stem: &str) -> String {
    if missed.is_empty() {
        return String::new();
    }
    let mut text = "### Missed at\n\n".to_owned();
    for Missed { point, figure } in missed {
        let reason = missed::reason(stem, point).map_or_else(String::new, |reason| format!(". {reason}"));
        let _ = writeln!(text, "- {point}: {figure}{reason}");
    }
    text
}

/// The peers with a time in a contest for which `is_it` holds.
pub fn timed_peers(
    contests: &[Contest<'_>],
    is_it: impl Fn(&Contest<'_>) -> bool,
) -> Vec<(&'static str, &'static str)> {
    let here: Vec<_> = contests.iter().filter(|contest| is_it(contest)).collect();
    PEERS.into_iter().filter(|(name, _)| here.iter().any(|contest| contest.peer(name).is_some())).collect()
}

/// The geometric means of each peer's time divided by ours, by operation and type, over all shapes at which both were timed.
pub fn means(results: &Results, contests: &[Contest<'_>]) -> String {
    let peers = timed_peers(contests, |_| true);
    if peers.is_empty() {
        return "No peer was timed.\n".to_owned();
    }
    let header = ["operation", "dtype"].into_iter().chain(peers.iter().map(|(_, shown)| *shown));
    let mut text = row(&header.map(str::to_owned).collect::<Vec<_>>());
    let lines = ["---", "---"].into_iter().chain(peers.iter().map(|_| "---:"));
    text += &row(&lines.map(str::to_owned).collect::<Vec<_>>());
    for op in operations::rows(results) {
        for dtype in DTYPES {
            let of_it: Vec<_> = contests.iter().filter(|c| (c.op, c.dtype) == (op.as_str(), dtype)).collect();
            let mut cells = vec![op.clone(), dtype.to_owned()];
            if of_it.iter().all(|contest| contest.ours.is_none()) {
                cells.push("not measured".to_owned());
                cells.resize(peers.len() + 2, String::new());
            } else {
                cells.extend(peers.iter().map(|(name, _)| {
                    let leads: Vec<f64> = of_it.iter().filter_map(|c| c.lead_over(c.peer(name))).collect();
                    let mean = geometric_mean(&leads);
                    mean.map(|mean| format!("{} ({})", times(Some(mean)), leads.len())).unwrap_or_default()
                }));
            }
            text += &row(&cells);
        }
    }
    text
}

/// The geometric mean; `None` without figures.
pub fn geometric_mean(figures: &[f64]) -> Option<f64> {
    let logarithms: f64 = figures.iter().map(|figure| figure.ln()).sum();
    (!figures.is_empty()).then(|| (logarithms / figures.len() as f64).exp())
}
