//! Memory that this rank has opened, by name. A name has a generation: who has that of memory that was closed
//! finds nothing.

use crate::region::Region;
use crate::wire::Name;

#[derive(Debug, Default)]
struct Slot {
    generation: u32,
    region: Option<Region>,
    /// Whether it is about to be closed: what is under way goes on, and nothing begins.
    is_retired: bool,
}

/// All that is open.
#[derive(Debug, Default)]
pub(super) struct Regions {
    slots: Vec<Slot>,
}

impl Regions {
    /// Opens memory; its name.
    pub(super) fn open(&mut self, region: Region) -> Name {
        let free = self.slots.iter().position(|slot| slot.region.is_none());
        let id = free.unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() - 1
        });
        let slot = &mut self.slots[id];
        (slot.region, slot.is_retired) = (Some(region), false);
        Name { id: id as u32, generation: slot.generation }
    }

    /// Lets nothing begin in it any more.
    pub(super) fn retire(&mut self, name: Name) {
        let slot = self.slots.get_mut(name.id as usize);
        if let Some(slot) = slot.filter(|slot| slot.generation == name.generation) {
            slot.is_retired = true;
        }
    }

    /// Closes it; whether it was open.
    pub(super) fn close(&mut self, name: Name) -> bool {
        let slot = self.slots.get_mut(name.id as usize);
        let Some(slot) = slot.filter(|slot| slot.generation == name.generation) else { return false };
        let is_closed = slot.region.take().is_some();
        if is_closed {
            slot.generation = slot.generation.wrapping_add(1);
        }
        is_closed
    }

    /// Whether nothing is open.
    pub(super) fn is_empty(&self) -> bool {
        self.slots.iter().all(|slot| slot.region.is_none())
    }

    /// Open memory, also such as is about to be closed.
    pub(super) fn find(&self, name: Name) -> Option<&Region> {
        let slot = self.slots.get(name.id as usize)?;
        slot.region.as_ref().filter(|_| slot.generation == name.generation)
    }

    /// Open memory in which something may begin.
    pub(super) fn find_to_begin(&mut self, name: Name) -> Option<&mut Region> {
        let slot = self.slots.get_mut(name.id as usize)?;
        let is_open = slot.generation == name.generation && !slot.is_retired;
        slot.region.as_mut().filter(|_| is_open)
    }
}

#[cfg(test)]
mod tests {
    use std::ptr::NonNull;

    use tutti_shm::opened::Opened;

    use super::*;

    fn region(memory: &mut [u64]) -> Region {
        let bytes = memory.len() * 8;
        // SAFETY: the memory lives as long as the test, and nothing is done with it.
        Region::plain(unsafe { Opened::new(NonNull::from(&mut memory[0]).cast(), bytes) })
    }

    #[test]
    fn regions_that_are_closed_are_not_found_by_their_former_name() {
        let (mut memory, mut regions) = ([0_u64; 2], Regions::default());
        let former = regions.open(region(&mut memory));
        let other = regions.open(region(&mut memory));
        assert!(regions.close(former) && !regions.close(former), "once");
        let next = regions.open(region(&mut memory));
        assert_eq!((next.id, next.generation), (former.id, former.generation.wrapping_add(1)));
        assert!(regions.find(former).is_none() && regions.find_to_begin(former).is_none());
        assert!(regions.find(next).is_some() && regions.find(other).is_some());
        assert!(regions.close(next) && regions.close(other) && regions.is_empty());
    }

    #[test]
    fn region_that_is_retired_is_found_but_nothing_begins_there() {
        let (mut memory, mut regions) = ([0_u64; 2], Regions::default());
        let name = regions.open(region(&mut memory));
        regions.retire(Name { generation: name.generation.wrapping_add(1), ..name });
        assert!(regions.find_to_begin(name).is_some(), "that was another one's name");
        regions.retire(name);
        assert!(regions.find(name).is_some() && regions.find_to_begin(name).is_none());
        assert!(!regions.is_empty() && regions.close(name) && regions.is_empty());
    }
}
