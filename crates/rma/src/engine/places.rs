//! Places that this rank holds in queues of locks here, for ranks of other nodes.

use tutti_shm::window_lock::{Mode, Ticket, WindowLock};

use crate::wire::Name;

/// A rank of another node in the queue of a lock here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    region: Name,
    from: usize,
    number: u32,
    ticket: Ticket,
    lock: WindowLock,
    has_entered: bool,
    /// Whether nobody waits for it any more: its turn passes.
    is_void: bool,
}

/// A place in the queue of a lock here, as an onlooker is notified of it.
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
    places: &'a Places,
    place: &'a Place,
}

impl Queued<'_> {
    /// Names the ranks that it waits for, if that is known. A place of a rank that has left waits for nobody:
    /// its turn passes by itself.
    pub fn visit_before(&self, visit: &mut dyn FnMut(u32)) {
        if self.has_entered || self.place.is_void {
            return;
        }
        let Places { me, all, .. } = self.places;
        self.place.lock.visit_before(self.place.ticket, &mut |number, owner| {
            let is_it = |place: &&Place| {
                place.region == self.region && place.ticket.number() == number && owner == *me
            };
            match all.iter().find(is_it) {
                Some(place) if place.is_void => {}
                Some(place) => visit(place.from as u32),
                None => visit(owner),
            }
        });
    }
}

/// All places, and whom their turns wake.
#[derive(Debug)]
pub(super) struct Places {
    me: u32,
    all: Vec<Place>,
    /// Ranks of this node that are to be rung.
    rings: Vec<u32>,
}

impl Places {
    /// No place of world rank `me`.
    pub(super) fn new(me: u32) -> Self {
        Places { me, all: Vec::new(), rings: Vec::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether there is one that waits for its turn.
    pub(super) fn has_waiting(&self) -> bool {
        self.all.iter().any(|place| !place.has_entered)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Queued<'_>> {
        self.all.iter().map(|place| Queued {
            region: place.region,
            from: place.from,
            number: place.ticket.number(),
            has_entered: place.has_entered,
            places: self,
            place,
        })
    }

    /// Ranks of this node that are to be rung, each once said.
    pub(super) fn rings(&mut self) -> impl Iterator<Item = u32> + '_ {
        self.rings.drain(..)
    }

    /// Whether a rank has a place already.
    pub(super) fn has(&self, region: Name, from: usize) -> bool {
        self.all.iter().any(|place| place.region == region && place.from == from && !place.is_void)
    }

    /// Takes a place at the end of a lock's queue, whose turn is answered by this number.
    pub(super) fn push(&mut self, (from, number): (usize, u32), region: Name, lock: WindowLock, mode: Mode) {
        lock.set_name(region.id);
        let ticket = lock.ask(mode, self.me);
        self.all.push(Place { region, from, number, ticket, lock, has_entered: false, is_void: false });
    }

    /// Gives the lock of a rank back; false when it has none.
    pub(super) fn release(&mut self, region: Name, from: usize) -> bool {
        let is_it = |place: &Place| place.region == region && place.from == from && place.has_entered;
        let Some(index) = self.all.iter().position(is_it) else { return false };
        let place = self.all.swap_remove(index);
        self.ring(place.lock.release(place.ticket));
        true
    }

    /// Drops the places of memory that is closed.
    pub(super) fn close(&mut self, region: Name) {
        self.all.retain(|place| place.region != region);
    }

    /// A rank has left: what it holds is free, and its turns pass.
    pub(super) fn handle_exit(&mut self, rank: usize) {
        let mut released = Vec::new();
        self.all.retain_mut(|place| {
            place.is_void |= place.from == rank;
            if place.is_void && place.has_entered {
                released.push(place.lock.release(place.ticket));
            }
            !(place.is_void && place.has_entered)
        });
        for next in released {
            self.ring(next);
        }
    }

    /// Lets those enter whose turn has come: ranks, with the numbers of their answers.
    pub(super) fn pass(&mut self) -> Vec<(usize, u32)> {
        let (mut entered, mut index) = (Vec::new(), 0);
        while let Some(place) = self.all.get_mut(index) {
            if place.has_entered || !place.lock.is_due(place.ticket) {
                index += 1;
                continue;
            }
            place.has_entered = true;
            let place = *place;
            self.ring(place.lock.enter(place.ticket));
            if place.is_void {
                self.all.swap_remove(index);
                self.ring(place.lock.release(place.ticket));
            } else {
                entered.push((place.from, place.number));
            }
            // Others may be next now.
            index = 0;
        }
        entered
    }

    fn ring(&mut self, rank: Option<u32>) {
        // This rank's own places are looked at anyway; a thread of it that waits is woken by who polls.
        self.rings.extend(rank.filter(|rank| *rank != self.me));
    }
}
