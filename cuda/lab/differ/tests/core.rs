//! `core` as each back end compiles it: sorts of every length up to 100, and enums by value.

use std::path::Path;

use differ::compile::Settings;
use differ::crates;

#[test]
fn sorts_and_enums_are_the_hosts_at_level_3() {
    compare(3);
}

#[test]
fn sorts_and_enums_are_the_hosts_at_level_1() {
    compare(1);
}

fn compare(opt_level: u8) {
    let settings =
        Settings::new(opt_level, Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("core-{opt_level}")));
    let outcomes = crates::compare(&["core".to_owned()], &settings).unwrap();
    assert_eq!(outcomes.len(), 2);
    for outcome in outcomes {
        assert_eq!(outcome.cases, 5 * 500 + 300);
        let first: Vec<_> = outcome.differences.iter().take(5).map(ToString::to_string).collect();
        assert!(first.is_empty(), "{}, level {opt_level}: {}", outcome.backend, first.join("; "));
    }
}
