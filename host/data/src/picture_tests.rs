//! Pictures of every colour type, too large ones and damaged ones.

use std::io::Cursor;
use std::ops::Range;

use super::*;

/// A PNG of 12 x 16 pixels with a rectangle of full ink from (2, 4) to (4, 10).
fn png(colour: png::ColorType, paper: &[u8], ink: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, 12, 16);
    encoder.set_color(colour);
    encoder.set_depth(png::BitDepth::Eight);
    let pixels: Vec<u8> = (0..16 * 12)
        .flat_map(|i| {
            let (x, y) = (i % 12, i / 12);
            if (2..4).contains(&x) && (4..10).contains(&y) { ink } else { paper }.to_vec()
        })
        .collect();
    encoder.write_header().unwrap().write_image_data(&pixels).unwrap();
    bytes
}

fn digit(bytes: Vec<u8>) -> Vec<u8> {
    Picture::decode(Cursor::new(bytes)).unwrap().to_digit(28).unwrap()
}

#[test]
fn a_stroke_of_any_colour_is_centred_and_fills_its_box() {
    let wanted = digit(png(png::ColorType::Grayscale, &[0], &[255]));
    for colours in [
        png(png::ColorType::Grayscale, &[255], &[0]),
        png(png::ColorType::Grayscale, &[200], &[40]),
        png(png::ColorType::Rgb, &[255, 255, 255], &[0, 0, 160]),
        png(png::ColorType::GrayscaleAlpha, &[0, 0], &[0, 255]),
        png(png::ColorType::GrayscaleAlpha, &[255, 0], &[255, 255]),
        png(png::ColorType::Rgba, &[9, 9, 9, 0], &[250, 240, 230, 255]),
    ] {
        assert_eq!(digit(colours), wanted);
    }
    let inked: Vec<(usize, usize)> =
        (0..28 * 28).filter(|&i| wanted[i] > 127).map(|i| (i % 28, i / 28)).collect();
    let (rows, cols): (Vec<_>, Vec<_>) = inked.iter().map(|&(x, y)| (y, x)).unzip();
    assert_eq!((rows.iter().min(), rows.iter().max()), (Some(&4), Some(&23)));
    // Two columns of six rows, scaled by 20 / 6: 6.7 columns around the middle.
    assert_eq!((cols.iter().min(), cols.iter().max()), (Some(&11), Some(&16)));
    assert_eq!(wanted[14 * 28 + 14], 255);
}

/// A stroke of ink on black paper, over these rows and columns of a picture of this width and height.
fn stroke(rows: Range<usize>, cols: Range<usize>, (width, height): (usize, usize)) -> Picture {
    let ink = |i: usize| 200 * u8::from(rows.contains(&(i / width)) && cols.contains(&(i % width)));
    Picture::from_light((0..width * height).map(ink).collect(), width, height)
}

#[test]
fn a_picture_like_mnist_s_is_used_unchanged() {
    for (rows, cols) in [(4..24, 12..16), (5..24, 11..15), (13..15, 4..24)] {
        let picture = stroke(rows, cols, (28, 28));
        assert_eq!(picture.to_digit(28).unwrap(), picture.ink);
    }
    assert_ne!(stroke(10..18, 12..14, (28, 28)).to_digit(28).unwrap(), stroke(10..18, 12..14, (28, 28)).ink);
    // A border makes no difference.
    let wanted = stroke(8..36, 20..24, (44, 44)).to_digit(28).unwrap();
    for (rows, cols, size) in [(0..28, 12..16, (28, 28)), (0..28, 2..6, (28, 28)), (9..37, 1..5, (90, 50))] {
        assert_eq!(stroke(rows, cols, size).to_digit(28).unwrap(), wanted);
    }
}

#[test]
fn on_blank_paper_there_is_nothing_to_see() {
    assert_eq!(Picture::from_light(vec![255; 50], 5, 10).to_digit(4), None);
    assert_eq!(Picture::from_light(vec![7], 1, 1).to_digit(4), None);
    let dust = (0..28 * 28).map(|i| 250 + (i % 6) as u8).collect();
    assert_eq!(Picture::from_light(dust, 28, 28).to_digit(28), None);
}

/// A PNG of 4 x 4 pixels with this palette, all in its first colour.
fn indexed(palette: &[u8], alphas: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, 4, 4);
    encoder.set_color(png::ColorType::Indexed);
    encoder.set_palette(palette);
    encoder.set_trns(alphas);
    encoder.write_header().unwrap().write_image_data(&[0; 16]).unwrap();
    bytes
}

#[test]
fn palettes_are_whole_colours_with_an_alpha_each_at_most() {
    for (palette, alphas) in [(3, 0), (3, 1), (768, 256), (6, 1)] {
        let picture = Picture::decode(Cursor::new(indexed(&vec![7; palette], &vec![255; alphas])));
        assert_eq!(picture.unwrap().ink, [7; 16], "{palette} bytes, {alphas} alphas");
    }
    for (palette, alphas) in [(1, 0), (2, 0), (61, 0), (767, 0), (771, 0), (3, 2), (6, 256)] {
        let picture = Picture::decode(Cursor::new(indexed(&vec![7; palette], &vec![255; alphas])));
        let told = picture.expect_err("a palette that is none").to_string();
        assert!(
            told.contains("palette") || told.contains("PLTE"),
            "{palette} bytes, {alphas} alphas: {told}"
        );
    }
}

#[test]
fn damage_is_an_error_wherever_it_is() {
    let good = png(png::ColorType::Rgb, &[255, 255, 255], &[0, 0, 0]);
    for at in 0..good.len() {
        assert!(Picture::decode(Cursor::new(&good[..at])).is_err() || at > good.len() - 13, "{at}");
        let mut damaged = good.clone();
        damaged[at] ^= 0x55;
        // Any result is fine, but it must not panic.
        let _ = Picture::decode(Cursor::new(damaged)).map(|picture| picture.to_digit(28));
    }
}

/// The start of a PNG file that claims 20000 x 20000 pixels.
#[test]
fn a_picture_too_large_is_not_called_damaged() {
    let header = b"IHDR\0\0\x4e\x20\0\0\x4e\x20\x08\0\0\0\0";
    let mut crc = flate2::Crc::new();
    crc.update(header);
    let parts: [&[u8]; 5] =
        [b"\x89PNG\r\n\x1a\n", &13_u32.to_be_bytes(), header, &crc.sum().to_be_bytes(), b"\0\0\0\x0aIDAT"];
    let large = parts.concat();
    let error = Picture::from_png(Cursor::new(large), Path::new("large.png")).unwrap_err();
    let text = "large.png takes more than 256 MiB of memory; scale the picture down";
    assert_eq!(error.to_string(), text);
}
