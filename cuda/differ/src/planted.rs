//! Wrong edits of LLVM IR, which must be found.

use std::sync::atomic::{AtomicUsize, Ordering};

/// An edit that changes what a program does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// The store of this number is left out.
    Store(usize),
    /// The operands of the subtraction of this number are swapped.
    Sub(usize),
}

/// The number for the edit, which is a function without one.
static NUMBER: AtomicUsize = AtomicUsize::new(0);

impl std::str::FromStr for Planted {
    type Err = String;

    /// `store:5` and `sub:7`
    fn from_str(text: &str) -> Result<Planted, String> {
        let parsed = text.split_once(':').and_then(|(kind, number)| Some((kind, number.parse().ok()?)));
        match parsed {
            Some(("store", number)) => Ok(Planted::Store(number)),
            Some(("sub", number)) => Ok(Planted::Sub(number)),
            _ => Err(format!("`{text}` is no edit: expected store:N or sub:N")),
        }
    }
}

impl std::fmt::Display for Planted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Planted::Store(number) => write!(f, "store:{number}"),
            Planted::Sub(number) => write!(f, "sub:{number}"),
        }
    }
}

impl Planted {
    /// The edit as the builder takes it.
    pub fn edit(self) -> fn(String) -> String {
        match self {
            Planted::Store(number) => {
                NUMBER.store(number, Ordering::Relaxed);
                |text| without_store(&text, NUMBER.load(Ordering::Relaxed))
            }
            Planted::Sub(number) => {
                NUMBER.store(number, Ordering::Relaxed);
                |text| with_swapped_sub(&text, NUMBER.load(Ordering::Relaxed))
            }
        }
    }
}

/// The text without its store of this number, counted round and round; stores that shared memory, a panic's record or
/// nobody sees are stores as well.
fn without_store(text: &str, number: usize) -> String {
    let is_store = |line: &str| line.trim_start().starts_with("store ");
    replace_line(text, number, is_store, |_| String::new())
}

/// The text with the operands of one `sub` swapped, unless they are the same.
fn with_swapped_sub(text: &str, number: usize) -> String {
    let operands = |line: &str| -> Option<(String, String, String)> {
        let (head, rest) = line.split_once(" = sub ")?;
        let (typed, tail) = rest.rsplit_once(", ").filter(|(_, tail)| !tail.starts_with('!'))?;
        let (flags, first) = typed.rsplit_once(' ')?;
        Some((format!("{head} = sub {flags}"), first.to_owned(), tail.to_owned()))
    };
    let is_sub = |line: &str| operands(line).is_some_and(|(_, a, b)| a != b);
    replace_line(text, number, is_sub, |line| {
        operands(line).map_or_else(|| line.to_owned(), |(head, a, b)| format!("{head} {b}, {a}"))
    })
}

fn replace_line(
    text: &str,
    number: usize,
    is_wanted: impl Fn(&str) -> bool,
    replace: impl Fn(&str) -> String,
) -> String {
    let count = text.lines().filter(|line| is_wanted(line)).count();
    let (mut at, wanted) = (0, number % count.max(1));
    let mut edited = String::with_capacity(text.len());
    for line in text.lines() {
        let is_it = is_wanted(line) && {
            at += 1;
            at == wanted + 1
        };
        edited.push_str(&if is_it { replace(line) } else { line.to_owned() });
        edited.push('\n');
    }
    edited
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "  store i32 1, ptr %p\n  %a = sub i32 %x, %y\n  store i8 2, ptr %q, align 1\n  \
                        %b = sub nuw i64 0, %a\n  %c = sub i8 %a, %a\n";

    #[test]
    fn one_line_is_changed() {
        let without = Planted::Store(1).edit()(TEXT.to_owned());
        assert!(without.contains("store i32 1") && !without.contains("store i8 2"), "{without}");
        assert_eq!(without, Planted::Store(3).edit()(TEXT.to_owned()), "numbers go round");
        let swapped = Planted::Sub(0).edit()(TEXT.to_owned());
        assert!(
            swapped.contains("%a = sub i32 %y, %x\n") && swapped.contains("sub nuw i64 0, %a"),
            "{swapped}"
        );
        let swapped = Planted::Sub(1).edit()(TEXT.to_owned());
        assert!(swapped.contains("%b = sub nuw i64 %a, 0\n"), "{swapped}");
        assert_eq!("store:7".parse(), Ok(Planted::Store(7)));
        assert_eq!(Planted::Sub(2).to_string().parse(), Ok(Planted::Sub(2)));
        assert!("add:1".parse::<Planted>().is_err());
    }
}
