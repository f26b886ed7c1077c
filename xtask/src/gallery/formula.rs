//! Formulas of the lessons' files: `32 / 33 * memory`, `plain@32 / padded@32`, `stride.rate@1 / min(at, 8)`.
//!
//! `+ - * /`, parentheses, `min(a, b)`, numbers and names. A name may end in `@` and a place on the lesson's axis; a name
//! with spaces is in single quotes.

use anyhow::{Context, bail, ensure};

/// The value of a name at a place, which is `None` if the formula names none.
pub type Lookup<'a> = dyn Fn(&str, Option<f64>) -> anyhow::Result<f64> + 'a;

/// The value of a formula.
///
/// # Errors
/// It is malformed, or a name has no value.
pub fn value(formula: &str, lookup: &Lookup<'_>) -> anyhow::Result<f64> {
    let mut parser = Parser { rest: formula, lookup };
    let value = parser.sum().with_context(|| format!("the formula `{formula}`"))?;
    ensure!(
        parser.rest.trim().is_empty(),
        "the formula `{formula}` is followed by `{}`; remove that",
        parser.rest
    );
    Ok(value)
}

/// The sentence with the value of each `{formula}`, in three digits, or of each `{formula;0}`, as an integer.
///
/// # Errors
/// As for [`value`].
pub fn sentence(text: &str, lookup: &Lookup<'_>) -> anyhow::Result<String> {
    let mut parts = text.split('{');
    let mut sentence = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (formula, words) =
            part.split_once('}').with_context(|| format!("`{text}` has a {{ without a }}"))?;
        sentence += &match formula.strip_suffix(";0") {
            Some(formula) => format!("{:.0}", value(formula, lookup)?),
            None => crate::chart::number(value(formula, lookup)?),
        };
        sentence += words;
    }
    Ok(sentence)
}

struct Parser<'a> {
    rest: &'a str,
    lookup: &'a Lookup<'a>,
}

impl<'a> Parser<'a> {
    fn sum(&mut self) -> anyhow::Result<f64> {
        let mut sum = self.product()?;
        while let Some(sign) = self.any(&["+", "-"]) {
            sum += if sign == "+" { self.product()? } else { -self.product()? };
        }
        Ok(sum)
    }

    fn product(&mut self) -> anyhow::Result<f64> {
        let mut product = self.factor()?;
        while let Some(sign) = self.any(&["*", "/"]) {
            let factor = self.factor()?;
            product = if sign == "*" { product * factor } else { product / factor };
        }
        Ok(product)
    }

    fn factor(&mut self) -> anyhow::Result<f64> {
        if self.any(&["("]).is_some() {
            let sum = self.sum()?;
            self.any(&[")"]).context("a ( has no )")?;
            return Ok(sum);
        }
        if self.any(&["min("]).is_some() {
            let first = self.sum()?;
            self.any(&[","]).context("min takes two formulas")?;
            let second = self.sum()?;
            self.any(&[")"]).context("a ( has no )")?;
            return Ok(first.min(second));
        }
        if self.any(&["'"]).is_some() {
            let (name, rest) = self.rest.split_once('\'').context("a quote has no end")?;
            self.rest = rest;
            return self.name(name);
        }
        let word = self.word();
        match word.chars().next() {
            None => bail!("a number or name is missing before `{}`", self.rest),
            Some(first) if first.is_ascii_digit() => Ok(word.parse()?),
            Some(_) => self.name(word),
        }
    }

    fn name(&mut self, name: &str) -> anyhow::Result<f64> {
        let at = if self.any(&["@"]).is_some() { Some(self.word().parse()?) } else { None };
        (self.lookup)(name, at)
    }

    /// The next letters, digits, `_` and `.`.
    fn word(&mut self) -> &'a str {
        let rest = self.rest.trim_start();
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && !"_.".contains(c)).unwrap_or(rest.len());
        let word;
        (word, self.rest) = rest.split_at(end);
        word
    }

    /// Takes the first of the signs that is next.
    fn any(&mut self, signs: &[&'static str]) -> Option<&'static str> {
        let rest = self.rest.trim_start();
        let sign = signs.iter().find(|sign| rest.starts_with(**sign))?;
        self.rest = &rest[sign.len()..];
        Some(sign)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookup(name: &str, at: Option<f64>) -> anyhow::Result<f64> {
        match (name, at) {
            ("a", None) => Ok(12.0),
            ("a", Some(at)) => Ok(at),
            ("two words", None) => Ok(100.4),
            _ => bail!("no {name}"),
        }
    }

    #[test]
    fn operators_have_their_usual_order() {
        let value = |formula| value(formula, &lookup).unwrap();
        assert_eq!(value("2 + 3 * 4 - 6 / (1+2)"), 12.0);
        assert_eq!(value("a / a@4 - min(a, 1.5)"), 1.5);
        assert_eq!(value("'two words' * 2"), 200.8);
    }

    #[test]
    fn sentences_have_figures() {
        let text = sentence("{a / 5} times, {'two words';0} %", &lookup).unwrap();
        assert_eq!(text, "2.40 times, 100 %");
        for wrong in ["{b}", "{a", "{a +}", "{(a}", "{a a}", "{min(a)}"] {
            assert!(sentence(wrong, &lookup).is_err(), "{wrong}");
        }
    }
}
