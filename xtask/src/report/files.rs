//! The files of runs on the command line.

use std::path::PathBuf;

use anyhow::ensure;

use crate::report::results::{Entry, Results, Run, Timed};

/// The files of one run, or of several of the same commit: what was timed more than once counts as in the last run.
#[derive(clap::Args)]
pub struct Files {
    /// What the bench left in criterion's folder; again for every further run
    #[arg(long, value_name = "FILE")]
    pub ours: Vec<PathBuf>,

    /// What the peers' script wrote in the same run, in the same order; the files beyond those runs belong to the last one
    #[arg(long, value_name = "FILE", requires = "ours")]
    pub peers: Vec<PathBuf>,
}

impl Files {
    /// Merges the runs of the given files.
    pub fn runs<E: Entry>(&self) -> anyhow::Result<Option<Results<E>>> {
        let (ours, peers) = (self.ours.len(), self.peers.len());
        ensure!(
            peers == 0 || peers >= ours,
            "--ours is given {ours} times, --peers {peers} times; give both files of each run"
        );
        let mut results: Option<Results<E>> = None;
        for (n, ours) in self.ours.iter().enumerate() {
            let end = if n + 1 == self.ours.len() { peers } else { (n + 1).min(peers) };
            let mut run = Results::merge(Run::read(ours)?, None)?;
            for path in &self.peers[n.min(peers)..end] {
                run.add_peers(Run::read(path)?)?;
            }
            results = Results::after(results, run)?;
        }
        Ok(results)
    }
}

/// Runs in which the contenders of a problem took turns.
#[derive(clap::Args)]
pub struct Turns {
    /// What the script wrote; again for every further run of the same commit and machine. Contenders are compared with ours of
    /// their run; of ours, the last run is shown
    #[arg(long, value_name = "FILE")]
    pub runs: Vec<PathBuf>,
}

impl Turns {
    /// Merges the runs, with the entries for which `is_ours` holds apart from the others.
    pub fn runs(&self, is_ours: fn(&Timed) -> bool) -> anyhow::Result<Option<Results<Timed>>> {
        let mut results = None;
        for (number, path) in self.runs.iter().enumerate() {
            let mut run: Run<Timed> = Run::read(path)?;
            run.entries.iter_mut().for_each(|entry| entry.run = number);
            let (ours, peers) = run.entries.into_iter().partition(is_ours);
            let (versions, missing) = (run.versions.clone(), run.missing.clone());
            let run = Results::merge(Run { entries: ours, ..run }, None)?;
            results = Results::after(results, Results { peers, versions, missing, ..run })?;
        }
        Ok(results)
    }
}
