//! Spinning on an ordinary variable: a loop that loads the same place until another rank stores there.
//! Nothing orders such a load with the store, so it may never see it. Looked for in a job that is checked.
//!
//! ```text
//! look     of a rank that has called nothing since the last one: its pages lose permission, so that each
//!          place which it loads or stores next shows itself by a fault
//! alike    several looks in a row have seen a few loads, always the same: a loop waits there
//! suspect  the next of these loads brings its page again. A byte that has changed another rank has stored
//!          meanwhile
//! ```
//!
//! A loop that loads a place which nobody changes, such as the bound of a long computation, is suspected in
//! vain.

/// Places that a loop which waits looks at, at most.
const PLACES_MAX: usize = 4;
/// Looks in a row that have to see the same.
const ALIKE_WANTED: u32 = 5;

/// A load: where the instruction is, and which byte of the arena it reads first.
pub(crate) type Load = (usize, usize);

/// Accesses that a look has seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Seen {
    loads: [Load; PLACES_MAX],
    count: usize,
    /// Whether there was a store, or more loads than a loop that waits has.
    is_busy: bool,
}

impl Seen {
    fn has(&self, load: Load) -> bool {
        self.loads[..self.count].contains(&load)
    }

    fn add(&mut self, load: Load) {
        if self.has(load) {
            return;
        }
        match self.loads.get_mut(self.count) {
            Some(place) => {
                *place = load;
                self.count += 1;
                self.loads[..self.count].sort_unstable();
            }
            None => self.is_busy = true,
        }
    }
}

/// State of the search, at one rank.
#[derive(Debug, Default)]
pub(crate) struct Spins {
    /// Accesses since the last look, and before it.
    seen: Seen,
    before: Seen,
    /// Looks in a row that have seen the same.
    alike: u32,
    has_called: bool,
    is_suspected: bool,
}

impl Spins {
    /// The program has called the library.
    pub(crate) fn note_call(&mut self) {
        *self = Spins { has_called: true, ..Spins::default() };
    }

    /// The program has stored somewhere.
    pub(crate) fn note_store(&mut self) {
        self.seen.is_busy = true;
    }

    /// The program has loaded a byte; whether its page is to be brought again, to see whether it has changed.
    pub(crate) fn note_load(&mut self, load: Load) -> bool {
        self.seen.add(load);
        self.is_suspected && self.before.has(load)
    }

    /// The page of a suspect has come again, unchanged: the search begins anew.
    pub(crate) fn acquit(&mut self) {
        *self = Spins::default();
    }

    /// Looks at what the program has done since the last look; whether its pages are to lose permission.
    pub(crate) fn look(&mut self) -> bool {
        if std::mem::take(&mut self.has_called) {
            return false;
        }
        let seen = std::mem::take(&mut self.seen);
        let is_waiting = seen.count > 0 && !seen.is_busy && seen == self.before;
        self.alike = if is_waiting { self.alike + 1 } else { 0 };
        self.is_suspected = self.alike >= ALIKE_WANTED;
        self.before = seen;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks until a load is suspected, of a program that does the same between all of them.
    fn suspects(loads: &[Load], has_stored: bool) -> bool {
        let mut spins = Spins::default();
        (0..20).any(|_| {
            let is_suspect = loads.iter().any(|load| spins.note_load(*load));
            if has_stored {
                spins.note_store();
            }
            assert!(spins.look());
            is_suspect
        })
    }

    #[test]
    fn spin_is_suspected_by_the_same_few_loads_without_stores() {
        assert!(suspects(&[(0x10, 8)], false));
        assert!(suspects(&[(0x10, 8), (0x14, 4096), (0x10, 8)], false));
        assert!(!suspects(&[(0x10, 8)], true), "a loop that stores does something");
        assert!(!suspects(&[], false), "private memory alone");
        let many: Vec<Load> = (0..PLACES_MAX + 1).map(|place| (0x10, 8 * place)).collect();
        assert!(!suspects(&many, false), "a loop over an array");
    }

    #[test]
    fn spin_is_none_where_places_change_or_the_library_is_called() {
        let mut spins = Spins::default();
        assert!((0..20).all(|place| {
            let is_suspect = spins.note_load((0x10, place));
            spins.look() && !is_suspect
        }));
        for round in 0..60 {
            if round % 4 == 0 {
                spins.note_call();
            }
            assert!(!spins.note_load((0x10, 8)), "{round}");
            assert_eq!(spins.look(), round % 4 != 0, "{round}");
        }
    }

    #[test]
    fn spin_that_was_suspected_in_vain_is_suspected_later_again() {
        let mut spins = Spins::default();
        let mut found = 0;
        for _ in 0..40 {
            if spins.note_load((0x10, 8)) {
                spins.acquit();
                found += 1;
            }
            spins.look();
        }
        assert!((2..10).contains(&found), "{found}");
    }
}
