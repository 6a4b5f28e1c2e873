//! Everything that reads bytes of others, each by itself: packets, records, a cut, a saved endpoint, the
//! stand-in of a rank that has left, the daemons' question. The first byte says which.
#![no_main]

#[allow(dead_code)]
#[path = "ends.rs"]
mod ends;

use libfuzzer_sys::fuzz_target;
use tutti_channel::cut::{FlowWords, cut, in_flight};
use tutti_channel::packet::{Body, HEADER_BYTES, Records, parse, write_header};
use tutti_channel::{
    Endpoint, ExitedRank, Incarnation, PlainMemory, Rank, Seq, SteadyResponder, WORDS,
};

fuzz_target!(|input: &[u8]| {
    let Some((&which, bytes)) = input.split_first() else { return };
    match which % 5 {
        0 => read_packet(bytes),
        1 => take_cut(bytes),
        2 => restore(bytes),
        3 => {
            let answer_for = ExitedRank::new(ends::identity(0), Seq(0), [(Rank(1), 0, Seq(7))]);
            let _ = answer_for.handle_datagram(bytes, &mut [0; 512]);
        }
        _ => {
            let mut responder = SteadyResponder::new(ends::identity(0));
            let words = |_| Some(FlowWords::from([0; WORDS]));
            let _ = responder.handle_probe(bytes, true, words, &mut [0; 512]);
        }
    }
});

/// Checks that what was read is what would be written.
fn read_packet(bytes: &[u8]) {
    let Ok((header, body)) = parse(bytes) else { return };
    let mut again = [0; HEADER_BYTES];
    write_header(&header, bytes.len() - HEADER_BYTES, &mut again);
    assert_eq!(again, bytes[..HEADER_BYTES]);
    if let Body::Data(records) = body {
        let mut walk = Records::new(header.seq, records);
        let walked: usize = (&mut walk).map(|(_, record)| 8 + record.len().next_multiple_of(8)).sum();
        assert_eq!(walked + walk.rest().len(), records.len());
    }
}

/// Words and bytes of a job's memory are hostile.
fn take_cut(bytes: &[u8]) {
    let words = |bytes: &[u8]| -> Option<(FlowWords, usize)> {
        let mut words = [0; WORDS];
        for (word, bytes) in words.iter_mut().zip(bytes.get(..8 * WORDS)?.chunks_exact(8)) {
            *word = u64::from_le_bytes(bytes.try_into().ok()?);
        }
        Some((words.into(), 8 * WORDS))
    };
    let Some((sender, used)) = words(bytes) else { return };
    let Some((receiver, more)) = words(&bytes[used..]) else { return };
    if let Ok(cut) = cut(&sender, &receiver) {
        let fifo = &bytes[used + more..];
        assert!(in_flight(&sender, &cut, fifo).count() <= 1 << 16);
    }
}

/// The check sum is put right: what is looked for lies behind it.
fn restore(bytes: &[u8]) {
    let Some(body) = bytes.len().checked_sub(4) else { return };
    let mut saved = bytes.to_vec();
    let sum = crc32(&saved[..body]);
    saved[body..].copy_from_slice(&sum.to_le_bytes());
    let memory = |_| Some(PlainMemory::new(4096));
    let _ = Endpoint::restore(&saved, Incarnation(9), ends::config(), ends::at(0), memory);
}

fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| crc >> 1 ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 })
    };
    !bytes.iter().fold(u32::MAX, step)
}
