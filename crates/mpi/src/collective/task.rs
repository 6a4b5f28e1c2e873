//! A part of a collective operation whose steps depend on what ranks say meanwhile: an asynchronous function
//! that waits for requests.
//!
//! It is one step of a [`super::schedule::Schedule`], so a blocking call runs it to its end and a nonblocking
//! one leaves it with the process, as every other schedule. While it runs it has the engine by its [`Turn`];
//! when it waits it has named one request, and continues when that is done. It never waits in any other way.

use std::cell::Cell;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::ptr::NonNull;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use tutti_datatype::Buffer;
use tutti_runtime::rank::LockedRank;

use crate::engine::Engine;
use crate::engine::message::{Message, Mode};
use crate::error::Error;
use crate::handle::NONE;
use crate::request::{Outcome, Request, RequestKind, Started};

/// Result of a task.
#[derive(Debug, Default)]
pub struct Done {
    /// Bytes of the user's data.
    pub bytes: usize,
    /// Why not all.
    pub error: Option<Error>,
}

/// A task, suspended.
pub struct Task {
    future: Pin<Box<dyn Future<Output = Done>>>,
    turn: Rc<Turn>,
}

/// State that a task works with while it runs.
#[derive(Debug)]
pub struct Turn {
    engine: Cell<Option<NonNull<Engine>>>,
    rank: Cell<Option<NonNull<LockedRank>>>,
    /// The request that it waits for.
    awaited: Cell<u32>,
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").field("turn", &self.turn).finish_non_exhaustive()
    }
}

impl Task {
    /// A task that has not begun.
    pub fn new<F: Future<Output = Done> + 'static>(begin: impl FnOnce(Rc<Turn>) -> F) -> Task {
        let turn = Rc::new(Turn { engine: Cell::new(None), rank: Cell::new(None), awaited: Cell::new(NONE) });
        Task { future: Box::pin(begin(turn.clone())), turn }
    }

    /// Runs it until it is done or waits. Nothing else uses the two until this returns.
    pub(super) fn advance(&mut self, engine: NonNull<Engine>, rank: NonNull<LockedRank>) -> Option<Done> {
        self.turn.engine.set(Some(engine));
        self.turn.rank.set(Some(rank));
        self.turn.awaited.set(NONE);
        let polled = self.future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        self.turn.engine.set(None);
        self.turn.rank.set(None);
        match polled {
            Poll::Ready(done) => Some(done),
            Poll::Pending => None,
        }
    }

    /// The request that it waits for; [`NONE`] before it begins.
    pub(super) fn awaited(&self) -> u32 {
        self.turn.awaited.get()
    }
}

impl Turn {
    /// Works on the engine.
    fn engine<T>(&self, action: impl FnOnce(&mut Engine) -> T) -> T {
        let mut engine = self.engine.get().expect("a task runs in its turn only");
        // SAFETY: set for the time of a poll, in which nobody else uses the engine; `action` is ours and does
        // not come back here.
        action(unsafe { engine.as_mut() })
    }

    /// Runs a function of the user, or a long system call, without the lock.
    pub fn unlocked<T>(&self, action: impl FnOnce() -> T) -> T {
        let mut rank = self.rank.get().expect("a task runs in its turn only");
        // SAFETY: as for the engine.
        unsafe { rank.as_mut() }.unlocked(action)
    }

    /// Starts a send to a world rank; none when it is done.
    pub fn send(&self, to: u32, context: u32, tag: i32, buffer: Buffer) -> Option<u32> {
        let message = Message { to, context, tag, buffer, mode: Mode::Standard };
        match self.engine(|engine| engine.send(message)) {
            Started::Done => None,
            Started::Pending(index) => Some(index),
        }
    }

    /// Starts a receive from a world rank, or from any.
    pub fn receive(&self, from: i32, context: u32, tag: i32, buffer: Buffer) -> u32 {
        let request = Request::new(RequestKind::Receive, buffer, context, from, tag);
        self.engine(|engine| engine.receive(request))
    }

    /// Waits for a request and takes its outcome.
    pub async fn finished(&self, index: u32) -> Outcome {
        poll_fn(|_| {
            if self.engine(|engine| engine.requests.get(index).done) {
                return Poll::Ready(());
            }
            self.awaited.set(index);
            Poll::Pending
        })
        .await;
        self.engine(|engine| engine.requests.remove(index)).outcome()
    }

    /// Whether a request is done; then its outcome is dropped.
    pub fn drops_finished(&self, index: u32) -> bool {
        let is_done = self.engine(|engine| engine.requests.get(index).done);
        if is_done {
            self.engine(|engine| engine.requests.remove(index));
        }
        is_done
    }

    /// Waits for all that have been started.
    pub async fn all_finished(&self, requests: impl IntoIterator<Item = u32>) {
        for index in requests {
            self.finished(index).await;
        }
    }
}
