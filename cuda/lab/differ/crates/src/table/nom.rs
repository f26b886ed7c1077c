//! nom: a parser of expressions, built from functions that return functions.

use ::nom::branch::alt;
use ::nom::bytes::complete::tag;
use ::nom::character::complete::{char, digit1, one_of, space0};
use ::nom::combinator::{map_res, opt, recognize};
use ::nom::multi::fold_many0;
use ::nom::sequence::{delimited, pair};
use ::nom::{IResult, Parser};

#[cfg(not(target_arch = "nvptx64"))]
use crate::inputs::Case;

use super::out::Out;

#[cfg(not(target_arch = "nvptx64"))]
pub fn texts() -> Vec<Case> {
    let mut all: Vec<String> = ["", "1", "-7", "1+2*3", "(1+2)*3", " ( 4 - 5 ) ", "2*", "9/0", "((((1))))", "max+1", "1 2"]
        .map(str::to_owned)
        .to_vec();
    let mut random = crate::inputs::Random::new(9);
    for _ in 0..60 {
        let mut text = String::new();
        for _ in 0..random.word() % 9 {
            let parts = ["1", "(2+", "37*", "-", "4)", " ", "/3", "max", "123456789012345678901"];
            text.push_str(parts[random.word() as usize % parts.len()]);
        }
        all.push(text);
    }
    crate::inputs::texts(all)
}

fn value(depth: u32) -> impl FnMut(&str) -> IResult<&str, i64> {
    move |text| {
        let number = map_res(recognize(pair(opt(char('-')), digit1)), str::parse::<i64>);
        let named = map_res(tag("max"), |_| Ok::<_, ()>(i64::MAX));
        let inner = move |text| if depth == 0 { number_only(text) } else { sum(depth - 1)(text) };
        let nested = delimited(char('('), inner, char(')'));
        delimited(space0, alt((number, named, nested)), space0).parse(text)
    }
}

fn number_only(text: &str) -> IResult<&str, i64> {
    map_res(digit1, str::parse::<i64>).parse(text)
}

fn product(depth: u32) -> impl FnMut(&str) -> IResult<&str, i64> {
    move |text| {
        let (text, first) = value(depth)(text)?;
        let apply = |left: i64, (operator, right): (char, i64)| match operator {
            '*' => left.wrapping_mul(right),
            _ => left.checked_div(right).unwrap_or(-1),
        };
        fold_many0(pair(one_of("*/"), value(depth)), move || first, apply).parse(text)
    }
}

fn sum(depth: u32) -> impl FnMut(&str) -> IResult<&str, i64> {
    move |text| {
        let (text, first) = product(depth)(text)?;
        let apply = |left: i64, (operator, right): (char, i64)| match operator {
            '+' => left.wrapping_add(right),
            _ => left.wrapping_sub(right),
        };
        fold_many0(pair(one_of("+-"), product(depth)), move || first, apply).parse(text)
    }
}

pub fn expression(input: &[u8], _: u32, output: &mut [u8]) {
    let text = core::str::from_utf8(input).unwrap_or("");
    let mut out = Out::new(output);
    match sum(3)(text) {
        Ok((rest, value)) => {
            out.number(value as u64);
            out.bytes(&[rest.len() as u8]);
        }
        Err(_) => out.bytes(b"refused"),
    }
}
