//! Remote memory between nodes, without a network: what this rank has opened, what it has asked others for,
//! and what it owes them.
//!
//! ```text
//! initiator  Engine::push --records--> Engine::take  target: applies, keeps the answer
//!            Engine::take <--answers-- Engine::pump
//! ```
//!
//! - A record is applied inside [`Engine::take`], so what the channel acknowledges is done. It is never put
//!   off: what cannot be done at once (a lock that is held, an answer without room) is kept here.
//! - Records of a pair are applied in the order in which they were handed over. What has no answer is
//!   complete when its record is acknowledged; whoever has the network knows that.
//! - At most [`ANSWERS_MAX`] answers of [`ANSWER_BYTES_MAX`] bytes in all are outstanding at a target, so
//!   what it owes a rank is bounded. Locks have none of that: a rank waits once for each window.
//! - An operation that is refused changes nothing, and ends. The first refusal of each region is kept until
//!   somebody asks for it ([`Engine::take_refusal`]).
#![allow(unsafe_code)]

use tutti_datatype::Buffer;
use tutti_shm::window_lock::Mode;

use crate::claims::Claims;
use crate::control::Count;
use crate::done::DoneAt;
use crate::operation::{Kept, Note, Operation};
use crate::region::{Region, Rights};
use bulk::{Bulks, Way};
use long::region_bytes;
use peer::{Peer, peer};
use places::Places;
use refusals::Refusals;
use regions::Regions;

use crate::wire::{self, Begin, HEAD_BYTES, NO_REPLY, Name, Range, Record, Refusal, Request};

pub mod bulk;
mod long;
mod peer;
mod places;
mod port;
mod refusals;
mod regions;

pub use places::Queued;
pub use port::{Offered, Port, Room};

/// Answers with data that a pair may have outstanding.
pub const ANSWERS_MAX: usize = 256;
/// Bytes of these answers.
pub const ANSWER_BYTES_MAX: usize = 256 << 10;

/// How far an operation has been handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// Whole.
    All,
    /// No room for the rest: try again when something has come.
    Part,
    /// The target has left; nothing will come of it.
    Gone,
}

/// State of a rank: what it has opened, asked for and owes.
#[derive(Debug)]
pub struct Engine {
    record_bytes_max: usize,
    regions: Regions,
    /// By rank, up to the last one that there was to do with.
    peers: Vec<Peer>,
    /// Peers to whom something is owed.
    busy: Vec<usize>,
    places: Places,
    refusals: Refusals,
    /// By [`Refusal`].
    refused: [u64; Refusal::ALL.len()],
    head: Vec<u8>,
    scratch: Vec<u8>,
    ranges: Vec<Range>,
    bulks: Bulks,
    /// Where others see which requests have been applied.
    claims: Option<Claims>,
}

// SAFETY: the addresses in it are of memory that stays until the operations are complete (contract of
// `Operation::new`), and whoever has the value has the right to use it.
unsafe impl Send for Engine {}

impl Engine {
    /// Engine of world rank `me`, which has opened nothing; records are of `record_bytes_max` bytes at most.
    pub fn new(me: u32, record_bytes_max: usize) -> Self {
        Engine {
            record_bytes_max: record_bytes_max.min(u16::MAX.into()),
            regions: Regions::default(),
            peers: Vec::new(),
            busy: Vec::new(),
            places: Places::new(me),
            refusals: Refusals::default(),
            refused: [0; Refusal::ALL.len()],
            head: Vec::new(),
            scratch: Vec::new(),
            ranges: Vec::new(),
            bulks: Bulks::default(),
            claims: None,
        }
    }

    /// From now on each request is claimed before it is applied, so that somebody else may apply it. Of each
    /// rank there is a word as far as the memory reaches.
    pub fn set_claims(&mut self, claims: Claims, ranks: usize) {
        for from in 0..ranks {
            claims.set(from, self.peers.get(from).map_or(0, Peer::served));
        }
        self.claims = Some(claims);
    }

    /// Opens memory; its name is to be sent to whoever may use it.
    pub fn open(&mut self, region: Region) -> Name {
        self.regions.open(region)
    }

    /// Begins to close memory: whoever names it from now on is refused. It may be closed when it is not
    /// [`Engine::is_in_use`].
    pub fn retire(&mut self, name: Name) {
        self.regions.retire(name);
    }

    /// Whether a long operation of another rank on this memory is under way.
    pub fn is_in_use(&self, name: Name) -> bool {
        self.bulks.has_region(name)
    }

    /// Closes memory: whoever names it from now on is refused.
    pub fn close(&mut self, name: Name) {
        if self.regions.close(name) {
            self.places.close(name);
        }
    }

    /// Whether nothing is open.
    pub fn is_closed(&self) -> bool {
        self.regions.is_empty()
    }

    /// Open memory of a name.
    fn region(&self, name: Name) -> Option<&Region> {
        self.regions.find(name)
    }

    /// Hands over as much of an operation as there is room for. One whose rank has left has ended: that is
    /// noted.
    pub fn push(&mut self, operation: &mut Operation, port: &mut dyn Port) -> Pushed {
        let pushed = self.push_some(operation, port);
        if pushed == Pushed::Gone
            && let Some(note) = operation.take_end()
        {
            note.answered(Some(Refusal::Gone));
        }
        pushed
    }

    fn push_some(&mut self, operation: &mut Operation, port: &mut dyn Port) -> Pushed {
        let target = peer(&mut self.peers, operation.to);
        if !operation.is_handed_over() && !target.is_gone() {
            if target.keeps_back(operation.is_read()) {
                return Pushed::Part;
            }
            if operation.is_bulk {
                operation.end_bulk();
            } else if operation.as_bulk().is_some()
                && let Some(pushed) = self.push_bulk(operation, port)
            {
                return pushed;
            }
        }
        let Engine { peers, head, scratch, ranges, .. } = self;
        let peer = peer(peers, operation.to);
        while !operation.is_handed_over() {
            if peer.is_gone() {
                return Pushed::Gone;
            }
            let cut = operation.cut(self.record_bytes_max, ranges);
            debug_assert!(cut.bytes > 0 || operation.is_empty(), "a record has room for an element");
            let answer = operation.answer(&cut);
            if answer.as_ref().is_some_and(|into| !peer.has_room(into.bytes)) {
                return Pushed::Part;
            }
            let note = operation.note(&cut);
            let number = answer.map_or(NO_REPLY, |into| peer.await_answer(into, true, note));
            wire::write_request(cut.begin, operation.region, number, ranges, head);
            let offered = port.offer(operation.to, head, operation.data(&cut, scratch));
            if offered != Offered::Taken {
                if number != NO_REPLY {
                    peer.end_answer(number);
                }
                return if offered == Offered::Full { Pushed::Part } else { Pushed::Gone };
            }
            if operation.keeps() && number != NO_REPLY {
                peer.keep(number);
                operation.keep(peer.asked(), number, self.record_bytes_max);
            }
            peer.note_asked();
            operation.advance(&cut);
        }
        Pushed::All
    }

    /// Asks for the lock of a window; it is locked when nothing is outstanding at the rank any more.
    pub fn lock(&mut self, to: usize, region: Name, mode: Mode, port: &mut dyn Port) -> Pushed {
        self.push_bare((to, region), Begin::Lock(mode), true, None, port)
    }

    /// Gives it back, behind what was handed over before.
    pub fn unlock(&mut self, to: usize, region: Name, port: &mut dyn Port) -> Pushed {
        self.push_bare((to, region), Begin::Unlock, false, None, port)
    }

    /// Takes a step of post-start-complete-wait, as rank `own` of the window.
    pub fn count(&mut self, to: usize, region: Name, count: Count, own: u32, port: &mut dyn Port) -> Pushed {
        self.push_bare((to, region), Begin::Count(count, own), false, None, port)
    }

    /// Asks for an answer behind everything before: refusals of it come first.
    pub fn settle(&mut self, to: usize, region: Name, port: &mut dyn Port) -> Pushed {
        self.push_bare((to, region), Begin::Settle, true, None, port)
    }

    /// The same for all regions of a rank; the answer is noted.
    pub fn settle_all(&mut self, to: usize, done: DoneAt, port: &mut dyn Port) -> Pushed {
        let note = Note { at: done, is_last: true };
        self.push_bare((to, wire::NO_REGION), Begin::Settle, true, Some(note), port)
    }

    fn push_bare(
        &mut self,
        (to, region): (usize, Name),
        begin: Begin,
        is_answered: bool,
        note: Option<Note>,
        port: &mut dyn Port,
    ) -> Pushed {
        let peer = peer(&mut self.peers, to);
        if peer.is_gone() {
            return Pushed::Gone;
        }
        if peer.keeps_back(false) {
            return Pushed::Part;
        }
        let number = if is_answered { peer.await_answer(Buffer::empty(), false, note) } else { NO_REPLY };
        wire::write_request(begin, region, number, &[], &mut self.head);
        let offered = port.offer(to, &self.head, &[]);
        if offered != Offered::Taken && is_answered {
            peer.end_answer(number);
        }
        match offered {
            Offered::Taken => {
                peer.note_asked();
                Pushed::All
            }
            Offered::Full => Pushed::Part,
            Offered::Gone => Pushed::Gone,
        }
    }

    /// Bytes of answers that are owed to a rank and have found no room yet.
    pub fn owed_bytes(&self, to: usize) -> usize {
        self.peers.get(to).map_or(0, Peer::owed_bytes)
    }

    /// Whether the answer to a record that was kept is awaited still.
    pub fn awaits(&self, to: usize, kept: &Kept) -> bool {
        self.peers.get(to).is_some_and(|peer| peer.awaits(kept))
    }

    /// Number of the first record, of those that are kept, whose answer is awaited from a rank. Somebody else
    /// who may answer keeps one answer alone: it is asked for this one, and for the next when that is here.
    pub fn first_kept(&self, to: usize) -> Option<u64> {
        self.peers.get(to)?.first_kept()
    }

    /// Answers of a rank that are awaited.
    pub fn outstanding(&self, to: usize) -> usize {
        self.peers.get(to).map_or(0, Peer::outstanding)
    }

    /// Why the first operation on a region was refused since this was asked last.
    pub fn take_refusal(&mut self, to: usize, region: Name) -> Option<Refusal> {
        self.refusals.take(to, region)
    }

    /// Operations of others that were refused here.
    pub fn refused(&self) -> u64 {
        self.refused.iter().sum()
    }

    /// Operations of others that were refused here for this reason.
    pub fn refused_for(&self, refusal: Refusal) -> u64 {
        self.refused[refusal as usize - 1]
    }

    /// Takes a record of a rank. It is applied, or refused, when this returns.
    pub fn take(&mut self, from: usize, record: &[u8]) {
        match wire::parse(record) {
            Some(Record::Request { region, number, request }) => {
                let served = peer(&mut self.peers, from).serve_next();
                let Some(claims) = self.claims else { return self.serve(from, region, number, &request) };
                if claims.begin(from, served) {
                    self.serve(from, region, number, &request);
                    claims.end(from, served);
                }
            }
            Some(Record::Clear { number, name }) => self.handle_clear(from, number, name),
            // The channel reads that memory still, and ends the operation itself.
            Some(Record::Reply { number, .. } | Record::Status { number, .. })
                if self.sends_for(from, number) => {}
            Some(Record::Reply { number, data }) => {
                let Some(awaited) = peer(&mut self.peers, from).end_answer(number) else { return };
                if let Some(bulk) = awaited.bulk {
                    // No bare answer belongs to a long operation.
                    let region = self.bulks.region_out(bulk).unwrap_or(wire::NO_REGION);
                    self.note_end(from, region, awaited.note, Some(Refusal::Malformed));
                    return self.refuse_bulk(bulk);
                }
                let is_whole = awaited.into.bytes == data.len();
                if is_whole {
                    // SAFETY: the memory stays until the operation is complete (contract of
                    // `Operation::new`).
                    unsafe { awaited.into.store(0, data.as_ptr(), data.len()) };
                }
                let refusal = (!is_whole).then_some(Refusal::Malformed);
                self.note_end(from, wire::NO_REGION, awaited.note, refusal);
            }
            Some(Record::Status { number, region, refusal }) => {
                let awaited = peer(&mut self.peers, from).end_answer(number);
                if let Some(bulk) = awaited.as_ref().and_then(|awaited| awaited.bulk) {
                    self.refuse_bulk(bulk);
                }
                self.note_end(from, region, awaited.and_then(|awaited| awaited.note), Some(refusal));
            }
            None => {
                let (region, number) =
                    wire::names(record).unwrap_or((Name { id: u32::MAX, generation: 0 }, NO_REPLY));
                self.refuse(from, region, number, Refusal::Malformed);
            }
        }
    }

    /// An operation of this rank has ended: that is noted where its initiator looks.
    fn note_end(&mut self, to: usize, region: Name, note: Option<Note>, refusal: Option<Refusal>) {
        match (note, refusal) {
            (Some(note), _) => note.answered(refusal),
            (None, Some(refusal)) => self.refusals.keep(to, region, refusal),
            (None, None) => {}
        }
    }

    fn serve(&mut self, from: usize, name: Name, number: u32, request: &Request<'_>) {
        if name == wire::NO_REGION && *request == Request::Settle {
            return self.owe(from, wire::reply(number, 0));
        }
        let Some(region) = self.regions.find_to_begin(name) else {
            return self.refuse(from, name, number, Refusal::NoRegion);
        };
        match request {
            Request::Lock(mode) => {
                let Some(lock) = region.control().map(|control| control.lock()) else {
                    return self.refuse(from, name, number, Refusal::NoRight);
                };
                if self.places.has(name, from) {
                    return self.refuse(from, name, number, Refusal::Malformed);
                }
                self.places.push((from, number), name, lock, *mode);
                self.pass_locks();
            }
            Request::Unlock => {
                if !self.places.release(name, from) {
                    return self.refuse(from, name, number, Refusal::Malformed);
                }
                self.pass_locks();
            }
            Request::Offer(range) => {
                let (region, offset) = (name, range.offset);
                let checked = region_bytes(self.region(name), *range, Rights::WRITE);
                let way = Way::PutIn { from, number, place: bulk::Place { region, offset }, name: None };
                let is_one = self.bulks.of(from, |bulk| matches!(bulk.way, Way::PutIn { .. })).is_empty();
                match checked.and(is_one.then_some(()).ok_or(Refusal::Malformed)) {
                    Ok(()) => {
                        let bulk = self.bulks.insert(way, range.bytes as usize);
                        self.bulks.to_accept.push_back(bulk);
                    }
                    Err(refusal) => self.refuse(from, name, number, refusal),
                }
            }
            Request::Fetch(range, room) => {
                let (region, offset) = (name, range.offset);
                let checked = region_bytes(self.region(name), *range, Rights::READ);
                let way = Way::GetOut { to: from, place: bulk::Place { region, offset } };
                let count = self.bulks.of(from, |bulk| matches!(bulk.way, Way::GetOut { .. })).len();
                match checked.and((count < bulk::GETS_SERVED_MAX).then_some(()).ok_or(Refusal::Malformed)) {
                    Ok(()) => {
                        let bulk = self.bulks.insert(way, range.bytes as usize);
                        self.bulks.to_send.push_back((bulk, *room));
                    }
                    Err(refusal) => self.refuse(from, name, number, refusal),
                }
            }
            request => {
                let is_answered = number != NO_REPLY;
                // What a rank is owed is bounded by what it asks for at once; a record asks for so much.
                let asked = match request {
                    Request::Read { ranges } => ranges.bytes(),
                    Request::Change { ranges, .. } if is_answered => ranges.bytes(),
                    _ => 0,
                };
                // An answer is a record.
                if asked + HEAD_BYTES as u64 > self.record_bytes_max as u64 {
                    return self.refuse(from, name, number, Refusal::Malformed);
                }
                let mut answer = is_answered.then(|| wire::reply(number, asked as usize));
                match region.apply(from, request, answer.as_mut()) {
                    Ok(()) => {
                        if let Some(answer) = answer {
                            self.owe(from, answer);
                        }
                    }
                    Err(refusal) => self.refuse(from, name, number, refusal),
                }
            }
        }
    }

    /// The places that this rank holds for ranks of other nodes.
    pub fn places(&self) -> impl Iterator<Item = Queued<'_>> {
        self.places.iter()
    }

    /// Whether ranks of other nodes wait here for a lock that a rank of this node may hold.
    pub fn has_waiting(&self) -> bool {
        self.places.has_waiting()
    }

    /// Lets those enter whose turn has come.
    fn pass_locks(&mut self) {
        for (from, number) in self.places.pass() {
            self.owe(from, wire::reply(number, 0));
        }
    }

    fn refuse(&mut self, from: usize, region: Name, number: u32, refusal: Refusal) {
        self.refused[refusal as usize - 1] += 1;
        self.owe(from, wire::status(number, region, refusal));
    }

    fn owe(&mut self, to: usize, answer: Vec<u8>) {
        let peer = peer(&mut self.peers, to);
        if !peer.is_gone() && peer.owe(answer) {
            self.busy.push(to);
        }
    }

    /// Hands over what is owed, as far as there is room, after locks have been passed on.
    pub fn pump(&mut self, port: &mut dyn Port) {
        if !self.places.is_empty() {
            self.pass_locks();
        }
        self.pump_bulk(port);
        let peers = &mut self.peers;
        self.busy.retain(|to| peer(peers, *to).pump(*to, port));
    }

    /// Whether nothing is owed to anybody.
    pub fn is_flushed(&self) -> bool {
        self.busy.is_empty() && self.bulks.is_empty()
    }

    /// Ranks of this node that are to be rung, each once said.
    pub fn rings(&mut self) -> impl Iterator<Item = u32> + '_ {
        self.places.rings()
    }

    /// A rank has left: nothing comes from it, and what it holds is free.
    pub fn handle_exit(&mut self, rank: usize) {
        for note in peer(&mut self.peers, rank).end() {
            note.answered(Some(Refusal::Gone));
        }
        self.busy.retain(|busy| *busy != rank);
        self.end_bulks_of(rank);
        self.places.handle_exit(rank);
        self.pass_locks();
    }

    /// A rank has left, and another process may have its number: nothing of the former is kept.
    pub fn forget(&mut self, rank: usize) {
        self.handle_exit(rank);
        *peer(&mut self.peers, rank) = Peer::default();
        self.claims.iter().for_each(|claims| claims.set(rank, 0));
        self.refusals.forget(rank);
    }

    /// Whether a rank has left.
    pub fn has_left(&self, rank: usize) -> bool {
        self.peers.get(rank).is_some_and(Peer::is_gone)
    }
}

/// A record has room for so much besides its data.
pub const OVERHEAD_BYTES: usize = HEAD_BYTES + wire::RANGE_BYTES;

#[cfg(test)]
mod tests;
