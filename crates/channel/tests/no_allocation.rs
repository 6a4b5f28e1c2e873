//! An endpoint that is made allocates nothing any more, whatever happens to it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use tutti_channel::packet::SHORT_BYTES;
use tutti_channel::{
    Config, Endpoint, Identity, Incarnation, Key, Now, PlainMemory, Rank, Sink, Source, Taken,
};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator unchanged; the count is a plain thread-local without a
// destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: as promised by our caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as promised by our caller.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

struct Side {
    takes: bool,
}

impl Sink for Side {
    fn record(&mut self, _from: Rank, _record: &[u8]) -> Taken {
        self.takes = !self.takes;
        if self.takes { Taken::Yes } else { Taken::Full }
    }

    fn fragment(&mut self, _tag: u64, _offset: u64, _bytes: &[u8]) {}
}

impl Source for Side {
    fn read(&mut self, _tag: u64, _offset: u64, into: &mut [u8]) {
        into.fill(1);
    }
}

#[test]
fn endpoint_allocates_nothing_after_creation() {
    let end = |rank: u32| {
        let identity = Identity { key: Key(1), incarnation: Incarnation(1), rank: Rank(rank) };
        let peers = (0..8).filter(|peer| *peer != rank).map(|peer| (Rank(peer), PlainMemory::new(16 << 10)));
        Endpoint::new(identity, Config::default(), Now { ns: 0, thaw_count: 0 }, peers).unwrap()
    };
    let mut ends = [end(0), end(1)];
    let mut buffer = vec![0; 64 * 1448];
    let mut side = Side { takes: false };
    let before = ALLOCATIONS.get();
    let mut count = 0u64;
    for round in 0..20_000u64 {
        let now = Now { ns: round * 50_000, thaw_count: (round / 1000) as u32 };
        for from in 0..2 {
            let to = Rank(1 - from as u32);
            let _ = ends[from].try_send(to, &[1; 700], &[2; 30]);
            if let Ok(id) = ends[1 - from].accept_bulk(Rank(from as u32), 300_000, 1) {
                let _ = ends[from].send_bulk(to, id, 300_000, 1);
            }
            ends[from].handle_timeout(now);
            ends[from].handle_room(to);
            while let Some(sent) = ends[from].poll_transmit(now, &mut side, &mut buffer) {
                for datagram in buffer[..sent.bytes].chunks(sent.segment_bytes) {
                    count += 1;
                    if !count.is_multiple_of(50) {
                        let _ = ends[1 - from].handle_datagram(now, datagram, &mut side);
                    }
                }
            }
            while ends[from].poll_event().is_some() {}
        }
    }
    assert!(count > 100_000 && ends[0].counters().rewinds > 100, "too little happened");
    assert_eq!(ALLOCATIONS.get() - before, 0, "allocations in {count} datagrams");
}

#[test]
fn endpoint_allocates_nothing_on_a_narrow_path() {
    let end = |rank: u32| {
        let identity = Identity { key: Key(1), incarnation: Incarnation(1), rank: Rank(rank) };
        let config = Config { datagram_bytes: 8192, receive_buffer_bytes: 4 << 20, ..Config::default() };
        let peers = [(Rank(1 - rank), PlainMemory::new(64 << 10))];
        Endpoint::new(identity, config, Now { ns: 0, thaw_count: 0 }, peers).unwrap()
    };
    let mut ends = [end(0), end(1)];
    let mut buffer = vec![0; 64 * 8192];
    let mut side = Side { takes: false };
    let before = ALLOCATIONS.get();
    for round in 0..5000_u64 {
        let now = Now { ns: round * 50_000, thaw_count: 0 };
        let _ = ends[0].try_send(Rank(1), &[1; 4000], &[]);
        if ends[0].is_flushed()
            && let Ok(id) = ends[1].accept_bulk(Rank(0), 300_000, 1)
        {
            ends[0].send_bulk(Rank(1), id, 300_000, 1).unwrap();
        }
        for from in 0..2 {
            ends[from].handle_timeout(now);
            ends[from].handle_room(Rank(1 - from as u32));
            while let Some(sent) = ends[from].poll_transmit(now, &mut side, &mut buffer) {
                for datagram in buffer[..sent.bytes].chunks(sent.segment_bytes) {
                    if datagram.len() <= SHORT_BYTES {
                        let _ = ends[1 - from].handle_datagram(now, datagram, &mut side);
                    }
                }
            }
            while ends[from].poll_event().is_some() {}
        }
    }
    assert!(ends[0].counters().datagrams_cut > 1000, "too little happened: {:?}", ends[0].counters());
    assert_eq!(ALLOCATIONS.get() - before, 0, "allocations");
}
