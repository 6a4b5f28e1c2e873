//! A simulator: many endpoints, a network that does what it likes, and everything from one seed.
//!
//! ```text
//! World -- events by time --> Node: Endpoint, socket buffer, a program that sends, a sink that may refuse
//!   |                          |
//!   '-- faults                 '-- SimMemory publishes --> Board: checks every store against the model
//! ```
//!
//! It loses, repeats, delays and reorders packets, lets long ones vanish, cuts the network in two, freezes
//! ranks (alone or as a gang, between two packets, and between a packet's making and its sending), lets
//! clocks jump, saves and restores ranks at any event, rolls all back to a checkpoint while packets of the
//! undone future are under way, kills one, and lets sinks refuse for a while or for long.
//!
//! What is checked, and when:
//! - at every store of a published word, before and after it: `snd_una <= rcv_nxt <= snd_high <= snd_nxt` on
//!   the flow, as if the rank stopped right there; every so often also that the records of the cut are, byte
//!   by byte, those that were sent and have not arrived;
//! - at every store of a word on a bulk message that is coming in: what is claimed of it is there, byte by
//!   byte;
//! - at every record: it is the next one; at every fragment: its message is open, its bytes are right and in
//!   their place;
//! - at the end, when the network is well again: everything has arrived, within a time.
//!
//! A failure panics and prints seed, event and the last steps; [`Options::from_seed`] with that seed repeats
//! it.

mod board;
mod network;
mod node;
mod rank;
mod trace;
mod world;

pub use board::{Board, SimMemory, record_of};
pub use world::{Report, World};

use tutti_testkit::Random;

use crate::config::Config;
use crate::types::Seq;

/// When long datagrams vanish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vanishing {
    /// Never.
    Never,
    /// For a while, again and again.
    AtTimes,
    /// From the beginning to the end.
    Always,
}

/// Options of a run. All that it does follows from the seed.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Where every decision comes from.
    pub seed: u64,
    /// Ranks, each on a node of its own.
    pub ranks: usize,
    /// Events before the network becomes well and the run is brought to its end.
    pub events: u64,
    /// Packets of a thousand that are lost.
    pub loss_permille: u32,
    /// Packets of a thousand that come twice.
    pub repeat_permille: u32,
    /// Packets of a thousand that are overtaken by others.
    pub late_permille: u32,
    /// Records of a thousand that the sink refuses.
    pub refuse_permille: u32,
    /// Mean time between faults; 0: none.
    pub fault_every_ns: u64,
    /// Whether one rank is killed.
    pub kill: bool,
    /// When datagrams vanish that are longer than what every path takes.
    pub vanishing: Vanishing,
    /// Bytes of each send FIFO.
    pub fifo_bytes: usize,
    /// The numbers of the endpoints.
    pub config: Config,
}

impl Options {
    /// A run with all kinds of trouble, chosen by the seed.
    #[must_use]
    pub fn from_seed(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut pick = |choices: &[u64]| choices[random.below(choices.len() as u64) as usize];
        let datagram_bytes = pick(&[256, 512, 1448, 8952]) as usize;
        let config = Config {
            datagram_bytes,
            fifo_records: pick(&[4, 64, 1024]) as u32,
            bulk_out_max: pick(&[1, 4, 16]) as u32,
            bulk_in_max: pick(&[1, 4, 16]) as u32,
            receive_buffer_bytes: pick(&[20_000, 212_992, 4 << 20]) as u32,
            ack_every_datagrams: pick(&[1, 2, 8]) as u32,
            burst_datagrams: pick(&[1, 4, 64]) as usize,
            first_seq: Seq(pick(&[0, 0xffff_ff00, 0x7fff_ff80]) as u32),
            ..Config::default()
        };
        Options {
            seed,
            ranks: pick(&[2, 2, 3, 5]) as usize,
            events: 20_000,
            loss_permille: pick(&[0, 10, 100, 300]) as u32,
            repeat_permille: pick(&[0, 20, 200]) as u32,
            late_permille: pick(&[0, 20, 200]) as u32,
            refuse_permille: pick(&[0, 20, 300]) as u32,
            fault_every_ns: pick(&[0, 300_000, 3_000_000]),
            kill: pick(&[0, 0, 0, 1]) == 1,
            fifo_bytes: pick(&[1, 2, 8]) as usize * (datagram_bytes.max(2048) & !7),
            vanishing: [Vanishing::Never, Vanishing::Never, Vanishing::AtTimes, Vanishing::Always]
                [pick(&[0, 1, 2, 3]) as usize],
            config,
        }
    }
}
