//! A registry crate that parses inside a kernel.

use cuda_std::prelude::*;
use nom::branch::alt;
use nom::bytes::complete::tag;
use nom::character::complete::{char, i32, space0};
use nom::combinator::{map, value};
use nom::sequence::{delimited, separated_pair};
use nom::{IResult, Parser};

/// `x: -12`, a name of one letter and its value, or `none`.
fn field(text: &[u8]) -> IResult<&[u8], Option<(u8, i32)>, ()> {
    let letter = alt((value(b'x', char('x')), value(b'y', char('y'))));
    let colon = delimited(space0, char(':'), space0);
    alt((value(None, tag("none")), map(separated_pair(letter, colon, i32), Some))).parse(text)
}

/// Parses one line of `width` bytes per thread into a name (the letter, 0 for `none`, 255 for a bad line) and a value.
#[kernel]
#[allow(improper_ctypes_definitions, clippy::missing_safety_doc)]
pub unsafe fn parse_lines(text: &[u8], width: usize, names: *mut u8, values: *mut i32) {
    let i = thread::index_1d() as usize;
    if i >= text.len() / width {
        return;
    }
    let line = text[i * width..(i + 1) * width].trim_ascii_end();
    let (name, value) = match field(line) {
        Ok(([], Some(field))) => field,
        Ok(([], None)) => (0, 0),
        _ => (255, 0),
    };
    *names.add(i) = name;
    *values.add(i) = value;
}
