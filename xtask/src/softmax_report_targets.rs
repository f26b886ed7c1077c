//! What the softmax is meant to reach, beside what a run says of it, and its geometric means over the peers.

use std::fmt::Write as _;

use crate::report::{row, times};
use crate::softmax_report::{Contest, OPS, OPS_OF_DECODING, PEERS, is_decode};
use crate::softmax_report_tables::percent;

/// The types that the peers are timed with.
const DTYPES: [&str; 2] = ["f32", "bf16"];

/// A target for every operation and type.
struct Target {
    what: &'static str,
    bound: Bound,
    is_share: bool,
    /// The figure at a shape, where the target is about it.
    figure: fn(&Contest<'_>) -> Option<f64>,
}

/// What is to be reached.
enum Bound {
    /// At every shape at least so much.
    EachAtLeast(f64),
    /// In geometric mean at least so much.
    MeanAtLeast(f64),
    /// In geometric mean at most so much.
    MeanAtMost(f64),
}

const TARGETS: [Target; 4] = [
    Target {
        what: "the best peer's time over ours, at every shape",
        bound: Bound::EachAtLeast(1.0),
        is_share: false,
        figure: |c| c.lead_over(c.best_peer()),
    },
    Target {
        what: "QuACK's time over ours, geometric mean",
        bound: Bound::MeanAtLeast(1.02),
        is_share: false,
        figure: |c| c.lead_over(c.peer("quack")),
    },
    Target {
        what: "of the best copy's bandwidth, from 256 MB on, at widths of 512 to 262144",
        bound: Bound::EachAtLeast(0.97),
        is_share: true,
        figure: |c| {
            let is_large = c.ours?.bytes() >= 256e6 && (512..=262_144).contains(&c.cols);
            c.share_of_copy().filter(|_| is_large)
        },
    },
    Target {
        what: "our time over the best peer's, one token's logits of 1 to 64 rows, geometric mean",
        bound: Bound::MeanAtMost(0.9),
        is_share: false,
        figure: |c| Some(1.0 / c.lead_over(c.best_peer())?).filter(|_| is_decode(c.rows, c.cols)),
    },
];

impl Target {
    fn shown(&self, figure: f64) -> String {
        if self.is_share { percent(Some(figure)) } else { format!("{figure:.3}") }
    }

    fn wanted(&self) -> String {
        match self.bound {
            Bound::EachAtLeast(wanted) | Bound::MeanAtLeast(wanted) => format!(">= {}", self.shown(wanted)),
            Bound::MeanAtMost(wanted) => format!("<= {}", self.shown(wanted)),
        }
    }

    /// What was found, and whether that reaches the target; adds the shapes that do not to `missed`.
    fn judge(&self, found: &[(&Contest<'_>, f64)], missed: &mut String) -> (String, bool) {
        let figures: Vec<f64> = found.iter().map(|&(_, figure)| figure).collect();
        let mean = geometric_mean(&figures).unwrap_or(f64::NAN);
        let Bound::EachAtLeast(wanted) = self.bound else {
            let is_reached = match self.bound {
                Bound::MeanAtMost(wanted) => mean <= wanted,
                Bound::MeanAtLeast(wanted) | Bound::EachAtLeast(wanted) => mean >= wanted,
            };
            return (format!("{} over {} shapes", self.shown(mean), found.len()), is_reached);
        };
        let below: Vec<_> = found.iter().filter(|(_, figure)| *figure < wanted).collect();
        for (contest, figure) in &below {
            let Contest { op, dtype, rows, cols, .. } = contest;
            let _ = writeln!(missed, "- {op} {dtype} {rows}x{cols}: {} {}", self.shown(*figure), self.what);
        }
        let least = figures.iter().copied().fold(f64::INFINITY, f64::min);
        let reached = found.len() - below.len();
        (format!("{reached} of {}, the least {}", found.len(), self.shown(least)), below.is_empty())
    }
}

/// The table of targets, and the shapes at which one is missed.
pub fn table(contests: &[Contest<'_>]) -> String {
    let mut text = row(&["target", "operation", "dtype", "wanted", "found", "reached"].map(str::to_owned));
    text += &row(&["---", "---", "---", "---:", "---:", "---"].map(str::to_owned));
    let mut missed = String::new();
    for target in &TARGETS {
        for (op, dtype) in OPS.iter().flat_map(|op| DTYPES.map(|dtype| (*op, dtype))) {
            let of_it = contests.iter().filter(|c| (c.op, c.dtype) == (op, dtype));
            let found: Vec<_> = of_it.filter_map(|c| Some((c, (target.figure)(c)?))).collect();
            let (figure, is_reached) = match found.is_empty() {
                true => (String::new(), "not measured"),
                false => {
                    let (figure, is_reached) = target.judge(&found, &mut missed);
                    (figure, if is_reached { "yes" } else { "no" })
                }
            };
            let [what, op, dtype, is_reached] = [target.what, op, dtype, is_reached].map(str::to_owned);
            text += &row(&[what, op, dtype, target.wanted(), figure, is_reached]);
        }
    }
    if !missed.is_empty() {
        let _ = write!(text, "\nMissed at:\n\n{missed}");
    }
    text
}

/// The geometric means of each peer's time over ours, by operation and type, at all shapes that both were timed at.
pub fn means(contests: &[Contest<'_>]) -> String {
    let header = ["operation", "dtype"].into_iter().chain(PEERS.map(|(_, shown)| shown));
    let mut text = row(&header.map(str::to_owned).collect::<Vec<_>>());
    text += &row(&["---", "---", "---:", "---:", "---:", "---:"].map(str::to_owned));
    let is_timed = |op: &&&str| contests.iter().any(|contest| contest.op == **op);
    let ops = OPS.iter().chain(OPS_OF_DECODING.iter().filter(is_timed));
    for (op, dtype) in ops.flat_map(|op| DTYPES.map(|dtype| (*op, dtype))) {
        let of_it: Vec<_> = contests.iter().filter(|c| (c.op, c.dtype) == (op, dtype)).collect();
        let cells = PEERS.map(|(name, _)| {
            let leads: Vec<f64> = of_it.iter().filter_map(|c| c.lead_over(c.peer(name))).collect();
            let mean = geometric_mean(&leads).map(|mean| format!("{} ({})", times(Some(mean)), leads.len()));
            mean.unwrap_or_default()
        });
        text += &row(&[op, dtype].map(str::to_owned).into_iter().chain(cells).collect::<Vec<_>>());
    }
    text
}

/// The geometric mean, of at least one figure.
pub fn geometric_mean(figures: &[f64]) -> Option<f64> {
    let logarithms: f64 = figures.iter().map(|figure| figure.ln()).sum();
    (!figures.is_empty()).then(|| (logarithms / figures.len() as f64).exp())
}
