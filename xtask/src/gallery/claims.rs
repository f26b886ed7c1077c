//! What other texts claim next to what was measured here: `docs/learn/claims.toml`, whose formulas take the results.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use ferrowarp_report::gallery::Entry;
use serde::Deserialize;
use serde_json::Value;

use super::formula;
use super::links::link;
use super::page::{Lesson, Page};
use super::report::Results;
use crate::report::table;

/// The claims of all texts.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Claims {
    claim: Vec<Claim>,
}

/// A claim.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Claim {
    text: String,
    claim: String,
    /// A sentence with formulas.
    ours: String,
    page: String,
    verdict: Option<Verdict>,
    /// The first formula's least and most if the claim holds, where there is no verdict yet.
    between: Option<[f64; 2]>,
    why: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Confirmed,
    Partly,
    Contradicted,
    Open,
}

impl Verdict {
    const ALL: [Self; 4] = [Self::Confirmed, Self::Partly, Self::Contradicted, Self::Open];

    const fn words(self) -> &'static str {
        match self {
            Self::Confirmed => "confirmed",
            Self::Partly => "in part",
            Self::Contradicted => "contradicted",
            Self::Open => "open",
        }
    }
}

/// The committed results.
struct Measured {
    folder: PathBuf,
    pages: PathBuf,
    entries: Vec<Entry>,
}

impl Measured {
    fn value(&self, name: &str, at: Option<f64>) -> anyhow::Result<f64> {
        if let Some((file, which)) = name.split_once(": ") {
            return self.of_file(file, which).with_context(|| format!("`{name}`"));
        }
        let (lesson, rung) = name.split_once('/').with_context(|| format!("`{name}` names no lesson"))?;
        let entries = self.entries.iter().filter(|entry| entry.lesson == lesson).cloned().collect();
        let lesson = Lesson { page: Page::read(&self.pages, lesson)?, entries, ..Lesson::default() };
        let place = at.map_or_else(String::new, |at| format!("@{at}"));
        lesson.formula(&format!("'{rung}'{place}"), &|_| None)
    }

    /// The median of a figure of the entries with these values.
    fn of_file(&self, file: &str, which: &str) -> anyhow::Result<f64> {
        let (values, figure) = which.split_once(": ").unwrap_or((which, "microseconds"));
        let path = self.folder.join(file).with_extension("json");
        let text = std::fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
        let results: Value =
            serde_json::from_slice(&text).with_context(|| format!("reading {}", path.display()))?;
        let entries = ["ours", "peers"].iter().filter_map(|list| results[list].as_array()).flatten();
        let is_it = |entry: &&Value| {
            values.split(", ").all(|pair| {
                let Some((field, value)) = pair.split_once('=') else { return false };
                match &entry[field] {
                    Value::String(text) => text == value,
                    Value::Number(number) => number.as_f64() == value.parse().ok(),
                    other => value.parse().is_ok_and(|value: Value| *other == value),
                }
            })
        };
        let figures =
            entries.filter(is_it).map(|entry| figure.split('.').fold(entry, |value, key| &value[key]));
        let mut numbers: Vec<f64> = Vec::new();
        for value in figures {
            match value {
                Value::Array(all) => numbers.extend(all.iter().filter_map(Value::as_f64)),
                value => numbers.extend(value.as_f64()),
            }
        }
        ensure!(!numbers.is_empty(), "not in {}", path.display());
        numbers.sort_by(f64::total_cmp);
        let half = numbers.len() / 2;
        Ok(if numbers.len() % 2 == 1 {
            numbers[half]
        } else {
            f64::midpoint(numbers[half - 1], numbers[half])
        })
    }
}

impl Claim {
    /// The sentence on our measurement, and the verdict.
    fn outcome(&self, measured: &Measured) -> anyhow::Result<(String, Verdict)> {
        let lookup = |name: &str, at| measured.value(name, at);
        let sentence = formula::sentence(&self.ours, &lookup);
        match (self.verdict, self.between) {
            (Some(verdict), None) => Ok((sentence.with_context(|| format!("`{}`", self.claim))?, verdict)),
            (None, Some([least, most])) => {
                let Ok(sentence) = sentence else {
                    return Ok(("not measured yet".to_owned(), Verdict::Open));
                };
                let first = self.ours.split(['{', '}']).nth(1).unwrap_or_default();
                let value = formula::value(first.trim_end_matches(";0"), &lookup)?;
                let holds = (least..=most).contains(&value);
                Ok((sentence, if holds { Verdict::Confirmed } else { Verdict::Contradicted }))
            }
            _ => bail!("`{}` needs either `verdict` or `between`", self.claim),
        }
    }
}

/// The tables of the page, one per text: name and author.
pub fn section(docs: &Path, texts: &[(&str, &str)]) -> anyhow::Result<String> {
    let file = docs.join("learn/claims.toml");
    let text = std::fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
    let claims: Claims = toml::from_str(&text).with_context(|| format!("reading {}", file.display()))?;
    let folder = docs.join("results");
    let Results { ours, peers, .. } = Results::read(&folder.join("gallery.json"))?;
    let measured = Measured { folder, pages: docs.join("gallery"), entries: [ours, peers].concat() };
    let (mut tables, mut verdicts) = (String::new(), Vec::new());
    for (name, by) in texts {
        let mut rows = Vec::new();
        for claim in claims.claim.iter().filter(|claim| claim.text == *name) {
            let (ours, verdict) = claim.outcome(&measured)?;
            verdicts.push(verdict);
            let why = if verdict == Verdict::Open { String::new() } else { claim.why.clone() };
            let page = link(&docs.join("learn"), &claim.page)?;
            rows.push(vec![claim.claim.clone(), ours, verdict.words().to_owned(), why, page]);
        }
        let header = ["the claim", "measured here", "", "because", "page"];
        tables += &format!("\n## {name}\n\n{by}.\n\n{}", table(&header, 5, &rows));
    }
    ensure!(
        verdicts.len() == claims.claim.len(),
        "a claim of {} names a text that texts.toml lacks",
        file.display()
    );
    let counts = Verdict::ALL.map(|verdict| {
        format!("{} {}", verdicts.iter().filter(|other| **other == verdict).count(), verdict.words())
    });
    Ok(format!("Of {} claims: {}.\n{tables}", verdicts.len(), counts.join(", ")))
}
