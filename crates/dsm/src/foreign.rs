//! Shared variables that hold addresses of shared libraries from before `main` on (a table of functions of
//! the C library): the loader finds these for each process by itself, and they differ.
//!
//! The program's file has them in its tables of relocations: the place, and the symbol of a library.

use tutti_runtime::log;

use crate::globals;
use crate::variables::{Symbol, number, section, symbols_of};

/// Names in the line at most.
const NAMES_MAX: usize = 4;
/// Sections of relocations with an addend.
const RELOCATIONS: u32 = 4;
const RELOCATION_BYTES: usize = size_of::<libc::Elf64_Rela>();
const SYMBOL_BYTES: usize = size_of::<libc::Elf64_Sym>();

/// Names those variables in a line, where there are such.
pub(crate) fn name_variables() {
    let shared = globals::addresses();
    if shared.is_empty() {
        return;
    }
    let Ok(file) = std::fs::read("/proc/self/exe") else { return };
    let variables = symbols_of(&file).unwrap_or_default();
    let mut words: Vec<String> = relocations(&file)
        .filter(|(address, _)| shared.contains(address))
        .map(|(address, name)| match holder(&variables, address) {
            Some(variable) => format!("{} ({name})", variable.name),
            None => format!("{address:#x} ({name})"),
        })
        .collect();
    words.dedup();
    if words.is_empty() {
        return;
    }
    let more = words.len().saturating_sub(NAMES_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    words.truncate(NAMES_MAX);
    log::line(format_args!(
        "variables that are shared hold addresses of shared libraries, which are right in rank 0 alone: {}{more}; \
         const keeps a variable private, and a function of the program's own that calls the library's has one address",
        words.join(", ")
    ));
}

fn holder(variables: &[Symbol], address: usize) -> Option<&Symbol> {
    variables.iter().find(|variable| (variable.address..variable.address + variable.bytes).contains(&address))
}

/// Places that the loader fills with the address of a symbol, and the symbol's name.
fn relocations(file: &[u8]) -> impl Iterator<Item = (usize, String)> {
    let sections = (0..).map_while(|index| section(file, index));
    let tables = sections.filter(|(kind, ..)| *kind == RELOCATIONS);
    tables.flat_map(move |(_, _, offset, bytes, symbols)| {
        let places =
            (0..bytes / RELOCATION_BYTES).map(move |place| offset.saturating_add(place * RELOCATION_BYTES));
        places.filter_map(move |at| relocation(file, at, symbols))
    })
}

fn relocation(file: &[u8], at: usize, symbols: usize) -> Option<(usize, String)> {
    let [address, info] = [number::<8>(file, at)?, number::<8>(file, at.checked_add(8)?)?];
    let index = (info >> u32::BITS) as usize;
    if index == 0 {
        // A place in the program itself.
        return None;
    }
    let (_, _, table, _, names) = section(file, symbols)?;
    let (_, _, names, ..) = section(file, names)?;
    let name = number::<4>(file, table.checked_add(index.checked_mul(SYMBOL_BYTES)?)?)? as usize;
    let name = file.get(names.checked_add(name)?..)?.split(|byte| *byte == 0).next()?;
    // Functions that `tutticc` puts in the place of those of the C library have the names of the program.
    let name = name.strip_prefix(b"__wrap_").unwrap_or(name);
    Some((address as usize, String::from_utf8_lossy(name).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_addresses_are_those_that_the_loader_finds() {
        let own = std::fs::read("/proc/self/exe").expect("a file");
        let names: Vec<String> = relocations(&own).map(|(_, name)| name).collect();
        assert!(names.iter().any(|name| name == "malloc" || name == "memcpy"), "{names:?}");
        for bytes in [0, 20, 64, 4096, own.len() / 2] {
            relocations(&own[..bytes]).for_each(drop);
        }
    }
}
