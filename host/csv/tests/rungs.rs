//! Compares every parser with the numbers that the text was made from, and with the first parser.

use ferrowarp_csv::{Lines, PIXELS, RUNGS};
use proptest::collection::vec;
use proptest::prelude::*;

/// Formats lines, with fields formatted by `field`.
fn text(lines: &[Vec<u8>], end: &str, field: impl Fn(u8) -> String) -> String {
    let line = |line: &Vec<u8>| line.iter().map(|&number| field(number)).collect::<Vec<_>>().join(",") + end;
    lines.iter().map(line).collect()
}

/// Parses the text with every parser, and checks that all agree.
fn parsed(text: &[u8]) -> Result<Lines, String> {
    let results: Vec<_> = RUNGS.iter().map(|rung| (rung.parse)(text, 10)).collect();
    for (rung, result) in RUNGS.iter().zip(&results) {
        assert_eq!(result, &results[0], "{} on {:?}", rung.name, String::from_utf8_lossy(text));
    }
    let of_first = results[0].clone();
    of_first.map_err(|bad| format!("{}:{}: {}", bad.line, bad.column, bad.problem))
}

/// Labels and pixels, mostly 0, otherwise of any value.
fn lines() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let pixel = prop_oneof![6 => Just(0u8), 1 => Just(255), 1 => 1u8..10, 2 => any::<u8>()];
    let line = (0u8..10, vec(pixel, PIXELS)).prop_map(|(label, mut line)| {
        line.insert(0, label);
        line
    });
    vec(line, 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 40 }, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn numbers_come_back(lines in lines(), end in prop_oneof![Just("\n"), Just("\r\n"), Just("\r"), Just("\n\n"), Just(" \n")],
                         header in prop_oneof![Just(""), Just("label,1x1\n"), Just("\u{feff}"), Just("\"label\"\n")], ended in any::<bool>()) {
        let header = if end == "\r" { header.replace('\n', "\r") } else { header.to_owned() };
        let mut text = header + &text(&lines, end, |number| number.to_string());
        if !ended {
            text.truncate(text.trim_end().len());
        }
        let want = Lines {
            labels: lines.iter().map(|line| line[0]).collect(),
            pixels: lines.iter().flat_map(|line| &line[1..]).copied().collect(),
        };
        prop_assert_eq!(parsed(text.as_bytes()), Ok(want));
    }

    #[test]
    fn any_form_is_taken_alike(lines in lines(), zeros in 0usize..5, before in "[ \t]{0,2}", after in "[ \t\r]{0,2}") {
        let form = |number: u8| format!("{before}{}{number}{after}", "0".repeat(zeros));
        prop_assert!(parsed(text(&lines, "\n", form).as_bytes()).is_ok());
    }

    /// Replaces a byte anywhere, or inserts a few.
    #[test]
    fn damage_is_told_alike(lines in lines(), place in any::<prop::sample::Index>(), cut in 0usize..3,
                            put in prop_oneof![vec(any::<u8>(), 0..4), "[0-9,.+\\- \r\n\"]{0,4}".prop_map(String::into_bytes)]) {
        let mut text = text(&lines, "\n", |number| number.to_string()).into_bytes();
        let at = place.index(text.len());
        text.splice(at..(at + cut).min(text.len()), put);
        let _told = parsed(&text);
    }
}

/// A text of two valid lines, except for this field in the given column of the second.
fn with_field(column: usize, field: &str) -> String {
    let mut second = vec!["0".to_owned(); PIXELS + 1];
    second[column - 1] = field.to_owned();
    format!("1{}\n{}\n", ",7".repeat(PIXELS), second.join(","))
}

#[test]
fn bad_fields_are_told() {
    for field in [
        "256", "999", "1000", "-1", "+1", "", " ", "1.5", "1e2", "\"5\"", "x", "5x", "5 5", "\u{e9}", "nan",
        "00256",
    ] {
        for column in [2, 3, 400, 784, 785] {
            let shown = field.trim().escape_debug();
            let want = format!("1:{column}: `{shown}` is not a pixel from 0 to 255");
            assert_eq!(parsed(with_field(column, field).as_bytes()), Err(want));
        }
    }
    let want = "1:1: `10` is not a label from 0 to 9".to_owned();
    assert_eq!(parsed(with_field(1, "10").as_bytes()), Err(want));
}

#[test]
fn good_fields_of_other_forms_are_taken() {
    for field in ["0007", " 7", "7 ", "\t7", "07"] {
        for column in [1, 2, 400, 785] {
            let lines = parsed(with_field(column, field).as_bytes()).unwrap();
            let number = if column == 1 { lines.labels[1] } else { lines.pixels[PIXELS + column - 2] };
            assert_eq!(number, 7, "{field:?} at {column}");
        }
    }
}

/// Tests one field too few or too many, with all alignments of the eight-byte words.
#[test]
fn the_number_of_fields_is_told() {
    for digits in ["0", "12", "123", "7"] {
        for first in ["1", "12", "255"] {
            let line = |pixels: usize| format!("3,{first}{}", format!(",{digits}").repeat(pixels - 1));
            assert!(parsed(line(PIXELS).as_bytes()).is_ok());
            let short = "0:785: the line ends after 784 fields, expected a label and 784 pixels".to_owned();
            assert_eq!(parsed(line(PIXELS - 1).as_bytes()), Err(short));
            let long = "0:786: one field too many, expected a label and 784 pixels".to_owned();
            assert_eq!(parsed(line(PIXELS + 1).as_bytes()), Err(long.clone()));
            assert_eq!(parsed((line(PIXELS) + ",").as_bytes()), Err(long));
            let empty = "0:785: `` is not a pixel from 0 to 255".to_owned();
            assert_eq!(parsed((line(PIXELS - 1) + ",").as_bytes()), Err(empty));
        }
    }
}

#[test]
fn nothing_is_no_lines() {
    for text in ["", "\n\n", "label,1x1\n", "label", "\r\n \r\n", "\u{feff}"] {
        assert_eq!(parsed(text.as_bytes()), Ok(Lines::default()), "{text:?}");
    }
}
