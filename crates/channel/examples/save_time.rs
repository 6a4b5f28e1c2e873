//! How long it takes to save a channel's state and to load it again, with an empty and with a full send FIFO:
//! the paper's table 3. There is no receive FIFO to be saved: what has been received is in the memory of its
//! rank, which stays where it is. A strict switch saves and compares the network context of a channel, the
//! last
//! two columns; an endpoint with all its tables is saved and loaded by the columns before.
//!
//!     cargo run -p tutti-channel --release --example save_time

use std::time::Instant;

use tutti_channel::context::{ContextWriter, is_in_use};
use tutti_channel::{Config, Endpoint, FlowMemory, Identity, Incarnation, Key, Now, PlainMemory, Rank};

const NOW: Now = Now { ns: 0, thaw_count: 0 };
const TIMES: u32 = 2000;

fn main() {
    println!(
        "| send FIFO | records in it | bytes saved | save [us] | restore [us] | context: save [us] | compare [us] |"
    );
    println!("|---|---|---|---|---|---|---|");
    for fifo_bytes in [48 << 10, 256 << 10] {
        for full in [false, true] {
            measure(fifo_bytes, full);
        }
    }
    println!(
        "\nSCore-D: empty 940 and 370 us, send FIFO (48 KB) full 2400 and 1840, receive FIFO (64 KB) full too 6120 and 4430."
    );
}

fn measure(fifo_bytes: usize, full: bool) {
    let identity = Identity { key: Key(1), incarnation: Incarnation(1), rank: Rank(0) };
    let memory = || PlainMemory::new(fifo_bytes);
    let config = Config::default();
    let mut endpoint =
        Endpoint::new(identity, config, NOW, [(Rank(1), memory())]).expect("a valid configuration");
    let mut records = 0;
    while full && endpoint.try_send(Rank(1), &[7; 64], &[]).is_ok() {
        records += 1;
    }
    let mut saved = Vec::new();
    let mut restored = 0_u128;
    let start = Instant::now();
    for _ in 0..TIMES {
        saved.clear();
        endpoint.save(&mut saved);
    }
    let save_us = start.elapsed().as_secs_f64() * 1e6 / f64::from(TIMES);
    for _ in 0..TIMES {
        // The memory is there already, as it is in a job.
        let mut given = Some(memory());
        let start = Instant::now();
        let endpoint = Endpoint::restore(&saved, Incarnation(2), config, NOW, |_| given.take());
        restored += start.elapsed().as_nanos();
        assert!(endpoint.is_ok(), "it was saved a moment ago");
    }
    let restore_us = restored as f64 / 1000.0 / f64::from(TIMES);
    let name = format!("{} KiB, {}", fifo_bytes >> 10, if full { "full" } else { "empty" });
    let (context_us, compare_us) = measure_context(&endpoint);
    println!(
        "| {name} | {records} | {} | {save_us:.1} | {restore_us:.1} | {context_us:.1} | {compare_us:.1} |",
        saved.len()
    );
}

/// The same of its network context, as a strict switch has it.
fn measure_context(endpoint: &Endpoint<PlainMemory>) -> (f64, f64) {
    let memory = endpoint.memory(Rank(1)).expect("its only flow");
    let copy = || {
        let mut writer = ContextWriter::new(Key(1));
        let fifo = if is_in_use(&memory.words) { memory.fifo().to_vec() } else { Vec::new() };
        writer.flow(Rank(0), Rank(1), &memory.words, &fifo);
        writer.finish()
    };
    let start = Instant::now();
    let mut saved = copy();
    for _ in 1..TIMES {
        saved = copy();
    }
    let save_us = start.elapsed().as_secs_f64() * 1e6 / f64::from(TIMES);
    let start = Instant::now();
    for _ in 0..TIMES {
        assert_eq!(saved.difference(&copy()), None, "nothing has run meanwhile");
    }
    (save_us, start.elapsed().as_secs_f64() * 1e6 / f64::from(TIMES))
}
