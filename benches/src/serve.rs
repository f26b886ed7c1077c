//! Lets another program time launches in turns with others.

use std::collections::BTreeMap;
use std::io::{BufRead as _, Write as _};

use anyhow::{Context as _, bail};

use crate::timed::{Prepared, Timed};

/// Other kernels that are timed at most.
const MOST_OTHERS: usize = 16;

/// Answers each request on standard input with a line: `prepare NAME WORDS..` with error and kernels, `time NAME` with
/// seconds, `others NAME` with the seconds of other kernels, `free NAME` with `free`, and a failure with `error` and the
/// reason. `tell` answers other questions.
///
/// # Errors
/// Standard input or output failed.
pub fn serve(
    prepare: impl Fn(&str, &[&str]) -> anyhow::Result<Prepared>,
    tell: impl Fn(&str) -> Option<anyhow::Result<String>>,
) -> anyhow::Result<()> {
    let mut prepared = BTreeMap::new();
    let mut stdout = std::io::stdout();
    for line in std::io::stdin().lock().lines() {
        let line = line.context("reading a request")?;
        let answer = match tell(&line) {
            Some(told) => told,
            None => answer(&line, &mut prepared, &prepare),
        };
        let answer = answer.unwrap_or_else(|error| format!("error {error:#}").replace('\n', " "));
        writeln!(stdout, "{answer}").and_then(|()| stdout.flush()).context("writing an answer")?;
    }
    Ok(())
}

fn answer(
    line: &str,
    prepared: &mut BTreeMap<String, Box<dyn Timed>>,
    prepare: impl Fn(&str, &[&str]) -> anyhow::Result<Prepared>,
) -> anyhow::Result<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        ["prepare", name, ref words @ ..] => {
            // Frees its memory before the next one's is allocated.
            prepared.remove(name);
            let (timed, kernels) = prepare(name, words)?;
            let answer = format!("{:e} {kernels}", timed.relative_error());
            prepared.insert(name.to_owned(), timed);
            Ok(answer)
        }
        ["time", name] => {
            let timed = prepared.get_mut(name).with_context(|| format!("{name} is not prepared"))?;
            Ok(timed.time()?.to_string())
        }
        ["others", name] => {
            let timed = prepared.get_mut(name).with_context(|| format!("{name} is not prepared"))?;
            let others = timed
                .others(MOST_OTHERS)?
                .into_iter()
                .map(|(kernels, seconds)| format!("{seconds} {kernels}"));
            Ok(others.collect::<Vec<_>>().join("\t"))
        }
        ["free", name] => {
            prepared.remove(name);
            Ok("free".to_owned())
        }
        _ => {
            bail!("no request: {line}; send `prepare NAME WORDS`, `time NAME`, `others NAME` or `free NAME`")
        }
    }
}
