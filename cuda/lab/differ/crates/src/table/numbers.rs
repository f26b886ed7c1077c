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

/// Eight f64 a case: special values in all places, then random ones of all sizes and of usual ones.
pub fn floats() -> Vec<Case> {
    const SPECIAL: [f64; 12] =
        [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, f64::INFINITY, f64::NAN, f64::MIN_POSITIVE, 1e-310, f64::MAX, -3.75];
    let mut random = Random::new(11);
    let mut all = Vec::new();
    for number in 0..120usize {
        let one = |at: usize, random: &mut Random| match number {
            0..24 => SPECIAL[(number * 5 + at * 7) % SPECIAL.len()],
            24..48 => f64::from_bits(random.word()),
            _ => (random.word() % 2_000_001) as f64 / 1000.0 - 1000.0,
        };
        let values: Vec<f64> = (0..8).map(|at| one(at, &mut random)).collect();
        all.push((number as u32, values.iter().flat_map(|value| value.to_le_bytes()).collect()));
    }
    all
}
