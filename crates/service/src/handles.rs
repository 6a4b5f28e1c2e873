//! Services and connections of this process by number, as C names them.

use core::ffi::c_int;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::status::{BUSY, INVALID};

#[derive(Debug)]
struct All<T> {
    last: i64,
    by_number: BTreeMap<i64, Arc<Mutex<T>>>,
}

/// Objects by number. A number is never given twice.
#[derive(Debug)]
pub struct Handles<T> {
    all: Mutex<All<T>>,
}

impl<T> Default for Handles<T> {
    fn default() -> Self {
        Handles::new()
    }
}

impl<T> Handles<T> {
    /// Table without objects.
    pub const fn new() -> Self {
        Handles { all: Mutex::new(All { last: 0, by_number: BTreeMap::new() }) }
    }

    fn lock(&self) -> MutexGuard<'_, All<T>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.lock().by_number.is_empty()
    }

    /// Number of one more.
    pub fn add(&self, one: T) -> i64 {
        let mut all = self.lock();
        all.last += 1;
        let number = all.last;
        all.by_number.insert(number, Arc::new(Mutex::new(one)));
        number
    }

    /// Works on one.
    ///
    /// # Errors
    /// [`INVALID`]: there is none with this number. [`BUSY`]: a call on it is under way, in a thread or below
    /// this one.
    pub fn with<R>(&self, number: i64, action: impl FnOnce(&mut T) -> Result<R, c_int>) -> Result<R, c_int> {
        let one = self.lock().by_number.get(&number).cloned().ok_or(INVALID)?;
        let mut one = match one.try_lock() {
            Ok(one) => one,
            Err(std::sync::TryLockError::Poisoned(one)) => one.into_inner(),
            Err(std::sync::TryLockError::WouldBlock) => return Err(BUSY),
        };
        action(&mut one)
    }

    /// Takes one out.
    ///
    /// # Errors
    /// As [`Handles::with`].
    pub fn remove(&self, number: i64) -> Result<(), c_int> {
        self.with(number, |_| Ok(()))?;
        self.lock().by_number.remove(&number);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_refuse_numbers_that_are_gone_and_calls_inside_calls() {
        let handles = Handles::new();
        let number = handles.add(5);
        assert_eq!(handles.with(number, |one| Ok(*one)), Ok(5));
        assert_eq!(handles.with(number, |_| handles.with(number, |_| Ok(()))), Err(BUSY));
        assert_eq!(handles.with(number, |_| handles.remove(number)), Err(BUSY));
        assert_eq!(handles.remove(number), Ok(()));
        assert_eq!(handles.remove(number), Err(INVALID));
        assert_ne!(handles.add(6), number);
    }
}
