//! The targets of the softmax operations, and the shapes that miss them.

use crate::pages::operations::{Operation, operation};
use crate::pages::profiles;
use crate::report::{Contest, Results, Subject, Timed, geometric_mean, percent, stem, table};

/// A target for every operation that it applies to, and every type.
struct Target {
    what: &'static str,
    bound: Bound,
    is_share: bool,
    /// The target of an operation; `None` if it does not apply.
    wanted: fn(&Operation) -> Option<f64>,
    /// The figure at a shape; `None` if the target does not apply. The second contest is that of our softmax there.
    figure: fn(&Subject, &Contest<'_>, Option<&Timed>) -> Option<f64>,
}

/// The comparison of figures with a target.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bound {
    EachAtLeast,
    EachAtMost,
    MeanAtLeast,
    MeanAtMost,
}

/// From this many bytes, only memory limits an operation.
const LARGE: f64 = 256e6;

/// The widest rows that share a block with others.
const NARROW: f64 = 1024.0;

/// Whether each row holds one token's logits, for a model that serves few sequences.
pub fn is_decode(entry: &Timed) -> bool {
    entry.number("rows") <= 64.0 && (32e3..=262_144.0).contains(&entry.number("cols"))
}

fn is_large(subject: &Subject, entry: &Timed) -> bool {
    (subject.bytes)(entry) >= LARGE
}

const TARGETS: [Target; 6] = [
    Target {
        what: "the best peer's time over ours, at every shape",
        bound: Bound::EachAtLeast,
        is_share: false,
        wanted: |_| Some(1.0),
        figure: |subject, c, _| Some(c.least(subject)?.0),
    },
    Target {
        what: "QuACK's time over ours, geometric mean",
        bound: Bound::MeanAtLeast,
        is_share: false,
        // QuACK has no kernel for the others.
        wanted: |op| ["softmax", "backward", "cross_entropy"].contains(&op.name).then_some(1.05),
        figure: |_, c, _| c.lead("quack"),
    },
    Target {
        what: "of the best copy's bandwidth, from 256 MB on, at widths of 512 to 262144",
        bound: Bound::EachAtLeast,
        is_share: true,
        wanted: |op| (op.matrices > 1.0).then_some(0.97),
        figure: |subject, c, _| {
            let is_wide = (512.0..=262_144.0).contains(&c.ours.number("cols"));
            c.share_of_copy(subject).filter(|_| is_large(subject, c.ours) && is_wide)
        },
    },
    Target {
        what: "our time over that of reading the logits once, from 256 MB on",
        bound: Bound::EachAtMost,
        is_share: false,
        wanted: |op| (op.matrices == 1.0).then_some(if op.name == "sample_top_p" { 3.0 } else { 1.5 }),
        figure: |subject, c, _| Some(1.0 / c.share_of_copy(subject)?).filter(|_| is_large(subject, c.ours)),
    },
    Target {
        what: "our time over that of our softmax, at widths up to 1024",
        bound: Bound::EachAtMost,
        is_share: false,
        wanted: |op| (op.matrices == 1.0).then_some(if op.name == "sample_top_p" { 2.0 } else { 1.0 }),
        figure: |_, c, softmax| {
            let lead = softmax?.microseconds? / c.ours.microseconds?;
            Some(1.0 / lead).filter(|_| c.ours.number("cols") <= NARROW)
        },
    },
    Target {
        what: "our time over the best peer's, one token's logits of 1 to 64 rows, geometric mean",
        bound: Bound::MeanAtMost,
        is_share: false,
        wanted: |_| Some(0.9),
        figure: |subject, c, _| Some(1.0 / c.least(subject)?.0).filter(|_| is_decode(c.ours)),
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

    /// The result over all `found`, shapes and figures, and the places of those that miss it.
    fn judge(&self, found: &[f64], wanted: f64) -> (String, Vec<usize>) {
        let answer = |is_reached: bool| if is_reached { "yes" } else { "**no**" };
        if matches!(self.bound, Bound::MeanAtLeast | Bound::MeanAtMost) {
            let mean = geometric_mean(found).unwrap_or(f64::NAN);
            let answer = answer(self.is_reached(mean, wanted));
            return (format!("{answer}: {} over {} shapes", self.shown(mean), found.len()), Vec::new());
        }
        let missed: Vec<usize> = (0..found.len()).filter(|i| !self.is_reached(found[*i], wanted)).collect();
        let (word, worst) = match self.bound {
            Bound::EachAtMost => ("most", found.iter().copied().fold(f64::NEG_INFINITY, f64::max)),
            _ => ("least", found.iter().copied().fold(f64::INFINITY, f64::min)),
        };
        let (answer, reached) = (answer(missed.is_empty()), found.len() - missed.len());
        (format!("{answer}: {reached} of {}, the {word} {}", found.len(), self.shown(worst)), missed)
    }
}

/// A table for each target of the softmax operations, and the shapes that miss one, with the reason.
pub fn section(subject: &Subject, results: &Results) -> String {
    let contests = subject.contests(results);
    let softmax = |ours: &Timed| {
        let at = ["dtype", "rows", "cols"];
        results.ours.iter().find(|entry| entry.name == "softmax" && entry.of(&at) == ours.of(&at))
    };
    let mut ops: Vec<String> = Vec::new();
    for (title, _) in &contests {
        let op = title.split(',').next().unwrap_or_default().to_owned();
        if !ops.contains(&op) {
            ops.push(op);
        }
    }
    let (mut text, mut missed) = ("\n## Targets\n".to_owned(), String::new());
    for target in &TARGETS {
        let rows = ops.iter().filter_map(|op| {
            let wanted = operation(op).and_then(target.wanted)?;
            let mut line = vec![op.clone(), format!("{} {}", target.sign(), target.shown(wanted))];
            for dtype in ["f32", "bf16"] {
                let title = format!("{op}, {dtype}");
                let of_it = contests.iter().filter(|(known, _)| *known == title).flat_map(|(_, all)| all);
                let found = of_it.filter_map(|c| Some((c, (target.figure)(subject, c, softmax(c.ours))?)));
                let (shapes, figures): (Vec<_>, Vec<f64>) = found.unzip();
                if figures.is_empty() {
                    line.push("not measured".to_owned());
                    continue;
                }
                let (result, places) = target.judge(&figures, wanted);
                line.push(result);
                for place in places {
                    let shape = subject.problem(shapes[place].ours).replace(' ', "");
                    let point = format!("{op} {dtype} {shape}");
                    let reason = profiles::reason(&stem(subject.name, &results.machine), &point);
                    let reason = reason.map_or_else(String::new, |reason| format!(". {reason}"));
                    missed +=
                        &format!("- {point}: {} {}{reason}\n", target.shown(figures[place]), target.what);
                }
            }
            Some(line)
        });
        let rows: Vec<Vec<String>> = rows.collect();
        text += &format!("\n### Target: {}\n\n", target.what);
        text += &table(&["operation", "wanted", "f32", "bf16"], 1, &rows);
    }
    if missed.is_empty() { text } else { format!("{text}\n### Missed at\n\n{missed}") }
}

impl Target {
    fn sign(&self) -> &'static str {
        if matches!(self.bound, Bound::EachAtLeast | Bound::MeanAtLeast) { ">=" } else { "<=" }
    }
}
