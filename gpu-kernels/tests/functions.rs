//! Tests of functions that need no launch. They are here and not next to the functions, because a test build of the crate
//! would compile every kernel again.

use gpu_kernels::matmul::tile_order::grouped;
use gpu_kernels::softmax::sample::noise::{Noise, philox4x32_10};
use gpu_kernels::softmax::top_k::key::{Key, column, key, value};

/// The test vectors of Random123's file `kat_vectors`.
#[test]
fn words_are_those_of_the_paper_s_authors() {
    for (counter, key, words) in [
        ([0; 4], [0; 2], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]),
        ([u32::MAX; 4], [u32::MAX; 2], [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]),
        (
            [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
            [0xa409_3822, 0x299f_31d0],
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
        ),
    ] {
        assert_eq!(philox4x32_10(counter, key), words);
    }
}

#[test]
fn rows_draws_seeds_chunks_and_rounds_have_words_of_their_own() {
    let noise = Noise { seed: 1 << 40 | 5, draw: 3 << 33 | 1, row: 9 };
    let others = [Noise { seed: 5, ..noise }, Noise { draw: 1, ..noise }, Noise { row: 8, ..noise }];
    let [seed, draw, row] = others.map(|other| other.words(0, 0));
    let [a, b, c, d, e, f] =
        [(0, 0), (1, 0), (0, 1), (0, 2), (0, 3), (1, 3)].map(|(chunk, round)| noise.words(chunk, round));
    let words = [seed, draw, row, a, b, c, d, e, f];
    for (i, word) in words.iter().enumerate() {
        assert!(!words[..i].contains(word), "{i}");
    }
}

#[test]
fn noise_is_finite_and_the_uniform_number_below_1() {
    assert!(Noise::of(u32::MAX) < -2.8 && Noise::of(0) > 22.8 && Noise::of(0) < 23.0);
    assert_eq!(Noise::uniform(u32::MAX), 1.0f32.next_down());
}

#[test]
fn keys_are_ordered_as_elements_and_then_columns() {
    let inf = f32::INFINITY;
    let ascending = [-inf, f32::MIN, -1.0, -f32::MIN_POSITIVE, 0.0, 1e-45, 1.0, f32::MAX, inf, f32::NAN];
    for pair in ascending.windows(2) {
        assert!(key(pair[0], 0) < key(pair[1], u32::MAX - 1), "{pair:?}");
    }
    for x in ascending {
        assert!(key(x, 7) > key(x, 8) && key(x, u32::MAX - 1) > 0, "{x}");
        assert_eq!((value(key(x, 7)).to_bits() == x.to_bits() || x.is_nan(), column(key(x, 7))), (true, 7));
    }
    assert_eq!(key(-0.0, 3), key(0.0, 3));
    assert!(value(key(-f32::NAN, 3)).is_nan());
}

#[test]
fn keys_of_32_bits_are_those_of_64() {
    let numbers =
        [f32::NEG_INFINITY, -65_504.0, -1.5, -5.960_464_5e-8, -0.0, 0.0, 5.960_464_5e-8, 1.5, f32::INFINITY];
    let of = |x, col| (u32::gathered(x, col).compared(), u64::gathered(x, col).compared());
    for x in numbers {
        for col in [0, 1, 1022, 1023] {
            assert_eq!(of(x, col).0.whole(), key(x, col), "{x} {col}");
            assert_eq!(of(x, col).1, key(x, col), "{x} {col}");
            for y in numbers {
                let (a, b) = (of(x, col), of(y, 7));
                assert_eq!(a.0.cmp(&b.0), a.1.cmp(&b.1), "{x} {y}");
            }
        }
    }
}

#[test]
fn every_tile_comes_once() {
    for shape @ [down, across] in [[1, 1], [7, 3], [8, 5], [9, 2], [17, 31]] {
        let mut tiles: Vec<_> = (0..down * across).map(|tile| grouped(tile, shape)).collect();
        tiles.sort_unstable();
        let all = (0..down).flat_map(|row| (0..across).map(move |col| [row, col]));
        assert!(tiles.into_iter().eq(all), "{shape:?}");
    }
}

#[test]
fn a_group_goes_down_before_it_goes_across() {
    assert_eq!([0, 1, 7, 8].map(|tile| grouped(tile, [20, 3])), [[0, 0], [1, 0], [7, 0], [0, 1]]);
    assert_eq!(grouped(24, [20, 3]), [8, 0]);
}
