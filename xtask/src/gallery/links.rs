//! Links to sections of documents, checked.

use std::path::Path;

use anyhow::Context;

use crate::checks::links::headings;

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
    let (_, title) = headings.first().with_context(|| format!("{} has no title", path.display()))?;
    let Some(anchor) = anchor else { return Ok(format!("[{title}]({target})")) };
    let (_, section) = headings
        .iter()
        .find(|heading| heading.0 == anchor)
        .with_context(|| format!("{} has no section `#{anchor}`", path.display()))?;
    Ok(format!("[{title}: {section}]({target})"))
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
