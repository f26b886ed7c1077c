//! Numbers as texts and as bits, with all the edges that their readers and writers know.

#![allow(dead_code, reason = "which are used depends on the features")]

use crate::inputs::{Case, Random};

/// Texts of numbers, sound and unsound.
pub fn texts() -> Vec<Case> {
    const FIXED: [&str; 70] = [
        "",
        "0",
        "-0",
        "+1",
        "1",
        "-1",
        "00",
        "007",
        "1.",
        ".5",
        "-.5",
        ".",
        "-",
        "+",
        "1e",
        "1e+",
        "e5",
        "1e5",
        "1E-5",
        "1.5e300",
        "1e308",
        "1.7976931348623157e308",
        "1.7976931348623159e308",
        "1e309",
        "-1e400",
        "1e-400",
        "5e-324",
        "4.9e-324",
        "2e-324",
        "2.4703282292062327e-324",
        "2.4703282292062328e-324",
        "2.2250738585072011e-308",
        "2.2250738585072014e-308",
        "3.4028235e38",
        "3.4028236e38",
        "1.17549435e-38",
        "1e-45",
        "7e-46",
        "NaN",
        "nan",
        "inf",
        "-inf",
        "infinity",
        "Infinity",
        "infinit",
        "0x10",
        "1_000",
        "1 ",
        " 1",
        "12a",
        "9007199254740993",
        "9007199254740992",
        "9007199254740991",
        "9007199254740993.00000000000000000000000000001",
        "123456789012345678901234567890",
        "0.1",
        "0.2",
        "0.3",
        "0.30000000000000004",
        "255",
        "256",
        "-128",
        "-129",
        "65535",
        "65536",
        "4294967295",
        "4294967296",
        "18446744073709551615",
        "18446744073709551616",
        "-9223372036854775808",
    ];
    let mut random = Random::new(5);
    let mut all: Vec<String> = FIXED.iter().map(|text| (*text).to_owned()).collect();
    for _ in 0..120 {
        let bits = random.word();
        let value = f64::from_bits(bits);
        all.push(match bits % 5 {
            0 => format!("{value:e}"),
            1 => format!("{}", f32::from_bits(bits as u32)),
            2 => format!("{}", bits as i64),
            3 => format!("{}.{}e{}", bits % 100_000, random.word(), bits as i8),
            _ => format!("{value:.20e}"),
        });
    }
    crate::inputs::texts(all)
}
