//! Lines to hosts that are no nodes: `tutti line` at one end, `tutti relay` at the other, and between them
//! `ssh`, or another program (`--rsh`, TUTTI_RSH). The protocol is `tutti_client::line`.
//!
//! A new line begins with one line of JSON from each side: [`Hello`], and [`MARK`] with a [`Welcome`]. What
//! stands before the mark was printed by the host's shell and is left out.

use serde::{Deserialize, Serialize};
use tutti_client::at::Opening;

mod end;
mod near;
mod relay;
mod session;

pub use near::run as run_near;
pub use relay::run as run_relay;

/// Beginning of a relay's answer.
const MARK: &str = "tutti-relay ";
/// The version of what is said here.
const VERSION: u32 = 1;

/// How a line begins.
#[derive(Debug, Serialize, Deserialize)]
struct Hello {
    version: u32,
    /// The session that goes on; none: a new one.
    session: Option<String>,
    /// Bytes that have come from it.
    received: u64,
    /// Purpose of a new one.
    opening: Opening,
}

/// The answer to it.
#[derive(Debug, Serialize, Deserialize)]
enum Welcome {
    /// The line is on.
    Open {
        /// By this name the session goes on over another line.
        session: String,
        /// Bytes that it has received.
        received: u64,
    },
    /// Refusal, in one line.
    Refused(String),
}
