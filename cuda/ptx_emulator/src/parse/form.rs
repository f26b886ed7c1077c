//! The modifiers of an instruction, as the patterns in the rows of the table have them: see [`super::syntax`].

use crate::instr::{Form, Kind, Round, Space, Ty, flag};

/// Modifiers without an effect where threads take turns, next to cache hints.
const UNSEEN: [&str; 22] = [
    "weak", "volatile", "relaxed", "acquire", "release", "acq_rel", "mmio", "cta", "cluster", "gpu", "sys",
    "gl", "nc", "ca", "cg", "cs", "lu", "cv", "wb", "wt", "sc", "noftz",
];
const STRONG: [&str; 4] = ["relaxed", "acquire", "release", "volatile"];

fn is_unseen(word: &str) -> bool {
    let is_hint = word.starts_with("L1::") || word.starts_with("L2::") && word != "L2::cache_hint";
    is_hint || UNSEEN.contains(&word)
}

/// The form, if the modifiers are those of a pattern.
pub(super) fn fit(pattern: &str, words: &[&str]) -> Option<Form> {
    let mut form = Form::default();
    let (mut picks, mut types, mut has_space) = (form.pick.iter_mut(), 0, false);
    let kept: Vec<&str>;
    let mut words = words;
    if pattern.starts_with('*') {
        form.flags |= if words.iter().any(|word| STRONG.contains(word)) { flag::STRONG } else { 0 };
        kept = words.iter().copied().filter(|word| !is_unseen(word)).collect();
        words = &kept;
    }
    for part in pattern.split('.').filter(|&part| !part.is_empty() && part != "*") {
        let (part, is_optional) = part.strip_prefix('?').map_or((part, false), |part| (part, true));
        let word = words.first().copied().unwrap_or_default();
        let choice = part.split('|').position(|one| one == word || is_in_class(one, word));
        let is_choice = part.contains('|') && Ty::named(part.split('|').next()?).is_none();
        match choice {
            None if is_optional => {
                if is_choice {
                    picks.next();
                }
                continue;
            }
            None => return None,
            Some(_) => words = &words[1..],
        }
        let digits = || word.trim_matches(|c: char| !c.is_ascii_digit()).parse().ok();
        match part {
            _ if is_in_class("$round", word) || is_in_class("$integral", word) => {
                let rounds =
                    [('n', Round::Nearest), ('z', Round::Zero), ('m', Round::Down), ('p', Round::Up)];
                form.round =
                    rounds.iter().find(|(name, _)| word.as_bytes()[1] == *name as u8).map(|pair| pair.1);
            }
            "$vector" | "$rank" | "$matrices" => form.count = digits()?,
            "$shape" => {
                let (n, k) = word["m64n".len()..].split_once('k')?;
                (form.count, form.literal) = (n.parse::<usize>().ok()? / 2, k.parse().ok()?);
                if !(4..=128).contains(&form.count) || !form.count.is_multiple_of(4) {
                    return None;
                }
            }
            _ => match (Space::named(word), Ty::named(word)) {
                (Some(space), _) if !has_space => (form.space, has_space) = (space, true),
                (None, Some(ty)) => {
                    match types {
                        0 => form.ty = ty,
                        1 => form.from = ty,
                        // The elements of both operands of a matrix multiplication.
                        2 if ty != form.from => return None,
                        _ => {}
                    }
                    types += 1;
                }
                (None, None) if is_choice => {
                    *picks.next()? = choice? as u8 + u8::from(is_optional);
                }
                (None, None) => {
                    form.flags |= flag::NAMES.iter().find(|(name, _)| *name == word).map_or(0, |pair| pair.1);
                }
                _ => {}
            },
        }
    }
    form.d_bits = form.ty.bits;
    // The depth of a shape is 32 bytes.
    let is_whole = !pattern.contains("$shape") || form.literal * u64::from(form.from.bits) == 256;
    (words.is_empty() && is_whole).then_some(form)
}

/// Whether a modifier belongs to the class.
fn is_in_class(class: &str, word: &str) -> bool {
    let Some(class) = class.strip_prefix('$') else { return false };
    let is_integer = |least: u32| {
        let ty = Ty::named(word).filter(|ty| matches!(ty.kind, Kind::Unsigned | Kind::Signed));
        !word.ends_with("x2") && ty.is_some_and(|ty| ty.bits >= least)
    };
    match class {
        "bits" => word == "pred" || is_integer(16),
        "integer" => is_integer(16),
        "any" => is_integer(8),
        "word" => is_integer(32),
        "float" => matches!(word, "f32" | "f64"),
        "move" => word == "pred" || is_integer(16) || matches!(word, "f32" | "f64"),
        "memory" => is_integer(8) || matches!(word, "f32" | "f64"),
        "round" => matches!(word, "rn" | "rz" | "rm" | "rp"),
        "integral" => matches!(word, "rni" | "rzi" | "rmi" | "rpi"),
        "space" => matches!(word, "global" | "shared" | "local" | "param" | "const"),
        "vector" => matches!(word, "v2" | "v4" | "v8"),
        "rank" => matches!(word, "1d" | "2d" | "3d" | "4d" | "5d"),
        "matrices" => matches!(word, "x1" | "x2" | "x4"),
        "shape" => word.starts_with("m64n"),
        _ => false,
    }
}
