// Two endpoints, and what they say to each other: included by the targets.

use tutti_channel::{
    Config, Endpoint, Identity, Incarnation, Key, Now, PlainMemory, Rank, Sink, Source, Taken,
};

pub(crate) const KEY: u64 = 0x1234_5678_9abc_def0;
pub(crate) const INCARNATION: u32 = 3;
/// Bytes of each bulk message.
pub(crate) const BULK_BYTES: u64 = 20_000;

/// The program of both: takes records while it has room, and checks that no byte lies outside of a message.
pub(crate) struct Program {
    pub room: u32,
}

impl Sink for Program {
    fn record(&mut self, _from: Rank, _record: &[u8]) -> Taken {
        if self.room == 0 {
            return Taken::Full;
        }
        self.room -= 1;
        Taken::Yes
    }

    fn fragment(&mut self, _tag: u64, offset: u64, bytes: &[u8]) {
        assert!(offset + bytes.len() as u64 <= BULK_BYTES, "bytes outside of the message");
    }
}

impl Source for Program {
    fn read(&mut self, _tag: u64, offset: u64, into: &mut [u8]) {
        assert!(offset + into.len() as u64 <= BULK_BYTES, "bytes outside of the message");
        into.fill(5);
    }
}

pub(crate) fn at(ns: u64) -> Now {
    Now { ns, thaw_count: 0 }
}

pub(crate) fn config() -> Config {
    Config { datagram_bytes: 512, bulk_in_max: 4, bulk_out_max: 4, fifo_records: 32, ..Config::default() }
}

pub(crate) fn identity(rank: u32) -> Identity {
    Identity { key: Key(KEY), incarnation: Incarnation(INCARNATION), rank: Rank(rank) }
}

pub(crate) fn endpoint(rank: u32) -> Endpoint<PlainMemory> {
    Endpoint::new(identity(rank), config(), at(0), [(Rank(1 - rank), PlainMemory::new(4096))])
        .expect("the numbers are possible")
}

/// All that an endpoint has to send.
pub(crate) fn datagrams(end: &mut Endpoint<PlainMemory>, program: &mut Program, ns: u64) -> Vec<Vec<u8>> {
    let mut buffer = vec![0; 64 * 512];
    let mut all = Vec::new();
    while let Some(sent) = end.poll_transmit(at(ns), program, &mut buffer) {
        all.extend(buffer[..sent.bytes].chunks(sent.segment_bytes).map(<[u8]>::to_vec));
    }
    all
}
