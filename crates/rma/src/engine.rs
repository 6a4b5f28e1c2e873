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

use std::collections::{HashMap, VecDeque};

use tutti_datatype::Buffer;
use tutti_shm::window_lock::{Mode, Ticket, WindowLock};

use crate::claims::Claims;
use crate::control::Count;
use crate::done::DoneAt;
use crate::operation::{Kept, Note, Operation};
use crate::region::{Region, Rights};
use bulk::{Bulks, Way};
use long::region_bytes;

use crate::wire::{self, Begin, HEAD_BYTES, NO_REPLY, Name, Range, Record, Refusal, Request};

pub mod bulk;
mod long;

/// Answers with data that a pair may have outstanding.
pub const ANSWERS_MAX: usize = 256;
/// Bytes of these answers.
pub const ANSWER_BYTES_MAX: usize = 256 << 10;
/// Refusals that are kept by region until somebody asks.
const REFUSALS_MAX: usize = 1024;

/// Fate of a record that was offered to the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offered {
    /// The record will arrive.
    Taken,
    /// No room for now.
    Full,
    /// The rank has left.
    Gone,
}

/// How records leave.
pub trait Port {
    /// Offers a record, head and body in one, to a rank.
    fn offer(&mut self, to: usize, head: &[u8], body: &[u8]) -> Offered;
    /// Makes room for a bulk message of a rank, and names it.
    fn accept_bulk(&mut self, from: usize, bytes: usize, tag: u64) -> Room {
        let _ = (from, bytes, tag);
        Room::Never
    }
    /// Begins to send a bulk message under the name that its receiver gave it.
    fn send_bulk(&mut self, to: usize, name: u64, bytes: usize, tag: u64) -> Offered {
        let _ = (to, name, bytes, tag);
        Offered::Gone
    }
    /// Takes room back.
    fn cancel_bulk(&mut self, from: usize, name: u64) {
        let _ = (from, name);
    }
    /// Whether there are bulk messages at all.
    fn has_bulk(&self) -> bool {
        false
    }
}

/// Whether there is room for a bulk message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// Name of the message.
    Named(u64),
    /// Not for now.
    Full,
    /// No room ever.
    Never,
}

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

/// An answer that is awaited.
#[derive(Debug)]
struct Awaited {
    into: Buffer,
    has_data: bool,
    note: Option<Note>,
    /// The bulk message that brings it, or that it clears.
    bulk: Option<bulk::Tag>,
}

/// State of this rank towards another one.
#[derive(Debug, Default)]
struct Peer {
    awaited: Vec<Option<Awaited>>,
    free: Vec<u32>,
    outstanding: usize,
    /// Of those that bring data: how many, and how many bytes.
    answers: usize,
    answer_bytes: usize,
    /// Answers to it that the network has not taken yet.
    owed: VecDeque<Vec<u8>>,
    /// Bytes in there.
    owed_bytes: usize,
    is_gone: bool,
    /// Long puts and gets under way.
    puts: usize,
    gets: usize,
    /// Refusals of it that are kept.
    refusals: usize,
    /// Requests that were handed over to it, and those of it that have come.
    asked: u64,
    served: u64,
}

impl Peer {
    fn await_answer(&mut self, into: Buffer, has_data: bool, note: Option<Note>) -> u32 {
        self.outstanding += 1;
        if has_data {
            (self.answers, self.answer_bytes) = (self.answers + 1, self.answer_bytes + into.bytes);
        }
        let awaited = Some(Awaited { into, has_data, note, bulk: None });
        if let Some(number) = self.free.pop() {
            self.awaited[number as usize] = awaited;
            return number;
        }
        self.awaited.push(awaited);
        self.awaited.len() as u32 - 1
    }

    fn end_answer(&mut self, number: u32) -> Option<Awaited> {
        let awaited = self.awaited.get_mut(number as usize)?.take()?;
        self.free.push(number);
        self.outstanding -= 1;
        if awaited.has_data {
            (self.answers, self.answer_bytes) = (self.answers - 1, self.answer_bytes - awaited.into.bytes);
        }
        Some(awaited)
    }

    fn set_bulk(&mut self, number: u32, bulk: bulk::Tag) {
        if let Some(Some(awaited)) = self.awaited.get_mut(number as usize) {
            awaited.bulk = Some(bulk);
        }
    }

    fn bulk_of(&self, number: u32) -> Option<bulk::Tag> {
        self.awaited.get(number as usize)?.as_ref()?.bulk
    }

    /// Whether an operation is kept back while a bulk message is under way: any behind a put; behind a
    /// get whatever could change its bytes.
    fn keeps_back(&self, is_read: bool) -> bool {
        self.puts > 0 || (self.gets > 0 && !is_read)
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.answers == 0 || (self.answers < ANSWERS_MAX && self.answer_bytes + bytes <= ANSWER_BYTES_MAX)
    }
}

/// Peer of a rank, created where it is not there yet.
fn peer(peers: &mut Vec<Peer>, rank: usize) -> &mut Peer {
    if peers.len() <= rank {
        peers.resize_with(rank + 1, Peer::default);
    }
    &mut peers[rank]
}

/// A rank of another node in the queue of a lock here.
#[derive(Clone, Copy, Debug)]
struct Place {
    region: Name,
    from: usize,
    number: u32,
    ticket: Ticket,
    lock: WindowLock,
    has_entered: bool,
    /// Whether nobody waits for it any more: its turn passes.
    is_void: bool,
}

/// A place in the queue of a lock here, as an onlooker is told of it.
#[derive(Debug)]
pub struct Queued<'a> {
    /// The memory that is locked.
    pub region: Name,
    /// The rank of another node that has the place.
    pub from: usize,
    /// The number of its ticket.
    pub number: u32,
    /// Whether it has the lock.
    pub has_entered: bool,
    engine: &'a Engine,
    place: &'a Place,
}

impl Queued<'_> {
    /// Names the ranks that it waits for, if that is known. A place of a rank that has left waits for nobody:
    /// its turn passes by itself.
    pub fn visit_before(&self, visit: &mut dyn FnMut(u32)) {
        if self.has_entered || self.place.is_void {
            return;
        }
        let Engine { me, places, .. } = self.engine;
        self.place.lock.visit_before(self.place.ticket, &mut |number, owner| {
            let is_it = |place: &&Place| {
                place.region == self.region && place.ticket.number() == number && owner == *me
            };
            match places.iter().find(is_it) {
                Some(place) if place.is_void => {}
                Some(place) => visit(place.from as u32),
                None => visit(owner),
            }
        });
    }
}

#[derive(Debug, Default)]
struct Slot {
    generation: u32,
    region: Option<Region>,
    /// Whether it is about to be closed: what is under way goes on, and nothing begins.
    is_retired: bool,
}

/// State of a rank: what it has opened, asked for and owes.
#[derive(Debug)]
pub struct Engine {
    me: u32,
    record_bytes_max: usize,
    regions: Vec<Slot>,
    /// By rank, up to the last one that there was to do with.
    peers: Vec<Peer>,
    /// Peers to whom something is owed.
    busy: Vec<usize>,
    places: Vec<Place>,
    refusals: HashMap<(usize, Name), Refusal>,
    /// Ranks of this node that are to be rung.
    rings: Vec<u32>,
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
            me,
            record_bytes_max: record_bytes_max.min(u16::MAX.into()),
            regions: Vec::new(),
            peers: Vec::new(),
            busy: Vec::new(),
            places: Vec::new(),
            refusals: HashMap::new(),
            rings: Vec::new(),
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
            claims.set(from, self.peers.get(from).map_or(0, |peer| peer.served));
        }
        self.claims = Some(claims);
    }

    /// Opens memory; its name is to be told to whoever may use it.
    pub fn open(&mut self, region: Region) -> Name {
        let free = self.regions.iter().position(|slot| slot.region.is_none());
        let id = free.unwrap_or_else(|| {
            self.regions.push(Slot::default());
            self.regions.len() - 1
        });
        let slot = &mut self.regions[id];
        (slot.region, slot.is_retired) = (Some(region), false);
        Name { id: id as u32, generation: slot.generation }
    }

    /// Begins to close memory: whoever names it from now on is refused. It may be closed when it is not
    /// [`Engine::is_in_use`].
    pub fn retire(&mut self, name: Name) {
        let slot = self.regions.get_mut(name.id as usize);
        if let Some(slot) = slot.filter(|slot| slot.generation == name.generation) {
            slot.is_retired = true;
        }
    }

    /// Whether a long operation of another rank on this memory is under way.
    pub fn is_in_use(&self, name: Name) -> bool {
        self.bulks.has_region(name)
    }

    /// Closes memory: whoever names it from now on is refused.
    pub fn close(&mut self, name: Name) {
        let Some(slot) = self.regions.get_mut(name.id as usize) else { return };
        if slot.generation == name.generation && slot.region.take().is_some() {
            slot.generation = slot.generation.wrapping_add(1);
            self.places.retain(|place| place.region != name);
        }
    }

    /// Whether nothing is open.
    pub fn is_closed(&self) -> bool {
        self.regions.iter().all(|slot| slot.region.is_none())
    }

    /// Hands over as much of an operation as there is room for.
    pub fn push(&mut self, operation: &mut Operation, port: &mut dyn Port) -> Pushed {
        let target = peer(&mut self.peers, operation.to);
        if !operation.is_handed_over() && !target.is_gone {
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
            if peer.is_gone {
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
            if operation.is_kept_whole(&cut) {
                let record = [head, operation.data(&cut, scratch)].concat();
                operation.keep(Kept { number: peer.asked, record });
            }
            peer.asked += 1;
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
        if peer.is_gone {
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
        peer.asked += u64::from(offered == Offered::Taken);
        match offered {
            Offered::Taken => Pushed::All,
            Offered::Full => Pushed::Part,
            Offered::Gone => Pushed::Gone,
        }
    }

    /// Bytes of answers that are owed to a rank and have found no room yet.
    pub fn owed_bytes(&self, to: usize) -> usize {
        self.peers.get(to).map_or(0, |peer| peer.owed_bytes)
    }

    /// Answers of a rank that are awaited.
    pub fn outstanding(&self, to: usize) -> usize {
        self.peers.get(to).map_or(0, |peer| peer.outstanding)
    }

    /// Why the first operation on a region was refused since this was asked last.
    pub fn take_refusal(&mut self, to: usize, region: Name) -> Option<Refusal> {
        if self.refusals.is_empty() {
            return None;
        }
        let found =
            self.refusals.remove(&(to, region)).or_else(|| self.refusals.remove(&(to, wire::NO_REGION)))?;
        let peer = peer(&mut self.peers, to);
        peer.refusals = peer.refusals.saturating_sub(1);
        Some(found)
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
                let peer = peer(&mut self.peers, from);
                let served = peer.served;
                peer.served += 1;
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
            (None, Some(refusal)) => {
                // A rank that refuses what nobody asked for fills no memory: there is one for all the rest.
                let peer = peer(&mut self.peers, to);
                let has_room = peer.refusals < REFUSALS_MAX;
                let region = if has_room { region } else { wire::NO_REGION };
                self.refusals.entry((to, region)).or_insert_with(|| {
                    peer.refusals += 1;
                    refusal
                });
            }
            (None, None) => {}
        }
    }

    fn serve(&mut self, from: usize, name: Name, number: u32, request: &Request<'_>) {
        if name == wire::NO_REGION && *request == Request::Settle {
            return self.owe(from, wire::reply(number, 0));
        }
        let slot = self.regions.get_mut(name.id as usize);
        let region = slot.filter(|slot| slot.generation == name.generation && !slot.is_retired);
        let Some(region) = region.and_then(|slot| slot.region.as_mut()) else {
            return self.refuse(from, name, number, Refusal::NoRegion);
        };
        match request {
            Request::Lock(mode) => {
                let Some(lock) = region.control().map(|control| control.lock()) else {
                    return self.refuse(from, name, number, Refusal::NoRight);
                };
                if self
                    .places
                    .iter()
                    .any(|place| place.region == name && place.from == from && !place.is_void)
                {
                    return self.refuse(from, name, number, Refusal::Malformed);
                }
                lock.set_name(name.id);
                let ticket = lock.ask(*mode, self.me);
                let place =
                    Place { region: name, from, number, ticket, lock, has_entered: false, is_void: false };
                self.places.push(place);
                self.pass_locks();
            }
            Request::Unlock => {
                let is_it = |place: &Place| place.region == name && place.from == from && place.has_entered;
                let Some(index) = self.places.iter().position(is_it) else {
                    return self.refuse(from, name, number, Refusal::Malformed);
                };
                let place = self.places.swap_remove(index);
                self.ring(place.lock.release(place.ticket));
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
        self.places.iter().map(|place| Queued {
            region: place.region,
            from: place.from,
            number: place.ticket.number(),
            has_entered: place.has_entered,
            engine: self,
            place,
        })
    }

    /// Whether ranks of other nodes wait here for a lock that a rank of this node may hold.
    pub fn has_waiting(&self) -> bool {
        self.places.iter().any(|place| !place.has_entered)
    }

    /// Lets those enter whose turn has come.
    fn pass_locks(&mut self) {
        let mut index = 0;
        while let Some(place) = self.places.get_mut(index) {
            if place.has_entered || !place.lock.is_due(place.ticket) {
                index += 1;
                continue;
            }
            place.has_entered = true;
            let place = *place;
            self.ring(place.lock.enter(place.ticket));
            if place.is_void {
                self.places.swap_remove(index);
                self.ring(place.lock.release(place.ticket));
            } else {
                self.owe(place.from, wire::reply(place.number, 0));
            }
            // Others may be next now.
            index = 0;
        }
    }

    fn ring(&mut self, rank: Option<u32>) {
        // This rank's own places are looked at anyway; a thread of it that waits is woken by who polls.
        self.rings.extend(rank.filter(|rank| *rank != self.me));
    }

    fn refuse(&mut self, from: usize, region: Name, number: u32, refusal: Refusal) {
        self.refused[refusal as usize - 1] += 1;
        self.owe(from, wire::status(number, region, refusal));
    }

    fn owe(&mut self, to: usize, answer: Vec<u8>) {
        let peer = peer(&mut self.peers, to);
        if peer.is_gone {
            return;
        }
        if peer.owed.is_empty() {
            self.busy.push(to);
        }
        peer.owed_bytes += answer.len();
        peer.owed.push_back(answer);
    }

    /// Hands over what is owed, as far as there is room, after locks have been passed on.
    pub fn pump(&mut self, port: &mut dyn Port) {
        if !self.places.is_empty() {
            self.pass_locks();
        }
        self.pump_bulk(port);
        let peers = &mut self.peers;
        self.busy.retain(|to| {
            let peer = peer(peers, *to);
            while let Some(answer) = peer.owed.front() {
                let bytes = answer.len();
                match port.offer(*to, answer, &[]) {
                    Offered::Full => return true,
                    Offered::Taken | Offered::Gone => peer.owed.pop_front(),
                };
                peer.owed_bytes -= bytes;
            }
            false
        });
    }

    /// Whether nothing is owed to anybody.
    pub fn is_flushed(&self) -> bool {
        self.busy.is_empty() && self.bulks.is_empty()
    }

    /// Ranks of this node that are to be rung, each once said.
    pub fn rings(&mut self) -> impl Iterator<Item = u32> + '_ {
        self.rings.drain(..)
    }

    /// A rank has left: nothing comes from it, and what it holds is free.
    pub fn handle_exit(&mut self, rank: usize) {
        let peer = peer(&mut self.peers, rank);
        let left = Peer { is_gone: true, refusals: peer.refusals, ..Peer::default() };
        let peer = std::mem::replace(peer, left);
        for note in peer.awaited.into_iter().flatten().filter_map(|awaited| awaited.note) {
            note.answered(Some(Refusal::Gone));
        }
        self.busy.retain(|busy| *busy != rank);
        self.end_bulks_of(rank);
        let mut released = Vec::new();
        self.places.retain_mut(|place| {
            place.is_void |= place.from == rank;
            if place.is_void && place.has_entered {
                released.push(place.lock.release(place.ticket));
            }
            !(place.is_void && place.has_entered)
        });
        for next in released {
            self.ring(next);
        }
        self.pass_locks();
    }

    /// A rank has left, and another process may have its number: nothing of the former is kept.
    pub fn forget(&mut self, rank: usize) {
        self.handle_exit(rank);
        *peer(&mut self.peers, rank) = Peer::default();
        self.claims.iter().for_each(|claims| claims.set(rank, 0));
        self.refusals.retain(|(to, _), _| *to != rank);
    }

    /// Whether a rank has left.
    pub fn has_left(&self, rank: usize) -> bool {
        self.peers.get(rank).is_some_and(|peer| peer.is_gone)
    }
}

/// A record has room for so much besides its data.
pub const OVERHEAD_BYTES: usize = HEAD_BYTES + wire::RANGE_BYTES;

#[cfg(test)]
mod tests;
