//! Rust's own operators on floats and narrow integers, signs of NaNs and atomic operations, as each back end compiles them at
//! each level.

use std::path::Path;

use differ::compile::Settings;
use differ::crates;

#[test]
fn remainders_signs_limits_and_atomics_are_those_of_the_host() {
    for opt_level in [0, 1, 3] {
        let settings = Settings::new(opt_level, Path::new(env!("CARGO_TARGET_TMPDIR")).join("arithmetic"));
        let outcomes = crates::compare(&["arithmetic", "exact"].map(str::to_owned), &settings).unwrap();
        assert_eq!(outcomes.len(), 2);
        for outcome in outcomes {
            let cases = 2 * (26 * 26 + 600) + 12 * 12 + 100 + 300 + 12 * 12 + 2 * 256 + 2 * 256 + 96;
            assert_eq!(outcome.cases, cases);
            let first: Vec<_> = outcome.differences.iter().take(5).map(ToString::to_string).collect();
            assert!(first.is_empty(), "{}, level {opt_level}: {}", outcome.backend, first.join("; "));
        }
    }
}
