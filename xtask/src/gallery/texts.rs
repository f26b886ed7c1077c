//! `cargo xtask report texts`: what other texts build and claim, and where it is here. The data are `docs/gallery/texts.toml`
//! and `docs/learn/claims.toml`.

use std::path::Path;

use anyhow::{Context, ensure};
use serde::Deserialize;

use super::links::link;
use super::{claims, machine};
use crate::report::{table, with_section};
use crate::workspace;

/// The texts.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Texts {
    text: Vec<Text>,
}

/// A text.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    name: String,
    by: String,
    rows: Vec<Row>,
}

/// A subject of a text.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    what: String,
    /// The pages that show it, relative to the file.
    #[serde(default)]
    at: Vec<String>,
    /// What is missing.
    part: Option<String>,
    /// Why the subject is not here.
    out: Option<String>,
}

impl Row {
    fn cells(&self, pages: &Path) -> anyhow::Result<Vec<String>> {
        let links: Vec<String> = self.at.iter().map(|at| link(pages, at)).collect::<anyhow::Result<_>>()?;
        ensure!(
            links.is_empty() == self.out.is_some(),
            "`{}` needs either `at`, the pages that show it, or `out`, the reason",
            self.what
        );
        let here = match (&self.part, &self.out) {
            (_, Some(reason)) => format!("out of scope: {reason}"),
            (Some(missing), None) => format!("{}; in part: {missing}", links.join(", ")),
            (None, None) => links.join(", "),
        };
        Ok(vec![self.what.clone(), here])
    }
}

/// A file of the workspace and its sections: name and content.
type Sections = (&'static str, Vec<(&'static str, String)>);

/// The generated sections.
fn sections() -> anyhow::Result<[Sections; 3]> {
    let docs = workspace::root().join("docs");
    let pages = docs.join("gallery");
    let file = pages.join("texts.toml");
    let text = std::fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
    let texts: Texts = toml::from_str(&text).with_context(|| format!("reading {}", file.display()))?;
    let rows = || texts.text.iter().flat_map(|text| &text.rows);
    let out = rows().filter(|row| row.out.is_some()).count();
    let part = rows().filter(|row| row.part.is_some()).count();
    let all = rows().count();
    let mut sources = format!(
        "Of {all} subjects {} are shown and can be run, {part} in part, and {out} are out of scope.\n",
        all - part - out
    );
    for Text { name, by, rows } in &texts.text {
        let cells: Vec<_> = rows.iter().map(|row| row.cells(&pages)).collect::<anyhow::Result<_>>()?;
        sources += &format!("\n### {name}\n\n{by}.\n\n{}", table(&["in the text", "here"], 2, &cells));
    }
    let names: Vec<(&str, &str)> = texts.text.iter().map(|text| (&*text.name, &*text.by)).collect();
    let claims = claims::section(&docs, &names)?;
    Ok([
        ("docs/gallery/README.md", vec![("texts", sources)]),
        ("docs/learn/claims.md", vec![("claims", claims)]),
        ("docs/learn/00-hardware.md", vec![("machine", machine::section(&docs)?)]),
    ])
}

/// The pages with their sections.
fn pages() -> anyhow::Result<Vec<(&'static str, String)>> {
    let page = |(file, sections): Sections| {
        let path = workspace::root().join(file);
        let text = std::fs::read_to_string(&path).with_context(|| format!("reading {file}"))?;
        let put = |text: String, (name, words): (&str, String)| with_section(file, &text, name, &words);
        Ok((file, sections.into_iter().try_fold(text, put)?))
    };
    sections()?.into_iter().map(page).collect()
}

/// Writes the pages.
///
/// # Errors
/// A file cannot be read or written, is malformed, or names a page or section that does not exist.
pub fn write() -> anyhow::Result<()> {
    for (file, text) in pages()? {
        workspace::write(&workspace::root().join(file), &text)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pages_are_as_their_data_say() {
        for (file, text) in pages().unwrap() {
            let committed = std::fs::read_to_string(workspace::root().join(file)).unwrap();
            assert!(text == committed, "{file} is not current; run `cargo xtask report texts`");
        }
    }
}
