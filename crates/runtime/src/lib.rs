//! Library that a process of a job links, whatever it calls: messages, remote memory or both.
//!
//! | module | what it is |
//! |---|---|
//! | [`attach`], [`job`] | the place in the job: ticket, segment, peers of this node |
//! | [`adoption`] | a job for a process that was started without mpiexec |
//! | [`bad_memory`] | the line about memory of the program's that a call cannot access |
//! | [`background`] | threads of the library itself |
//! | [`board`] | how loaded the nodes are, which jobs run |
//! | [`end`] | the end of the job by this process |
//! | [`stdio`] | standard output of this process: lines leave as they are printed |
//! | [`rank`], [`lock`] | what all interfaces of the process share, and the lock over it |
//! | [`waiting`], [`wait`], [`sleep`] | how a thread waits: spin, yield, sleep; what it says while it sleeps |
//! | `short_slice` | a rank that is woken runs at once, also on a core that others keep busy |
//! | [`word_wait`] | waiting for a word of memory, asleep until it is stored |
//! | [`net`], [`router`] | the ranks of other nodes; each kind of record goes to the interface that takes it |
//! | [`guests`] | processes of other launches |
//! | [`user_names`], [`cluster_names`] | names that launches of a user publish for each other |
//! | [`remote_memory`] | operations on the memory of ranks of other nodes |
//! | [`service_state`] | what that thread and the others let each other know |
//! | [`service`] | the thread that looks at the network while the program computes |
//!
//! An interface calls [`rank::start`], registers itself and its records, calls [`service::start`]; then
//! each of its calls enters by [`rank::enter`] and waits by [`waiting::wait`].

pub mod adoption;
pub mod attach;
pub mod background;
pub mod bad_memory;
pub mod board;
pub mod clock;
pub mod cluster_names;
pub mod end;
pub mod file_locks;
mod flow;
#[cfg(feature = "testing")]
mod forger;
pub mod guests;
pub mod job;
pub mod lock;
pub mod log;
mod lost_ticket;
pub mod net;
pub mod polite;
mod process_name;
pub mod rank;
#[cfg(feature = "testing")]
mod record_forger;
pub mod remote_memory;
pub mod router;
pub mod service;
pub mod service_state;
mod short_slice;
pub mod sleep;
pub mod stdio;
pub mod user_names;
pub mod wait;
pub mod waiting;
pub mod word_wait;
pub mod wrong;
pub mod yama;

pub use tutti_transport::stamps;
