//! Everything in a job's start that reads bytes of others, each by itself; the first byte selects the reader.
//! What was read is what would be written, whatever the bytes; nothing panics. For `make fuzz` and for
//! `tests/hostile.rs`.

use serde::Serialize;
use serde::de::DeserializeOwned;
use tutti_protocol::wire::{self, Decoder, FrameHeader, Job, Reached, Reattach, Report};
use tutti_shm::peers::Peers;
use tutti_shm::ticket::{Attach, Notice, Ticket, Welcome};
use tutti_starter::pmi::line::{LINE_BYTES_MAX, Lines, Request};
use tutti_starter::pmi::store::Store;

/// How many of them there are.
pub(crate) const READERS: u8 = 8;

/// Reads bytes; the first one selects the reader.
pub(crate) fn read(input: &[u8]) {
    let Some((&which, bytes)) = input.split_first() else { return };
    match which % READERS {
        0 => frames(bytes),
        1 => peers(bytes),
        2 => ticket(bytes),
        3 => pmi_lines(bytes),
        4 => drop(Store::new(1, 1000).merge(bytes)),
        5 => job(bytes),
        6 => report(bytes),
        _ => {
            again::<Reached>(bytes);
            again::<Reattach>(bytes);
        }
    }
}

/// The same frames come out whole and cut anywhere, and are read again as they were written. Those of kinds
/// that only a later release knows are left out.
fn frames(bytes: &[u8]) {
    let (whole, fault) = decoded([bytes]);
    let cut = bytes.first().map_or(0, |at| usize::from(*at) % bytes.len());
    let (one, other) = bytes.split_at(cut);
    assert_eq!(decoded([one, other]), (whole.clone(), fault));
    let mut written = Vec::new();
    for (head, payload) in &whole {
        wire::put(&mut written, head.kind, head.rank, payload);
    }
    assert_eq!(decoded([&written[..]]), (whole, false));
}

/// The frames of a stream that comes in parts, and whether it stops being one.
fn decoded<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> (Vec<(FrameHeader, Vec<u8>)>, bool) {
    let (mut decoder, mut frames) = (Decoder::default(), Vec::new());
    for part in parts {
        decoder.extend(part);
        loop {
            match decoder.next_frame() {
                Ok(Some((head, payload))) => frames.push((head, payload.to_vec())),
                Ok(None) => break,
                Err(_) => return (frames, true),
            }
        }
    }
    (frames, false)
}

/// Every rank of a table has its node and address.
fn peers(bytes: &[u8]) {
    let Ok(peers) = Peers::decode(bytes) else { return };
    let again = Peers::decode(&peers.encode());
    assert_eq!(again.as_ref(), Ok(&peers));
    let mut ranks = 0;
    for node in 0..peers.nodes() {
        for rank in peers.ranks_of(node) {
            assert_eq!((peers.node_of(rank), rank), (node, ranks));
            ranks += 1;
        }
    }
    assert_eq!(ranks, peers.began());
    (ranks..peers.addresses().len()).for_each(|rank| assert!(peers.node_of(rank) < peers.nodes()));
}

fn ticket(bytes: &[u8]) {
    if let Some(attach) = Attach::decode(bytes) {
        assert_eq!(Attach::decode(&attach.encode()), Some(attach));
    }
    if let Some(welcome) = Welcome::decode(bytes) {
        assert_eq!(Welcome::decode(&welcome.encode()), Some(welcome));
    }
    if let Some(notice) = Notice::decode(bytes) {
        assert_eq!(Notice::decode(&notice.encode()), Some(notice));
    }
    let text = String::from_utf8_lossy(bytes);
    if let Ok(ticket) = text.parse::<Ticket>() {
        assert_eq!(ticket.to_string().parse(), Ok(ticket));
    }
}

fn pmi_lines(bytes: &[u8]) {
    let mut lines = Lines::default();
    for part in bytes.chunks(7) {
        lines.extend(part);
        while let Ok(Some(line)) = lines.next_line() {
            assert!(line.len() <= LINE_BYTES_MAX);
            if let Ok(request) = Request::parse(line) {
                let _ = (request.space(), request.verb());
            }
        }
    }
    assert!(lines.waiting_bytes() <= bytes.len());
}

/// A job's ranks are counted whatever its numbers are.
fn job(bytes: &[u8]) {
    let Some(job) = again::<Job>(bytes) else { return };
    let ranks = job.ranks();
    let _ = (job.local_ranks(), job.node(), job.name());
    for rank in [0, ranks / 2, ranks.saturating_sub(1)] {
        assert!(job.program_of(rank) <= job.programs.len());
    }
}

/// The status of a death is never that of a success.
fn report(bytes: &[u8]) {
    if let Some(Report::Ended(ended)) = again::<Report>(bytes) {
        let cause = ended.cause;
        assert!(cause.status() != 0 || matches!(cause, wire::Cause::Status(status) if status & 0xff == 0));
    }
}

/// Reads JSON; what is written of it is read as the same.
fn again<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(bytes: &[u8]) -> Option<T> {
    let value = serde_json::from_slice::<T>(bytes).ok()?;
    let written = serde_json::to_vec(&value).expect("what was read can be written");
    assert_eq!(serde_json::from_slice::<T>(&written).ok().as_ref(), Some(&value));
    Some(value)
}
