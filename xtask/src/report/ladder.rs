//! The sections of the ladders' pages.

use anyhow::Context;

use crate::report::results::{Results, is_rung};
use crate::workspace;

/// A section of another page: its file, its name, and its text.
pub type Section = (&'static str, String, String);

/// The sections of a ladder's page: for each rung that has one, or a time, what `text` makes of it and the rung below. The names of
/// the sections begin with `prefix`.
pub fn ladder(
    page: &'static str,
    prefix: &str,
    results: &Results,
    text: impl Fn(&str, Option<&str>) -> String,
) -> anyhow::Result<Vec<Section>> {
    let path = workspace::root().join(page);
    let words = std::fs::read_to_string(&path).with_context(|| format!("reading {page}"))?;
    let marker = |line: &str| line.strip_prefix("<!-- ")?.strip_suffix(" -->").map(str::to_owned);
    let is_rung = |name: &str| if prefix.is_empty() { is_rung(name) } else { name.starts_with(prefix) };
    let mut names: Vec<String> = words.lines().filter_map(marker).filter(|name| is_rung(name)).collect();
    // A rung without a section is an error when the page is written.
    for entry in results.ours.iter().filter(|entry| entry.is_rung()) {
        let name = format!("{prefix}{}", entry.name);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let rung = |i: usize| &names[i][prefix.len()..];
    let sections =
        (0..names.len()).map(|i| (page, names[i].clone(), text(rung(i), i.checked_sub(1).map(rung))));
    Ok(sections.collect())
}
