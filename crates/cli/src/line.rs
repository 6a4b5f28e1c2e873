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

#[cfg(test)]
mod tests {
    use tutti_client::at::{Launcher, Start};

    use super::*;

    /// First words of either side; where they are none the line is refused.
    #[test]
    fn first_words_that_are_nearly_right_are_read_or_refused() {
        let start = Start {
            launcher: Launcher::Submit,
            arguments: vec!["-n".into(), "2".into(), "a.out".into()],
            hosts: vec!["h:2".into()],
            directory: "/home/eva".into(),
            terminal: Some((24, 80)),
            types: true,
        };
        let hello = |session: Option<&str>, opening| {
            let hello = Hello { version: VERSION, session: session.map(str::to_owned), received: 7, opening };
            serde_json::to_vec(&hello).expect("first words")
        };
        let open = Welcome::Open { session: "0123abcd".into(), received: u64::MAX };
        let welcomes = [open, Welcome::Refused("no".into())];
        let mut samples =
            vec![hello(None, Opening::Start(Box::new(start))), hello(Some("0123"), Opening::Frames)];
        samples.extend(welcomes.map(|welcome| serde_json::to_vec(&welcome).expect("an answer")));
        tutti_testkit::nearly::read_frames(&samples, |bytes| {
            if let Ok(hello) = serde_json::from_slice::<Hello>(bytes) {
                let again = serde_json::to_vec(&hello).expect("it is serialisable");
                assert_eq!(
                    serde_json::from_slice::<Hello>(&again).expect("the same").received,
                    hello.received
                );
            }
            let _ = serde_json::from_slice::<Welcome>(bytes);
        });
    }
}
