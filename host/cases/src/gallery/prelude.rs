//! What the lessons have in common.

pub(super) use std::sync::Arc;
pub(super) use std::time::Duration;

pub(super) use anyhow::Result;
pub(super) use cuda_std::launch::{LaunchConfig, Launcher};
pub(super) use ferrowarp::device::Device;
pub(super) use gpu_kernels::gallery::Rung;

pub(super) use super::numbers::{
    WARP, elements, gelu, number, numbers, numbers_as, passes, rounded, sum, word,
};
pub(super) use super::problem::{Arrays, Placed, Problem};
pub(super) use super::timeline::Timeline;
pub(super) use super::trial::{Scale, Timed, Trial, Work, each};
pub(super) use crate::compare::Bound;
pub(super) use crate::reference::Sum;
