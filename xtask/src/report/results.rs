//! The results of runs, and their merging.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::report::stale;
use crate::workspace;

/// One contender's figures; `name` is its first field.
pub trait Entry: Serialize + DeserializeOwned + PartialEq {
    /// What ran, for messages.
    const RUN: &'static str;

    /// Whether an entry of a later run replaces this one.
    fn is_replaced_by(&self, later: &Self) -> bool;
}

/// One contender at one problem: a time, or why there is none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Timed {
    pub name: String,
    /// The index of the run's file: only entries of the same one are compared.
    #[serde(default)]
    pub run: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub microseconds: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The problem, and further figures of the script.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// The fields that tell problems apart where a later run replaces single entries.
const PROBLEM: [&str; 8] =
    ["precision", "batch", "dtype", "ranks", "problem", "operation", "types", "layout"];

impl Entry for Timed {
    const RUN: &'static str = "bench's";

    /// An operation along rows is replaced with all its peers, anything else separately.
    fn is_replaced_by(&self, later: &Self) -> bool {
        self.run == later.run
            && match self.other.get("op") {
                Some(op) => later.other.get("op") == Some(op),
                None => self.name == later.name && self.of(&PROBLEM) == later.of(&PROBLEM),
            }
    }
}

impl Timed {
    /// A number or a truth value; NaN if there is none.
    pub fn number(&self, field: &str) -> f64 {
        self.figure(field).unwrap_or(f64::NAN)
    }

    pub fn figure(&self, field: &str) -> Option<f64> {
        match self.other.get(field)? {
            Value::Bool(is) => Some(f64::from(u8::from(*is))),
            value => value.as_f64(),
        }
    }

    pub fn text(&self, field: &str) -> String {
        match self.other.get(field) {
            Some(Value::String(text)) => text.clone(),
            value => value.map(Value::to_string).unwrap_or_default(),
        }
    }

    /// Its values of these fields.
    pub fn of(&self, fields: &[&str]) -> Vec<String> {
        fields.iter().map(|field| self.text(field)).collect()
    }

    /// Whether its fields have these values.
    pub fn is_at(&self, at: &[(&str, &str)]) -> bool {
        at.iter().all(|(field, value)| self.text(field) == *value)
    }

    pub fn element_bytes(&self) -> f64 {
        if matches!(self.text("dtype").as_str(), "bf16" | "f16") { 2.0 } else { 4.0 }
    }

    /// Whether it copies a matrix that does not stay in the cache.
    pub fn is_copy(&self) -> bool {
        self.microseconds.is_some()
            && (self.name == "copy" || self.name == "clone" || self.text("op") == "copy")
    }

    /// Whether it is a rung of a ladder: `k1_naive`, `r02_online` and so on.
    pub fn is_rung(&self) -> bool {
        is_rung(&self.name)
    }
}

/// Whether it is the name of a rung.
pub fn is_rung(name: &str) -> bool {
    let number = name.strip_prefix(['k', 'r']).and_then(|rest| rest.split_once('_'));
    number.is_some_and(|(number, _)| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The measurements of one program.
#[derive(Debug, Deserialize)]
pub struct Run<E> {
    pub machine: String,
    /// The processor of the GPU's machine.
    pub cpu: Option<String>,
    pub driver: String,
    pub date: String,
    pub commit: Option<String>,
    pub l2_bytes: Option<u64>,
    #[serde(default)]
    pub versions: BTreeMap<String, String>,
    /// Contenders that are not installed, and why.
    #[serde(default)]
    pub missing: BTreeMap<String, String>,
    pub entries: Vec<E>,
}

impl<E: Entry> Run<E> {
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        read(path).with_context(|| format!("{} holds no figures of a {} run", path.display(), E::RUN))
    }
}

fn read<T: DeserializeOwned>(path: &Path) -> anyhow::Result<T> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("reading {}", workspace::shown(path)))?;
    serde_json::from_str(&text).context("reading its JSON")
}

/// One launch in Nsight Compute.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// Operation, type and shape.
    pub point: String,
    /// Ours or the peer.
    pub whose: String,
    pub kernel: String,
    /// By the metric's name, in base units.
    pub metrics: BTreeMap<String, f64>,
}

/// The committed file: ours and the peers' of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Results<E = Timed> {
    pub machine: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<String>,
    pub driver: String,
    pub date: String,
    pub commit: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub l2_bytes: Option<u64>,
    pub versions: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub missing: BTreeMap<String, String>,
    /// Sources of the measured code that have changed since `commit`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed_since: Vec<String>,
    /// Nsight Compute's results for single launches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub profiles: Vec<Profile>,
    pub ours: Vec<E>,
    pub peers: Vec<E>,
}

impl<E: Entry> Results<E> {
    pub fn merge(ours: Run<E>, peers: Option<Run<E>>) -> anyhow::Result<Self> {
        ensure!(!ours.entries.is_empty(), "our run timed nothing; there is nothing to report");
        let mut results = Results {
            machine: ours.machine,
            cpu: ours.cpu,
            driver: ours.driver,
            date: ours.date,
            commit: ours.commit.context("our run does not name its commit; set FERROWARP_COMMIT")?,
            l2_bytes: ours.l2_bytes,
            versions: BTreeMap::new(),
            missing: BTreeMap::new(),
            changed_since: Vec::new(),
            profiles: Vec::new(),
            ours: ours.entries,
            peers: Vec::new(),
        };
        peers.map_or(Ok(()), |peers| results.add_peers(peers))?;
        Ok(results)
    }

    /// Adds the peers' measurements by another script of the same run.
    pub fn add_peers(&mut self, peers: Run<E>) -> anyhow::Result<()> {
        ensure!(
            (&self.machine, &self.driver) == (&peers.machine, &peers.driver),
            "ours ran on {} with driver {}, the peers on {} with driver {}; measure both in one run",
            self.machine,
            self.driver,
            peers.machine,
            peers.driver
        );
        self.versions.extend(peers.versions);
        self.missing.extend(peers.missing);
        self.peers.extend(peers.entries);
        Ok(())
    }

    /// Replaces figures of the runs before by those of `run`, where it has them.
    pub fn after(before: Option<Self>, run: Self) -> anyhow::Result<Option<Self>> {
        let Some(mut results) = before else { return Ok(Some(run)) };
        let of = |results: &Self| {
            format!("{}, driver {}, commit {}", results.machine, results.driver, results.commit)
        };
        ensure!(of(&results) == of(&run), "one run is of {}, another of {}", of(&results), of(&run));
        let is_kept = |entry: &E| !run.ours.iter().chain(&run.peers).any(|new| entry.is_replaced_by(new));
        results.ours.retain(is_kept);
        results.peers.retain(is_kept);
        results.ours.extend(run.ours);
        results.peers.extend(run.peers);
        results.versions.extend(run.versions);
        results.missing.extend(run.missing);
        Ok(Some(results))
    }

    pub fn read(path: &Path) -> anyhow::Result<Self> {
        read(path).with_context(|| format!("{} is not a merged run", workspace::shown(path)))
    }

    /// Reads a merged file, and stores in it which of the `sources` have changed since its commit.
    pub fn read_and_date(path: &Path, sources: &[&str]) -> anyhow::Result<Self> {
        let mut results = Self::read(path)?;
        if let Some(changed) = stale::changed(workspace::root(), &results.commit, sources)
            && changed != results.changed_since
        {
            results.changed_since = changed;
            results.write(path)?;
        }
        Ok(results)
    }

    /// Writes the file with one entry per line, so that a `diff` compares two runs.
    pub fn write(&self, path: &Path) -> anyhow::Result<()> {
        let text = serde_json::to_string(self).context("writing the results as JSON")?;
        // Quotes within a text are escaped, so this only matches the beginning of an entry.
        let text = text.replace("{\"name\":", "\n{\"name\":") + "\n";
        workspace::write(path, &text)
    }

    /// Ours, then the peers'.
    pub fn all(&self) -> impl Iterator<Item = &E> {
        self.ours.iter().chain(&self.peers)
    }

    /// Machine, date and commit of the figures.
    pub fn provenance(&self) -> String {
        let versions: Vec<String> =
            self.versions.iter().map(|(name, version)| format!("{name} {version}")).collect();
        let Results { machine, driver, date, .. } = self;
        let commit = short_commit(&self.commit);
        let host = self.cpu.as_ref().map_or_else(String::new, |cpu| format!(", host {cpu}"));
        let versions = if versions.is_empty() { String::new() } else { format!("; {}", versions.join(", ")) };
        format!("{machine}{host}, driver {driver}, {date}, commit {commit}{versions}")
    }

    /// The line below a chart's title.
    pub fn subtitle(&self, what: &str) -> String {
        let Results { machine, driver, date, commit, .. } = self;
        let commit = short_commit(commit);
        format!(
            "{what}{machine}, driver {driver}, {date}, commit {commit}; warm colours: Ferrowarp, cool: peers"
        )
    }
}

impl Results {
    /// The rate of the fastest copy of all, in GB/s: the best rate of memory.
    pub fn largest_copy_rate(&self) -> Option<f64> {
        let bytes = |it: &Timed| 2.0 * it.element_bytes() * it.number("rows") * it.number("cols");
        let rates =
            self.all().filter(|it| it.is_copy()).filter_map(|it| Some(bytes(it) / it.microseconds? / 1e3));
        rates.max_by(f64::total_cmp)
    }

    /// What failed or was left out: per contender, problem in the words of `problem`, and reason.
    pub fn failures(&self, problem: impl Fn(&Timed) -> [String; 2]) -> String {
        let mut found: Vec<([String; 2], Vec<String>)> = Vec::new();
        for entry in self.all() {
            let Some(error) = &entry.error else { continue };
            let first = error.lines().next().unwrap_or_default().to_owned();
            let [group, point] = problem(entry);
            let key = [format!("{}{group}", entry.name), first];
            match found.iter_mut().find(|(known, _)| *known == key) {
                Some((_, points)) => points.push(point),
                None => found.push((key, vec![point])),
            }
        }
        let lines = found.iter().map(|([who, reason], points)| {
            let at = points.join(", ");
            format!("- {who}{}{at}: {reason}\n", if at.is_empty() { "" } else { " " })
        });
        let lines: String = lines.collect();
        format!(
            "\n## What failed or was left out\n\n{}",
            if lines.is_empty() { "Nothing.\n" } else { &lines }
        )
    }
}

/// The GPU that the pages show first; other GPUs have separate files and pages.
const MAIN_GPU: &str = "H200";

/// The stem of a report's files with this machine's figures: `softmax`, or `softmax-h100`.
pub fn stem(report: &str, machine: &str) -> String {
    let words = machine.split([' ', '-']).filter(|word| *word != "NVIDIA");
    let gpu = words.filter(|word| word.chars().any(|c| c.is_ascii_digit())).take(1).collect::<String>();
    match gpu.as_str() {
        "" | MAIN_GPU => report.to_owned(),
        gpu => format!("{report}-{}", gpu.to_ascii_lowercase()),
    }
}

/// The merged files of a report in docs/results, the main GPU's first.
///
/// # Errors
/// There is none.
pub fn merged(report: &str) -> anyhow::Result<Vec<PathBuf>> {
    let is_it = |path: &Path| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let rest = name.strip_prefix(report).and_then(|rest| rest.strip_suffix(".json"));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    let mut paths = workspace::files(&workspace::root().join("docs/results"), &is_it)?;
    paths.sort_by_key(|path| path.as_os_str().len());
    ensure!(!paths.is_empty(), "docs/results has no {report}.json; give the files of a run");
    Ok(paths)
}

/// The first digits of a commit's hash, with the text after it.
pub fn short_commit(commit: &str) -> String {
    let (hash, rest) = commit.split_once(' ').map_or((commit, String::new()), |(a, b)| (a, format!(" {b}")));
    format!("{}{rest}", hash.get(..9).unwrap_or(hash))
}
