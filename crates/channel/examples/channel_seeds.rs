//! Writes the seeds of the fuzz targets (`make fuzz`) into a folder: real packets of every kind, saved
//! endpoints, a cut, a play.

#[path = "../fuzz/targets/ends.rs"]
mod ends;

use std::fs;
use std::path::Path;

use ends::{BULK_BYTES, Program, at, datagrams, endpoint};
use tutti_channel::Rank;

fn main() -> std::io::Result<()> {
    let folder = std::env::args().nth(1).expect("channel_seeds FOLDER");
    let folder = Path::new(&folder);
    for name in ["packet", "endpoint"] {
        fs::create_dir_all(folder.join(name))?;
    }
    let (mut ends, mut program, mut count) = ([endpoint(0), endpoint(1)], Program { room: 5 }, 0);
    let mut write = |which: u8, bytes: &[u8]| -> std::io::Result<()> {
        count += 1;
        fs::write(folder.join("packet").join(count.to_string()), [&[which], bytes].concat())
    };
    for round in 0..20 {
        for me in 0..2 {
            let _ = ends[me].try_send(Rank(1 - me as u32), &[7; 40], &[]);
            if let Ok(id) = ends[1 - me].accept_bulk(Rank(me as u32), BULK_BYTES, round) {
                let _ = ends[me].send_bulk(Rank(1 - me as u32), id, BULK_BYTES, round);
            }
            let ns = round * 3_000_000;
            ends[me].handle_timeout(at(ns));
            for (number, packet) in datagrams(&mut ends[me], &mut program, ns).into_iter().enumerate() {
                for which in [0, 3, 4] {
                    write(which, &packet)?;
                }
                // Some are lost, so that there are refusals and probes too.
                if number % 5 != round as usize % 5 {
                    let _ = ends[1 - me].handle_datagram(at(ns), &packet, &mut program);
                }
            }
            let mut saved = Vec::new();
            ends[me].save(&mut saved);
            write(2, &saved)?;
        }
    }
    let memory = ends[0].memory(Rank(1)).expect("its flow");
    let words = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
    let mine = words(&memory.words);
    let theirs = words(&ends[1].memory(Rank(0)).expect("its flow").words);
    write(1, &[mine, theirs, tutti_channel::FlowMemory::fifo(memory).to_vec()].concat())?;
    let play: Vec<u8> = (0..40).flat_map(|n: u8| [(n % 6) | ((n & 1) << 7), n, 40, 0]).collect();
    fs::write(folder.join("endpoint/play"), play)
}
