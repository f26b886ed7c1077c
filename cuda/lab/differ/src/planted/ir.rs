//! Errors in LLVM IR text.

/// Removes the store of this number; numbers wrap around. Stores to shared memory, to a panic's record or without any effect
/// count, too.
pub(super) fn without_store(text: &str, number: usize) -> String {
    let is_store = |line: &str| line.trim_start().starts_with("store ");
    replace_line(text, number, is_store, |_| String::new())
}

/// Swaps the operands of one `sub`, unless they are equal.
pub(super) fn with_swapped_sub(text: &str, number: usize) -> String {
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
    every_line(text, |line| {
        let is_it = is_wanted(line) && {
            at += 1;
            at == wanted + 1
        };
        if is_it { replace(line) } else { line.to_owned() }
    })
}

fn every_line(text: &str, mut replace: impl FnMut(&str) -> String) -> String {
    let mut edited = String::with_capacity(text.len() + text.len() / 8);
    for line in text.lines() {
        edited.push_str(&replace(line));
        edited.push('\n');
    }
    edited
}

/// The replacements of `frem`: float types, and the builder's functions for them.
const REMAINDERS: [(&str, &str); 2] =
    [("float", "@__ferrowarp_frem_f32("), ("double", "@__ferrowarp_frem_f64(")];

/// Makes the builder's functions for remainders compute `x - trunc(x / y) * y`, as both back ends did.
pub(super) fn with_rounded_remainders(text: &str) -> String {
    let mut edited = text.to_owned();
    for (ty, function) in REMAINDERS {
        let head = format!("{ty} {function}");
        let start = edited.match_indices(&head).map(|(at, _)| at).find(|&at| {
            let line = edited[..at].rfind('\n').map_or(0, |end| end + 1);
            edited[line..at].starts_with("define")
        });
        let Some(start) = start else { continue };
        let Some(open) = edited[start..].find("{\n").map(|at| start + at + 2) else { continue };
        let Some(end) = edited[open..].find("\n}").map(|at| open + at) else { continue };
        let suffix = if ty == "float" { "f32" } else { "f64" };
        let body = format!(
            "  %q = fdiv {ty} %x, %y\n  %t = call {ty} @llvm.trunc.{suffix}({ty} %q)\n  %n = fneg {ty} %t\n  \
             %r = call {ty} @llvm.fma.{suffix}({ty} %n, {ty} %y, {ty} %x)\n  ret {ty} %r"
        );
        edited.replace_range(open..end, &body);
        for (intrinsic, count) in [("trunc", 1), ("fma", 3)] {
            let name = format!("@llvm.{intrinsic}.{suffix}(");
            let is_declared = edited.lines().any(|line| line.starts_with("declare") && line.contains(&name));
            if !is_declared {
                let types = vec![ty; count].join(", ");
                edited.push_str(&format!("\ndeclare {ty} {name}{types})\n"));
            }
        }
    }
    edited
}

/// Turns `memmove` into `memcpy`, from the first byte to the last.
pub(super) fn with_careless_moves(text: &str) -> String {
    let is_declared =
        text.lines().any(|line| line.starts_with("declare") && line.contains("@llvm.memcpy.p0.p0.i64("));
    every_line(text, |line| {
        if line.starts_with("declare") && line.contains("@llvm.memmove.p0.p0.i64(") && is_declared {
            return String::new();
        }
        line.replace("@llvm.memmove.p0.p0.i64(", "@llvm.memcpy.p0.p0.i64(")
    })
}

/// Turns `sext i8` into `zext i8`.
pub(super) fn without_signs(text: &str) -> String {
    every_line(text, |line| line.replace(" = sext i8 ", " = zext i8 "))
}

/// Turns comparisons of signed 8- and 16-bit integers into unsigned ones.
pub(super) fn with_unsigned_orders(text: &str) -> String {
    every_line(text, |line| {
        let Some((head, tail)) = line.split_once(" = icmp s") else { return line.to_owned() };
        let is_narrow = ["lt i8 ", "le i8 ", "gt i8 ", "ge i8 ", "lt i16 ", "le i16 ", "gt i16 ", "ge i16 "];
        if is_narrow.iter().any(|kind| tail.starts_with(kind)) {
            format!("{head} = icmp u{tail}")
        } else {
            line.to_owned()
        }
    })
}

/// Marks unaligned accesses of 4 and 8 bytes as aligned.
pub(super) fn with_alignment(text: &str) -> String {
    every_line(text, |line| {
        let is =
            |ty: &str| line.contains(&format!("load {ty}, ptr")) || line.contains(&format!("store {ty} "));
        let width = [("i32", 4), ("i64", 8)].into_iter().find(|(ty, _)| is(ty));
        let (Some((_, width)), Some((head, tail))) = (width, line.split_once(", align 1")) else {
            return line.to_owned();
        };
        let is_whole = !tail.starts_with(|c: char| c.is_ascii_digit());
        if is_whole { format!("{head}, align {width}{tail}") } else { line.to_owned() }
    })
}

/// Makes a `switch` on an integer of 8 bits or more decide by its lowest 7 bits.
pub(super) fn with_short_switches(text: &str) -> String {
    let mut count = 0;
    every_line(text, |line| {
        let Some((head, tail)) = line.split_once("switch i8 ") else { return line.to_owned() };
        let Some((value, rest)) = tail.split_once(',') else { return line.to_owned() };
        if !value.starts_with('%') {
            return line.to_owned();
        }
        count += 1;
        format!("  %planted{count} = and i8 {value}, 127\n{head}switch i8 %planted{count},{rest}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "  store i32 1, ptr %p\n  %a = sub i32 %x, %y\n  store i8 2, ptr %q, align 1\n  \
                        %b = sub nuw i64 0, %a\n  %c = sub i8 %a, %a\n";

    #[test]
    fn one_line_is_changed() {
        let without = without_store(TEXT, 1);
        assert!(without.contains("store i32 1") && !without.contains("store i8 2"), "{without}");
        assert_eq!(without, without_store(TEXT, 3), "numbers go round");
        let swapped = with_swapped_sub(TEXT, 0);
        assert!(
            swapped.contains("%a = sub i32 %y, %x\n") && swapped.contains("sub nuw i64 0, %a"),
            "{swapped}"
        );
        let swapped = with_swapped_sub(TEXT, 1);
        assert!(swapped.contains("%b = sub nuw i64 %a, 0\n"), "{swapped}");
    }

    #[test]
    fn remainders_are_rounded_as_the_back_ends_do() {
        let text = "define internal float @__ferrowarp_frem_f32(float %x, float %y) {\n  %a = add i32 1, 2\n  ret float %x\n}\n";
        let edited = with_rounded_remainders(text);
        assert!(edited.contains("%q = fdiv float %x, %y") && !edited.contains("%a = add"), "{edited}");
        assert!(edited.contains("declare float @llvm.fma.f32(float, float, float)"), "{edited}");
        assert_eq!(with_rounded_remainders(&edited), edited);
    }

    #[test]
    fn narrow_integers_lose_their_sign() {
        assert_eq!(with_unsigned_orders("%a = icmp slt i8 %b, 0\n"), "%a = icmp ult i8 %b, 0\n");
        assert_eq!(with_unsigned_orders("%a = icmp slt i64 %b, 0\n"), "%a = icmp slt i64 %b, 0\n");
        assert_eq!(without_signs("%a = sext i8 %b to i64\n"), "%a = zext i8 %b to i64\n");
    }

    #[test]
    fn words_are_aligned() {
        assert_eq!(with_alignment("%a = load i32, ptr %p, align 1\n"), "%a = load i32, ptr %p, align 4\n");
        assert_eq!(with_alignment("store i64 %a, ptr %p, align 16\n"), "store i64 %a, ptr %p, align 16\n");
        assert_eq!(with_alignment("store i8 1, ptr %p, align 1\n"), "store i8 1, ptr %p, align 1\n");
    }
}
