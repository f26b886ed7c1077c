//! uuid: identifiers as text and back.

use ::uuid::{Builder, Uuid, Variant};

#[cfg(not(target_arch = "nvptx64"))]
use crate::inputs::Case;

use super::out::{Out, array};

#[cfg(not(target_arch = "nvptx64"))]
pub fn texts() -> Vec<Case> {
    let mut random = crate::inputs::Random::new(4);
    let mut all = vec![String::new(), "urn:uuid:".to_owned(), "{}".to_owned(), "00000000-0000-0000-0000".to_owned()];
    for number in 0..80 {
        let id = Uuid::from_u128(u128::from(random.word()) << 64 | u128::from(random.word()));
        let mut buffer = Uuid::encode_buffer();
        let text = match number % 5 {
            0 => id.simple().encode_lower(&mut buffer),
            1 => id.hyphenated().encode_upper(&mut buffer),
            2 => id.urn().encode_lower(&mut buffer),
            3 => id.braced().encode_upper(&mut buffer),
            _ => id.hyphenated().encode_lower(&mut buffer),
        };
        let mut text = text.to_owned();
        if number % 7 == 6 {
            let at = random.word() as usize % text.len();
            text.replace_range(at..at + 1, "-");
        }
        all.push(text);
    }
    crate::inputs::texts(all)
}

pub fn text(input: &[u8], number: u32, output: &mut [u8]) {
    let id = match number % 3 {
        0 => Builder::from_random_bytes(array(input, 0)).into_uuid(),
        1 => Uuid::from_bytes_le(array(input, 0)),
        _ => Uuid::from_slice(input).unwrap_or_default(),
    };
    let mut out = Out::new(output);
    let mut buffer = Uuid::encode_buffer();
    out.bytes(id.urn().encode_lower(&mut buffer).as_bytes());
    out.bytes(id.simple().encode_upper(&mut buffer).as_bytes());
    out.bytes(&[id.get_version_num() as u8, u8::from(id.get_variant() == Variant::RFC4122)]);
}

pub fn parse(input: &[u8], _: u32, output: &mut [u8]) {
    let mut out = Out::new(output);
    match Uuid::try_parse_ascii(input) {
        Ok(id) => out.bytes(id.as_bytes()),
        Err(_) => out.bytes(b"no uuid"),
    }
}
