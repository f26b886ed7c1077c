//! Random programs: generates, prints, compares and shrinks them.

pub mod ast;
pub mod edit;
pub mod folder;
mod generate;
pub mod hunt;
pub mod judge;
mod print;
mod random;
pub mod shrink;
mod visit;

pub use generate::generate;
pub use print::{Source, source};
pub use random::Random;

#[cfg(test)]
mod tests {
    use super::*;

    /// Constructs that must occur in at least one of three hundred programs each.
    const CONSTRUCTS: &[&str] = &[
        "u8",
        "u16",
        "u32",
        "u64",
        "u128",
        "usize",
        "i8",
        "i16",
        "i32",
        "i64",
        "i128",
        "f32",
        "f64",
        "F16",
        "char",
        "wrapping_",
        "checked_",
        "overflowing_",
        "saturating_",
        "checked_shl",
        "wrapping_shr",
        "rotate_",
        "swap_bytes",
        "leading_zeros",
        "to_be_bytes",
        "from_bits",
        "copy_from_slice",
        "copy_within",
        ".fill(",
        "core::ptr::",
        "MaybeUninit",
        "windows",
        "chunks",
        "struct ",
        "enum ",
        "Option<",
        "match ",
        "while ",
        "'l1: loop",
        "for ",
        "break 'l",
        "continue 'l",
        "pub static ",
        "<T: Num>",
        "dyn ",
        "move |",
        "#[inline(never)]",
        "Bf16",
        " % v",
        "euclid_rem(",
        "euclid_div(",
        "#[repr(i",
        " = -",
        "value_of_e",
        "pass_e",
        "same(",
        "less(",
        "ordered(",
        "hashed(",
        "passed(",
        ".cmp(",
        "put_in_order(",
        "put_in_reverse(",
        "order_by_mix(",
        "select(",
        "shown(format_args!",
        "fn r(",
        ": [fn(",
        "smeared(",
        "moved(",
        "packed)]",
        ".wrapping_abs() >>",
        ".max(",
        ".min(",
        "fn c(lo: i8,",
        "fn c(lo: u8,",
        "a.checked_",
        "a.saturating_",
        "a.overflowing_",
        "[i8::MIN,",
        "[u8::MIN,",
        "let own = Atomic",
        "shared_",
        "global_",
        ".fetch_add(",
        ".compare_exchange(",
        " fence(",
        "compiler_fence(",
        ".copysign(-1.0)",
        ".total_cmp(&y)",
        "f64::from_bits(",
    ];

    #[test]
    fn programs_hold_what_users_write() {
        let texts: Vec<String> = (0..1800)
            .map(|seed| {
                let Source { program, helper } = source(&generate(seed), 0);
                program + &helper
            })
            .collect();
        let count = |construct: &str| texts.iter().filter(|text| text.contains(construct)).count();
        let rare: Vec<_> = CONSTRUCTS.iter().map(|construct| (count(construct), construct)).collect();
        let rare: Vec<_> = rare.into_iter().filter(|(count, _)| count * 300 < texts.len()).collect();
        assert!(rare.is_empty(), "in too few of {} programs: {rare:?}", texts.len());
        let again = source(&generate(7), 0);
        assert_eq!(texts[7], again.program + &again.helper, "a seed is one program");
    }
}
