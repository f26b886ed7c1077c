//! Which tool finds which planted bug: `docs/results/planted.json`, and a table of it.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::workspace;

/// The last result of every tool on every bug.
#[derive(Default, Serialize, Deserialize)]
pub struct Findings {
    findings: Vec<Finding>,
}

/// One tool's result on one bug.
#[derive(Serialize, Deserialize)]
pub struct Finding {
    bug: String,
    what: String,
    tool: String,
    /// `None` if it reported nothing.
    message: Option<String>,
    #[serde(default)]
    machine: String,
    #[serde(default)]
    date: String,
    #[serde(default)]
    commit: String,
}

impl Finding {
    pub fn new(bug: &str, what: &str, tool: &str, message: Option<String>) -> Self {
        let [machine, date, commit] = Default::default();
        Self {
            bug: bug.to_owned(),
            what: what.to_owned(),
            tool: tool.to_owned(),
            message,
            machine,
            date,
            commit,
        }
    }

    /// Where and when the tool ran.
    fn origin(&self) -> String {
        format!("{}: {}, {}, commit {}", self.tool, self.machine, self.date, self.commit)
    }
}

fn path(extension: &str) -> PathBuf {
    workspace::root().join("docs/results/planted").with_extension(extension)
}

impl Findings {
    /// Reads the stored findings.
    pub fn read() -> anyhow::Result<Self> {
        let path = path("json");
        if !path.exists() {
            return Ok(Self::default());
        }
        let text = std::fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
        serde_json::from_slice(&text).with_context(|| format!("reading {}", path.display()))
    }

    /// Stores a finding, replacing the tool's earlier one on the bug.
    pub fn put(&mut self, finding: Finding) {
        self.findings.retain(|other| (&other.bug, &other.tool) != (&finding.bug, &finding.tool));
        self.findings.push(finding);
    }

    /// Writes the findings, adding machine and date to new ones.
    pub fn write(&mut self) -> anyhow::Result<()> {
        let (machine, date, commit) = (workspace::machine()?, workspace::date()?, workspace::commit()?);
        for finding in self.findings.iter_mut().filter(|finding| finding.commit.is_empty()) {
            finding.machine.clone_from(&machine);
            finding.date.clone_from(&date);
            finding.commit.clone_from(&commit);
        }
        self.findings.sort_by(|a, b| (&a.bug, &a.tool).cmp(&(&b.bug, &b.tool)));
        workspace::write(&path("json"), &(serde_json::to_string_pretty(self)? + "\n"))?;
        workspace::write(&path("md"), &self.table())
    }

    fn table(&self) -> String {
        let mut text = "# Planted bugs, and who finds them\n\n\
            Written by `cargo xtask sanitize --planted --write`, with and without `--tool miri`. `executor` is what a plain \
            launch reports; the others watch the same kernel with an OS thread for each of its threads.\n\n\
            | bug | tool | message |\n| --- | --- | --- |\n"
            .to_owned();
        let mut last = "";
        for Finding { bug, what, tool, message, .. } in &self.findings {
            let message = message.as_deref().unwrap_or("-").replace('|', "\\|");
            let name = if last == bug { String::new() } else { format!("{bug}: {what}") };
            // Writing to a string cannot fail.
            let _ = writeln!(text, "| {name} | {tool} | {message} |");
            last = bug;
        }
        let origins: BTreeSet<String> = self.findings.iter().map(Finding::origin).collect();
        let _ = writeln!(text, "\n{}.", origins.into_iter().collect::<Vec<_>>().join("; "));
        text
    }
}
