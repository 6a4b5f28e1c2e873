//! How loaded this machine and its network are, as /proc says. What cannot be read counts as 0.

use std::fs::File;

/// Room for a file, at first.
const TEXT_BYTES: usize = 4 << 10;

/// How loaded the machine is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Threads that run or wait for a core.
    pub runnable: u64,
    /// Mean number of such threads over a minute, in thousandths.
    pub load_milli: u64,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Bytes of it that programs could get.
    pub memory_available_bytes: u64,
    /// Share of ten seconds in which somebody waited for memory, in hundredths of a percent.
    pub memory_pressure: u64,
    /// Counts of network cards and protocols since the machine was started.
    pub traffic: Traffic,
}

/// Counts of the network, without the machine's traffic with itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Packets and datagrams for which there was no room.
    pub dropped: u64,
    /// Segments of TCP sent again.
    pub retransmitted: u64,
    /// Packets sent.
    pub packets_out: u64,
    /// Packets for which there was no room on their way out, or that were sent again.
    pub lost_out: u64,
}

/// Measures by files of /proc that stay open: to open, read and close each again costs ten times as much.
#[derive(Debug)]
pub struct Meter {
    load: Source,
    memory: Source,
    pressure: Source,
    cards: Source,
    protocols: Source,
}

/// A file of /proc, if there is one, and what it said last.
#[derive(Debug)]
struct Source {
    file: Option<File>,
    text: Vec<u8>,
}

impl Default for Meter {
    fn default() -> Self {
        Meter::new()
    }
}

impl Meter {
    /// One for this machine and the network namespace of the calling thread.
    pub fn new() -> Self {
        Meter {
            load: Source::open("/proc/loadavg"),
            memory: Source::open("/proc/meminfo"),
            pressure: Source::open("/proc/pressure/memory"),
            cards: Source::open("/proc/net/dev"),
            protocols: Source::open("/proc/net/snmp"),
        }
    }

    /// How loaded the machine is now.
    pub fn measure(&mut self) -> Load {
        let (load, memory) = (self.load.read(), self.memory.read());
        Load {
            runnable: runnable(load),
            load_milli: milli(load.split(' ').next().unwrap_or_default()),
            memory_bytes: kilobytes(memory, "MemTotal:"),
            memory_available_bytes: kilobytes(memory, "MemAvailable:"),
            memory_pressure: pressure(self.pressure.read()),
            traffic: traffic(self.cards.read(), self.protocols.read()),
        }
    }
}

impl Source {
    fn open(name: &str) -> Self {
        Source { file: File::open(name).ok(), text: vec![0; TEXT_BYTES] }
    }

    /// Reads the present text of the file.
    fn read(&mut self) -> &str {
        let Some(file) = &self.file else { return "" };
        let mut bytes = 0;
        // The kernel gives whole lines, as many as have room, and then nothing more.
        while let Ok(more @ 1..) = rustix::io::pread(file, &mut self.text[bytes..], bytes as u64) {
            bytes += more;
            if bytes == self.text.len() {
                self.text.resize(2 * bytes, 0);
            }
        }
        str::from_utf8(&self.text[..bytes]).unwrap_or_default()
    }
}

fn runnable(load: &str) -> u64 {
    let tasks = load.split(' ').nth(3).unwrap_or_default();
    tasks.split('/').next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// A number with a point, in thousandths.
fn milli(text: &str) -> u64 {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits: String = part.chars().chain("000".chars()).take(3).collect();
    whole.parse::<u64>().unwrap_or(0) * 1000 + digits.parse::<u64>().unwrap_or(0)
}

fn kilobytes(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0) << 10
}

fn pressure(text: &str) -> u64 {
    let mean =
        text.lines().find(|line| line.starts_with("some")).and_then(|line| line.split("avg10=").nth(1));
    mean.and_then(|mean| mean.split(' ').next()).map_or(0, milli) / 10
}

fn traffic(cards: &str, protocols: &str) -> Traffic {
    let mut traffic = Traffic::default();
    for line in cards.lines() {
        let Some((_, counts)) = line.split_once(':').filter(|(name, _)| name.trim() != "lo") else {
            continue;
        };
        let counts: Vec<u64> = counts.split_whitespace().filter_map(|count| count.parse().ok()).collect();
        let count = |index: usize| counts.get(index).copied().unwrap_or(0);
        traffic.bytes_in += count(0);
        traffic.bytes_out += count(8);
        traffic.dropped += count(3) + count(11);
        traffic.packets_out += count(9);
        traffic.lost_out += count(11);
    }
    traffic.dropped += counted(protocols, "Udp:", "RcvbufErrors");
    traffic.retransmitted = counted(protocols, "Tcp:", "RetransSegs");
    traffic.lost_out += traffic.retransmitted + counted(protocols, "Ip:", "OutDiscards");
    traffic
}

/// A count of /proc/net/snmp: a line of names, then one of numbers.
fn counted(text: &str, protocol: &str, name: &str) -> u64 {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(protocol));
    let (Some(names), Some(numbers)) = (lines.next(), lines.next()) else { return 0 };
    let found = names.split_whitespace().zip(numbers.split_whitespace()).find(|(found, _)| *found == name);
    found.and_then(|(_, number)| number.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Paper: C16
    #[test]
    fn load_of_this_machine_is_there() {
        let mut meter = Meter::new();
        let (first, load) = (meter.measure(), meter.measure());
        assert!(load.runnable >= 1 && load.memory_bytes > load.memory_available_bytes);
        assert!(load.memory_available_bytes > 0 && load.memory_bytes == first.memory_bytes);
    }

    #[test]
    fn load_is_measured_anew_each_time_and_texts_may_be_long() {
        let mut source = Source::open("/proc/self/maps");
        source.text.truncate(16);
        let before = source.read().to_owned();
        assert!(before.len() > 16 && before.lines().count() > 3, "{before}");
        let held = vec![1_u8; 64 << 20];
        assert_ne!(source.read(), before, "a mapping of {} bytes more", held.len());
        assert_eq!(Source::open("/proc/not-there").read(), "");
    }

    #[test]
    fn load_texts_of_the_kernel_are_read() {
        let load = "0.52 0.58 0.59 3/1024 12345\n";
        assert_eq!((runnable(load), milli("0.52"), milli("12.3"), milli("")), (3, 520, 12_300, 0));
        assert_eq!(kilobytes("MemTotal:       16 kB\nMemAvailable:    8 kB\n", "MemAvailable:"), 8192);
        assert_eq!(pressure("some avg10=1.25 avg60=0.00 total=1\nfull avg10=0.00\n"), 125);
        let cards = "Inter-|\n face |\n    lo: 9 9 9 9 0 0 0 0 9 9 9 9 0 0 0 0\n  eth0: 100 1 0 2 0 0 0 0 300 1 0 4 0 0 0 0\n";
        let protocols = "Ip: OutDiscards B\nIp: 8 9\nTcp: A RetransSegs\nTcp: 1 7\nUdp: InErrors RcvbufErrors\nUdp: 5 6\n";
        let counted = Traffic {
            bytes_in: 100,
            bytes_out: 300,
            dropped: 12,
            retransmitted: 7,
            packets_out: 1,
            lost_out: 19,
        };
        assert_eq!(traffic(cards, protocols), counted);
    }
}
