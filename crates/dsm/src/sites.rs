//! Instructions of the program that cause traffic: what the faults of each have cost. The table has its size
//! from the start, since a fault allocates nothing.

use std::ffi::CStr;
use std::fmt::Write as _;

use crate::core::member::Counters;
use crate::core::unit::UNIT_BYTES;
use crate::os;

/// Variable that names the folder of the reports.
pub const VARIABLE: &str = "TUTTI_DSM_REPORT";
/// The first line of a report; another number when its lines change.
const HEAD: &str = "tutti-dsm-report 2";
/// Instructions that are told apart; those beyond count as one.
const SITES_MAX: usize = 4096;
/// Places of the hash table: a power of two.
const PLACES: usize = 2 * SITES_MAX;

/// Costs of one instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Costs {
    /// The address of the instruction; 0: others.
    pub(crate) address: usize,
    /// Faults of loads and stores for which a page came, and how many pages.
    pub(crate) misses: u64,
    /// See above.
    pub(crate) pages: u64,
    /// First stores to a page between two synchronisations, and copies made for them.
    pub(crate) stores: u64,
    /// See above.
    pub(crate) twins: u64,
    /// Bytes of records with what was stored to those pages.
    pub(crate) sent_bytes: u64,
}

/// The table, and which instruction stored to a page first.
#[derive(Debug)]
pub(crate) struct Sites {
    costs: Vec<Costs>,
    /// By hash: 1 + the place in `costs`.
    places: Vec<u16>,
    /// By unit: 1 + the place of who stored to it.
    storers: &'static mut [u16],
}

impl Sites {
    /// A table for an arena of so many bytes.
    ///
    /// # Errors
    /// When there is no address space.
    pub(crate) fn new(bytes: usize) -> std::io::Result<Self> {
        let units = bytes / UNIT_BYTES;
        let storers = os::halves_mut(os::map_anywhere((units * size_of::<u16>()).max(1))?, units);
        let mut costs = Vec::with_capacity(SITES_MAX);
        costs.push(Costs::default());
        Ok(Sites { costs, places: vec![0; PLACES], storers })
    }

    /// The place of an instruction in the table.
    pub(crate) fn place_of(&mut self, address: usize) -> usize {
        let mut at = (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % PLACES;
        loop {
            let place = self.places[at] as usize;
            if place > 0 && self.costs[place - 1].address == address {
                return place - 1;
            }
            if place == 0 {
                break;
            }
            at = (at + 1) % PLACES;
        }
        if self.costs.len() == SITES_MAX {
            return 0;
        }
        self.costs.push(Costs { address, ..Costs::default() });
        self.places[at] = self.costs.len() as u16;
        self.costs.len() - 1
    }

    /// Costs of an instruction.
    pub(crate) fn costs_mut(&mut self, place: usize) -> &mut Costs {
        &mut self.costs[place]
    }

    /// An instruction has stored to a unit.
    pub(crate) fn note_storer(&mut self, unit: u32, place: usize) {
        self.storers[unit as usize] = place as u16 + 1;
    }

    /// The address of the instruction that stored to a unit last as the first of an interval; 0: none.
    pub(crate) fn storer_of(&self, unit: u32) -> usize {
        let place = (self.storers[unit as usize] as usize).saturating_sub(1);
        self.costs[place].address
    }

    /// Notes that so many bytes about a unit have gone to its home.
    pub(crate) fn note_sent(&mut self, unit: u32, bytes: usize) {
        let place = (self.storers[unit as usize] as usize).saturating_sub(1);
        self.costs[place].sent_bytes += bytes as u64;
    }

    /// All that have cost something.
    pub(crate) fn costs(&self) -> &[Costs] {
        &self.costs
    }
}

/// The report of a rank: a head; records to copies, their bytes, and such records that copies of this rank
/// have taken; then for each instruction the address at which its file was loaded, its own,
/// its costs, and the file.
fn text(rank: usize, ranks: usize, counters: &Counters, costs: &[Costs]) -> String {
    let Counters { update_records, update_bytes, updates_taken, .. } = counters;
    let mut text = format!("{HEAD}\nrank {rank} of {ranks}\n");
    let _ = writeln!(text, "updates {update_records} {update_bytes} {updates_taken}");
    for one in costs.iter().filter(|one| one.misses + one.stores > 0) {
        let (file, base) = os::object_of(one.address);
        let file = file.map_or_else(|| "?".into(), CStr::to_string_lossy);
        let Costs { address, misses, pages, stores, twins, sent_bytes } = one;
        let _ = writeln!(
            text,
            "site {base:#x} {address:#x} {misses} {pages} {stores} {twins} {sent_bytes} {file}"
        );
    }
    text
}

/// Writes the report of this rank into the folder that the user has named, if he has.
pub(crate) fn write(rank: usize, ranks: usize, counters: &Counters, costs: &[Costs]) {
    let Some(folder) = std::env::var_os(VARIABLE).filter(|folder| !folder.is_empty()) else { return };
    let path = std::path::Path::new(&folder).join(format!("tutti-dsm.{rank}"));
    if let Err(error) = std::fs::write(&path, text(rank, ranks, counters, costs)) {
        tutti_runtime::log::line(format_args!("the report {} cannot be written: {error}", path.display()));
    }
}

/// The place of an instruction in the program's file, which is the same on all ranks; 0: not known.
pub(crate) fn offset_of(address: usize) -> u64 {
    match os::object_of(address) {
        (Some(_), base) => (address - base) as u64,
        _ => 0,
    }
}

/// The line of a place in the program's file, by the command that knows debug lines; else the place.
pub(crate) fn line_of(offset: u64) -> String {
    let found = std::env::current_exe().ok().and_then(|program| {
        let command = tutti_command()?;
        let found = std::process::Command::new(command)
            .args(["dsm-report", "--at", &format!("{offset:#x}")])
            .arg(&program)
            .env_remove("LD_PRELOAD")
            .output()
            .ok()?;
        let line = String::from_utf8(found.stdout).ok()?;
        found.status.success().then(|| line.trim().to_owned()).filter(|line| !line.is_empty())
    });
    found.unwrap_or_else(|| format!("place {offset:#x} of the program"))
}

/// The command beside this library.
fn tutti_command() -> Option<std::path::PathBuf> {
    let (library, _) = os::object_of(line_of as fn(u64) -> String as usize);
    let library = std::path::Path::new(library?.to_str().ok()?).canonicalize().ok()?;
    let command = library.parent()?.parent()?.join("bin/tutti");
    command.is_file().then_some(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sites_keep_instructions_apart_until_there_is_no_room() {
        let mut sites = Sites::new(8 * UNIT_BYTES).expect("memory");
        for address in 1..2 * SITES_MAX {
            let place = sites.place_of(0x40_0000 + 4 * address);
            assert_eq!(sites.place_of(0x40_0000 + 4 * address), place);
            assert_eq!(place, if address < SITES_MAX { address } else { 0 });
        }
        let place = sites.place_of(0x40_0004);
        sites.note_storer(3, place);
        sites.note_sent(3, 100);
        sites.note_sent(4, 7);
        assert_eq!((sites.costs()[place].sent_bytes, sites.costs()[0].sent_bytes), (100, 7));
    }

    #[test]
    fn sites_report_has_a_version_and_those_lines_alone_that_cost_something() {
        let costs = [
            Costs::default(),
            Costs { address: 0x10, misses: 2, pages: 9, stores: 1, twins: 1, sent_bytes: 40 },
        ];
        let counters =
            Counters { update_records: 3, update_bytes: 99, updates_taken: 5, ..Counters::default() };
        let text = text(1, 4, &counters, &costs);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[..3], [HEAD, "rank 1 of 4", "updates 3 99 5"]);
        assert_eq!(lines.len(), 4);
        assert!(lines[3].ends_with(" 0x10 2 9 1 1 40 ?"), "{text}");
    }
}
