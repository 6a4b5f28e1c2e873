//! Pages that this rank has given back by G_FREE: what it loads and stores there then is a mistake, unless
//! they were given to somebody again.
//!
//! A page that lies wholly in a block loses its permission with it. Node 0, which keeps the heap, says at the
//! next access whether it is part of a block again ([`crate::fault`]). Accesses of other ranks are not seen,
//! nor are those by which a neighbouring page became readable.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::core::unit::{Run, UNIT_BYTES};
use crate::os;

/// Where the bits are, one for each unit; 0: there are none.
static BITS: AtomicUsize = AtomicUsize::new(0);

/// From now on pages of an arena of so many bytes may be given back.
///
/// # Errors
/// When there is no address space for their bits.
pub(crate) fn install(bytes: usize) -> std::io::Result<()> {
    let words = (bytes / UNIT_BYTES).div_ceil(u64::BITS as usize);
    BITS.store(os::map_anywhere(words * size_of::<u64>())?, Relaxed);
    Ok(())
}

/// Units that lie wholly in so many bytes from an offset on.
pub(crate) fn inside(offset: u64, bytes: u64) -> Option<Run> {
    let unit = UNIT_BYTES as u64;
    let (first, end) = (offset.div_ceil(unit), (offset + bytes) / unit);
    (first < end).then_some(Run { first: first as u32, count: (end - first) as u32 })
}

/// Notes that a run was given back, or is part of a block again.
pub(crate) fn note(run: Run, is_freed: bool) {
    for unit in run.units() {
        let Some((word, bit)) = place_of(unit) else { return };
        let bits = os::word(word);
        // The thread that may touch the arena alone comes here.
        let found = bits.load(Relaxed);
        bits.store(if is_freed { found | bit } else { found & !bit }, Relaxed);
    }
}

/// Whether a unit was given back.
pub(crate) fn contains(unit: u32) -> bool {
    place_of(unit).is_some_and(|(word, bit)| os::word(word).load(Relaxed) & bit != 0)
}

fn place_of(unit: u32) -> Option<(usize, u64)> {
    let bits = BITS.load(Relaxed);
    let (word, bit) = (unit / u64::BITS, unit % u64::BITS);
    (bits != 0).then_some((bits + word as usize * size_of::<u64>(), 1 << bit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freed_units_are_those_wholly_inside_of_a_block() {
        assert_eq!(inside(0, 4095), None);
        assert_eq!(inside(0, 4096), Some(Run { first: 0, count: 1 }));
        assert_eq!(inside(1, 8190), None);
        assert_eq!(inside(1, 8191), Some(Run { first: 1, count: 1 }));
        assert_eq!(inside(8192, 3 * 4096 + 5), Some(Run { first: 2, count: 3 }));
    }
}
