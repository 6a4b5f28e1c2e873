//! What the switch thread has of users' memory: mapped by the thread that has found it, and given back to
//! that to be unmapped ([`super::fetcher`]). Unmapping may wait for the user, too.

use std::any::Any;
use std::ops::{Deref, DerefMut};
use std::sync::mpsc::Sender;

/// Something that is dropped by another thread.
pub(super) type Returned = Box<dyn Any + Send>;

/// It goes back when it is dropped.
#[derive(Debug)]
pub(super) struct Lent<T: Send + 'static> {
    /// None: it has gone back.
    value: Option<T>,
    back: Sender<Returned>,
}

impl<T: Send + 'static> Lent<T> {
    pub(super) fn new(value: T, back: &Sender<Returned>) -> Self {
        Lent { value: Some(value), back: back.clone() }
    }
}

impl<T: Send + 'static> Deref for Lent<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.as_ref().expect("it is there until it is dropped")
    }
}

impl<T: Send + 'static> DerefMut for Lent<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_mut().expect("it is there until it is dropped")
    }
}

impl<T: Send + 'static> Drop for Lent<T> {
    fn drop(&mut self) {
        if let Some(value) = self.value.take() {
            // The other thread lives as long as anything is lent.
            let _ = self.back.send(Box::new(value));
        }
    }
}
