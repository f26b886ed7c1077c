//! The prose of a file: the text of a document without its code, or the documentation comments and string literals of Rust.

/// Text that belongs together: `(line number, text of the line)`.
#[derive(Debug, Default, PartialEq)]
pub struct Passage(Vec<(usize, String)>);

impl Passage {
    /// The words with their line numbers.
    pub fn words(&self) -> impl Iterator<Item = (usize, &str)> {
        self.0.iter().flat_map(|(n, line)| line.split_whitespace().map(|word| (*n, word)))
    }
}

/// The passages while reading.
#[derive(Default)]
struct Reader {
    complete: Vec<Passage>,
    current: Passage,
}

impl Reader {
    fn add(&mut self, n: usize, text: &str) {
        self.current.0.push((n, text.to_owned()));
    }

    fn end_passage(&mut self) {
        self.complete.push(std::mem::take(&mut self.current));
    }

    fn passages(mut self) -> Vec<Passage> {
        self.end_passage();
        self.complete
    }
}

/// The paragraphs of a Markdown document, without blocks of code.
pub fn of_document(text: &str) -> Vec<Passage> {
    let mut is_code = false;
    let mut reader = Reader::default();
    for (n, line) in (1..).zip(text.lines()) {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        if is_code || is_fence || line.trim().is_empty() || line.starts_with('|') {
            reader.end_passage();
        }
        if !(is_code || is_fence) {
            reader.add(n, line);
        }
    }
    reader.passages()
}

/// The documentation comments and the string literals of Rust source, without its tests.
pub fn of_source(text: &str) -> Vec<Passage> {
    let mut reader = Reader::default();
    let mut is_code = false;
    let mut scan = Scan::Code;
    for (n, line) in (1..).zip(text.lines().take_while(|line| line.trim() != "#[cfg(test)]")) {
        let comment = line.trim_start();
        let documentation = comment.strip_prefix("///").or_else(|| comment.strip_prefix("//!"));
        if let Some(documentation) = documentation.filter(|_| scan == Scan::Code) {
            let is_fence = documentation.trim_start().starts_with("```");
            is_code ^= is_fence;
            if !(is_code || is_fence) {
                reader.add(n, documentation);
            }
            continue;
        }
        is_code = false;
        if scan == Scan::Code {
            reader.end_passage();
        }
        for (text, is_complete) in scan.literals(line) {
            reader.add(n, &text);
            if is_complete {
                reader.end_passage();
            }
        }
    }
    reader.passages()
}

/// The state of a scan of Rust source at the end of a line.
#[derive(Clone, Copy, PartialEq)]
enum Scan {
    Code,
    /// In a string literal, with the number of `#` that end it if it is a raw one.
    Literal(Option<usize>),
}

impl Scan {
    /// The parts of string literals in a line, with whether the literal ends there.
    fn literals(&mut self, line: &str) -> Vec<(String, bool)> {
        let mut found = Vec::new();
        let mut rest = line;
        loop {
            match *self {
                Scan::Code => {
                    let Some(at) = rest.find(['"', '\'', '/']) else { return found };
                    let (before, from) = rest.split_at(at);
                    if from.starts_with("//") {
                        return found;
                    }
                    // A character literal, which may be a quotation mark.
                    let quoted = ["'\"'", "'\\\"'", "'\\''"].iter().find(|quoted| from.starts_with(**quoted));
                    if !from.starts_with('"') {
                        rest = &from[quoted.map_or(1, |quoted| quoted.len())..];
                        continue;
                    }
                    let hashes = before.len() - before.trim_end_matches('#').len();
                    let is_raw = before.trim_end_matches('#').ends_with('r');
                    *self = Scan::Literal(is_raw.then_some(hashes));
                    rest = &from[1..];
                }
                Scan::Literal(raw) => {
                    let Some(end) = end_of_literal(rest, raw) else {
                        found.push((without_escapes(rest), false));
                        return found;
                    };
                    found.push((without_escapes(&rest[..end]), true));
                    *self = Scan::Code;
                    rest = &rest[end + 1..];
                }
            }
        }
    }
}

/// The position of the quotation mark that ends a literal.
fn end_of_literal(rest: &str, raw: Option<usize>) -> Option<usize> {
    if let Some(hashes) = raw {
        return rest.find(&format!("\"{}", "#".repeat(hashes)));
    }
    let mut is_escaped = false;
    rest.char_indices().find_map(|(at, c)| {
        let ends = c == '"' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        ends.then_some(at)
    })
}

fn without_escapes(text: &str) -> String {
    text.replace("\\n", " ").trim_end_matches('\\').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(passages: &[Passage]) -> Vec<String> {
        let words = passages.iter().map(|p| p.words().map(|(_, word)| word).collect::<Vec<_>>().join(" "));
        words.filter(|text| !text.is_empty()).collect()
    }

    #[test]
    fn a_document_is_its_paragraphs_without_code() {
        let text = "# A\n\nb\nc\n```rust\nd\n```\n| e |\n| f |\n";
        assert_eq!(shown(&of_document(text)), ["# A", "b c", "| e |", "| f |"]);
    }

    #[test]
    fn source_is_its_documentation_and_its_literals() {
        let text = "//! a\n//! b\n\nlet c = '\"'; // \"d\"\n/// e\n/// ```\n/// f\n/// ```\n/// g\nh(\"i \\\n   j\", r#\"k\"l\"#);\n";
        assert_eq!(shown(&of_source(text)), ["a b", "e g", "i j", "k\"l"]);
    }

    #[test]
    fn tests_are_left_out_and_lines_are_counted() {
        let passages = of_source("fn a() {}\n/// b\nfn c() {}\n#[cfg(test)]\nmod tests { \"d\" }\n");
        assert_eq!(shown(&passages), ["b"]);
        assert!(passages.iter().any(|passage| passage.words().next() == Some((2, "b"))));
    }
}
