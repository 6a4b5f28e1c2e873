//! References to handles of datatypes. An operation that gives a handle to a function of the program keeps
//! one until it ends: the program may free the datatype as soon as the operation is started or prepared (MPI
//! 5.1.9), and the function still asks for its extent.
//!
//! ```text
//! alive  --free, no reference-->  gone
//! alive  --free-->  freed, found as long as there are references  --add or free of another-->  gone
//! ```

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::{Rc, Weak};

use crate::abi::*;

/// Reference to a handle: it names its datatype as long as this lives.
#[derive(Clone, Debug)]
pub struct Reference(#[allow(dead_code, reason = "counted")] Rc<()>);

/// References to the handles of a process.
#[derive(Debug, Default)]
pub(super) struct References {
    /// Of datatypes that are not freed.
    alive: RefCell<HashMap<usize, Weak<()>>>,
    /// Of datatypes that are freed and that had some then.
    freed: Vec<(usize, Weak<()>)>,
}

impl References {
    /// One more reference to a datatype that is there.
    pub(super) fn refer(&self, handle: MPI_Datatype) -> Reference {
        if let Some((_, freed)) = self.freed.iter().find(|(freed, _)| *freed == handle.0) {
            return Reference(freed.upgrade().unwrap_or_default());
        }
        let mut alive = self.alive.borrow_mut();
        let known = alive.entry(handle.0).or_default();
        let reference = known.upgrade().unwrap_or_default();
        *known = Rc::downgrade(&reference);
        Reference(reference)
    }

    /// The program frees a datatype: whether its handle stays for operations.
    pub(super) fn free(&mut self, handle: MPI_Datatype) -> bool {
        let Some(known) = self.alive.get_mut().remove(&handle.0) else { return false };
        let is_referred = known.strong_count() > 0;
        if is_referred {
            self.freed.push((handle.0, known));
        }
        is_referred
    }

    /// Whether the program has freed a datatype whose place is not free yet.
    #[inline(always)]
    pub(super) fn has_freed(&self, handle: MPI_Datatype) -> bool {
        !self.freed.is_empty() && self.freed.iter().any(|(freed, _)| *freed == handle.0)
    }

    /// Whether nothing refers to such a datatype any more.
    #[inline(always)]
    pub(super) fn is_gone(&self, handle: MPI_Datatype) -> bool {
        let is_this = |(freed, known): &(usize, Weak<()>)| *freed == handle.0 && known.strong_count() == 0;
        !self.freed.is_empty() && self.freed.iter().any(is_this)
    }

    /// Forgets the freed datatypes that nothing refers to any more: their handles.
    pub(super) fn take_gone(&mut self) -> Vec<usize> {
        let is_gone = |entry: &mut (usize, Weak<()>)| entry.1.strong_count() == 0;
        self.freed.extract_if(.., is_gone).map(|(handle, _)| handle).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_keep_a_freed_handle_until_the_last_one_ends() {
        let mut references = References::default();
        let [one, other] = [MPI_Datatype(5000), MPI_Datatype(6000)];
        let (first, second) = (references.refer(one), references.refer(one));
        drop(references.refer(other));
        assert!(references.free(one) && !references.free(other));
        assert!(references.has_freed(one) && !references.has_freed(other));
        let third = references.refer(one);
        drop((first, second));
        assert!(!references.is_gone(one) && references.take_gone().is_empty());
        drop(third);
        assert!(references.is_gone(one));
        assert_eq!(references.take_gone(), [one.0]);
        assert!(!references.is_gone(one) && !references.free(one));
    }
}
