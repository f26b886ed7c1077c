//! Which tool finds which planted bug: running them, and `docs/results/planted.json` with a table of it.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
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

/// The planted program's kernel without a bug.
pub const NO_BUG: &str = "none";

/// Checks that the tool reports nothing about a kernel without a bug. `command` runs a planted bug under the tool.
pub fn is_content(tool: &str, command: &mut Command) -> anyhow::Result<()> {
    let output = command.arg(NO_BUG).output().with_context(|| format!("starting {command:?}"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{tool} complains of a kernel without a bug: {text}");
    Ok(())
}

/// Whether the line is a fault of the executor.
pub fn is_fault(line: &str) -> bool {
    line.starts_with("error: kernel ") && line.contains(" failed in block ")
}

/// The command's report of a bug: the first line that is a finding, if it fails.
pub fn said(command: &mut Command, is_finding: impl Fn(&str) -> bool) -> anyhow::Result<Option<String>> {
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("starting {command:?}"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().find(|line| is_finding(line)).filter(|_| !output.status.success());
    let root = format!("{}/", workspace::root().display());
    let shortened =
        |line: &str| line.trim_start_matches("error: ").trim_start_matches("SUMMARY: ").replace(&root, "");
    Ok(line.map(shortened))
}

/// Names and descriptions of the planted bugs.
pub fn bugs(program: &Path) -> anyhow::Result<Vec<(String, String)>> {
    let output = Command::new(program).output().with_context(|| format!("starting {}", program.display()))?;
    let text = String::from_utf8(output.stdout).context("reading the names of the planted bugs")?;
    let pair = |line: &str| line.split_once('\t').map(|(name, what)| (name.to_owned(), what.to_owned()));
    let bugs: Vec<_> = text.lines().filter_map(pair).collect();
    ensure!(!bugs.is_empty(), "{} names no bugs", program.display());
    Ok(bugs)
}
