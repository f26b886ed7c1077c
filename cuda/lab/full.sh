#!/bin/sh
# All that the lab checks, on this machine: hours. Results go to docs/results.
set -eu
cd "$(dirname "$0")"
export CARGO_INCREMENTAL=0
cargo fmt --all --check
cargo clippy --workspace --all-targets -- -D warnings
cargo test --workspace
cargo run --quiet --package lab -- differ --programs "${1:-10000}" --write
