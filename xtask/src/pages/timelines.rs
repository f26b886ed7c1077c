//! What runs when on the rungs of the training ladder: pictures with one axis per machine, and their figures on the ladder's page.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use ferrowarp_report::LaneTimes;
use serde::{Deserialize, Serialize};

use crate::chart::{Axis, Chart, Panel, Scale, Span, Spans, number};
use crate::pages::training::{self, LADDER, USUAL};
use crate::report::{Results, Section, ladder, merged, or_empty, short_commit, table, update_page};
use crate::workspace::{self, output};

/// Draw what runs when in the first steps of an epoch, for each rung of docs/training-ladder.md; without options, draw again what
/// was stored last
#[derive(clap::Args)]
pub struct Merged {
    /// Train each rung there, as in `train-mnist --device`
    #[arg(long)]
    device: Option<String>,

    /// A rung to train; may be repeated [default: all]
    #[arg(long, value_name = "NAME", requires = "device")]
    rung: Vec<String>,

    /// A picture that `train-mnist --timeline` drew elsewhere, or the output folder of the bundle's run.sh; may be repeated
    #[arg(long, value_name = "PATH", conflicts_with = "device")]
    merge: Vec<PathBuf>,
}

const FILE: &str = "docs/results/timelines.json";

/// What ran when in the first steps of an epoch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Traced {
    pub machine: String,
    /// The rung of the training ladder.
    pub rung: String,
    pub precision: String,
    pub steps: usize,
    pub epoch: usize,
    pub commit: String,
    pub date: String,
    /// The parts of the machine, and when they were busy.
    pub lanes: Vec<LaneTimes>,
}

#[derive(Serialize, Deserialize)]
struct Stored {
    timelines: Vec<Traced>,
}

/// The stored timelines.
pub fn read() -> anyhow::Result<Vec<Traced>> {
    let text =
        std::fs::read_to_string(workspace::root().join(FILE)).with_context(|| format!("reading {FILE}"))?;
    let stored: Stored = serde_json::from_str(&text).with_context(|| format!("{FILE} holds no timelines"))?;
    Ok(stored.timelines)
}

impl Merged {
    /// Runs the command.
    pub fn run(&self) -> anyhow::Result<()> {
        let results = Results::read(&merged("mlp")?[0])?;
        let rungs: Vec<String> = rungs(&results)?;
        let mut all = read()?;
        for new in self.drawn(&rungs)? {
            match all.iter_mut().find(|old| old.file() == new.file()) {
                Some(old) => *old = new,
                None => all.push(new),
            }
        }
        let stored = Stored { timelines: all };
        let json = serde_json::to_string_pretty(&stored).context("writing the timelines as JSON")?;
        workspace::write(&workspace::root().join(FILE), &(json + "\n"))?;
        let all = stored.timelines;
        for traced in &all {
            let path = workspace::root().join("docs").join(traced.file());
            workspace::write(&path, &picture(traced, &all)?)?;
        }
        for (page, name, text) in sections(&all, &results)? {
            update_page(page, &name, &text)?;
        }
        println!("written to docs/timelines and {LADDER}");
        Ok(())
    }

    /// The timelines that were asked for.
    fn drawn(&self, rungs: &[String]) -> anyhow::Result<Vec<Traced>> {
        let mut new = Vec::new();
        for path in &self.merge {
            let files = rungs.iter().map(|name| path.join(format!("{name}.svg")));
            let files =
                if path.is_file() { vec![path.clone()] } else { files.filter(|it| it.is_file()).collect() };
            ensure!(!files.is_empty(), "{} has no timeline of a rung", path.display());
            for file in files {
                let svg =
                    std::fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
                new.push(Traced::read(&svg, None).with_context(|| format!("reading {}", file.display()))?);
            }
        }
        let Some(device) = &self.device else { return Ok(new) };
        for name in &self.rung {
            ensure!(rungs.contains(name), "{LADDER} has no rung {name}; it has {}", rungs.join(", "));
        }
        let trainer = workspace::build_trainer()?;
        for name in rungs.iter().filter(|name| self.rung.is_empty() || self.rung.contains(name)) {
            new.push(train(&trainer, device, name)?);
        }
        Ok(new)
    }
}

/// Trains with one rung. On a GPU the first epoch is a warm-up; on a CPU it would only take time.
fn train(trainer: &Path, device: &str, name: &str) -> anyhow::Result<Traced> {
    let folder = tempfile::tempdir().context("making a folder for the picture")?;
    let path = folder.path().join("timeline.svg");
    let epochs = if device == "cpu" { "1" } else { "2" };
    let mut command = Command::new(trainer);
    command.args(["--device", device, "--pipeline", name, "--epochs", epochs, "--timeline"]).arg(&path);
    output(command.current_dir(workspace::root()))?;
    let svg = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let traced = Traced::read(&svg, Some((workspace::commit()?, workspace::date()?)))?;
    // If a rung cannot run here, another one runs instead.
    ensure!(traced.rung == name, "{name} cannot run on this device; name another one with --device");
    Ok(traced)
}

fn rungs(results: &Results) -> anyhow::Result<Vec<String>> {
    let sections = ladder(LADDER, "timelines ", results, |name, _| name.to_owned())?;
    Ok(sections.into_iter().map(|(.., name)| name).collect())
}

impl Traced {
    /// Reads a picture of `train-mnist --timeline`. `origin` is the commit and the date, if the picture does not name them at its end
    /// as `run.sh` makes it do.
    pub fn read(svg: &str, origin: Option<(String, String)>) -> anyhow::Result<Self> {
        let (title, lanes) = ferrowarp_report::read_timeline(svg)
            .context("it holds no timeline; draw it by train-mnist --timeline")?;
        let [rung, precision, steps, epoch, machine] =
            title_parts(&title).with_context(|| format!("its title is not that of a timeline: {title:?}"))?;
        let named = || {
            let words = svg.rsplit_once("<!-- commit ")?.1.split_once(" -->")?.0;
            let (commit, date) = words.split_once(", date ")?;
            Some((commit.to_owned(), date.to_owned()))
        };
        let (commit, date) = named().or(origin).context("it does not name its commit")?;
        Ok(Self {
            machine: machine.to_owned(),
            rung: rung.to_owned(),
            precision: precision.to_owned(),
            steps: steps.parse().context("its title has no number of steps")?,
            epoch: epoch.parse().context("its title has no number of an epoch")?,
            commit,
            date,
            lanes,
        })
    }

    /// The path of its picture in `docs`. Pictures of a CPU have no folder of their own.
    pub fn file(&self) -> String {
        let folder = match self.machine.strip_prefix("NVIDIA ") {
            Some(gpu) => format!("{}/", gpu.split(' ').next().unwrap_or(gpu).to_ascii_lowercase()),
            None => String::new(),
        };
        format!("timelines/{folder}{}.svg", self.rung)
    }

    /// The end of the last span, in microseconds.
    fn end(&self) -> f64 {
        self.lanes.iter().flat_map(LaneTimes::spans).map(|span| span.1).fold(0.0, f64::max)
    }

    /// Microseconds per step.
    fn of_step(&self) -> f64 {
        self.end() / self.steps as f64
    }
}

/// Rung, precision, steps, epoch and machine of `pipeline R, precision P, the first S steps of epoch E on M`.
fn title_parts(title: &str) -> Option<[&str; 5]> {
    let (rung, rest) = title.strip_prefix("pipeline ")?.split_once(", precision ")?;
    let (precision, rest) = rest.split_once(", the first ")?;
    let (steps, rest) = rest.split_once(" steps of epoch ")?;
    let (epoch, machine) = rest.split_once(" on ")?;
    Some([rung, precision, steps, epoch, machine])
}

/// A rung that ends before this share of the common axis is also drawn magnified.
const SHORT: f64 = 0.3;
/// Up to this share, a step of a picture may differ from the bench's without a remark.
const CLOSE: f64 = 0.1;

/// The workers shown in the lanes.
const WORKERS: [(&str, &[&str]); 3] = [
    ("the host decodes, queues, waits", &["load", "host", "fetch"]),
    ("the link copies", &["copy"]),
    ("the device runs kernels", &["kernels"]),
];

/// The picture of a timeline on the axis of all timelines of its machine.
pub fn picture(traced: &Traced, all: &[Traced]) -> anyhow::Result<String> {
    let of_machine = all.iter().filter(|other| other.machine == traced.machine);
    let until = of_machine.map(Traced::end).fold(0.0, f64::max);
    let panel = |caption: &str, until: Option<f64>| {
        let lanes = traced.lanes.iter().map(|lane| {
            let group = WORKERS.iter().position(|(_, lanes)| lanes.contains(&lane.name.as_str()));
            let span =
                |(from, to): (f64, f64)| Span { from: from / 1e3, to: to / 1e3, group: group.unwrap_or(0) };
            (lane.name.clone(), lane.spans().map(span).collect())
        });
        Panel::Spans(Spans {
            caption: caption.to_owned(),
            axis: Axis::new("milliseconds since just before the first step").scale(Scale::Linear),
            until: until.map(|until| until / 1e3),
            rows: lanes.collect(),
            groups: WORKERS.iter().map(|(name, _)| (*name).to_owned()).collect(),
            width: 1100,
        })
    };
    let panels = if traced.end() < SHORT * until {
        let magnified = format!("the same, {} times magnified", number(until / traced.end()));
        vec![panel("on the axis of all rungs", Some(until)), panel(&magnified, None)]
    } else {
        vec![panel("", Some(until))]
    };
    let Traced { rung, precision, machine, steps, epoch, commit, date, .. } = traced;
    let (end, step) = (number(traced.end() / 1e3), number(traced.of_step()));
    let title = format!("{rung}: {steps} steps in {end} ms, {step} us each");
    let subtitle = format!(
        "The first steps of epoch {epoch} in batches of {USUAL}, precision {precision}; {machine}, commit {}, {date}",
        short_commit(commit)
    );
    Ok(Chart { title, subtitle, columns: 1, panels }.svg()?)
}

/// The sections of the ladder's page, next to the figures of a bench run.
pub fn sections(all: &[Traced], bench: &Results) -> anyhow::Result<Vec<Section>> {
    ladder(LADDER, "timelines ", bench, |name, _| {
        section(&all.iter().filter(|traced| traced.rung == name).collect::<Vec<_>>(), bench)
    })
}

/// The pictures of one rung, a row of figures for each, and differences from the bench.
pub fn section(of_rung: &[&Traced], bench: &Results) -> String {
    if of_rung.is_empty() {
        return "No timeline is drawn yet.\n".to_owned();
    }
    let (mut pictures, mut notes) = (String::new(), String::new());
    let rows = of_rung.iter().map(|traced| {
        let Traced { machine, rung, precision, steps, commit, date, .. } = traced;
        pictures +=
            &format!("![{rung} on {machine}: when host, link and device are busy]({})\n\n", traced.file());
        let entry = training::entry(bench, (rung, precision), USUAL).filter(|_| bench.machine == *machine);
        let step = entry.and_then(|entry| entry.figure("step_microseconds"));
        notes += &or_empty(step, |step| note(traced, step, &bench.commit));
        vec![
            machine.clone(),
            short_commit(commit),
            date.clone(),
            steps.to_string(),
            format!("{} ms", number(traced.end() / 1e3)),
            format!("{} us", number(traced.of_step())),
            or_empty(step, |step| format!("{} us", number(step))),
        ]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    let header = ["picture of", "commit", "date", "steps", "they end after", "a step", "a step of the bench"];
    format!("{pictures}{}{notes}", table(&header, 3, &rows))
}

/// A sentence for a difference between picture and bench.
fn note(traced: &Traced, step: f64, commit: &str) -> String {
    let share = traced.of_step() / step - 1.0;
    if share.abs() <= CLOSE {
        return String::new();
    }
    let (drawn, timed) = (short_commit(&traced.commit), short_commit(commit));
    let cause = match drawn.starts_with(&timed) || timed.starts_with(&drawn) {
        true => "The picture has its first steps only, with the recording of events".to_owned(),
        false => format!("The picture is of commit {drawn}, the bench of {timed}"),
    };
    let than = if share > 0.0 { "longer" } else { "shorter" };
    format!(
        "\nOn {}, a step of the picture is {:.0} % {than} than one of the bench. {cause}.\n",
        traced.machine,
        100.0 * share.abs()
    )
}
