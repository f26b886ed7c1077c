//! What the threads wait for, to explain why no thread can continue.

use super::super::super::fault::Fault;
use super::super::super::stuck::{self, View};
use super::Table;

impl<'a> Table<'a> {
    /// Returns what the threads of a block wait for, for an error.
    #[cold]
    pub(super) fn view(&self, block: u32) -> View<'a> {
        View::new(&self.blocks[block as usize], self.numbers(block).map(|number| self.request(number)))
    }

    /// As above, for all blocks.
    #[cold]
    pub fn views(&self) -> Vec<View<'a>> {
        (0..self.blocks.len() as u32).map(|block| self.view(block)).collect()
    }

    #[cold]
    pub(super) fn why_stuck(&self) -> Fault {
        let views = self.views();
        let in_block = views.iter().find_map(View::why_stuck);
        let fault = in_block.or_else(|| stuck::why_cluster_stuck(&views));
        fault.unwrap_or_else(|| stuck::unknown(&self.blocks[0]))
    }
}
