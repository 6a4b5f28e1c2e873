//! The native interface (`tutti.h`, `tutti_board.h`): what the facilities of SSS-CORE had and no standard
//! has.
//!
//! | module | what it is |
//! |---|---|
//! | [`board`] | the board of this node, mapped for programs |
//! | [`phases`] | parallel phases, for jobs that share parallel slots |
//! | [`region`] | memory that is opened to others, handles, aliases, queues |
//! | [`published`] | regions for other jobs, and those of others |
//! | [`origin`] | files of the node where the job was submitted |
//! | [`change`] | pieces and atomic changes |
//! | [`operation`] | operations on it, their completion, the elastic barrier |
//! | [`signal`] | messages that start a function of the receiver |
//! | `stand_in` | operations on a rank of another node that stands still |
//! | [`multicast`] | the same bytes for many ranks, with one completion, over a tree of nodes |
//! | [`handle`], [`completion`] | what names a region; how an operation ends |
//! | [`stamps`] | when what happened to operations |
//! | [`status`] | what calls give back |
//! | [`termination`] | what runs when a message-driven program has terminated |
//! | [`wait`] | waiting for a word with a look at who is to change it (SS-Wait) |
//!
//! It works beside MPI and OpenSHMEM: who calls it has started one of them.

pub mod board;
pub mod change;
pub mod completion;
pub mod handle;
mod handler;
mod mates;
pub mod multicast;
pub mod operation;
pub mod origin;
pub mod phases;
pub mod published;
pub mod region;
pub mod signal;
pub mod stamps;
mod stand_in;
pub mod status;
mod targets;
pub mod termination;
pub mod wait;
