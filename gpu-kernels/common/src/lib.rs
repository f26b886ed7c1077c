//! What the kernels of several operations share: element types, rings of stages, and sums.

#![no_std]

pub mod element;
pub mod ring;
pub mod sum;
