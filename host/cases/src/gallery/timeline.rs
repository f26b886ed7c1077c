//! When and where the blocks or warps of a launch ran.

use anyhow::{Result, ensure};

/// The records of each block or warp of a launch. Times are in nanoseconds after the first start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeline {
    /// The recording unit: `block` or `warp`.
    pub unit: &'static str,
    /// Units per block.
    pub of_block: usize,
    /// The multiprocessor of each.
    pub multiprocessors: Vec<u32>,
    /// The position of each in the order of their starts.
    pub tickets: Vec<u32>,
    /// The start of each.
    pub starts: Vec<u64>,
    /// The end of each.
    pub ends: Vec<u64>,
}

impl Timeline {
    /// Makes times relative to the first start.
    ///
    /// # Errors
    /// The records differ in number, a ticket is missing or duplicate, or a unit ended before it began.
    pub fn checked(mut self) -> Result<Self> {
        let Self { multiprocessors, tickets, starts, ends, .. } = &mut self;
        let count = tickets.len();
        ensure!(
            count > 0 && [multiprocessors.len(), starts.len(), ends.len()] == [count; 3],
            "notes of {count} tickets, {} multiprocessors, {} starts and {} ends",
            multiprocessors.len(),
            starts.len(),
            ends.len()
        );
        let mut sorted = tickets.clone();
        sorted.sort_unstable();
        let wrong = sorted.iter().zip(0..).find(|&(&ticket, place)| ticket != place);
        ensure!(
            wrong.is_none(),
            "the tickets are no permutation of 0 to {}: sorted, {wrong:?} differ first",
            count - 1
        );
        let backwards = starts.iter().zip(&*ends).position(|(start, end)| end < start);
        ensure!(backwards.is_none(), "the time of number {backwards:?} runs backwards");
        let first = starts.iter().copied().min().unwrap_or(0);
        starts.iter_mut().chain(ends).for_each(|time| *time -= first);
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeline(tickets: &[u32], ends: &[u64]) -> Timeline {
        let (tickets, ends) = (tickets.to_vec(), ends.to_vec());
        let starts = (0..).map(|i| 100 + 10 * i).take(tickets.len()).collect();
        let multiprocessors = vec![0; tickets.len()];
        Timeline { unit: "block", of_block: 1, multiprocessors, tickets, starts, ends }
    }

    #[test]
    fn times_begin_with_the_first_start() {
        let checked = timeline(&[1, 0, 2], &[105, 120, 133]).checked().unwrap();
        assert_eq!((checked.starts, checked.ends), (vec![0, 10, 20], vec![5, 20, 33]));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let error = |timeline: Timeline| timeline.checked().unwrap_err().to_string();
        let twice = error(timeline(&[0, 2, 2], &[200; 3]));
        assert!(twice.contains("no permutation of 0 to 2: sorted, Some((2, 1))"), "{twice}");
        let backwards = error(timeline(&[0, 1, 2], &[200, 109, 200]));
        assert!(backwards.contains("number Some(1) runs backwards"), "{backwards}");
        assert!(error(timeline(&[0, 1], &[200])).contains("and 1 ends"));
        assert!(error(timeline(&[], &[])).contains("notes of 0 tickets"));
    }
}
