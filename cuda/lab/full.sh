#!/bin/sh
# All that the lab checks, on this machine: hours. Results go to docs/results.
set -eu
cd "$(dirname "$0")"
export CARGO_INCREMENTAL=0
cargo fmt --all --check
cargo clippy --workspace --all-targets -- -D warnings
cargo test --workspace
for part in planted crates "programs --programs ${1:-10000}"; do
    # A word each.
    # shellcheck disable=SC2086
    cargo run --release --quiet --package differ --bin differ -- $part --write
done
