//! Clocks of machines: hours apart. A time namespace moves CLOCK_MONOTONIC and CLOCK_BOOTTIME. The kernel has
//! one CLOCK_REALTIME for all, so the time of day is the same on all machines of a lab, as if all were
//! synchronised; a preloaded library that lies about it would lie to some calls only.

use std::{fs, io};

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// How a machine's clock stands when it starts.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) enum Start {
    /// Hours by which it is ahead of this machine's.
    Ahead(i64),
    /// As after a boot: a moment after zero.
    Boot,
}

/// Hours between the clocks of two neighbours.
const APART_HOURS: i64 = 7;
/// Seconds that a clock shows after a boot.
const BOOT_S: i64 = 9;

/// Where the clock of a node stands when the lab comes up.
pub(super) fn first(node: u32) -> Start {
    Start::Ahead(5 + APART_HOURS * i64::from(node))
}

/// Sets the clocks of the time namespace that the next child will be in.
pub(super) fn set(start: Start) -> io::Result<()> {
    let offset = |clock| match start {
        Start::Ahead(hours) => hours * 3600,
        Start::Boot => BOOT_S - clock_gettime(clock).tv_sec,
    };
    let (monotonic, boot) = (offset(ClockId::Monotonic), offset(ClockId::Boottime));
    fs::write("/proc/self/timens_offsets", format!("monotonic {monotonic} 0\nboottime {boot} 0\n"))
}
