//! The memory of windows between launches: [`tutti_rma::engine`] over the connections to guests.
//!
//! The records are those between nodes; a stream carries them in order, among those of messages.
//!
//! - **Done.** Nothing acknowledges a record. So who waits for its operations sends a SETTLE behind them: its
//!   answer comes when all before it are applied.
//! - **Bulk.** There are no bulk messages: a long operation goes by records too, as its queue has room.
//! - **Progress.** Records are applied by whoever makes progress with guests: the thread that watches their
//!   sockets while the program computes.
//! - **Trust.** A record that makes no sense makes its guest lost, as does a guest that asks for answers and
//!   does not take them ([`OWED_BYTES_MAX`]). What is not open to it is refused. Its refusals are kept for
//!   memory that it has told of, in a window that is there ([`GuestMemory::learn_name`]); others are dropped.

use std::collections::HashSet;
use std::ptr::NonNull;

use tutti_channel::Taken;
use tutti_rma::control::Count;
use tutti_rma::engine::{Engine as Memory, Offered, Port, Pushed};
use tutti_rma::operation::Operation;
use tutti_rma::region::Region;
use tutti_rma::wire::{KINDS, Name, Record, Refusal, parse};
use tutti_runtime::guests::Guests;
use tutti_runtime::router::{Client, Outbox};
use tutti_shm::window_lock::Mode;

use super::remote_client::RemoteClient;

/// Bytes of answers that a guest has asked for and not taken, at most. One that keeps the rules has asked for
/// a 64th of it at once, besides refusals.
const OWED_BYTES_MAX: usize = 16 << 20;

/// The memory of guests' ranks, for a thread that holds the process lock.
#[derive(Debug)]
pub struct GuestMemory<'a> {
    pub(super) guests: &'a mut Guests,
    pub(super) memory: &'a mut Memory,
    pub(super) names: &'a mut Names,
}

/// Names that guests give their memory in windows that are there, each with its guest.
pub(super) type Names = HashSet<(usize, Name)>;

/// Records leave by the connections to guests.
pub(super) struct ToGuests<'a>(pub &'a mut Guests);

impl Port for ToGuests<'_> {
    fn offer(&mut self, to: usize, head: &[u8], body: &[u8]) -> Offered {
        match self.0.try_send(to, head, body) {
            Ok(()) => Offered::Taken,
            Err(tutti_channel::SendError::Full) => Offered::Full,
            Err(_) => Offered::Gone,
        }
    }
}

impl GuestMemory<'_> {
    /// Opens memory to the guests that will learn its name.
    pub fn open(&mut self, region: Region) -> Name {
        self.memory.open(region)
    }

    /// Closes it: what guests still ask for is refused.
    pub fn close(&mut self, name: Name) {
        self.memory.close(name);
    }

    /// A guest may refuse operations on its memory of this name from now on. Before anybody works on it.
    pub fn learn_name(&mut self, of: usize, name: Name) {
        if self.guests.has(of) {
            self.names.insert((of, name));
        }
    }

    /// No operation on it is under way any more.
    pub fn forget_name(&mut self, of: usize, name: Name) {
        self.names.remove(&(of, name));
        let _ = self.memory.take_refusal(of, name);
    }

    /// Hands over as much of an operation as there is room for.
    pub fn push(&mut self, operation: &mut Operation) -> Pushed {
        self.memory.push(operation, &mut ToGuests(self.guests))
    }

    /// Asks for the lock of a window: it is locked when [`GuestMemory::is_done`].
    pub fn lock(&mut self, to: usize, region: Name, mode: Mode) -> Pushed {
        self.memory.lock(to, region, mode, &mut ToGuests(self.guests))
    }

    /// Gives it back, behind the operations before.
    pub fn unlock(&mut self, to: usize, region: Name) -> Pushed {
        self.memory.unlock(to, region, &mut ToGuests(self.guests))
    }

    /// Takes a step of post-start-complete-wait as rank `own` of the window, behind the operations before.
    pub fn count(&mut self, to: usize, region: Name, count: Count, own: u32) -> Pushed {
        self.memory.count(to, region, count, own, &mut ToGuests(self.guests))
    }

    /// Asks for an answer behind the operations before.
    pub fn settle(&mut self, to: usize, region: Name) -> Pushed {
        self.memory.settle(to, region, &mut ToGuests(self.guests))
    }

    /// Whether no answer of a guest is awaited, or it is lost. Behind a SETTLE all is applied there.
    pub fn is_done(&self, to: usize) -> bool {
        self.memory.outstanding(to) == 0
    }

    /// Whether a guest is lost.
    pub fn has_left(&self, to: usize) -> bool {
        self.memory.has_left(to) || self.guests.is_lost(to)
    }

    /// Why the first operation on a region was refused since this was asked last.
    pub fn take_refusal(&mut self, to: usize, region: Name) -> Option<Refusal> {
        self.memory.take_refusal(to, region)
    }

    /// Grants locks of this process that have come free, and sends the answers that are owed.
    pub fn advance(&mut self) {
        self.memory.pump(&mut ToGuests(self.guests));
    }
}

/// Takes the records of guests: messages, and operations on memory.
pub(super) struct GuestClient<'a> {
    pub messages: RemoteClient<'a>,
    pub memory: &'a mut Memory,
    pub names: &'a Names,
    /// A guest that is owed too much.
    pub overdrawn: Option<usize>,
}

// SAFETY: that of messages is `RemoteClient`'s. Open memory and results stay while their records come
// (contracts of `Region` and of `Operation::new`).
unsafe impl Client for GuestClient<'_> {
    fn record(&mut self, from: usize, record: &[u8]) -> Taken {
        if !record.first().is_some_and(|kind| KINDS.contains(kind)) {
            return self.messages.record(from, record);
        }
        if self.memory.owed_bytes(from) > OWED_BYTES_MAX {
            self.overdrawn = Some(from);
            return Taken::Yes;
        }
        take(self.memory, self.names, from, record);
        Taken::Yes
    }

    fn fragment(&mut self, tag: u64, offset: u64, bytes: &[u8]) {
        self.messages.fragment(tag, offset, bytes);
    }

    fn place(&mut self, tag: u64, offset: u64, bytes: usize) -> Option<NonNull<u8>> {
        self.messages.place(tag, offset, bytes)
    }

    fn read(&mut self, tag: u64, offset: u64, into: &mut [u8]) {
        self.messages.read(tag, offset, into);
    }

    fn slice(&self, tag: u64, offset: u64, bytes: usize) -> Option<&[u8]> {
        self.messages.slice(tag, offset, bytes)
    }

    fn bulk_sent(&mut self, tag: u64) {
        self.messages.bulk_sent(tag);
    }

    fn bulk_received(&mut self, tag: u64) {
        self.messages.bulk_received(tag);
    }

    fn bulk_refused(&mut self, to: usize, tag: u64) {
        self.messages.bulk_refused(to, tag);
    }

    fn advance(&mut self, outbox: &mut Outbox<'_>) {
        self.messages.advance(outbox);
    }
}

/// Takes an operation of a guest, or its answer.
fn take(memory: &mut Memory, names: &Names, from: usize, record: &[u8]) {
    memory.take(from, record);
    if let Some(Record::Status { region, .. }) = parse(record)
        && !names.contains(&(from, region))
    {
        // Nothing was asked of such memory, or nobody asks any more what has become of it.
        let _ = memory.take_refusal(from, region);
    }
}

#[cfg(test)]
mod tests {
    use tutti_rma::wire::{NO_REPLY, status};

    use super::*;

    #[test]
    fn refusals_of_invented_memory_are_dropped() {
        let (mut memory, mut names) = (Memory::new(0, 1024), Names::new());
        let name = |id| Name { id, generation: 0 };
        names.insert((4, name(7)));
        for id in 0..1000 {
            take(&mut memory, &names, 4, &status(NO_REPLY, name(id), Refusal::OutOfRange));
            take(&mut memory, &names, 5, &status(id, name(id), Refusal::NoRegion));
        }
        let kept: Vec<_> = (0..1000)
            .flat_map(|id| [4, 5].map(|guest| (guest, id)))
            .filter(|(guest, id)| memory.take_refusal(*guest, name(*id)).is_some())
            .collect();
        assert_eq!(kept, [(4, 7)]);
    }
}
