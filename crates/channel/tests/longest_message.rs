//! A bulk message of 2^40 bytes, whole: 17 million fragments of 62 kB that nobody copies.

use tutti_channel::{
    BULK_BYTES_MAX, BulkError, Config, Endpoint, Event, Identity, Incarnation, Key, Now, PlainMemory, Rank,
    Sink, Source, Taken,
};

/// Knows where the next byte belongs.
struct Counter {
    next: u64,
}

impl Sink for Counter {
    fn record(&mut self, _from: Rank, _record: &[u8]) -> Taken {
        Taken::Yes
    }

    fn fragment(&mut self, _tag: u64, offset: u64, bytes: &[u8]) {
        assert_eq!(offset, self.next);
        assert_eq!(bytes[..8], offset.to_le_bytes());
        self.next += bytes.len() as u64;
    }
}

impl Source for Counter {
    fn read(&mut self, _tag: u64, offset: u64, into: &mut [u8]) {
        into[..8].copy_from_slice(&offset.to_le_bytes());
    }
}

#[test]
fn bulk_message_of_one_tebibyte_arrives() {
    let config = Config { datagram_bytes: 65_504, receive_buffer_bytes: 1 << 30, ..Config::default() };
    let now = Now { ns: 0, thaw_count: 0 };
    let end = |rank: u32| {
        let identity = Identity { key: Key(1), incarnation: Incarnation(1), rank: Rank(rank) };
        Endpoint::new(identity, config, now, [(Rank(1 - rank), PlainMemory::new(128 << 10))]).unwrap()
    };
    let (mut sender, mut receiver, mut counter) = (end(0), end(1), Counter { next: 0 });
    let too_long = BulkError::TooLong { found: BULK_BYTES_MAX + 1, most: BULK_BYTES_MAX };
    assert_eq!(receiver.accept_bulk(Rank(0), BULK_BYTES_MAX + 1, 1), Err(too_long));
    let id = receiver.accept_bulk(Rank(0), BULK_BYTES_MAX, 1).unwrap();
    sender.send_bulk(Rank(1), id, BULK_BYTES_MAX, 1).unwrap();
    let mut buffer = vec![0; 4 * 65_504];
    while receiver.poll_event().is_none() {
        while let Some(sent) = sender.poll_transmit(now, &mut counter, &mut buffer) {
            for datagram in buffer[..sent.bytes].chunks(sent.segment_bytes) {
                receiver.handle_datagram(now, datagram, &mut counter).unwrap();
            }
        }
        while let Some(sent) = receiver.poll_transmit(now, &mut counter, &mut buffer) {
            sender.handle_datagram(now, &buffer[..sent.bytes], &mut counter).unwrap();
        }
    }
    assert_eq!(counter.next, BULK_BYTES_MAX);
    assert_eq!(sender.poll_event(), Some(Event::BulkSent { to: Rank(1), tag: 1 }));
}
