//! Links to the glossary where a page uses a word for the first time.

use std::path::Path;

use anyhow::Context;

use crate::checks::links::{prose, slug};

/// Words of the glossary that also have an ordinary meaning.
const ORDINARY: [&str; 12] = [
    "Clock", "Driver", "Event", "Graph", "Launch", "Mask", "Match", "Module", "Phase", "Scope", "Stage",
    "Trap",
];

/// Other names of the glossary's words.
const ALIASES: [(&str, &str); 4] = [
    ("multiprocessor", "sm"),
    ("executor", "cpu-executor"),
    ("coalesced", "coalescing"),
    ("diverges", "divergence"),
];

/// The words, longest first, and their anchors.
pub struct Words(Vec<(String, String)>);

impl Words {
    /// Reads those of `docs/learn/glossary.md`.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(docs: &Path) -> anyhow::Result<Self> {
        let path = docs.join("learn/glossary.md");
        let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        Ok(Self::new(&text))
    }

    fn new(glossary: &str) -> Self {
        let words = glossary.lines().filter_map(|line| line.strip_prefix("### "));
        let words = words.filter(|word| !ORDINARY.contains(word));
        let mut all: Vec<_> = words.map(|word| (word.to_owned(), slug(word))).collect();
        all.extend(ALIASES.map(|(word, anchor)| (word.to_owned(), anchor.to_owned())));
        all.sort_by_key(|(word, _)| std::cmp::Reverse(word.len()));
        Self(all)
    }

    /// The page with a link at the first use of each word that it does not link yet, in paragraphs before its figures. `to`
    /// is the glossary's path from the page.
    pub fn linked(&self, page: &str, to: &str) -> String {
        let end = ["\n## Predicted and measured", "\n## Figures", "\n## Exercises", "\n## Check yourself"];
        let end = end.iter().filter_map(|heading| page.find(heading)).min().unwrap_or(page.len());
        let mut free = prose(&page[..end]);
        for section in generated(&page[..end]) {
            free.replace_range(section.clone(), &" ".repeat(section.len()));
        }
        let mut found: Vec<(std::ops::Range<usize>, &str)> = Vec::new();
        for (word, anchor) in &self.0 {
            let is_linked =
                page.contains(&format!("glossary.md#{anchor})")) || found.iter().any(|(_, it)| it == anchor);
            let Some(at) = first_use(&free, word).filter(|_| !is_linked) else { continue };
            free.replace_range(at.clone(), &"\u{1}".repeat(at.len()));
            found.push((at, anchor));
        }
        found.sort_by_key(|(at, _)| std::cmp::Reverse(at.start));
        let mut page = page.to_owned();
        for (at, anchor) in found {
            let words = format!("[{}]({to}#{anchor})", &page[at.clone()]);
            page.replace_range(at, &words);
        }
        page
    }
}

/// The generated sections, `<!-- NAME -->` to `<!-- /NAME -->`.
fn generated(page: &str) -> Vec<std::ops::Range<usize>> {
    let ends = page.match_indices("<!-- /").filter_map(|(end, _)| {
        let name = page[end + 6..].split_once(" -->")?.0;
        Some(page[..end].rfind(&format!("<!-- {name}"))?..end)
    });
    ends.collect()
}

/// The first place of the word or its plural in the text, with a small or a large first letter.
fn first_use(text: &str, word: &str) -> Option<std::ops::Range<usize>> {
    let is_name = word.chars().skip(1).any(char::is_uppercase) || word.len() <= 3;
    let small = if is_name { word.to_owned() } else { word[..1].to_lowercase() + &word[1..] };
    let large = word[..1].to_uppercase() + &word[1..];
    let is_inside =
        |letter: Option<char>| letter.is_some_and(|letter| letter.is_alphanumeric() || "_-".contains(letter));
    let uses = |form: &str| {
        let at = text.match_indices(form).map(|(at, _)| at);
        let whole = |at: usize| {
            let rest = &text[at + form.len()..];
            let plural = ["s", ""]
                .into_iter()
                .find(|end| rest.strip_prefix(end).is_some_and(|rest| !is_inside(rest.chars().next())))?;
            (!is_inside(text[..at].chars().next_back())).then(|| at..at + form.len() + plural.len())
        };
        at.filter_map(whole).next()
    };
    [uses(&small), uses(&large)].into_iter().flatten().min_by_key(|at| at.start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_use_of_a_word_is_a_link() {
        let words = Words::new("### Warp\n### Shared memory\n### L1\n### Match\n");
        let page = "<!-- a -->\na warp\n<!-- /a -->\n# Warps\n`warp` warpgroup, Warps of\nshared\nmemory. A warp. L1 match [L1](x.md)\n| warp |\n## Figures\n";
        let linked = "<!-- a -->\na warp\n<!-- /a -->\n# Warps\n`warp` warpgroup, [Warps](../learn/glossary.md#warp) of\n[shared\nmemory](../learn/glossary.md#shared-memory). \
                      A warp. [L1](../learn/glossary.md#l1) match [L1](x.md)\n| warp |\n## Figures\n";
        assert_eq!(words.linked(page, "../learn/glossary.md"), linked);
        assert_eq!(words.linked(linked, "../learn/glossary.md"), linked);
    }
}
