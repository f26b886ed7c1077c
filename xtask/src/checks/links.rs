//! Links in Markdown, and the anchors of its headings as GitHub and mdBook name them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;

use anyhow::Context;

use crate::workspace;

/// A link or a picture.
pub struct Link<'a> {
    /// The position of its target in the text.
    pub at: Range<usize>,
    pub target: &'a str,
    /// The text alternative of a picture.
    pub alt: Option<&'a str>,
    /// Where the whole begins.
    pub start: usize,
}

impl<'a> Link<'a> {
    /// The file or folder in the repository that the link in the file `from` leads to, and the anchor there. `None` of links to
    /// other sites, and of those that only rustdoc resolves.
    pub fn destination(&self, from: &str) -> Option<(String, &'a str)> {
        if self.target.contains(':') {
            return None;
        }
        let (path, anchor) = self.target.split_once('#').unwrap_or((self.target, ""));
        if path.is_empty() {
            return Some((from.to_owned(), anchor));
        }
        let mut parts: Vec<&str> = from.split('/').collect();
        parts.pop();
        for part in path.split('/').filter(|part| !matches!(*part, "" | ".")) {
            match part {
                ".." => drop(parts.pop()),
                _ => parts.push(part),
            }
        }
        Some((parts.join("/"), anchor))
    }
}

/// The text with spaces in place of each byte of blocks of code, and of quoted code unless `is_span_kept`.
pub fn without_code(text: &str, is_span_kept: bool) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let (mut at, mut is_block) = (0, false);
    for line in text.split_inclusive('\n') {
        let is_fence = line.trim_start().starts_with("```");
        if is_fence || is_block {
            bytes[at..at + line.trim_end().len()].fill(b' ');
        }
        is_block ^= is_fence;
        at += line.len();
    }
    let mut from = 0;
    while let Some(start) = bytes[from..].iter().position(|byte| *byte == b'`').map(|start| from + start) {
        let run = bytes[start..].iter().take_while(|byte| **byte == b'`').count();
        let rest = &bytes[start + run..];
        let is_end = |at: &usize| {
            rest[*at..].iter().take_while(|byte| **byte == b'`').count() == run
                && (*at == 0 || rest[at - 1] != b'`')
        };
        from = match (0..rest.len()).find(is_end) {
            Some(end) if !is_span_kept => {
                bytes[start..start + end + 2 * run].fill(b' ');
                start + end + 2 * run
            }
            Some(end) => start + end + 2 * run,
            None => start + run,
        };
    }
    String::from_utf8(bytes).unwrap_or_default()
}

/// The links and pictures of a document, in order.
pub fn links(text: &str) -> Vec<Link<'_>> {
    let prose = without_code(text, false);
    let link = |(middle, _): (usize, &str)| {
        let from = middle + 2;
        let end = from + prose[from..].find(')')?;
        let mut depth = 0;
        let open = prose[..=middle].char_indices().rev().find(|(_, letter)| {
            depth += i32::from(*letter == ']') - i32::from(*letter == '[');
            depth == 0
        });
        let open = open?.0;
        let alt = prose[..open].ends_with('!').then(|| &text[open + 1..middle]);
        let start = open - usize::from(alt.is_some());
        Some(Link { at: from..end, target: &text[from..end], alt, start })
    };
    prose.match_indices("](").filter_map(link).collect()
}

/// The headings of a document with their anchors; the first is its title.
pub fn headings(text: &str) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    for line in without_code(text, true).lines() {
        let title = line.trim_start_matches('#');
        if let (true, Some(title)) = (title.len() < line.len(), title.strip_prefix(' ')) {
            let base = slug(title);
            let next = |n: usize| if n == 0 { base.clone() } else { format!("{base}-{n}") };
            let anchor = (0..).map(next).find(|name| found.iter().all(|(known, _)| known != name));
            found.extend(anchor.map(|anchor| (anchor, title.trim().to_owned())));
        }
    }
    found
}

/// The anchors of a document: those of its headings, and its `id`s.
fn anchors(text: &str) -> BTreeSet<String> {
    let ids = text.split("id=\"").skip(1).filter_map(|rest| Some(rest.split_once('"')?.0.to_owned()));
    headings(text).into_iter().map(|heading| heading.0).chain(ids).collect()
}

/// The anchor of a heading.
fn slug(title: &str) -> String {
    let mut words = title.trim().to_owned();
    for link in links(title).iter().rev() {
        words.replace_range(link.at.start - 1..link.at.end + 1, "");
    }
    let letter = |letter: char| match letter {
        ' ' => Some('-'),
        '-' | '_' => Some(letter),
        _ => letter.is_alphanumeric().then_some(letter),
    };
    words.to_lowercase().chars().filter_map(letter).collect()
}

/// The broken links and the pictures without a text alternative in the documents, `(path, text)` each.
pub fn problems(root: &Path, documents: &[(String, String)]) -> Vec<String> {
    let anchors: BTreeMap<&str, BTreeSet<String>> =
        documents.iter().map(|(path, text)| (path.as_str(), anchors(text))).collect();
    let mut problems = Vec::new();
    for (path, text) in documents {
        for link in links(text) {
            let problem = match link.destination(path) {
                _ if link.alt.is_some_and(|alt| alt.trim().is_empty()) => {
                    "a picture without a text alternative"
                }
                Some((file, _)) if file != *path && !root.join(&file).exists() => "no such file",
                Some((file, anchor))
                    if !anchor.is_empty()
                        && anchors.get(&*file).is_some_and(|known| !known.contains(anchor)) =>
                {
                    "no heading has this anchor"
                }
                _ => continue,
            };
            let line = text[..link.start].matches('\n').count() + 1;
            problems.push(format!("{path}:{line}: `{}`: {problem}", link.target));
        }
    }
    problems
}

/// Reads the documents among `files`, with their paths in the repository.
pub fn documents(files: &[std::path::PathBuf]) -> anyhow::Result<Vec<(String, String)>> {
    let read = |path: &std::path::PathBuf| {
        let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        Ok((workspace::shown(path), text))
    };
    files.iter().filter(|path| path.extension().is_some_and(|kind| kind == "md")).map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_outside_of_code() {
        let text = "[a\nb](c.md#d) `[e](f)` ![g [h]](i.svg)\n```\n[j](k)\n```\n`` ` [l](m) `` [`n`](../o)\n";
        let found: Vec<_> = links(text).iter().map(|link| (link.target, link.alt)).collect();
        assert_eq!(found, [("c.md#d", None), ("i.svg", Some("g [h]")), ("../o", None)]);
        let to: Vec<_> = links(text).iter().map(|link| link.destination("x/y/z.md")).collect();
        let to: Vec<_> = to.iter().flatten().map(|(path, anchor)| (path.as_str(), *anchor)).collect();
        assert_eq!(to, [("x/y/c.md", "d"), ("x/y/i.svg", ""), ("x/o", "")]);
    }

    #[test]
    fn anchors_are_those_of_github() {
        let text = "# A `b_c`, and: d\n```\n# e\n```\n## [f g](h.md)\n## f g\n<a id=\"i\"></a>\n#j\n";
        assert_eq!(Vec::from_iter(anchors(text)), ["a-b_c-and-d", "f-g", "f-g-1", "i"]);
    }

    #[test]
    fn broken_links_are_found() {
        let page = |path: &str, text: &str| (path.to_owned(), text.to_owned());
        let text = "[a](README.md#no)\n\n[b](no.md) ![](README.md) [c](README.md) [d](#e) [f](x::y)\n# e\n";
        let documents = [page("README.md", "# Yes\n"), page("x.md", text)];
        let found = problems(workspace::root(), &documents);
        assert_eq!(
            found,
            [
                "x.md:1: `README.md#no`: no heading has this anchor",
                "x.md:3: `no.md`: no such file",
                "x.md:3: `README.md`: a picture without a text alternative"
            ]
        );
    }
}
