//! Loads and stores that code compiled with `--dsm=udsm` checks before they happen: what its test does not
//! find here comes without a fault (docs/internals/dsm.md).

use crate::arena::BASE;
use crate::core::unit::UNIT_BYTES;
use crate::states::{ABSENT, OPENED, States};
use crate::{fault, note, os, present};

/// Loads of so many bytes follow, from code at an address.
pub fn load(address: usize, bytes: usize, site: usize) {
    each(address, bytes, |states, unit| states.of(unit) & ABSENT != 0, false, site);
}

/// Stores of so many bytes follow, which are noted.
pub fn store(address: usize, bytes: usize, site: usize) {
    each(address, bytes, |states, unit| states.of(unit) & OPENED == 0, true, site);
}

/// The same of rows, whose beginnings are a stride apart.
pub fn load_rows(address: usize, bytes: usize, stride: isize, rows: usize, site: usize) {
    starts(address, bytes, stride, rows).for_each(|start| load(start, bytes, site));
}

/// The same of stores.
pub fn store_rows(address: usize, bytes: usize, stride: isize, rows: usize, site: usize) {
    starts(address, bytes, stride, rows).for_each(|start| store(start, bytes, site));
}

/// The loop ahead has ended; whether all that the other one will store is noted. Then it may be stored to.
pub fn end_ahead(site: usize) -> bool {
    let Some(runs) = note::end_ahead() else { return false };
    if note::states().is_some() {
        runs.into_iter().for_each(|run| store(run.start, run.len(), site));
    }
    true
}

/// Rows without bytes are those of a loop that does not run: its count of rows says nothing.
fn starts(address: usize, bytes: usize, stride: isize, rows: usize) -> impl Iterator<Item = usize> {
    let rows = if bytes == 0 { 0 } else { rows };
    (0..rows).map(move |row| address.wrapping_add_signed(stride.wrapping_mul(row as isize)))
}

/// Has the run time called for each page of a range that needs it. Variables that are shared need no calls:
/// what is not there faults, and no stores to them are noted.
fn each(address: usize, bytes: usize, needs: impl Fn(States, u32) -> bool, is_store: bool, site: usize) {
    let Some(range) = present::shared(address, bytes).filter(|range| range.start >= BASE) else { return };
    let Some(states) = note::states() else { return };
    let error = os::error_number();
    for page in present::pages(range) {
        let offset = page - BASE;
        let unit = (offset / UNIT_BYTES) as u32;
        if needs(states, unit) {
            fault::serve(offset, is_store, site);
            debug_assert!(!needs(states, unit), "unit {unit} is not what a call was to make it");
        }
    }
    os::set_error_number(error);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checked_rows_without_bytes_are_none_however_many_they_are() {
        assert_eq!(starts(0, 0, 8, usize::MAX).count(), 0);
        assert_eq!(starts(100, 4, -8, 3).collect::<Vec<_>>(), [100, 92, 84]);
    }
}
