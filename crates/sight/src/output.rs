//! The last of what a job has written, for its owner: the daemon decides by a token, or by our own user.

use tutti_client::requests::{self, JobId};
use tutti_os::stderr::is_deceptive;
use tutti_protocol::users::Request;
use tutti_protocol::wire::{FrameHeader, Kind};

use crate::access::Access;

/// Bytes that are shown.
const SHOWN_BYTES: usize = 64 << 10;

/// Text of the end of a job's output, without what deceives a reader.
///
/// # Errors
/// When the daemon refuses, or does not answer; a line.
pub fn tail(access: &Access, job: u64, token: &str) -> Result<String, String> {
    let request = match access {
        Access::Open => Request::LogsFor(JobId(job), token.to_owned()),
        // The reader has our own user's token.
        Access::Token(_) => Request::Logs(JobId(job)),
    };
    let (_, mut frames) = requests::request_with(&request, &mut |_| ())?;
    let mut bytes = Vec::new();
    while let Some((FrameHeader { kind, .. }, payload)) = frames.next_frame()? {
        if matches!(kind, Kind::Output | Kind::Errors) {
            bytes.extend(payload);
        }
    }
    let from = bytes.len().saturating_sub(SHOWN_BYTES);
    Ok(shown(&bytes[from..]))
}

/// Text of these bytes, with lines and tabs, without what deceives a reader.
pub fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes).replace("\r\n", "\n");
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\n' | '\t' => shown.push(letter),
            letter if is_deceptive(letter) => shown.extend(letter.escape_unicode()),
            letter => shown.push(letter),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    #[test]
    fn output_has_lines_and_nothing_that_deceives() {
        assert_eq!(super::shown(b"a\tb\r\nc\x1b[2J\xff\n"), "a\tb\nc\\u{1b}[2J\u{fffd}\n");
    }
}
