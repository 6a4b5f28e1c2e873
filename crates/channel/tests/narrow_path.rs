//! A path on which long datagrams vanish while short ones do not: it is noticed, long ones travel in pieces,
//! and whole again when the path has become wide.

use tutti_channel::packet::{HEADER_BYTES, Kind, SHORT_BYTES, write_header, write_piece_head};
use tutti_channel::{
    Config, Drop, Endpoint, Event, Identity, Incarnation, Key, Now, PlainMemory, Rank, Sink, Source, Taken,
};

const DATAGRAM_BYTES: usize = 8192;
const BULK_BYTES: usize = 300_000;
const SECOND_NS: u64 = 1_000_000_000;

#[derive(Default)]
struct Side {
    records: Vec<Vec<u8>>,
    bulk: Vec<u8>,
}

impl Sink for Side {
    fn record(&mut self, _from: Rank, record: &[u8]) -> Taken {
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

    fn slice(&self, _tag: u64, offset: u64, bytes: usize) -> Option<&[u8]> {
        Some(&self.bulk[offset as usize..][..bytes])
    }
}

/// The rank is thawed ten times a second.
fn at(ns: u64) -> Now {
    Now { ns, thaw_count: (ns / 100_000_000) as u32 }
}

fn endpoint(rank: u32, datagram_bytes: usize) -> Endpoint<PlainMemory> {
    let identity = Identity { key: Key(42), incarnation: Incarnation(1), rank: Rank(rank) };
    let config = Config { datagram_bytes, receive_buffer_bytes: 4 << 20, ..Config::default() };
    let peers = (0..3).filter(|peer| *peer != rank).map(|peer| (Rank(peer), PlainMemory::new(256 << 10)));
    Endpoint::new(identity, config, at(0), peers).unwrap()
}

struct Pair {
    ends: [Endpoint<PlainMemory>; 2],
    sides: [Side; 2],
    ns: u64,
    /// Bytes of the longest datagram that gets through.
    width: usize,
    /// Longer ones than every path takes that were sent.
    long: u32,
    arrived: u32,
}

impl Pair {
    fn new(datagram_bytes: usize, width: usize) -> Self {
        let ends = [0, 1].map(|rank| endpoint(rank, datagram_bytes));
        Pair { ends, sides: [Side::default(), Side::default()], ns: 0, width, long: 0, arrived: 0 }
    }

    /// Carries what side `from` has to send; returns how many datagrams that were.
    fn carry(&mut self, from: usize) -> usize {
        let (mut buffer, mut count) = (vec![0; 64 * DATAGRAM_BYTES], 0);
        self.ns += 1000;
        while let Some(run) = self.ends[from].poll_transmit(at(self.ns), &mut self.sides[from], &mut buffer) {
            for head in buffer[..run.bytes].chunks(run.segment_bytes) {
                let mut datagram = head.to_vec();
                if run.lies_in.is_some() {
                    let (offset, bytes) = tutti_channel::packet::fragment_place(head);
                    datagram.extend_from_slice(&self.sides[from].bulk[offset as usize..][..bytes]);
                }
                count += 1;
                self.long += u32::from(datagram.len() > SHORT_BYTES);
                if datagram.len() <= self.width {
                    let to = 1 - from;
                    self.ends[to].handle_datagram(at(self.ns), &datagram, &mut self.sides[to]).unwrap();
                }
            }
        }
        for end in &mut self.ends {
            while let Some(event) = end.poll_event() {
                self.arrived += u32::from(matches!(event, Event::BulkReceived { .. }));
            }
        }
        count
    }

    /// Until nothing is owed any more; how long that took.
    fn settle(&mut self) -> u64 {
        let start = self.ns;
        loop {
            while self.carry(0) + self.carry(1) > 0 {}
            if self.ends.iter().all(Endpoint::is_flushed) {
                return self.ns - start;
            }
            self.ns =
                self.ends.iter().filter_map(Endpoint::poll_timeout).min().expect("a timer").max(self.ns);
            self.ends.iter_mut().for_each(|end| end.handle_timeout(at(self.ns)));
            assert!(self.ns - start < SECOND_NS, "nothing gets through");
        }
    }

    fn send_bulk(&mut self) {
        self.sides[0].bulk = (0..BULK_BYTES).map(|at| (at * 7 + at / 251) as u8).collect();
        self.sides[1].bulk = vec![0; BULK_BYTES];
        let id = self.ends[1].accept_bulk(Rank(0), BULK_BYTES as u64, 0).unwrap();
        self.ends[0].send_bulk(Rank(1), id, BULK_BYTES as u64, 0).unwrap();
    }

    fn is_narrow(&self) -> bool {
        self.ends[0].flow_state(Rank(1)).unwrap().is_narrow
    }

    fn cut(&self) -> u64 {
        self.ends[0].counters().datagrams_cut
    }
}

#[test]
fn narrow_path_delivers_records_in_pieces_in_order() {
    for short_behind in [0, 3, 20] {
        let mut pair = Pair::new(DATAGRAM_BYTES, SHORT_BYTES);
        let lengths = [8000, 1300, 8000].into_iter().chain(std::iter::repeat_n(200, short_behind));
        let records: Vec<Vec<u8>> =
            lengths.enumerate().map(|(count, bytes)| vec![count as u8; bytes]).collect();
        for record in &records {
            pair.ends[0].try_send(Rank(1), record, &[]).unwrap();
        }
        let took_ns = pair.settle();
        assert!(pair.sides[1].records == records, "{short_behind} short ones behind");
        assert!(pair.is_narrow() && pair.ends[0].counters().paths_narrowed == 1);
        assert!(took_ns < 30_000_000, "{took_ns} ns until the first long record");
        // From now on nothing has to be found out.
        pair.ends[0].try_send(Rank(1), &[9; 8000], &[]).unwrap();
        let (long, took_ns) = (pair.long, pair.settle());
        assert!(pair.long == long && took_ns < 1_000_000, "{took_ns} ns for the next one");
    }
}

#[test]
fn narrow_path_delivers_bulk_in_pieces() {
    let mut pair = Pair::new(DATAGRAM_BYTES, SHORT_BYTES);
    for _ in 0..3 {
        pair.send_bulk();
        let took_ns = pair.settle();
        assert!(pair.sides[0].bulk == pair.sides[1].bulk, "the message is not the one that was sent");
        assert!(took_ns < 300_000_000, "{took_ns} ns");
    }
    assert!(pair.arrived == 3 && pair.is_narrow() && pair.cut() > 3 * 36);
    assert_eq!(pair.ends[0].counters().paths_narrowed, 1);
}

#[test]
fn narrow_path_that_widens_is_found_by_one_probe_in_ten_seconds() {
    let mut pair = Pair::new(DATAGRAM_BYTES, SHORT_BYTES);
    pair.send_bulk();
    pair.settle();
    let (cut, long) = (pair.cut(), pair.long);
    // Narrow still, and tried.
    for trials in 1..4 {
        pair.ns += 10 * SECOND_NS;
        pair.send_bulk();
        pair.settle();
        assert!(pair.is_narrow() && pair.cut() >= cut + 36 * u64::from(trials));
        assert_eq!(pair.long - long, trials, "long datagrams since it became narrow");
    }
    pair.width = DATAGRAM_BYTES;
    pair.ns += 10 * SECOND_NS;
    pair.send_bulk();
    pair.settle();
    assert!(!pair.is_narrow());
    let cut = pair.cut();
    pair.send_bulk();
    pair.settle();
    assert!(pair.cut() == cut && pair.arrived == 6, "a wide path still carries pieces");
    // It may become narrow again.
    pair.width = SHORT_BYTES;
    pair.send_bulk();
    pair.settle();
    assert!(pair.is_narrow() && pair.sides[0].bulk == pair.sides[1].bulk);
}

#[test]
fn narrow_path_never_cuts_datagrams_that_every_path_takes() {
    let mut pair = Pair::new(SHORT_BYTES, SHORT_BYTES);
    pair.width = HEADER_BYTES;
    for datagram_bytes in [SHORT_BYTES, DATAGRAM_BYTES] {
        pair.ends = [0, 1].map(|rank| endpoint(rank, datagram_bytes));
        pair.ends[0].try_send(Rank(1), &[1; 1000], &[]).unwrap();
        for _ in 0..30 {
            while pair.carry(0) + pair.carry(1) > 0 {}
            pair.ns = pair.ends[0].poll_timeout().expect("a timer");
            pair.ends[0].handle_timeout(at(pair.ns));
        }
        assert!(!pair.is_narrow() && pair.ends[0].counters().rewinds > 5);
    }
}

#[test]
fn narrow_path_drops_pieces_that_no_sender_makes() {
    let piece = |whole: usize, inside: &[u8]| {
        let mut packet = vec![0; HEADER_BYTES + 8];
        let header = tutti_channel::packet::Header { kind: Kind::Piece, ..header(0) };
        write_header(&header, 8 + inside.len(), &mut packet);
        write_piece_head(0, whole, &mut packet[HEADER_BYTES..]);
        packet.extend_from_slice(inside);
        packet
    };
    let (mut end, mut side) = (endpoint(1, DATAGRAM_BYTES), Side::default());
    let mut take = |packet: &[u8]| end.handle_datagram(at(0), packet, &mut side);
    let mut probe = vec![0; HEADER_BYTES];
    write_header(&header(0), 0, &mut probe);
    assert_eq!(take(&probe), Ok(()));
    assert_eq!(take(&piece(probe.len(), &probe)), Err(Drop::Wrong));
    let within = piece(probe.len(), &probe);
    assert_eq!(take(&piece(within.len(), &within)), Err(Drop::Wrong));
    assert_eq!(take(&piece(DATAGRAM_BYTES + 1, &[0; 1176])), Err(Drop::Wrong));
    // A datagram of rank 2 in a piece of rank 0.
    let mut data = vec![0; HEADER_BYTES + 16];
    write_header(&tutti_channel::packet::Header { kind: Kind::Data, ..header(2) }, 16, &mut data);
    assert_eq!(take(&piece(data.len(), &data)), Err(Drop::Wrong));
}

fn header(from: u32) -> tutti_channel::packet::Header {
    tutti_channel::packet::Header {
        key: Key(42),
        incarnation: Incarnation(1),
        from: Rank(from),
        to: Rank(1),
        kind: Kind::Probe,
        flags: 0,
        seq: tutti_channel::Seq(0),
        ack: tutti_channel::Seq(0),
        rewind: 0,
        echo: 0,
        credit: 100,
    }
}
