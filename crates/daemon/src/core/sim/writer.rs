//! A writer of output files as its daemon sees it (`tutti_protocol::writer`), which may stop at any byte.

use tutti_protocol::wire::{Decoder, Kind};
use tutti_protocol::writer::{Open, Opened, Written};

use crate::core::event::WriterEvent;

/// A writer.
#[derive(Debug)]
pub(super) struct Writer {
    open: Open,
    opened: bool,
    inbox: Decoder,
    written: Written,
}

impl Writer {
    pub(super) fn new(open: Open) -> Self {
        Writer { open, opened: false, inbox: Decoder::default(), written: Written::default() }
    }

    pub(super) fn put(&mut self, frames: &[u8]) {
        self.inbox.extend(frames);
    }

    /// Does what it has been told, and stops in the middle of what is one byte more than `bytes`.
    pub(super) fn step(&mut self, files: &mut Vec<Vec<u8>>, mut bytes: usize) -> Option<WriterEvent> {
        let lengths = |files: &[Vec<u8>]| files.iter().map(|file| file.len() as u64).collect::<Vec<_>>();
        if !std::mem::replace(&mut self.opened, true) {
            files.resize_with(self.open.files.len(), Vec::new);
            if self.open.truncate {
                files.iter_mut().for_each(Vec::clear);
            }
            let lengths = lengths(files).into_iter().map(Some).collect();
            return Some(WriterEvent::Opened(Opened::Ready { lengths, inode: 1 }));
        }
        while let Some((header, payload)) = self.inbox.next_frame().expect("frames of the wire") {
            match header.kind {
                Kind::Write => {
                    let taken = payload.len().min(bytes);
                    files[header.rank as usize].extend(&payload[..taken]);
                    self.written.bytes += taken as u64;
                    if taken < payload.len() {
                        return None;
                    }
                    bytes -= taken;
                }
                Kind::Flush => {
                    self.written.lengths = (0..).zip(lengths(files)).collect();
                    return Some(WriterEvent::Written(std::mem::take(&mut self.written)));
                }
                kind => panic!("{kind:?} to a writer"),
            }
        }
        None
    }
}
