//! A side of a channel, as tests have it: an endpoint, and a program that keeps what comes.
#![allow(dead_code, reason = "no test needs all of it")]

use tutti_channel::{
    Config, Endpoint, Identity, Incarnation, Key, Now, PlainMemory, Rank, Sink, Source, Taken,
};

/// Takes `room` records and refuses the rest.
#[derive(Default)]
pub(crate) struct Side {
    pub room: usize,
    pub records: Vec<Vec<u8>>,
    pub bulk: Vec<u8>,
}

impl Sink for Side {
    fn record(&mut self, _from: Rank, record: &[u8]) -> Taken {
        if self.room == 0 {
            return Taken::Full;
        }
        self.room -= 1;
        self.records.push(record.to_vec());
        Taken::Yes
    }

    fn fragment(&mut self, _tag: u64, offset: u64, bytes: &[u8]) {
        self.bulk[offset as usize..][..bytes.len()].copy_from_slice(bytes);
    }
}

impl Source for Side {
    fn read(&mut self, _tag: u64, offset: u64, into: &mut [u8]) {
        into.copy_from_slice(&self.bulk[offset as usize..][..into.len()]);
    }
}

/// A time at which the rank has never been frozen.
pub(crate) fn at(ns: u64) -> Now {
    Now { ns, thaw_count: 0 }
}

pub(crate) fn identity(rank: u32) -> Identity {
    Identity { key: Key(42), incarnation: Incarnation(1), rank: Rank(rank) }
}

pub(crate) fn memory() -> PlainMemory {
    PlainMemory::new(16 << 10)
}

pub(crate) fn endpoint(rank: u32, peers: &[u32]) -> Endpoint<PlainMemory> {
    let peers = peers.iter().map(|peer| (Rank(*peer), memory()));
    Endpoint::new(identity(rank), Config::default(), at(0), peers).unwrap()
}

/// All that it has to send, one by one.
pub(crate) fn datagrams(end: &mut Endpoint<PlainMemory>, source: &mut impl Source, now: Now) -> Vec<Vec<u8>> {
    let mut buffer = vec![0; 64 * 1448];
    let mut all = Vec::new();
    while let Some(sent) = end.poll_transmit(now, source, &mut buffer) {
        all.extend(buffer[..sent.bytes].chunks(sent.segment_bytes).map(<[u8]>::to_vec));
    }
    all
}
