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
//! | `open` | calls whose answers have not come |
//! | `meeting` | a barrier by messages, which sums what was sent and what has ended |
//!
//! Each rank has one queue (`tutti_native`), for calls and answers, inside a node and between nodes. Room for
//! an answer is reserved with its call, so a rank that takes calls can always answer. Functions run inside
//! [`process::progress`] alone, one at a time, in the thread that has called [`process::init`].

#![deny(unsafe_code)]

mod flow;
pub mod function;
mod meeting;
mod open;
pub mod process;
pub mod status;
mod wire;
