//! Links to sections of documents, checked.

use std::path::Path;

use anyhow::Context;

use crate::checks::links::slug;

/// A link from a document in `folder` to `target`, a file with or without `#` and the anchor of a section. Its text is the
/// file's title, with the section's.
///
/// # Errors
/// There is no such file, or no such section in it.
pub fn link(folder: &Path, target: &str) -> anyhow::Result<String> {
    let (file, anchor) = target.split_once('#').map_or((target, None), |(file, anchor)| (file, Some(anchor)));
    let path = folder.join(file);
    let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let headings = headings(&text);
    let title = headings.first().with_context(|| format!("{} has no title", path.display()))?;
    let title = title.trim_start_matches("# ");
    let Some(anchor) = anchor else { return Ok(format!("[{title}]({target})")) };
    let of_section = headings.iter().map(|line| line.trim_start_matches('#').trim());
    let section = of_section.into_iter().find(|heading| slug(heading) == anchor);
    let section = section.with_context(|| format!("{} has no section `#{anchor}`", path.display()))?;
    Ok(format!("[{title}: {section}]({target})"))
}

/// The lines of headings.
fn headings(text: &str) -> Vec<&str> {
    let mut is_code = false;
    let is_heading = |line: &&str| {
        is_code ^= line.starts_with("```");
        !is_code && line.starts_with('#')
    };
    text.lines().filter(is_heading).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_has_the_titles_and_is_checked() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.md"), "# A page\n```\n# no\n```\n## Its `p - y`: 1.\n").unwrap();
        let of = |target: &str| link(folder.path(), target);
        assert_eq!(of("a.md").unwrap(), "[A page](a.md)");
        assert_eq!(of("a.md#its-p---y-1").unwrap(), "[A page: Its `p - y`: 1.](a.md#its-p---y-1)");
        assert!(of("b.md").is_err() && of("a.md#no").is_err());
    }
}
