//! Two endpoints at work, with one who knows the key between them: it may do harm to the flow, but crash
//! nothing and write nothing outside of a message. The input is a play: who does what next, and what the one
//! between makes of the packets.
#![no_main]

#[path = "ends.rs"]
mod ends;

use ends::{Program, at, config, datagrams, endpoint};
use libfuzzer_sys::fuzz_target;
use tutti_channel::{BulkId, Rank};

/// Packets kept to be changed and delivered later.
const KEPT_MAX: usize = 64;

fuzz_target!(|input: &[u8]| {
    let mut ends = [endpoint(0), endpoint(1)];
    let mut program = Program { room: 20 };
    let (mut kept, mut ns): (Vec<(usize, Vec<u8>)>, u64) = (Vec::new(), 0);
    for step in input.chunks_exact(4) {
        let &[what, a, b, c] = step else { return };
        let me = usize::from(what >> 7);
        match what % 8 {
            0 => {
                let _ = ends[me].try_send(Rank(1 - me as u32), &[a; 300][..usize::from(b)], &[]);
            }
            1 => {
                if let Ok(id) = ends[1 - me].accept_bulk(Rank(me as u32), ends::BULK_BYTES, a.into()) {
                    let _ = ends[me].send_bulk(Rank(1 - me as u32), id, ends::BULK_BYTES, b.into());
                }
            }
            2 => {
                ns += u64::from(a) << (b % 24);
                ends[me].handle_timeout(at(ns));
            }
            3 => {
                program.room = u32::from(a);
                ends[me].handle_room(Rank(1 - me as u32));
            }
            // What one has to say is kept.
            4 => {
                for packet in datagrams(&mut ends[me], &mut program, ns) {
                    if kept.len() < KEPT_MAX {
                        kept.push((1 - me, packet));
                    }
                }
            }
            // A kept one arrives, perhaps again later.
            5 if !kept.is_empty() => {
                let at_place = usize::from(a) % kept.len();
                let (to, packet) = kept[at_place].clone();
                let _ = ends[to].handle_datagram(at(ns), &packet, &mut program);
                if b % 4 != 0 {
                    kept.swap_remove(at_place);
                }
            }
            // A kept one is changed: a byte behind the key and the ranks, or its length.
            6 if !kept.is_empty() => {
                let at_place = usize::from(a) % kept.len();
                let packet = &mut kept[at_place].1;
                let place = 24 + usize::from(b) % (packet.len() - 24);
                packet[place] = c;
                if place == 26 {
                    packet.resize(48 + usize::from(c), c);
                }
            }
            // A name that nobody gave.
            7 => {
                let id = BulkId::from_bits(u64::from(a) | u64::from(b) << 32);
                let _ = ends[me].send_bulk(Rank(1 - me as u32), id, ends::BULK_BYTES, c.into());
            }
            _ => {}
        }
        for end in &mut ends {
            while end.poll_event().is_some() {}
            assert!(
                end.flow_state(Rank(1 - end.identity().rank.0))
                    .is_some_and(|flow| flow.held <= config().fifo_records)
            );
        }
    }
});
