//! Variables of C that a process changes behind CREATE, in a job that is checked (`TUTTI_DSM_CHECK=1`): a
//! program written for threads relies on them, and no other process sees the change.
//!
//! ```text
//! begin  at CREATE: the variables of the program's own file, and what they hold
//! look   at each call of the program: a line names those that have changed
//! end    at WAIT_FOR_END
//! ```
//!
//! The table of symbols says where they lie. A program without one, and one that may lie anywhere (`-pie`),
//! has none of them named.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use tutti_runtime::log;

use crate::{globals, os};

/// Lines of a rank at most.
const LINES_MAX: usize = 3;
/// Names in a line at most.
const NAMES_MAX: usize = 8;
/// A longer variable is looked at up to here.
const BYTES_MAX: usize = 16 << 20;

/// A variable, and what it held at CREATE.
#[derive(Debug)]
struct Variable {
    symbol: Symbol,
    before: Vec<u8>,
}

#[derive(Debug)]
struct Changes {
    rank: usize,
    /// Variables that have not changed yet.
    variables: Vec<Variable>,
    lines: usize,
}

static IS_ON: AtomicBool = AtomicBool::new(false);
static CHANGES: Mutex<Option<Changes>> = Mutex::new(None);

/// From now on changes are looked for.
pub(crate) fn begin(rank: usize) {
    let Some(symbols) = std::fs::read("/proc/self/exe").ok().and_then(|file| symbols_of(&file)) else {
        return;
    };
    let keep = |symbol: Symbol| {
        let before = os::bytes(symbol.address, symbol.bytes).to_vec();
        Variable { symbol, before }
    };
    let shared = globals::addresses();
    let variables =
        symbols.into_iter().filter(|symbol| !shared.contains(&symbol.address)).map(keep).collect();
    *CHANGES.lock().expect("nobody panics with it") = Some(Changes { rank, variables, lines: 0 });
    IS_ON.store(true, Relaxed);
}

/// Names what has changed since the last look.
pub(crate) fn look() {
    if !IS_ON.load(Relaxed) {
        return;
    }
    let mut changes = CHANGES.lock().expect("nobody panics with it");
    let Some(Changes { rank, variables, lines }) = changes.as_mut() else { return };
    let is_changed = |variable: &mut Variable| {
        let Symbol { address, bytes, .. } = variable.symbol;
        os::bytes(address, bytes) != variable.before
    };
    let names: Vec<String> =
        variables.extract_if(.., is_changed).map(|variable| variable.symbol.name).collect();
    if names.is_empty() {
        return;
    }
    let others = names.len().saturating_sub(NAMES_MAX);
    let more = if others > 0 { format!(" and {others} more") } else { String::new() };
    let list = names[..names.len() - others].join(", ");
    log::line(format_args!(
        "rank {rank} has changed variables of C behind CREATE, and no other process sees that: {list}{more}; what processes share comes from G_MALLOC, and tutticc --globals=shared makes variables shared"
    ));
    *lines += 1;
    if *lines == LINES_MAX {
        IS_ON.store(false, Relaxed);
    }
}

/// From now on this process is alone: it may change what it likes.
pub(crate) fn end() {
    IS_ON.store(false, Relaxed);
}

/// A variable of the program's file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Symbol {
    pub(crate) name: String,
    pub(crate) address: usize,
    pub(crate) bytes: usize,
}

const TYPE_AT: usize = 16;
const SECTIONS_AT: usize = 40;
const SECTION_BYTES: usize = size_of::<libc::Elf64_Shdr>();
const SECTION_COUNT_AT: usize = 60;
const SYMBOL_BYTES: usize = size_of::<libc::Elf64_Sym>();
const SYMBOL_TABLE: u32 = 2;
/// Flags of a section: stored to, in memory, for each thread.
const FLAGS: u64 = 1 | 2 | 1 << 10;
const OBJECT: u64 = 1;

/// A number of the program's file, of so many bytes.
pub(crate) fn number<const COUNT: usize>(file: &[u8], at: usize) -> Option<u64> {
    let mut bytes = [0; 8];
    bytes[..COUNT].copy_from_slice(file.get(at..at.checked_add(COUNT)?)?);
    Some(u64::from_le_bytes(bytes))
}

/// A section: its type, flags, place in the file, bytes there, and the section that it names.
pub(crate) fn section(file: &[u8], index: usize) -> Option<(u32, u64, usize, usize, usize)> {
    if index as u64 >= number::<2>(file, SECTION_COUNT_AT)? {
        return None;
    }
    let at = number::<8>(file, SECTIONS_AT)? as usize + index * SECTION_BYTES;
    let [kind, link] = [number::<4>(file, at + 4)?, number::<4>(file, at + 40)?];
    let [flags, offset, bytes] =
        [number::<8>(file, at + 8)?, number::<8>(file, at + 24)?, number::<8>(file, at + 32)?];
    Some((kind as u32, flags, offset as usize, bytes as usize, link as usize))
}

/// The variables of a program that lies where it says. Those of other libraries, whose copies it has, carry a
/// version; those of the compiler and of ours begin with known letters.
pub(crate) fn symbols_of(file: &[u8]) -> Option<Vec<Symbol>> {
    if number::<2>(file, TYPE_AT)? != u64::from(libc::ET_EXEC) {
        return None;
    }
    let sections = (0..).map_while(|index| section(file, index));
    let (_, _, table, bytes, names) = sections.into_iter().find(|(kind, ..)| *kind == SYMBOL_TABLE)?;
    let (_, _, names_at, names_bytes, _) = section(file, names)?;
    let names = file.get(names_at..names_at.checked_add(names_bytes)?)?;
    let symbol = |at: usize| {
        let [info, index] = [number::<1>(file, at + 4)?, number::<2>(file, at + 6)?];
        let (_, flags, ..) = section(file, index as usize)?;
        let name = names.get(number::<4>(file, at)? as usize..)?.split(|byte| *byte == 0).next()?;
        let name = std::str::from_utf8(name).ok()?;
        let is_ours = ["__", "tutti_", "completed."].iter().any(|start| name.starts_with(start));
        let (address, bytes) = (number::<8>(file, at + 8)? as usize, number::<8>(file, at + 16)? as usize);
        let is_variable = info & 15 == OBJECT && flags & FLAGS == 3 && bytes > 0;
        (is_variable && !is_ours && !name.contains('@')).then(|| Symbol {
            name: name.to_owned(),
            address,
            bytes: bytes.min(BYTES_MAX),
        })
    };
    Some((0..bytes / SYMBOL_BYTES).filter_map(|place| symbol(table + place * SYMBOL_BYTES)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_a_file_that_is_none_are_not_looked_for() {
        let own = std::fs::read("/proc/self/exe").expect("a file");
        // Tests lie anywhere; as a program that does not, they have variables.
        assert_eq!(symbols_of(&own), None);
        let mut fixed = own;
        fixed[TYPE_AT] = libc::ET_EXEC as u8;
        let symbols = symbols_of(&fixed).expect("a table of symbols");
        assert!(!symbols.is_empty() && symbols.iter().all(|symbol| symbol.address > 0 && symbol.bytes > 0));
        for bytes in [0, 20, 64, 4096, fixed.len() / 2] {
            let _ = symbols_of(&fixed[..bytes]);
        }
    }
}
