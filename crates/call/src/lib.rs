//! Remote invocation (`tutti_call.h`, below `tutti.hpp`): functions of the program that ranks start on each
//! other.
//!
//! ```text
//! caller   send: name of the function, arguments    -> queue of the target
//! target   progress: takes it, runs the function, which answers once, then or later
//! caller   progress: takes the answer, tells whoever waits for it
//! ```
//!
//! | module | what it is |
//! |---|---|
//! | [`process`] | what this process knows of the others; the calls of the C interface |
//! | [`function`] | names of functions that mean the same in every process: module and place in it |
//! | `wire` | messages |
//! | `flow` | credit of a pair of ranks: what may be in a queue |
//! | `outbox` | messages that leave, and those that wait for credit |
//! | `pack` | small posts that share a message |
//! | `parts` | long arguments and results, which come in several messages |
//! | [`quick`] | the thread that runs quick functions |
//! | `open` | calls whose answers have not come |
//! | [`failure`] | end of the job with one line |
//! | `meeting` | a barrier by messages, which sums what was sent and what has ended |
//!
//! Each rank has two queues (`tutti_native`), inside a node and between nodes: one for calls of quick
//! functions, one for everything else. Room for an answer is reserved with its call, so a rank that takes
//! calls can always answer. Ordinary functions run inside [`process::progress`] alone, one at a time, in the
//! thread that has called [`process::init`]. Quick functions run in a thread of the library.

#![deny(unsafe_code)]

pub mod failure;
mod flow;
pub mod function;
mod meeting;
mod open;
mod outbox;
mod pack;
mod parts;
pub mod process;
pub mod quick;
pub mod status;
mod wire;
