//! How far the learner is: the last verdicts and the hints shown, in a small file.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use anyhow::Context;
use ferrowarp_learn::text::Text;

/// By name: the last verdict, a hash of the file it is about, and the number of hints shown.
#[derive(Default)]
pub struct Progress {
    entries: BTreeMap<String, (String, u64, usize)>,
}

impl Progress {
    /// Reads the file; without one nothing was tried.
    pub fn read() -> Progress {
        let text = std::fs::read_to_string(crate::folder().join("progress")).unwrap_or_default();
        let entry = |line: &str| {
            let mut words = line.split(' ');
            let (name, verdict) = (words.next()?.to_owned(), words.next()?.to_owned());
            Some((name, (verdict, words.next()?.parse().ok()?, words.next()?.parse().ok()?)))
        };
        Progress { entries: text.lines().filter_map(entry).collect() }
    }

    fn write(&self) {
        let line = |(name, (verdict, hash, hints)): (&String, &(String, u64, usize))| {
            format!("{name} {verdict} {hash} {hints}\n")
        };
        let text: String = self.entries.iter().map(line).collect();
        // It is only a convenience.
        let _ = std::fs::create_dir_all(crate::folder());
        let _ = std::fs::write(crate::folder().join("progress"), text);
    }

    /// The state of a puzzle.
    pub fn state(&self, text: &Text) -> anyhow::Result<&str> {
        let mine = match std::fs::read_to_string(text.mine()) {
            Ok(mine) if mine != text.hole => mine,
            _ => return Ok("not tried"),
        };
        Ok(match self.entries.get(&text.name) {
            Some((verdict, hash, _)) if *hash == hash_of(&mine) => verdict,
            _ => "not judged",
        })
    }

    /// The puzzle of this number or name, or the first that is not good.
    pub fn choose<'a>(&self, texts: &'a [Text], puzzle: Option<&str>) -> anyhow::Result<&'a Text> {
        if let Some(puzzle) = puzzle {
            let is_meant = |text: &&Text| text.name == puzzle || puzzle.parse() == Ok(text.number);
            let found = texts.iter().find(is_meant);
            return found.with_context(|| {
                format!(
                    "there is no puzzle `{puzzle}`; there are 1 to {}, and `list` shows their names",
                    texts.len()
                )
            });
        }
        for text in texts {
            if self.state(text)? != "good" {
                return Ok(text);
            }
        }
        anyhow::bail!("all puzzles are good; name one by its number")
    }

    /// Keeps a verdict about this content.
    pub fn keep(&mut self, text: &Text, verdict: &str, content: &str) {
        // Another check may have written it.
        *self = Progress::read();
        let hints = self.entries.get(&text.name).map_or(0, |entry| entry.2);
        self.entries.insert(text.name.clone(), (verdict.to_owned(), hash_of(content), hints));
        self.write();
    }

    /// Forgets the verdict and the hints.
    pub fn forget(&mut self, text: &Text) {
        self.entries.remove(&text.name);
        self.write();
    }

    /// The number of hints to show now.
    pub fn one_more_hint(&mut self, text: &Text) -> usize {
        let entry = self.entries.entry(text.name.clone()).or_insert_with(|| ("tried".to_owned(), 0, 0));
        entry.2 += 1;
        let hints = entry.2;
        self.write();
        hints
    }
}

fn hash_of(content: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    hasher.finish()
}
