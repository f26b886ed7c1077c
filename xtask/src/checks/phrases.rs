//! Phrases that make a text hard to read. `cargo xtask tidy` finds them in documents, documentation comments and messages.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::checks::prose;

/// A phrase, and what to write instead.
#[derive(Deserialize)]
struct Phrase {
    words: String,
    instead: String,
    /// The phrase is fine after one of these words.
    #[serde(default)]
    after: Vec<String>,
    /// The phrase is fine before one of these words.
    #[serde(default)]
    before: Vec<String>,
}

#[derive(Deserialize)]
struct Phrases {
    phrases: Vec<Phrase>,
}

static PHRASES: LazyLock<Vec<Phrase>> = LazyLock::new(|| {
    let parsed: Result<Phrases, _> = toml::from_str(include_str!("phrases.toml"));
    parsed.expect("a test reads it").phrases
});

/// Files and folders without such phrases. Add a path as soon as it is clean; tests are excluded.
const COVERED: &[&str] = &[
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "README.md",
    "benches/",
    "cuda/cuda_std/src/",
    "cuda/cuda_std_macros/src/",
    "cuda/cust/src/",
    "docs/",
    "faults/",
    "host/csv/src/",
    "host/data/src/",
    "host/device/src/",
    "host/mnist/src/",
    "host/report/src/",
    "host/self-check/src/",
    "host/src/",
    "xtask/ptx/src/",
    "xtask/src/",
];

/// The tests below, and tool output.
const EXEMPT: &[&str] = &["xtask/src/checks/phrases.rs", "docs/results/planted.md"];

/// The phrases in `text`, the content of the file `path`.
pub fn problems(path: &str, text: &str) -> Vec<String> {
    let is_covered =
        |covered: &&str| path == *covered || covered.ends_with('/') && path.starts_with(*covered);
    let is_exempt = path.contains("/tests/") || path.ends_with("tests.rs") || EXEMPT.contains(&path);
    if is_exempt || !COVERED.iter().any(is_covered) {
        return Vec::new();
    }
    let passages = match path.rsplit('.').next() {
        Some("rs") => prose::of_source(text),
        Some("md") => prose::of_document(text),
        _ => Vec::new(),
    };
    passages.iter().flat_map(|passage| found_in(path, passage)).collect()
}

/// The phrases in one passage.
fn found_in(path: &str, passage: &prose::Passage) -> Vec<String> {
    let words: Vec<(usize, &str)> = passage.words().collect();
    let is_at = |start: usize, phrase: &Phrase| {
        let wanted: Vec<&str> = phrase.words.split(' ').collect();
        let Some(here) = words.get(start..start + wanted.len()) else { return false };
        let word = |at: usize| words.get(at).map_or(String::new(), |(_, word)| bare(word));
        here.iter().zip(&wanted).enumerate().all(|(i, ((_, word), wanted))| {
            // Punctuation between two words ends the phrase.
            bare(word) == **wanted && (i + 1 == here.len() || !word.ends_with(PUNCTUATION))
        }) && !(start > 0 && phrase.after.contains(&word(start - 1)))
            && !phrase.before.contains(&word(start + wanted.len()))
    };
    let mut problems = Vec::new();
    for (start, &(line, _)) in words.iter().enumerate() {
        for phrase in PHRASES.iter().filter(|phrase| is_at(start, phrase)) {
            problems.push(format!("{path}:{line}: `{}`: write {}", phrase.words, phrase.instead));
        }
    }
    problems
}

const PUNCTUATION: [char; 7] = ['.', ',', ';', ':', '!', '?', ')'];

/// The word in lower case, without the punctuation around it; code and format arguments are unchanged.
fn bare(word: &str) -> String {
    if word.contains(['{', '`', '_']) {
        return word.to_owned();
    }
    word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<String> {
        prose::of_document(text).iter().flat_map(|passage| found_in("a.md", passage)).collect()
    }

    #[test]
    fn a_phrase_is_found_as_words_and_across_lines() {
        assert_eq!(of("Blocks, of\nwhich two.\n"), ["a.md:1: `of which`: write a new sentence"]);
        assert_eq!(of("a\n\nNobody knows.\n").len(), 1);
        assert_eq!(of("The proof: which one?\nRetold. Besiden. of, which\n"), [""; 0]);
    }

    #[test]
    fn words_around_a_phrase_can_allow_it() {
        assert_eq!(of("There is no GPU. It is no longer there.\n"), [""; 0]);
        assert_eq!(of("This is no shape.\n").len(), 1);
        assert_eq!(of("The call said {told} and `told`.\n"), [""; 0]);
    }

    #[test]
    fn only_covered_paths_are_searched() {
        assert_eq!(problems("README.md", "nobody\n").len(), 1);
        assert_eq!(problems("README.markdown", "nobody\n"), [""; 0]);
    }
}
