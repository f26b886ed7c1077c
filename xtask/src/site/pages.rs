//! The pages of the site: the documents, and the sources that these link to.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Context;

use crate::checks::links;
use crate::gallery::index;
use crate::workspace;

/// The parts of the table of contents, with the folder of their pages and the end of their names. A page is in the first part
/// that fits.
const PARTS: [(&str, &str, &str); 6] = [
    ("Learn", "docs/learn/", ""),
    ("The gallery", "docs/gallery/", ""),
    ("Ladders", "docs/", "-ladder.md"),
    ("Guides", "docs/", ""),
    ("Figures", "docs/results/", ""),
    ("The project", "", ""),
];

/// The list of all sources.
const SOURCES: &str = "sources.md";

/// Writes the pages and the table of contents into `folder`, and returns their number.
///
/// # Errors
/// A file cannot be read or written.
pub fn write(root: &Path, folder: &Path) -> anyhow::Result<usize> {
    let pages = read(root)?;
    if folder.is_dir() {
        std::fs::remove_dir_all(folder).with_context(|| format!("emptying {}", folder.display()))?;
    }
    let mut contents = contents(root, &pages)?;
    let mut list = "# Sources\n\nThe files that pages link to.\n\n".to_owned();
    for (path, text) in &pages {
        let to = folder.join(page(root, path));
        let parent = to.parent().unwrap_or(folder);
        std::fs::create_dir_all(parent).with_context(|| format!("making {}", parent.display()))?;
        match text {
            Some(text) => std::fs::write(&to, text).with_context(|| format!("writing {}", to.display()))?,
            None => {
                std::fs::copy(root.join(path), &to).with_context(|| format!("copying {path}"))?;
            }
        }
        if text.is_some() && !path.ends_with(".md") {
            let line = format!("- [{path}]({})\n", page(root, path));
            contents += &format!("  {line}");
            list += &line;
        }
    }
    workspace::write(&folder.join(SOURCES), &list)?;
    workspace::write(&folder.join("SUMMARY.md"), &contents)?;
    Ok(pages.values().flatten().count())
}

/// The text of each page by its path in the repository; `None` of files that are copied.
fn read(root: &Path) -> anyhow::Result<BTreeMap<String, Option<String>>> {
    let is_document = |path: &Path| path.extension().is_some_and(|kind| kind == "md");
    let files = workspace::files(&root.join("docs"), &is_document)?;
    let mut open: Vec<String> = files.iter().map(|path| workspace::shown(path)).collect();
    open.extend(["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(str::to_owned));
    let mut pages = BTreeMap::new();
    while let Some(path) = open.pop() {
        if pages.contains_key(&path) {
            continue;
        }
        let text = match path.rsplit_once('.').map_or("", |(_, kind)| kind) {
            _ if is_copied(&path) => None,
            "md" => Some(linked(root, &path, &file(root, &path)?, &mut open)),
            _ if root.join(&path).is_dir() => {
                let inside = workspace::files(&root.join(&path), &|_| true)?;
                let link = |file| format!("- [{0}]({0})\n", file);
                let inside = inside.iter().map(|it| workspace::shown(it)[path.len() + 1..].to_owned());
                let text = format!("# {path}\n\n{}", inside.map(link).collect::<String>());
                Some(linked(root, &format!("{path}/README.md"), &text, &mut open))
            }
            kind => {
                let language =
                    BTreeMap::from([("rs", "rust"), ("sh", "bash"), ("py", "python"), ("toml", "toml")]);
                let language = language.get(kind).copied().unwrap_or("text");
                let text = file(root, &path)?;
                Some(format!("# {path}\n\n`````````{language}\n{text}`````````\n"))
            }
        };
        pages.insert(path, text);
    }
    Ok(pages)
}

fn file(root: &Path, path: &str) -> anyhow::Result<String> {
    std::fs::read_to_string(root.join(path)).with_context(|| format!("reading {path}"))
}

/// Whether the site has the file itself: pictures and data.
fn is_copied(path: &str) -> bool {
    [".svg", ".png", ".json", ".txt"].iter().any(|kind| path.ends_with(kind))
}

/// The page of a file or folder.
fn page(root: &Path, path: &str) -> String {
    match path.strip_suffix("README.md") {
        Some(folder) => format!("{folder}index.md"),
        None if root.join(path).is_dir() => format!("{path}/index.md"),
        None if path.ends_with(".md") || is_copied(path) => path.to_owned(),
        None => format!("{path}.md"),
    }
}

/// The text of a document with links to pages of the site, whose paths it adds to `found`. Pictures link to themselves;
/// quotations, and paths between backticks, to the files.
fn linked(root: &Path, path: &str, text: &str, found: &mut Vec<String>) -> String {
    let up = "../".repeat(path.matches('/').count());
    let mut quoted = String::new();
    for line in text.split_inclusive('\n') {
        quoted += line;
        let source = line.trim().strip_prefix("<!-- from ").and_then(|rest| rest.strip_suffix(" -->"));
        if let Some(source) = source {
            let indent = &line[..line.len() - line.trim_start().len()];
            quoted += &format!("{indent}<small>[{source}]({up}{source})</small>\n\n");
        }
    }
    let known = links::links(&quoted);
    let mut edits = Vec::new();
    for link in &known {
        let Some((mut to, anchor)) = link.destination(path) else { continue };
        if root.join(&to).is_dir() && root.join(&to).join("README.md").is_file() {
            to += "/README.md";
        }
        if to != path {
            let anchor = if anchor.is_empty() { String::new() } else { format!("#{anchor}") };
            let target = format!("{up}{}{anchor}", page(root, &to));
            edits.push(match link.alt {
                Some(alt) => (link.start..link.at.end + 1, format!("[![{alt}]({target})]({target})")),
                None => (link.at.clone(), target),
            });
            found.push(to);
        }
    }
    let mut at = 0;
    for (n, words) in links::without_code(&quoted, true).split('`').enumerate() {
        let is_path = n % 2 == 1 && words.contains('/') && root.join(words).is_file();
        if is_path && !known.iter().any(|link| (link.start..link.at.end).contains(&at)) {
            edits.push((at - 1..at + words.len() + 1, format!("[`{words}`]({up}{})", page(root, words))));
            found.push(words.to_owned());
        }
        at += words.len() + 1;
    }
    edits.sort_by_key(|edit| edit.0.start);
    for (range, text) in edits.into_iter().rev() {
        quoted.replace_range(range, &text);
    }
    quoted
}

/// The table of contents: chapters and lessons in their order, other pages in the order in which the README links to them.
fn contents(root: &Path, pages: &BTreeMap<String, Option<String>>) -> anyhow::Result<String> {
    let first = ["docs/learn/puzzles.md", "docs/learn/glossary.md", "docs/gallery/README.md"];
    let mut order = first.map(str::to_owned).to_vec();
    let lessons = index::lessons(&root.join("docs/gallery"))?;
    order.extend(lessons.iter().map(|lesson| format!("docs/gallery/{lesson}.md")));
    let readme = file(root, "README.md")?;
    order.extend(links::links(&readme).iter().filter_map(|link| Some(link.destination("README.md")?.0)));
    let rank = |path: &&String| {
        let is_chapter =
            path.rsplit('/').next().is_some_and(|name| name.starts_with(|c: char| c.is_ascii_digit()));
        let place = order.iter().position(|known| known == *path).unwrap_or(order.len());
        (!is_chapter, place, (*path).clone())
    };
    let mut documents: Vec<&String> = pages.keys().filter(|path| path.ends_with(".md")).collect();
    documents.sort_by_key(rank);
    let mut text = "[Ferrowarp](index.md)\n".to_owned();
    let mut listed = BTreeSet::from(["README.md"]);
    for (part, start, end) in PARTS {
        text += &format!("\n# {part}\n\n");
        for path in &documents {
            let folder = path.rfind('/').map_or("", |end| &path[..=end]);
            let is_here = (start.is_empty() || folder == start) && path.ends_with(end);
            if is_here && listed.insert(path) {
                let title = pages[*path]
                    .as_deref()
                    .and_then(|page| page.lines().find_map(|it| it.strip_prefix("# ")));
                text += &format!("- [{}]({})\n", title.unwrap_or(path), page(root, path));
            }
        }
    }
    Ok(text + &format!("- [Sources]({SOURCES})\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each page once, chapters in their order, and every link of a page to a page.
    #[test]
    fn the_site_has_every_document_and_what_these_link_to() {
        let root = workspace::root();
        let pages = read(root).unwrap();
        let contents = contents(root, &pages).unwrap();
        let files =
            workspace::files(&root.join("docs"), &|path| path.extension().is_some_and(|kind| kind == "md"));
        for path in files.unwrap().iter().map(|path| workspace::shown(path)) {
            assert_eq!(contents.matches(&format!("({})\n", page(root, &path))).count(), 1, "{path}");
        }
        let [chapter, puzzles, glossary, gallery, first, last, guide] = [
            "docs/learn/00-hardware.md",
            "docs/learn/puzzles.md",
            "docs/learn/glossary.md",
            "docs/gallery/index.md",
            "docs/gallery/vector_add.md",
            "docs/gallery/csv.md",
            "docs/testing.md",
        ]
        .map(|path| contents.find(path).unwrap());
        assert!([chapter, puzzles, glossary, gallery, first, last, guide].is_sorted(), "{contents}");
        let known: BTreeSet<String> = pages.keys().map(|path| page(root, path)).collect();
        for (path, text) in pages.iter().filter(|(path, _)| path.ends_with(".md")) {
            for link in links::links(text.as_deref().unwrap_or_default()) {
                let to = link.destination(path).map(|to| to.0);
                assert!(to.is_none_or(|to| to == *path || known.contains(&to)), "{path}: {}", link.target);
            }
        }
    }

    #[test]
    fn links_lead_to_pages_and_pictures_to_themselves() {
        let text = "[a](relu.md#b) [c](README.md) [d](#e) [f](../../README.md) ![g](relu.svg) [`h`](../../xtask/src/main.rs) `xtask/src/new.rs` `x/y`\n\
                    <!-- from xtask/src/new.rs -->\n";
        let mut found = Vec::new();
        let text = linked(workspace::root(), "docs/gallery/dot.md", text, &mut found);
        let links: Vec<_> =
            links::links(&text).iter().map(|link| link.target.trim_start_matches("../")).collect();
        let expected =
            ["docs/gallery/relu.md#b", "docs/gallery/index.md", "#e", "index.md", "docs/gallery/relu.svg"];
        assert_eq!(links[..5], expected);
        let sources = ["xtask/src/main.rs.md", "xtask/src/new.rs.md", "xtask/src/new.rs.md"];
        assert!(links[5] == "docs/gallery/relu.svg" && links[6..] == sources, "{links:?}");
        assert_eq!(found.len(), 7);
    }
}
