//! Solutions are good, holes are not, and the message about each wrong answer has the words of its comment `// Says:`.

use std::path::Path;
use std::sync::OnceLock;

use cuda_builder::CudaBuilderError;
use ferrowarp_learn::judge::{State, Verdict, judge};
use ferrowarp_learn::predictions::questions;
use ferrowarp_learn::ptx::{self, Ptx};
use ferrowarp_learn::text::{self, Text};
use ferrowarp_learn::{kernel, puzzle};
// The linker keeps the kernels of the crate only if something names it.
use puzzles as _;

/// What the comment above an answer says.
struct Answer {
    kernel: String,
    /// Words of the judge's message; `None` for the solution.
    says: Option<Vec<String>>,
}

/// The answers of a puzzle, in the order of its file.
fn answers(text: &Text) -> Vec<Answer> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/answers").join(&text.file);
    let source = std::fs::read_to_string(&path).unwrap();
    let (mut says, mut found) = (None, Vec::new());
    for line in source.lines() {
        if let Some(words) = line.strip_prefix("// Says: ") {
            says = Some(words.split("; ").map(str::to_owned).collect());
        } else if let Some(rest) = line.strip_prefix("pub unsafe fn ") {
            let kernel = rest.split('(').next().unwrap().to_owned();
            let expected = Text::signature(&text.hole, &text.name);
            assert_eq!(Text::signature(&source, &kernel), expected, "the parameters of {kernel}");
            found.push(Answer { kernel, says: says.take() });
        }
    }
    found
}

/// The PTX of all answers, or nothing if a tool cannot be had.
fn ptx() -> Option<Ptx> {
    static TEXT: OnceLock<Option<String>> = OnceLock::new();
    TEXT.get_or_init(ptx_text).clone().map(|text| Ptx::new(text).unwrap())
}

fn ptx_text() -> Option<String> {
    match ptx::build("answers") {
        Ok(text) => Some(text),
        Err(error @ (CudaBuilderError::NvvmMissing(_) | CudaBuilderError::ToolchainMissing(_))) => {
            eprintln!("nothing is counted in this test: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn verdict(text: &Text, name: &str, ptx: Option<&Ptx>) -> Verdict {
    judge(
        puzzle(text.number).unwrap(),
        kernel(name).unwrap_or_else(|| panic!("no kernel {name}")),
        ptx,
        seed(),
    )
}

/// The seed of the problems. With another one than the first, only the states are compared: messages depend on the values.
fn seed() -> u64 {
    std::env::var("FERROWARP_LEARN_SEED").map_or(1, |seed| seed.parse().unwrap())
}

#[test]
fn answers_are_judged_as_their_comments_say() {
    let (texts, ptx) = (text::all().unwrap(), ptx());
    let show = std::env::var("FERROWARP_LEARN_SHOW").unwrap_or_default();
    let check = |text: &Text| {
        let mut wrong = Vec::new();
        let answers = answers(text);
        if answers.iter().filter(|answer| answer.says.is_some()).count() < 3 {
            wrong.push(format!("{}: fewer than three wrong answers", text.name));
        }
        let hole = verdict(text, &text.name, ptx.as_ref());
        if hole.state == State::Good {
            wrong.push(format!("{}: the hole is good", text.name));
        }
        for Answer { kernel, says } in answers {
            let verdict = verdict(text, &kernel, ptx.as_ref());
            if !show.is_empty() && kernel.contains(&show) {
                println!("---- {kernel}\n{}\n", verdict.text);
            }
            let is_counted = ptx.is_some();
            let is_right = match &says {
                None => verdict.state == if is_counted { State::Good } else { State::Right },
                // What only counts show is not seen without them.
                Some(_) if !is_counted && verdict.state == State::Right => true,
                Some(words) => {
                    verdict.state != State::Good
                        && (seed() != 1 || words.iter().all(|words| verdict.text.contains(words.as_str())))
                }
            };
            if !is_right {
                wrong.push(format!("{kernel}, expected {says:?}:\n{}", verdict.text));
            }
        }
        wrong
    };
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let halves = [0, 1].map(|half| {
            let (texts, check) = (&texts, &check);
            scope.spawn(move || texts.iter().skip(half).step_by(2).flat_map(check).collect::<Vec<_>>())
        });
        halves.into_iter().flat_map(|half| half.join().unwrap()).collect()
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn pages_list_the_puzzles() {
    let texts = text::all().unwrap();
    for path in text::pages().unwrap() {
        let page = std::fs::read_to_string(&path).unwrap();
        let written = text::page(&texts, &page);
        assert!(page == written, "{} lists other puzzles; run cargo xtask learn pages", path.display());
    }
}

#[test]
fn the_answers_of_predictions_are_counted() {
    let expected = [4, 8, 32, 5, 1, 4, 0, 1, 31, 0, 0, 4, 0];
    let Some(_) = ptx() else { return };
    let counted: Vec<u64> =
        questions().unwrap().iter().map(|question| question.count(ptx().unwrap()).unwrap()).collect();
    assert_eq!(counted, expected);
}
