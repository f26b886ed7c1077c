//! SHA-2 of every length from 0 to 300 bytes, at once and in pieces, as each back end compiles it at each level.
//!
//! Without our edits, libNVVM 13.5.37 computes a wrong SHA-512 if the length mod 128 is 112 to 127. It treats all but
//! the first of the zeros that fill the second block of the padding as overwritten. See docs/compiler.md, "Two back
//! ends".

use std::path::Path;

use differ::compile::Settings;
use differ::crates;

/// Two tests, which run side by side.
#[test]
fn every_length_at_levels_0_and_3() {
    compare([0, 3]);
}

#[test]
fn every_length_at_levels_1_and_2() {
    compare([1, 2]);
}

fn compare(opt_levels: [u8; 2]) {
    for opt_level in opt_levels {
        let settings = Settings::new(
            opt_level,
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("sha2-{}", opt_levels[0])),
        );
        let outcomes = crates::compare(&["sha2".to_owned()], &settings).unwrap();
        assert_eq!(outcomes.len(), 2);
        for outcome in outcomes {
            // Eight kernels: four digests, at once and in pieces.
            assert_eq!(outcome.cases, 8 * 301);
            let first: Vec<_> = outcome.differences.iter().take(5).map(ToString::to_string).collect();
            assert!(first.is_empty(), "{}, level {opt_level}: {}", outcome.backend, first.join("; "));
        }
    }
}
