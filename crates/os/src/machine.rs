//! Description of this machine's processor: cores and caches as the kernel has them, and times that are
//! measured here ([`figures`]), each by a loop of less than a millisecond.
//!
//! ```text
//! topology: /sys/devices/system/cpu -> which cores share a core, or the last cache
//! figures:  one or two threads bound to cores of this process; of many batches the quickest counts, since
//!           other programs only make one slower
//! ```
//!
//! Keepers of figures beyond this process check [`Machine::boot`]: after a boot it may be another machine.

use std::collections::BTreeMap;
use std::path::Path;

use rustix::thread::{CpuSet, sched_getaffinity};
use serde::{Deserialize, Serialize};

use crate::cpu_list;

mod figures;

/// Number of this form of [`Machine`]; kept figures of another one are measured again.
const FORM: u32 = 1;

/// A machine, as far as speed depends on it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    form: u32,
    boot: String,
    /// Name of the processor.
    pub processor: String,
    /// Cores that this process may use, as `0-3,8`.
    pub cores: String,
    /// Caches, the nearest first.
    pub caches: Vec<Cache>,
    /// Measured times and rates by their names, whose last word is the unit (ns, or gbs: 10^9 bytes a
    /// second).
    pub figures: BTreeMap<String, Figure>,
}

/// Caches of one kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cache {
    /// 1 is the nearest.
    pub level: u32,
    /// `Data`, `Instruction` or `Unified`.
    pub kind: String,
    /// Size of a cache in bytes.
    pub bytes: u64,
    /// Bytes of a line.
    pub line_bytes: u64,
    /// Cores that share each of them.
    pub cores: Vec<String>,
}

/// Measured value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// The quickest batch; none: it cannot be measured here, and `why` says why.
    pub value: Option<f64>,
    /// Duration of the measuring, in us.
    pub took_us: u64,
    /// The cores between which it was measured; empty: on one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub between: Vec<usize>,
    /// Reason for having no value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl Machine {
    /// Describes this machine and measures it, on the cores that this process may use.
    pub fn measure() -> Self {
        let cores = usable();
        let topology = Topology::read(Path::new("/sys/devices/system/cpu"), &cores);
        let figures = figures::measure(&cores, &topology.pairs(&cores));
        Machine {
            form: FORM,
            boot: boot(),
            processor: processor(),
            cores: cpu_list::format(&cores),
            caches: topology.caches,
            figures,
        }
    }

    /// Whether it describes this machine since its last boot, and all that could be measured then was: who
    /// had no time on two cores at once tries again.
    pub fn is_of_now(&self) -> bool {
        let is_missing = |figure: &Figure| figure.why.as_deref() == Some(figures::BUSY);
        self.form == FORM && self.boot == boot() && !self.figures.values().any(is_missing)
    }
}

/// The number that the kernel has drawn for this boot.
fn boot() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    name.map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, name)| name.trim().to_owned())
}

/// Cores that this process may use.
fn usable() -> Vec<usize> {
    let mask = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    (0..CpuSet::MAX_CPU).filter(|core| mask.is_set(*core)).collect()
}

/// Relation of two cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nearness {
    /// Threads of one core.
    Siblings,
    /// Cores that share a last cache.
    Cache,
    /// Cores that share none.
    Far,
}

/// Cores and caches as the kernel describes them.
#[derive(Debug, Default, PartialEq)]
struct Topology {
    caches: Vec<Cache>,
    /// Cores with the threads of the same core, and with those that share the last cache.
    siblings: BTreeMap<usize, Vec<usize>>,
    sharing: BTreeMap<usize, Vec<usize>>,
}

impl Topology {
    /// Of these cores, from a folder as `/sys/devices/system/cpu`. What is not there is left out.
    fn read(folder: &Path, cores: &[usize]) -> Self {
        let mut topology = Topology::default();
        let mut caches: BTreeMap<(u32, String, u64, u64), Vec<String>> = BTreeMap::new();
        for core in cores {
            let of_core = folder.join(format!("cpu{core}"));
            let list = |path: &str| cpu_list::parse(&word(&of_core.join(path)));
            topology.siblings.insert(*core, list("topology/thread_siblings_list"));
            for index in 0..8 {
                let read = |name: &str| word(&of_core.join(format!("cache/index{index}/{name}")));
                let (Ok(level), Some(bytes)) = (read("level").parse(), size(&read("size"))) else { continue };
                let line_bytes = read("coherency_line_size").parse().unwrap_or(0);
                let shared = read("shared_cpu_list");
                topology.sharing.insert(*core, cpu_list::parse(&shared));
                let sets = caches.entry((level, read("type"), bytes, line_bytes)).or_default();
                if !sets.contains(&shared) {
                    sets.push(shared);
                }
            }
        }
        topology.caches = caches
            .into_iter()
            .map(|((level, kind, bytes, line_bytes), cores)| Cache { level, kind, bytes, line_bytes, cores })
            .collect();
        topology
    }

    fn nearness(&self, one: usize, other: usize) -> Nearness {
        let has = |sets: &BTreeMap<usize, Vec<usize>>| sets.get(&one).is_some_and(|set| set.contains(&other));
        match () {
            () if has(&self.siblings) => Nearness::Siblings,
            () if has(&self.sharing) => Nearness::Cache,
            () => Nearness::Far,
        }
    }

    /// First two cores of each nearness.
    fn pairs(&self, cores: &[usize]) -> Vec<(Nearness, [usize; 2])> {
        let mut pairs: Vec<(Nearness, [usize; 2])> = Vec::new();
        let first = cores.first().copied().unwrap_or(0);
        for other in cores.iter().copied().skip(1) {
            let nearness = self.nearness(first, other);
            if pairs.iter().all(|(known, _)| *known != nearness) {
                pairs.push((nearness, [first, other]));
            }
        }
        pairs
    }
}

/// Content of a file of the kernel's; nothing where there is none.
fn word(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// Bytes of a size such as `48K`.
fn size(text: &str) -> Option<u64> {
    let (number, unit) =
        text.split_at(text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len()));
    let shift = match unit {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests;
