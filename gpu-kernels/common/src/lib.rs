//! What the kernels of several operations share: element types and sums.

#![no_std]

pub mod element;
pub mod sum;
