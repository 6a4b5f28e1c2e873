//! `tutti page`: where the page of this cluster is; and questions of other commands to it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::ExitCode;
use std::time::Duration;

use serde::de::DeserializeOwned;
use tutti_protocol::{paths, sight};

use crate::cluster::{self, Answer, Request};
use crate::stdout;

/// The page answers within this time, or not at all.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Bytes of an answer, at most.
const ANSWER_BYTES_MAX: u64 = 256 << 20;

/// Page of the cluster of this node.
struct Found {
    address: SocketAddr,
    /// Token that readers need, where this user may know it.
    token: Option<String>,
}

/// Finds the page.
fn find() -> Result<Found, String> {
    for state in paths::histories() {
        let folder = sight::folder(&state);
        if let Some(address) = sight::address(&folder) {
            return Ok(Found { address, token: sight::token(&folder) });
        }
    }
    Err("no page is served here: `tutti up` with `listen` in [sight] of the configuration starts one, the \
         service tutti-sight elsewhere"
        .into())
}

/// Prints the link to the page, or to a job on it.
///
/// # Errors
/// When there is no page; a text for the user.
pub fn run(job: Option<u64>, is_shared: bool) -> Result<ExitCode, String> {
    let Found { address, token } = find()?;
    // Under root's daemons the page is open; a token of the user's shows the output of the user's jobs.
    let token = token.or_else(|| match cluster::request_if_running(&Request::Token) {
        Ok(Some(Answer::Token(token))) => Some(token),
        _ => None,
    });
    let token = token.filter(|_| !is_shared);
    let view = job.map_or_else(|| "cluster".into(), |job| format!("job/{job}"));
    let token = token.map_or_else(String::new, |token| format!("&token={token}"));
    Ok(stdout::print(Some(format!("http://{address}/#{view}{token}\n")), ""))
}

/// Asks the page for something of its history.
///
/// # Errors
/// When there is no page, or it does not answer; a text for the user.
pub fn ask<T: DeserializeOwned>(path: &str) -> Result<T, String> {
    let found = find()?;
    let failed = |error: std::io::Error| format!("the page at {} does not answer: {error}", found.address);
    let mut stream = TcpStream::connect_timeout(&found.address, TIMEOUT).map_err(failed)?;
    stream.set_read_timeout(Some(TIMEOUT)).map_err(failed)?;
    stream.set_write_timeout(Some(TIMEOUT)).map_err(failed)?;
    let token = found.token.map_or_else(String::new, |token| format!("Authorization: Bearer {token}\r\n"));
    // Version 1.0: the answer comes in one piece and ends with the connection.
    let request = format!("GET {path} HTTP/1.0\r\nHost: {}\r\n{token}\r\n", found.address);
    stream.write_all(request.as_bytes()).map_err(failed)?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).map_err(failed)?;
    let body = body(&answer).ok_or_else(|| format!("the page at {} is of another version", found.address))?;
    serde_json::from_slice(body?).map_err(|_| format!("the page at {} is of another version", found.address))
}

/// Text as a part of a question: letters, digits and commas as they are, all else in per cent.
pub fn encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b',' | b'-' | b'.' | b'_' => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}

/// Body of an answer; the line of a refusal.
fn body(answer: &[u8]) -> Option<Result<&[u8], String>> {
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n")?;
    let (head, body) = (std::str::from_utf8(&answer[..end]).ok()?, &answer[end + 4..]);
    let status = head.split(' ').nth(1)?;
    if status == "200" {
        return Some(Ok(body));
    }
    let text = String::from_utf8_lossy(body);
    let line = text.lines().next().unwrap_or_default();
    Some(Err(tutti_os::stderr::escape_control(line)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn question_has_no_letters_with_a_meaning() {
        assert_eq!(encoded("a b&c=d,\u{e9}"), "a%20b%26c%3Dd,%C3%A9");
    }

    #[test]
    fn page_answer_is_a_body_or_a_refusal() {
        assert_eq!(body(b"HTTP/1.0 200 OK\r\nA: b\r\n\r\n{}"), Some(Ok(&b"{}"[..])));
        assert_eq!(body(b"HTTP/1.0 503 No\r\n\r\nno room\x1b\n"), Some(Err(r"no room\u{1b}".into())));
        assert_eq!(body(b"rubbish"), None);
    }
}
