//! Rights on an arena of which some units are seen at another address: those of shared variables.
//!
//! ```text
//! units       0 ... first | window | end ...
//! rights by   arena         other    arena
//! ```
//!
//! At the arena's address the units of the window have no rights, ever: nobody comes there.

use std::io;

use super::{Backend, Permissions};
use crate::core::member::Access;
use crate::core::unit::Run;

/// Rights by two back ends of the same kind: of the arena, and of the window.
#[derive(Debug)]
pub struct Windowed {
    /// Of all units, at the arena's address.
    arena: Box<dyn Permissions>,
    /// Of the window, whose first unit is its unit 0.
    other: Box<dyn Permissions>,
    window: Run,
}

impl Windowed {
    /// Units of the window have the rights of `other`.
    pub fn new(arena: Box<dyn Permissions>, other: Box<dyn Permissions>, window: Run) -> Self {
        Windowed { arena, other, window }
    }

    /// The parts of a run before the window, in it (counted from its first unit on), and behind it.
    fn parts(&self, run: Run) -> [Run; 3] {
        let Run { first, count } = self.window;
        let part = |begin: u32, end: u32, base: u32| Run {
            first: begin.saturating_sub(base),
            count: end.saturating_sub(begin),
        };
        [
            part(run.first, run.end().min(first), 0),
            part(run.first.max(first), run.end().min(first + count), first),
            part(run.first.max(first + count), run.end(), 0),
        ]
    }
}

impl Permissions for Windowed {
    fn backend(&self) -> Backend {
        self.arena.backend()
    }

    fn close(&mut self) -> io::Result<()> {
        self.arena.close()?;
        self.other.close()
    }

    fn close_mapped(&mut self, run: Run) -> io::Result<()> {
        let [before, inside, behind] = self.parts(run);
        for part in [before, behind].into_iter().filter(|part| part.count > 0) {
            self.arena.close_mapped(part)?;
        }
        if inside.count > 0 { self.other.close_mapped(inside) } else { Ok(()) }
    }

    fn set(&mut self, run: Run, touched: Option<u32>, access: Access) -> io::Result<()> {
        let [before, inside, behind] = self.parts(run);
        for part in [before, behind].into_iter().filter(|part| part.count > 0) {
            self.arena.set(part, touched, access)?;
        }
        if inside.count == 0 {
            return Ok(());
        }
        let touched = touched.filter(|unit| self.window.units().contains(unit));
        self.other.set(inside, touched.map(|unit| unit - self.window.first), access)
    }

    fn calls(&self) -> u64 {
        self.arena.calls() + self.other.calls()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    /// A call: units, the one that was touched, and the right; none: a new mapping.
    type Call = (Run, Option<u32>, Option<Access>);

    #[derive(Debug, Default)]
    struct Recorded(Arc<Mutex<Vec<Call>>>);

    impl Recorded {
        fn add(&self, call: Call) -> io::Result<()> {
            self.0.lock().expect("a list").push(call);
            Ok(())
        }
    }

    impl Permissions for Recorded {
        fn backend(&self) -> Backend {
            Backend::Mprotect
        }

        fn close(&mut self) -> io::Result<()> {
            Ok(())
        }

        fn close_mapped(&mut self, run: Run) -> io::Result<()> {
            self.add((run, None, None))
        }

        fn set(&mut self, run: Run, touched: Option<u32>, access: Access) -> io::Result<()> {
            self.add((run, touched, Some(access)))
        }

        fn calls(&self) -> u64 {
            0
        }
    }

    #[test]
    fn window_has_the_rights_of_its_own_units_counted_from_its_first() {
        let run = |first, count| Run { first, count };
        let (arena, other) = (Arc::default(), Arc::default());
        let of = |list: &Arc<Mutex<Vec<Call>>>| Box::new(Recorded(list.clone()));
        let mut windowed = Windowed::new(of(&arena), of(&other), run(4, 3));
        let read = Some(Access::Read);
        windowed.set(run(2, 8), Some(5), Access::Read).expect("rights");
        windowed.set(run(0, 4), Some(1), Access::Read).expect("rights");
        windowed.set(run(7, 2), None, Access::Read).expect("rights");
        windowed.close_mapped(run(6, 1)).expect("rights");
        windowed.set(run(4, 1), Some(9), Access::Read).expect("rights");
        let expected = [
            (run(2, 2), Some(5), read),
            (run(7, 3), Some(5), read),
            (run(0, 4), Some(1), read),
            (run(7, 2), None, read),
        ];
        assert_eq!(*arena.lock().expect("a list"), expected);
        let expected = [(run(0, 3), Some(1), read), (run(2, 1), None, None), (run(0, 1), None, read)];
        assert_eq!(*other.lock().expect("a list"), expected);
    }
}
