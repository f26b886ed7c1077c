//! Tables, figures and generated sections of the pages.

use anyhow::{Context, bail, ensure};

use crate::workspace;

/// A row of a table.
pub fn row(cells: &[String]) -> String {
    format!("| {} |\n", cells.join(" | "))
}

/// A table. Figures are on the right, except in the first `left` columns.
pub fn table<S: AsRef<str>>(header: &[S], left: usize, rows: &[Vec<String>]) -> String {
    let cells: Vec<String> = header.iter().map(|cell| cell.as_ref().to_owned()).collect();
    let lines: Vec<String> =
        (0..cells.len()).map(|i| if i < left { "---" } else { "---:" }.to_owned()).collect();
    row(&cells) + &row(&lines) + &rows.iter().map(|cells| row(cells)).collect::<String>()
}

/// A table without the columns in which nothing is written.
pub fn used(header: &[&str], left: usize, mut rows: Vec<Vec<String>>) -> String {
    let is_used: Vec<bool> =
        (0..header.len()).map(|i| i == 0 || rows.iter().any(|row| !row[i].is_empty())).collect();
    let keep = |i: &usize| is_used[*i];
    for row in &mut rows {
        *row = (0..header.len()).filter(keep).map(|i| row[i].clone()).collect();
    }
    let header: Vec<&str> = (0..header.len()).filter(keep).map(|i| header[i]).collect();
    table(&header, left, &rows)
}

/// The text of a value; empty for `None`.
pub fn or_empty<T>(value: Option<T>, text: impl Fn(T) -> String) -> String {
    value.map_or_else(String::new, text)
}

/// The ratio as a factor; empty for `None`.
pub fn times(ratio: Option<f64>) -> String {
    or_empty(ratio, |ratio| format!("{ratio:.2} x"))
}

/// The share in percent; empty for `None`.
pub fn percent(share: Option<f64>) -> String {
    or_empty(share, |share| format!("{:.1} %", 100.0 * share))
}

/// A time in its usual unit.
pub fn time(microseconds: f64) -> String {
    if microseconds < 1e4 { format!("{microseconds:.1} us") } else { format!("{:.1} ms", microseconds / 1e3) }
}

/// A rate with three digits; empty for `None`.
pub fn number_of(rate: Option<f64>) -> String {
    or_empty(rate, |rate| if rate < 99.5 { format!("{rate:.1}") } else { format!("{rate:.0}") })
}

/// Replaces the text between `<!-- NAME -->` and `<!-- /NAME -->` in `page`, a file of the workspace.
pub fn update_page(page: &str, name: &str, section: &str) -> anyhow::Result<()> {
    let path = workspace::root().join(page);
    let text = std::fs::read_to_string(&path).with_context(|| format!("reading {page}"))?;
    workspace::write(&path, &with_section(page, &text, name, section)?)
}

/// The document's `text` with `section` between the markers of `name`.
pub fn with_section(document: &str, text: &str, name: &str, section: &str) -> anyhow::Result<String> {
    let (open, close) = (format!("<!-- {name} -->\n"), format!("<!-- /{name} -->"));
    let (Some(start), Some(end)) = (text.find(&open), text.find(&close)) else {
        bail!("{document} has no section {} ... {close}; put the two lines back", open.trim());
    };
    ensure!(start < end, "the section {name} of {document} ends before it begins");
    Ok(format!("{}{section}{}", &text[..start + open.len()], &text[end..]))
}
