//! Threads that wait for words: each polls them, with the ordering of the loads in its condition.

use core::sync::atomic::Ordering;

use super::super::super::channel;
use super::super::super::context::Request;
use super::super::encoding::Word;
use super::super::quiet::Looks;
use super::super::sleep;
use super::{Site, Waiter};

impl Waiter<'_> {
    /// Polls until `is_over`, in a cooperative grid. The thread has noted where it waits.
    pub(super) fn wait_quietly(&self, request: &Request, is_over: impl Fn() -> bool) {
        let table = self.table;
        let Some(quiet) = table.quiet else { return };
        let ask = &table.waiters[self.number as usize].ask;
        table.lock.take();
        ask.put(request.collective);
        table.lock.free();
        quiet.begin_wait();
        let mut looks = Looks::default();
        while !is_over() {
            self.look_for_end(request);
            if quiet.has_looked(&mut looks) {
                table.stop.store(true, Ordering::Relaxed);
            }
            sleep::between_looks();
        }
        quiet.end_wait();
        table.lock.take();
        ask.set(Word::RUNS);
        table.lock.free();
    }

    /// Notes where the thread waits, before it notes that it waits.
    #[inline]
    pub(super) fn say_where(&self, request: &Request) {
        let waiter = &self.table.waiters[self.number as usize];
        // SAFETY: the thread runs, so no other thread reads or writes the site.
        unsafe { *waiter.site.get() = Some(Site { name: request.name, location: request.location }) };
        waiter.written.fetch_add(1, Ordering::Release);
    }

    /// Ends a waiting thread if the grid ends, and the grid if it is over its time limit.
    #[inline]
    pub(super) fn look_for_end(&self, request: &Request) {
        let table = self.table;
        if table.stop.load(Ordering::Relaxed) {
            self.is_abandoned.set(true);
            channel::abandon();
        }
        let (block, thread) = table.place(self.number);
        if !cfg!(miri)
            && let Some(clock) = block.grid.clock.filter(|clock| clock.has_expired())
        {
            table.fail(block.fault_of(Some(thread), Some(request.location.into()), clock.fault()));
        }
    }
}
