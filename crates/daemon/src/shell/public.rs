//! The socket on which a daemon shows its jobs to the other users of its machine
//! ([`tutti_protocol::public`]).

use std::collections::HashMap;
use std::io::Write;

use tokio::net::UnixStream;

use super::clock::now_ms;
use tutti_protocol::public::{self, ARGUMENTS_VARIABLE, NAME, PublicRow};

/// Lists that a user gets in a second; beyond that he is let go without one.
const LISTS_MAX: u32 = 20;

/// The listening socket, and who has asked lately.
#[derive(Debug)]
pub(super) struct PublicList {
    listener: Option<tokio::net::UnixListener>,
    with_arguments: bool,
    asked: HashMap<u32, u32>,
    second: u64,
}

impl PublicList {
    /// Only a controller knows all jobs; without a socket nobody else sees them.
    pub(super) fn new(is_controller: bool) -> Self {
        let with_arguments = std::env::var_os(ARGUMENTS_VARIABLE).is_some_and(|value| value == "1");
        let listener = is_controller.then(listen).and_then(Result::ok);
        PublicList { listener, with_arguments, asked: HashMap::new(), second: 0 }
    }

    /// Somebody who wants the list.
    pub(super) async fn accept(&self) -> std::io::Result<UnixStream> {
        match &self.listener {
            Some(listener) => listener.accept().await.map(|(stream, _)| stream),
            None => std::future::pending().await,
        }
    }

    /// Writes the list, which the socket's buffer takes at once, and closes. `rows`: the jobs, with their
    /// arguments or without.
    pub(super) fn show(&mut self, stream: UnixStream, rows: impl FnOnce(bool) -> Vec<PublicRow>) {
        let Ok(peer) = stream.peer_cred() else { return };
        if self.admits(peer.uid(), now_ms()) {
            let bytes = public::encode(rows(self.with_arguments));
            // Who has gone wants no list.
            let _ = stream.into_std().and_then(|mut stream| stream.write_all(&bytes));
        }
    }

    /// Whether a user gets a list now.
    fn admits(&mut self, uid: u32, now_ms: u64) -> bool {
        if std::mem::replace(&mut self.second, now_ms / 1000) != now_ms / 1000 {
            self.asked.clear();
        }
        let asked = self.asked.entry(uid).or_default();
        *asked += 1;
        *asked <= LISTS_MAX
    }
}

fn listen() -> std::io::Result<tokio::net::UnixListener> {
    let name = format!("{NAME}{}/{:x}", rustix::process::geteuid().as_raw(), std::process::id());
    // Whoever has taken the name does not keep others from seeing us.
    let listener = super::announced::listen(&name)?;
    listener.set_nonblocking(true)?;
    tokio::net::UnixListener::from_std(listener)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_list_is_refused_to_a_user_who_asks_too_often() {
        let mut list = PublicList::new(false);
        let given = (0..100).filter(|_| list.admits(5, 1_500)).count();
        assert_eq!(given, LISTS_MAX as usize);
        assert!(list.admits(6, 1_600), "another user");
        assert!(list.admits(5, 2_000), "the next second");
    }
}
