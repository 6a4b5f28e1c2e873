//! The shared file pointer (MPI 14.4.4): one number that all ranks of a file move, in etypes.
//!
//! | ranks of the file | where it is |
//! |---|---|
//! | one | in its process |
//! | on one node | a word in memory that they share |
//! | on several nodes or of several launches | with rank 0, whose task answers messages ([`Pointer::serve`]) |

use std::cell::Cell;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::atomic::{AtomicI64, Ordering};

use tutti_datatype::Buffer;
use tutti_shm::arena::{Mapping, Range};

use crate::abi::*;
use crate::collective::task::{Done, Turn};

/// Where it is.
#[derive(Debug)]
pub enum Pointer {
    /// Here.
    Own(Cell<i64>),
    /// In shared memory.
    Word {
        /// The memory.
        mapping: Mapping,
        /// Range that this process has taken from its share for it.
        taken: Option<Range>,
    },
    /// With rank 0 of the file.
    Remote,
}

/// Ends the task of rank 0.
const STOP: i64 = i64::MIN;
/// Tags of questions and of answers.
pub const TAGS: [i32; 2] = [0, 1];

impl Pointer {
    fn word(mapping: &Mapping) -> &AtomicI64 {
        let at: NonNull<AtomicI64> = mapping.base().cast();
        // SAFETY: the range is large enough, aligned to pages, zero when it was taken, and mapped as long as
        // the pointer; all ranks use it as an atomic word.
        unsafe { at.as_ref() }
    }

    /// Moves the pointer and gives where it was; nothing when it is with another rank.
    pub fn add(&self, etypes: i64) -> Option<i64> {
        match self {
            Pointer::Own(position) => Some(position.replace(position.get().wrapping_add(etypes))),
            Pointer::Word { mapping, .. } => Some(Self::word(mapping).fetch_add(etypes, Ordering::AcqRel)),
            Pointer::Remote => None,
        }
    }

    /// Sets the pointer, if it is here. The ranks meet before and after that.
    pub fn set(&self, position: i64) {
        match self {
            Pointer::Own(place) => place.set(position),
            Pointer::Word { mapping, .. } => Self::word(mapping).store(position, Ordering::Release),
            Pointer::Remote => {}
        }
    }

    /// Rank 0 answers the others, until it tells itself to stop, or a rank of another launch is lost: then
    /// no question comes any more.
    pub async fn serve(self: Rc<Self>, turn: Rc<Turn>, context: u32) -> Done {
        let mut question = Box::new([0_i64; 1]);
        let mut answer = Box::new([0_i64; 1]);
        loop {
            let buffer = Buffer::contiguous(question.as_mut_ptr().cast(), size_of::<i64>());
            let asked = turn.receive(MPI_ANY_SOURCE, context, TAGS[0], buffer);
            let asked = turn.finished(asked).await;
            if asked.error != MPI_SUCCESS || question[0] == STOP {
                return Done::default();
            }
            answer[0] = self.add(question[0]).unwrap_or(0);
            let buffer = Buffer::contiguous(answer.as_mut_ptr().cast(), size_of::<i64>());
            if let Some(sent) = turn.send(asked.source as u32, context, TAGS[1], buffer) {
                turn.finished(sent).await;
            }
        }
    }

    /// The question that ends [`Pointer::serve`].
    pub const fn stop() -> i64 {
        STOP
    }
}
