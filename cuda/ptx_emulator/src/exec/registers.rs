//! `setmaxnreg`: the warps of a block share its registers.

use super::block::{Block, Failed};
use crate::error::Cause;
use crate::instr::WARPGROUP;

impl Block<'_> {
    /// Changes the registers of the threads of a warpgroup, which all execute the instruction. Returns false if the block
    /// does not have enough registers left yet.
    pub fn set_registers(&mut self, first: usize, count: u64, more: bool) -> Result<bool, Failed> {
        let Some(start) = self.registers() else { return Ok(true) };
        let own = self.warpgroups[first / WARPGROUP].registers.unwrap_or(start);
        if more && count < own || !more && count > own {
            let direction = if more { "inc to fewer" } else { "dec to more" };
            let reason = format!("{direction} registers: {count}, the warpgroup has {own}");
            return Err((first, Cause::Registers(reason).into()));
        }
        let (pool, used) = self.register_pool(start);
        let left = pool.saturating_sub(used);
        if more && (count - own) * WARPGROUP as u64 > left {
            return Ok(false);
        }
        self.warpgroups[first / WARPGROUP].registers = Some(count);
        Ok(true)
    }

    /// Why a warpgroup waits forever for registers.
    pub fn why_no_registers(&self, first: usize, count: u64) -> Cause {
        let start = self.registers().unwrap_or_default();
        let own = self.warpgroups[first / WARPGROUP].registers.unwrap_or(start);
        let (pool, used) = self.register_pool(start);
        Cause::Registers(format!(
            "the block has {pool} registers, its warps hold {used}, and this warpgroup waits for {} more; let others give back more",
            count.saturating_sub(own) * WARPGROUP as u64
        ))
    }

    /// The registers that each thread starts with, if the kernel's directives limit them.
    fn registers(&self) -> Option<u64> {
        self.grid.module.functions[self.grid.kernel].bounds.registers()
    }

    /// The registers of the block, and the registers that its warps hold.
    fn register_pool(&self, start: u64) -> (u64, u64) {
        let threads = self.threads.len().next_multiple_of(32);
        let used = self.warpgroups.iter().enumerate().map(|(at, warpgroup)| {
            let of_group = threads.saturating_sub(at * WARPGROUP).min(WARPGROUP) as u64;
            warpgroup.registers.unwrap_or(start) * of_group
        });
        (start * threads as u64, used.sum())
    }
}
