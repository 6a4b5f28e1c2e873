//! The state of each page of the arena as compiled code sees it, where loads are checked
//! (docs/internals/dsm.md): a byte, at its number. The program's thread alone reads them, and writes them,
//! inside the library.

use crate::core::unit::{Run, UNIT_BYTES};
use crate::os;

/// Loads find wrong values.
pub(crate) const ABSENT: u8 = 1;
/// Stores of this interval need no call any more.
pub(crate) const OPENED: u8 = 2;

/// Bytes of a job, all zero at first: everything is here, and nothing is stored to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct States {
    address: usize,
}

impl States {
    /// States of an arena of so many bytes.
    ///
    /// # Errors
    /// When there is no address space for them.
    pub(crate) fn new(bytes: usize) -> std::io::Result<Self> {
        Ok(States { address: os::map_anywhere(bytes.div_ceil(UNIT_BYTES))? })
    }

    /// The place at which the state of a page would be if pages were numbered from address 0 on, for an arena
    /// at `base`. Sums wrap around.
    pub(crate) fn biased(self, base: usize) -> usize {
        self.address.wrapping_sub(base / UNIT_BYTES)
    }

    /// The state of a page.
    pub(crate) fn of(self, unit: u32) -> u8 {
        let mut state = [0];
        os::load(self.address + unit as usize, &mut state);
        state[0]
    }

    /// Sets a bit of some pages, or clears it.
    pub(crate) fn set(self, run: Run, bit: u8, is_set: bool) {
        for unit in run.units() {
            let before = self.of(unit);
            let after = if is_set { before | bit } else { before & !bit };
            // A page of zeros that nobody has changed takes no memory.
            if after != before {
                os::store(self.address + unit as usize, &[after]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_where_compiled_code_looks_for_them() {
        let states = States::new(8 * UNIT_BYTES).expect("memory");
        states.set(Run { first: 2, count: 3 }, ABSENT, true);
        states.set(Run::of(3), OPENED, true);
        states.set(Run::of(4), ABSENT, false);
        let base = crate::arena::BASE;
        let found = (0..8).map(|unit| {
            let mut state = [0];
            let page = (base + unit * UNIT_BYTES + 17) / UNIT_BYTES;
            os::load(states.biased(base).wrapping_add(page), &mut state);
            state[0]
        });
        assert_eq!(found.collect::<Vec<_>>(), [0, 0, ABSENT, ABSENT | OPENED, 0, 0, 0, 0]);
    }
}
