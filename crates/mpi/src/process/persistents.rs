//! How the persistent requests of a process start (MPI 3.9): by functions that get the process, also those of
//! collective operations.

use std::collections::HashMap;
use std::rc::Rc;

use super::Guard;
use crate::collective::state::Collectives;
use crate::comm::Group;
use crate::error::Result;
use crate::request::extra::Part;
use crate::request::persistent::HasPersistents;

/// Starts the operation of a persistent request: the part that gives the status, then one more.
type Start = dyn Fn(&mut Guard) -> Result<[Part; 2]>;

/// Renews the numbers of ranks that a persistent request names.
type Renew = dyn Fn(&dyn Fn(u32) -> u32);

/// How persistent requests start, and what is counted for them.
#[derive(Default)]
pub struct Persistents {
    /// By the index of the request.
    starts: Vec<Option<Rc<Start>>>,
    /// By the index of the request; none of one that names no ranks by itself.
    renews: HashMap<u32, Box<Renew>>,
    /// Groups of the communicators of those of collective operations, by the index of the request.
    collectives: HashMap<u32, Vec<Rc<Group>>>,
    /// Number of the next partition that this process sends ([`crate::partitioned`]).
    next_partition: u32,
}

impl std::fmt::Debug for Persistents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Persistents").field("next_partition", &self.next_partition).finish_non_exhaustive()
    }
}

impl Persistents {
    /// From now on each start of a persistent request calls `begin` before it, and `finish` with the request
    /// of each part that is under way.
    pub(crate) fn surround(
        &mut self,
        index: u32,
        begin: impl Fn() + 'static,
        finish: impl Fn(&mut Collectives, u32) + 'static,
    ) {
        let Some(start) = self.starts.get_mut(index as usize).and_then(Option::as_mut) else { return };
        let inner = start.clone();
        *start = Rc::new(move |guard: &mut Guard| {
            begin();
            let parts = inner(guard)?;
            for part in parts {
                if let Part::Pending(index) = part {
                    finish(&mut guard.colls, index);
                }
            }
            Ok(parts)
        });
    }
}

impl Persistents {
    /// Whether a persistent request is of a collective operation with one of these processes.
    pub(crate) fn is_collective_with(&self, index: u32, ranks: &[u32]) -> bool {
        let groups = self.collectives.get(&index).map_or(&[][..], Vec::as_slice);
        groups.iter().any(|group| ranks.iter().any(|rank| group.contains(*rank)))
    }

    /// Other processes have places of some ranks from now on ([`crate::moving`]).
    pub(crate) fn renumber(&self, number_now: impl Fn(u32) -> u32) {
        self.renews.values().for_each(|renew| renew(&number_now));
    }
}

impl HasPersistents for Guard {
    fn keep_start(&mut self, index: u32, start: impl Fn(&mut Self) -> Result<[Part; 2]> + 'static) {
        let starts = &mut self.persistents.starts;
        starts.resize_with(starts.len().max(index as usize + 1), || None);
        starts[index as usize] = Some(Rc::new(start));
    }

    fn keep_renewal(&mut self, index: u32, renew: impl Fn(&dyn Fn(u32) -> u32) + 'static) {
        self.persistents.renews.insert(index, Box::new(renew));
    }

    fn keep_collective(&mut self, index: u32, groups: Vec<Rc<Group>>) {
        self.persistents.collectives.insert(index, groups);
    }

    fn start_parts(&mut self, index: u32) -> Result<[Part; 2]> {
        let start = self.persistents.starts[index as usize].clone();
        start.expect("a persistent request can be started")(self)
    }

    fn next_partition(&mut self) -> &mut u32 {
        &mut self.persistents.next_partition
    }

    fn forget_start(&mut self, index: u32) {
        if let Some(start) = self.persistents.starts.get_mut(index as usize) {
            *start = None;
        }
        self.persistents.renews.remove(&index);
        self.persistents.collectives.remove(&index);
    }
}
