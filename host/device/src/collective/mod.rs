//! Collective operations between GPUs, through NVIDIA's NCCL: one process per GPU.
//!
//! A [`World`] describes the processes that work together, started by torchrun, Slurm or Open MPI. A [`Communicator`] is
//! this process's part of it. Its operations work on [`Buffer`](crate::device::Buffer)s and
//! [`Stream`](crate::device::Stream)s, also in [recordings](crate::device::Device::record).
//!
//! `libnccl.so.2`, 2.18 or later, is loaded when the first communicator of more than one rank is created; `FERROWARP_NCCL`
//! names another file. [`Communicator::single`] needs no NCCL and works on the CPU, so one program works for any number of
//! devices. docs/collective.md describes how to start it.

mod communicator;
mod error;
mod group;
mod handle;
mod link;
mod operation;
mod rendezvous;
mod watch;
mod world;

pub use communicator::Communicator;
pub use error::{CollectiveError, LostRank, RankLoss};
pub use group::Group;
pub use operation::{Element, Reduction};
pub use world::World;
