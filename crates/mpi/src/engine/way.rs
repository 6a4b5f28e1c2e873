//! The ways to the memory of a rank that is not on this node: the network of the job, or the connection to a
//! guest. Both take the same operations in order.
//!
//! | | network of the job | connection to a guest |
//! |---|---|---|
//! | applied at the target | when acknowledged | when the answer to a SETTLE behind it is here |
//! | who applies: a wait of the target, else | its service thread | the thread that watches its guests |
//! | long operations | bulk messages | records |

use tutti_rma::control::Count;
use tutti_rma::engine::Pushed;
use tutti_rma::operation::Operation;
use tutti_rma::wire::{Name, Refusal};
use tutti_runtime::remote_memory::RemoteMemory;
use tutti_shm::window_lock::Mode;

use super::Engine;
use super::guest_memory::GuestMemory;

/// A way to the memory of ranks.
#[derive(Debug)]
pub enum Way<'a> {
    /// The network of the job.
    Network(RemoteMemory),
    /// The connections to guests.
    Guests(GuestMemory<'a>),
}

/// Calls the method of the same name.
macro_rules! either {
    ($way:expr, $memory:ident => $call:expr) => {
        match $way {
            Way::Network($memory) => $call,
            Way::Guests($memory) => $call,
        }
    };
}

impl<'a> Way<'a> {
    /// Way to a rank of a window which is not on this node.
    pub fn to(engine: &'a mut Engine, rank: usize) -> Self {
        if engine.is_guest(rank) {
            return Way::Guests(engine.guest_memory().expect("a guest is known by its process"));
        }
        // SAFETY: who has the engine holds the process's lock. A window with ranks of other nodes of the job
        // has opened memory to them when it was made.
        Way::Network(unsafe { RemoteMemory::assume_locked() })
    }

    /// Hands over as much of an operation as there is room for. [`Way::send`] lets it go.
    pub fn push(&mut self, operation: &mut Operation) -> Pushed {
        either!(self, memory => memory.push(operation))
    }

    /// Asks for the lock of a window: it is locked when [`Way::is_done`].
    pub fn lock(&mut self, to: usize, region: Name, mode: Mode) -> Pushed {
        either!(self, memory => memory.lock(to, region, mode))
    }

    /// Gives it back, behind the operations before.
    pub fn unlock(&mut self, to: usize, region: Name) -> Pushed {
        either!(self, memory => memory.unlock(to, region))
    }

    /// Takes a step of post-start-complete-wait as rank `own` of the window, behind the operations before.
    pub fn count(&mut self, to: usize, region: Name, count: Count, own: u32) -> Pushed {
        either!(self, memory => memory.count(to, region, count, own))
    }

    /// Asks for an answer behind the operations before.
    pub fn settle(&mut self, to: usize, region: Name) -> Pushed {
        either!(self, memory => memory.settle(to, region))
    }

    /// Lets what was handed over go: at once, or soon with what follows. To guests it has gone.
    pub fn send(&mut self, to: usize) {
        if let Way::Network(memory) = self {
            memory.send(to);
        }
    }

    /// Lets everything go at once, and has a rank acknowledge it.
    pub fn hurry(&mut self, to: usize) {
        if let Way::Network(memory) = self {
            memory.hurry(to);
        }
    }

    /// Whether everything handed over to a rank has been applied there and its answers are here, or the rank
    /// has left. What was handed over to a guest ends with a SETTLE, or with what is answered.
    pub fn is_done(&mut self, to: usize) -> bool {
        either!(self, memory => memory.is_done(to))
    }

    /// Whether answers of a rank are awaited.
    pub fn has_answers_outstanding(&mut self, to: usize) -> bool {
        match self {
            Way::Network(memory) => memory.has_answers_outstanding(to),
            Way::Guests(memory) => !memory.is_done(to),
        }
    }

    /// Whether a rank has left.
    pub fn has_left(&mut self, to: usize) -> bool {
        either!(self, memory => memory.has_left(to))
    }

    /// Why the first operation on a region was refused since this was asked last.
    pub fn take_refusal(&mut self, to: usize, region: Name) -> Option<Refusal> {
        either!(self, memory => memory.take_refusal(to, region))
    }
}
