//! Matrix multiplication on tensor cores, as a ladder with one idea per file, explained in `docs/matmul-ladder.md`.

pub mod ladder;
pub mod r01_mma_sync;
pub mod r02_wgmma;
pub mod r03_tma;
pub mod r04_specialised;
pub mod r05_two_consumers;
pub mod r06_persistent;
pub mod r07_tma_store;
pub mod r08_cluster;
