//! What the kernels of several operations share: element types, rings of stages, sums, and unaligned vectors.

#![no_std]

pub mod element;
pub mod ring;
pub mod sum;
pub mod unaligned;
