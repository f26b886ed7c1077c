//! The numbers in a timeline. They are read from the pictures that `train-mnist --timeline` writes, and stored in
//! `docs/results/timelines.json`.

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};

use crate::workspace;

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
    pub lanes: Vec<Lane>,
}

/// A row of a timeline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lane {
    pub name: String,
    /// Microseconds since just before the first step, separated by spaces.
    pub starts: String,
    pub ends: String,
}

/// The commit and the date of a picture.
#[derive(Clone, Debug, PartialEq)]
pub struct Origin {
    pub commit: String,
    pub date: String,
}

impl Origin {
    /// The comment at the end of a picture that names them, as written by `run.sh`.
    #[cfg(test)]
    pub fn comment(&self) -> String {
        format!("<!-- commit {}, date {} -->\n", self.commit, self.date)
    }

    /// Reads the comment of a picture.
    fn of_comment(svg: &str) -> Option<Self> {
        let words = svg.rsplit_once("<!-- commit ")?.1.split_once(" -->")?.0;
        let (commit, date) = words.split_once(", date ")?;
        Some(Self { commit: commit.to_owned(), date: date.to_owned() })
    }
}

/// The file with all timelines.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Timelines {
    pub timelines: Vec<Traced>,
}

impl Timelines {
    pub const FILE: &str = "docs/results/timelines.json";

    /// Reads the committed timelines.
    pub fn read() -> anyhow::Result<Self> {
        let path = workspace::root().join(Self::FILE);
        if !path.is_file() {
            return Ok(Self::default());
        }
        let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        serde_json::from_str(&text).with_context(|| format!("{} holds no timelines", path.display()))
    }

    pub fn write(&self) -> anyhow::Result<()> {
        let json = serde_json::to_string_pretty(self).context("writing the timelines as JSON")?;
        workspace::write(&workspace::root().join(Self::FILE), &(json + "\n"))
    }

    /// Stores a timeline, replacing the one with the same picture.
    pub fn put(&mut self, new: Traced) {
        match self.timelines.iter_mut().find(|old| old.file() == new.file()) {
            Some(old) => *old = new,
            None => self.timelines.push(new),
        }
    }

    pub fn of_machine<'a>(&'a self, machine: &'a str) -> impl Iterator<Item = &'a Traced> {
        self.timelines.iter().filter(move |traced| traced.machine == machine)
    }
}

impl Traced {
    /// Reads a picture of `train-mnist --timeline`, exact to a pixel. `origin` is for a picture that does not name its own.
    ///
    /// # Errors
    /// It is not such a picture, or its commit is unknown.
    pub fn read(svg: &str, origin: Option<&Origin>) -> anyhow::Result<Self> {
        let texts = texts(svg);
        let title = texts.iter().find(|text| text.words.starts_with("pipeline "));
        let title = title
            .context("it has no title that begins with `pipeline`; draw it by train-mnist --timeline")?;
        let [rung, precision, steps, epoch, machine] = title_parts(&title.words)
            .with_context(|| format!("its title is not that of a timeline: {:?}", title.words))?;
        let origin = Origin::of_comment(svg).or_else(|| origin.cloned());
        let origin =
            origin.context("it does not say at which commit it was drawn; give --commit and --date")?;
        let ticks: Vec<(f64, f64)> =
            texts.iter().filter_map(|text| Some((text.x, text.words.parse().ok()?))).collect();
        let [first, .., last] = ticks[..] else { anyhow::bail!("its axis has less than two ticks") };
        let microseconds = |x: f64| 1e3 * (first.1 + (x - first.0) * (last.1 - first.1) / (last.0 - first.0));
        let mut lanes: Vec<(Lane, f64)> = Vec::new();
        let names = texts.iter().filter(|text| text.anchor == "start");
        for name in names {
            lanes.push((
                Lane { name: name.words.clone(), starts: String::new(), ends: String::new() },
                name.y,
            ));
        }
        for [x, y, width, height] in spans(svg)? {
            let lane = lanes.iter_mut().find(|(_, at)| (y..y + height).contains(at));
            let (lane, _) = lane.with_context(|| format!("its span at {x}, {y} is in no lane"))?;
            for (ends, x) in [(&mut lane.starts, x), (&mut lane.ends, x + width)] {
                *ends += if ends.is_empty() { "" } else { " " };
                *ends += &format!("{:.0}", microseconds(x).max(0.0));
            }
        }
        lanes.retain(|(lane, _)| !lane.starts.is_empty());
        ensure!(!lanes.is_empty(), "nothing happens in it");
        Ok(Self {
            machine: machine.to_owned(),
            rung: rung.to_owned(),
            precision: precision.to_owned(),
            steps: steps.parse().context("its title has no number of steps")?,
            epoch: epoch.parse().context("its title has no number of an epoch")?,
            commit: origin.commit,
            date: origin.date,
            lanes: lanes.into_iter().map(|(lane, _)| lane).collect(),
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
    pub fn end(&self) -> f64 {
        let spans = self.lanes.iter().flat_map(|lane| lane.spans());
        spans.map(|span| span.1).fold(0.0, f64::max)
    }

    /// Microseconds per step.
    pub fn of_step(&self) -> f64 {
        self.end() / self.steps as f64
    }
}

impl Lane {
    /// Start and end of each span in microseconds.
    pub fn spans(&self) -> impl Iterator<Item = (f64, f64)> {
        let numbers = |text: &str| -> Vec<f64> {
            text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
        };
        numbers(&self.starts).into_iter().zip(numbers(&self.ends))
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

/// A text of a picture.
struct Text {
    words: String,
    x: f64,
    y: f64,
    anchor: String,
}

fn texts(svg: &str) -> Vec<Text> {
    let text = |part: &str| {
        let (tag, rest) = part.split_once('>')?;
        let words = rest.split_once('<')?.0.trim().to_owned();
        let anchor = attribute(tag, "text-anchor")?.to_owned();
        Some(Text { words, x: number(tag, "x")?, y: number(tag, "y")?, anchor })
    };
    svg.split("<text").skip(1).filter_map(text).collect()
}

/// Left, top, width and height of the rectangles that are spans, the only transparent ones.
fn spans(svg: &str) -> anyhow::Result<Vec<[f64; 4]>> {
    let tags = svg.split("<rect").skip(1).filter_map(|part| part.split_once('>'));
    let tags = tags.map(|(tag, _)| tag).filter(|tag| attribute(tag, "opacity") == Some("0.8"));
    let corners = |tag: &str| {
        Some([number(tag, "x")?, number(tag, "y")?, number(tag, "width")?, number(tag, "height")?])
    };
    tags.map(|tag| corners(tag).with_context(|| format!("a span has no place: <rect{tag}>"))).collect()
}

fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    tag.split_once(&format!(" {name}=\""))?.1.split('"').next()
}

fn number(tag: &str, name: &str) -> Option<f64> {
    attribute(tag, name)?.parse().ok()
}
