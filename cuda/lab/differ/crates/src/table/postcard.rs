//! postcard with serde: derived code, numbers of varying length, enums with data.

use serde::{Deserialize, Serialize};

use super::out::{Out, array};

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Shape<'a> {
    Nothing,
    Circle(f32),
    Rectangle { width: u16, height: i16 },
    Named(&'a str, Option<u8>),
    Bytes(&'a [u8]),
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Message<'a> {
    id: u64,
    signed: i128,
    flags: (bool, [u8; 3]),
    #[serde(borrow)]
    shape: Shape<'a>,
    sign: char,
}

pub fn round(input: &[u8], number: u32, output: &mut [u8]) {
    let shape = match number % 5 {
        0 => Shape::Nothing,
        1 => Shape::Circle(number as f32 * 0.5),
        2 => Shape::Rectangle { width: number as u16 * 7, height: -(number as i16) },
        3 => Shape::Named("an é", Some(input[1]).filter(|byte| byte % 2 == 0)),
        _ => Shape::Bytes(&input[..number as usize % 40]),
    };
    let message = Message {
        id: u64::from_le_bytes(array(input, 0)) >> (number % 64),
        signed: i128::from_le_bytes(array(input, 8)) >> (number % 128),
        flags: (input[3] > 7, array(input, 20)),
        shape,
        sign: char::from_u32(number * 1000).unwrap_or('x'),
    };
    let mut buffer = [0; 112];
    let mut out = Out::new(output);
    match postcard::to_slice(&message, &mut buffer) {
        Ok(bytes) => {
            out.bytes(bytes);
            let is_same = postcard::from_bytes::<Message<'_>>(bytes).is_ok_and(|back| back == message);
            out.bytes(&[u8::from(is_same)]);
        }
        Err(_) => out.bytes(b"too long"),
    }
}

/// Bytes that are no message, most of the time.
pub fn parse(input: &[u8], _: u32, output: &mut [u8]) {
    let mut out = Out::new(output);
    let mut rest = input;
    while !rest.is_empty() {
        rest = match postcard::take_from_bytes::<Shape<'_>>(rest) {
            Ok((shape, tail)) => {
                match shape {
                    Shape::Nothing => out.bytes(b"-"),
                    Shape::Circle(radius) => out.single(radius),
                    Shape::Rectangle { width, height } => out.number(u64::from(width) ^ (height as u64)),
                    Shape::Named(name, letter) => out.bytes(&[name.len() as u8, letter.unwrap_or(0)]),
                    Shape::Bytes(bytes) => out.bytes(bytes),
                }
                tail
            }
            Err(_) => {
                out.bytes(b"!");
                &rest[1..]
            }
        };
    }
}
