//! Why a collective operation failed.

use std::fmt;
use std::time::Duration;

use cust::nccl::NcclLoadError;

use crate::device::error::DeviceError;

/// Why the ranks did not meet, or an operation between them failed. An operation's error names the operation and this rank.
///
/// After [`Lost`](Self::Lost), [`TimedOut`](Self::TimedOut) and [`Nccl`](Self::Nccl) the communicator is unusable on all
/// ranks: NCCL has aborted it, and the contents of buffers that its operations write are undefined.
///
/// ```
/// use ferrowarp::collective::{CollectiveError, Communicator};
/// use ferrowarp::device::Device;
///
/// let device = Device::cpu();
/// let communicator = Communicator::single(&device);
/// let input = device.upload(&[1.0f32, 2.0])?;
/// let mut output = device.alloc_zeroed::<f32>(3)?;
/// let error = communicator.all_gather(&device.default_stream(), &input, &mut output).unwrap_err();
/// assert!(matches!(error, CollectiveError::Refused { rank: 0, size: 1, .. }));
/// println!("{error}");
/// # Ok::<(), ferrowarp::device::DeviceError>(())
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CollectiveError {
    /// There is no usable NCCL on this machine.
    #[error(transparent)]
    NoNccl(#[from] NcclLoadError),
    /// The environment does not describe a world.
    #[error("reading the world of this process failed: {reason}")]
    World {
        /// What is wrong, and the fix.
        reason: String,
    },
    /// The ranks did not all find each other.
    #[error("joining the world at {address} failed on rank {rank} of {size}: {reason}")]
    Join {
        /// This rank.
        rank: u32,
        /// The number of ranks.
        size: u32,
        /// Where rank 0 listens, or should.
        address: String,
        /// Who is missing, or what else happened, and the fix.
        reason: String,
    },
    /// The device is the CPU, but there is more than one rank.
    #[error(
        "creating a communicator failed on rank {rank} of {size}: NCCL works on GPUs, and the device is the CPU; open a GPU, \
         or start one process"
    )]
    NotOnCpu {
        /// This rank.
        rank: u32,
        /// The number of ranks.
        size: u32,
    },
    /// An operation has invalid arguments and was not begun.
    #[error("{operation} failed on rank {rank} of {size}: {reason}")]
    Refused {
        /// The operation with its values.
        operation: String,
        /// This rank.
        rank: u32,
        /// The number of ranks.
        size: u32,
        /// What is wrong, and the fix.
        reason: String,
    },
    /// A call of NCCL failed.
    #[error("{operation} failed on rank {rank} of {size}: {status}; NCCL_DEBUG=WARN makes NCCL report more")]
    Nccl {
        /// The operation with its values.
        operation: String,
        /// This rank.
        rank: u32,
        /// The number of ranks.
        size: u32,
        /// NCCL's code, its description, and its last error.
        status: String,
    },
    /// Another rank ended, failed or hung.
    #[error("{operation} failed on rank {rank} of {size}: {lost}")]
    Lost {
        /// The operation with its values.
        operation: String,
        /// This rank.
        rank: u32,
        /// The number of ranks.
        size: u32,
        /// Which rank, and what happened to it.
        lost: LostRank,
    },
    /// An operation took longer than the limit, though every rank has begun it.
    #[error(
        "{operation} failed on rank {rank} of {size}: it did not end within {limit:?}, though all ranks have begun it; check \
         the GPUs and the network between them, or set FERROWARP_COLLECTIVE_SECONDS to wait longer"
    )]
    TimedOut {
        /// The operation with its values.
        operation: String,
        /// This rank.
        rank: u32,
        /// The number of ranks.
        size: u32,
        /// The limit.
        limit: Duration,
    },
    /// The device failed.
    #[error("{operation} failed on rank {rank} of {size}: {source}")]
    Device {
        /// The operation with its values.
        operation: String,
        /// This rank.
        rank: u32,
        /// The number of ranks.
        size: u32,
        /// The device's error.
        source: Box<DeviceError>,
    },
}

impl From<CollectiveError> for DeviceError {
    fn from(error: CollectiveError) -> Self {
        match error {
            CollectiveError::Device { source, .. } => *source,
            other => DeviceError::Work(Box::new(other)),
        }
    }
}

/// A rank that cannot take part in any further operation.
///
/// ```
/// use ferrowarp::collective::{LostRank, RankLoss};
///
/// let lost = LostRank { rank: 3, loss: RankLoss::Ended };
/// assert!(lost.to_string().starts_with("rank 3 has ended"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostRank {
    /// Its number.
    pub rank: u32,
    /// What happened to it.
    pub loss: RankLoss,
}

/// What happened to a rank that is lost.
///
/// ```
/// use ferrowarp::collective::{LostRank, RankLoss};
///
/// let lost = LostRank { rank: 1, loss: RankLoss::Behind { begun: 7 } };
/// assert!(lost.to_string().contains("it has begun 7 operations"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RankLoss {
    /// Its process ended without dropping the communicator.
    Ended,
    /// It dropped the communicator while others still wait for it.
    Left,
    /// An operation failed there.
    Failed,
    /// Nothing was heard from it for longer than the limit.
    Silent,
    /// It is alive but does not begin the operation that others wait for.
    Behind {
        /// The number of operations it has begun.
        begun: u64,
    },
}

impl fmt::Display for LostRank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rank, loss } = self;
        match loss {
            RankLoss::Ended => {
                write!(f, "rank {rank} has ended: its connection is closed; see the output of rank {rank}")
            }
            RankLoss::Left => write!(
                f,
                "rank {rank} has dropped its communicator; let all ranks perform the same operations"
            ),
            RankLoss::Failed => write!(f, "rank {rank} has failed; see the output of rank {rank}"),
            RankLoss::Silent => write!(
                f,
                "rank {rank} is silent: no heartbeat came within the time limit; see whether its process is stopped, or \
                 the network to it broken"
            ),
            RankLoss::Behind { begun } => write!(
                f,
                "rank {rank} hangs or computes for longer than the time limit: it has begun {begun} operations, and others \
                 wait in the next; see what it does, or set FERROWARP_COLLECTIVE_SECONDS to wait longer"
            ),
        }
    }
}

/// Lists ranks in words: "rank 1", "ranks 1, 2 and 5".
pub(super) fn ranks(ranks: &[u32]) -> String {
    let texts: Vec<String> = ranks.iter().map(u32::to_string).collect();
    match texts.split_last() {
        None => "no rank".to_owned(),
        Some((last, [])) => format!("rank {last}"),
        Some((last, others)) => format!("ranks {} and {last}", others.join(", ")),
    }
}
