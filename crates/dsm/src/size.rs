//! The size of the shared memory, and the ways of its protocol, as the environment says them.

use crate::core::unit::UNIT_BYTES;
use crate::permissions::Backend;

/// Variable that sets it.
pub const VARIABLE: &str = "TUTTI_DSM_SIZE";
/// Variable that limits the memory for copies of pages of other nodes, for each rank.
pub const COPIES_VARIABLE: &str = "TUTTI_DSM_COPIES";
/// A program may touch so many pages in one instruction, or nearly.
const COPIES_MIN: usize = 64;

/// Address space, not memory: pages come on first use.
const DEFAULT_BYTES: u64 = 4 << 30;
/// Units have numbers of 32 bits, and messages lists of them.
pub(crate) const BYTES_MAX: u64 = 1 << 40;

/// The size that the user wants: whole units.
///
/// # Errors
/// When the variable holds no size; a line for the user.
pub fn wanted() -> Result<usize, String> {
    let Some(text) = std::env::var_os(VARIABLE) else { return Ok(DEFAULT_BYTES as usize) };
    let text = text.to_string_lossy();
    let bytes = parse(&text).filter(|bytes| (1..=BYTES_MAX).contains(bytes)).ok_or_else(|| {
        format!("{VARIABLE}={text} is no size: a number is expected, then K, M, G, T or nothing, 1T at most")
    })?;
    Ok((bytes as usize).next_multiple_of(UNIT_BYTES))
}

/// Variable that lets each note leave alone, to see what combining brings (the paper's MB).
pub const COMBINE_VARIABLE: &str = "TUTTI_DSM_COMBINE";

/// Variable that has all ranks ask the keepers for locks, to see what handing them over inside nodes brings.
pub const HANDOVER_VARIABLE: &str = "TUTTI_DSM_HANDOVER";

/// Variable that keeps homes where the address says, to see what moving them brings.
pub const MIGRATE_VARIABLE: &str = "TUTTI_DSM_MIGRATE";

/// Variable that says which stores go to all copies in place of notices.
pub const UPDATE_VARIABLE: &str = "TUTTI_DSM_UPDATE";

/// Blocks whose stores go to all copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Updates {
    /// None.
    Off,
    /// Blocks that the program marks.
    Marked,
    /// All.
    All,
}

impl Updates {
    /// Bytes behind an arena for blocks that the program marks: an eighth, as far as there is room.
    pub fn bytes_beside(self, arena_bytes: usize) -> usize {
        let room = BYTES_MAX as usize - arena_bytes;
        if self == Updates::Marked { (arena_bytes / 8).min(room) / UNIT_BYTES * UNIT_BYTES } else { 0 }
    }
}

/// Variable that has stores checked.
pub const CHECK_VARIABLE: &str = "TUTTI_DSM_CHECK";

/// Variable that says how accesses of the program are noticed.
pub const BACKEND_VARIABLE: &str = "TUTTI_DSM_BACKEND";

/// Settings of the environment besides the size.
#[derive(Clone, Copy, Debug)]
pub struct Wishes {
    /// Copies of pages that a rank may have; none: as many as it uses.
    pub copies: Option<usize>,
    /// Stores are checked.
    pub is_checked: bool,
    /// Which stores go to all copies.
    pub updates: Updates,
    /// Notes are combined into few records.
    pub combines: bool,
    /// Ranks of a node hand locks over without their keepers.
    pub passes_locks: bool,
    /// The home of a page moves to the only rank that writes it.
    pub moves_homes: bool,
    /// Stores to pages that are not here bring no page: all loads of the program are checked.
    pub writes_absent: bool,
    /// How accesses are noticed; none: as is fastest.
    pub backend: Option<Backend>,
}

/// Variables that all ranks have to agree on.
pub const WAYS: [&str; 4] = [UPDATE_VARIABLE, CHECK_VARIABLE, HANDOVER_VARIABLE, MIGRATE_VARIABLE];

impl Wishes {
    /// The ways of the protocol, as a number: the same at all ranks.
    pub fn ways(&self) -> u64 {
        let switches = [self.is_checked, self.passes_locks, self.moves_homes];
        let bits = switches.into_iter().enumerate().map(|(place, is_on)| u64::from(is_on) << (8 + place));
        bits.fold(self.updates as u64, |ways, bit| ways | bit)
    }
}

/// The wishes of the user.
///
/// # Errors
/// When a variable holds no value of its kind; a line for the user.
pub fn wishes() -> Result<Wishes, String> {
    let is_checked = match std::env::var(CHECK_VARIABLE).as_deref() {
        Err(_) | Ok("" | "0") => false,
        Ok("1") => true,
        Ok(other) => return Err(format!("{CHECK_VARIABLE}={other} is neither 0 nor 1")),
    };
    let updates = match std::env::var(UPDATE_VARIABLE).as_deref() {
        Err(_) | Ok("" | "marked") => Updates::Marked,
        Ok("off") => Updates::Off,
        Ok("all") => Updates::All,
        Ok(other) => return Err(format!("{UPDATE_VARIABLE}={other} is none of off, marked and all")),
    };
    let backend = match std::env::var(BACKEND_VARIABLE).as_deref() {
        Err(_) | Ok("") => None,
        Ok("userfaultfd") => Some(Backend::Userfaultfd),
        Ok("mprotect") => Some(Backend::Mprotect),
        Ok(other) => return Err(format!("{BACKEND_VARIABLE}={other} is neither userfaultfd nor mprotect")),
    };
    Ok(Wishes {
        copies: copies()?,
        is_checked,
        updates,
        combines: is_on(COMBINE_VARIABLE)?,
        passes_locks: is_on(HANDOVER_VARIABLE)?,
        moves_homes: is_on(MIGRATE_VARIABLE)?,
        writes_absent: false,
        backend,
    })
}

/// Whether an optimisation is on: where the variable does not turn it off.
///
/// # Errors
/// When the variable holds something else; a line for the user.
fn is_on(variable: &str) -> Result<bool, String> {
    match std::env::var(variable).as_deref() {
        Err(_) | Ok("" | "on") => Ok(true),
        Ok("off") => Ok(false),
        Ok(other) => Err(format!("{variable}={other} is neither on nor off")),
    }
}

/// How many copies of pages a rank may have; none: as many as it uses.
///
/// # Errors
/// When the variable holds no size; a line for the user.
fn copies() -> Result<Option<usize>, String> {
    let Some(text) = std::env::var_os(COPIES_VARIABLE) else { return Ok(None) };
    let text = text.to_string_lossy();
    let bytes = parse(&text).ok_or_else(|| {
        format!("{COPIES_VARIABLE}={text} is no size: a number is expected, then K, M, G, T or nothing")
    })?;
    Ok(Some((bytes as usize / UNIT_BYTES).max(COPIES_MIN)))
}

fn parse(text: &str) -> Option<u64> {
    let text = text.trim();
    let (number, shift) = match text.chars().last()?.to_ascii_uppercase() {
        'K' => (&text[..text.len() - 1], 10),
        'M' => (&text[..text.len() - 1], 20),
        'G' => (&text[..text.len() - 1], 30),
        'T' => (&text[..text.len() - 1], 40),
        _ => (text, 0),
    };
    number.trim().parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dsm_updates_have_an_eighth_beside_the_arena_as_far_as_addresses_go() {
        let beside = |bytes| Updates::Marked.bytes_beside(bytes);
        assert_eq!([beside(4 << 30), beside(16 << 20), beside(UNIT_BYTES)], [512 << 20, 2 << 20, 0]);
        assert_eq!([beside(1 << 40), Updates::Off.bytes_beside(1 << 30)], [0, 0]);
    }

    #[test]
    fn dsm_size_has_a_unit_of_measure_behind_it() {
        assert_eq!([parse("64M"), parse(" 2g "), parse("4096")], [Some(64 << 20), Some(2 << 30), Some(4096)]);
        assert_eq!([parse("M"), parse("1.5G"), parse(""), parse("-1"), parse("99999999999T")], [None; 5]);
    }
}
