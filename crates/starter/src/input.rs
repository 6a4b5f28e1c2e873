//! Stdin of the ranks that get what the front end reads.
//!
//! The front end sends one piece, waits until it is [taken](Inputs::taken_unreported), sends the next. So a
//! rank that does not read blocks nothing but its own input, and memory is bounded by one piece. When no rank
//! reads any more, that is [reported](Inputs::unwanted_unreported) and the front end stops reading.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The writing ends of the ranks' stdin.
#[derive(Debug, Default)]
pub struct Inputs {
    feeds: Vec<Feed>,
    piece: Vec<u8>,
    ended: bool,
    /// All have taken the last piece, and that has not been reported yet.
    pub taken_unreported: bool,
    /// No rank reads any more, and that has not been reported yet.
    pub unwanted_unreported: bool,
}

#[derive(Debug)]
struct Feed {
    descriptor: OwnedFd,
    /// Bytes of the piece that are written.
    written: usize,
}

impl Inputs {
    /// Adds a writing end; it must be nonblocking.
    pub fn add(&mut self, descriptor: OwnedFd) {
        self.feeds.push(Feed { descriptor, written: 0 });
    }

    /// The writing ends.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.feeds.iter().map(|feed| feed.descriptor.as_fd())
    }

    /// A piece from the front end; empty: the end.
    pub fn handle_piece(&mut self, bytes: &[u8]) {
        self.piece.clear();
        self.piece.extend_from_slice(bytes);
        self.feeds.iter_mut().for_each(|feed| feed.written = 0);
        self.ended = bytes.is_empty();
        if self.ended {
            self.feeds.clear();
        }
        self.handle_writable();
    }

    /// Inputs that have bytes to write, to be polled.
    pub fn writable(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.feeds.iter().filter(|feed| feed.written < self.piece.len()).map(|feed| feed.descriptor.as_fd())
    }

    /// Writes what can be written.
    pub fn handle_writable(&mut self) {
        if self.piece.is_empty() {
            return;
        }
        let piece = &self.piece;
        self.feeds.retain_mut(|feed| {
            while feed.written < piece.len() {
                match rustix::io::write(&feed.descriptor, &piece[feed.written..]) {
                    Ok(written) => feed.written += written,
                    Err(rustix::io::Errno::INTR) => {}
                    Err(rustix::io::Errno::AGAIN) => return true,
                    Err(_) => return false,
                }
            }
            true
        });
        if self.feeds.is_empty() {
            self.unwanted_unreported = true;
            self.piece.clear();
        } else if self.feeds.iter().all(|feed| feed.written == piece.len()) {
            self.piece.clear();
            self.taken_unreported = true;
        }
    }
}
