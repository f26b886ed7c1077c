//! The puzzles as a reader gets them.

mod p01_add_ten;
mod p09_row_scale;
mod p13_warp_sum;
