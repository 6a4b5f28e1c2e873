//! The free columns of rows: which slots of which nodes are taken, and by whom.

use std::collections::{BTreeMap, HashMap};

use crate::connected::Connected;
use crate::demand::{Demand, Part, Place, Split};
use crate::machine::{Machine, serial_slots};
use crate::types::{JobId, NodeId, Slots};

/// A job that has a place.
#[derive(Clone, Debug)]
pub(crate) struct Resident {
    pub(crate) parts: Vec<Part>,
    /// Slots of all parts: as many wherever it is moved.
    pub(crate) slots: u64,
    pub(crate) weight: u32,
    pub(crate) exclusive: bool,
    /// Whether it takes turns; who does not stands in no row of the matrix.
    pub(crate) gang: bool,
    /// Whether it is a filler.
    pub(crate) fill: bool,
    /// Whether it takes part in the matrix: begun, not suspended, not left out.
    pub(crate) active: bool,
    /// Whether it had other slots when it began, or may have had: the nodes are notified with every plan.
    pub(crate) moved: bool,
    /// Job of which it is a step, which stands in the layout for both.
    pub(crate) within: Option<JobId>,
}

impl Resident {
    pub(crate) fn move_to(&mut self, parts: Option<Vec<Part>>) {
        if let Some(parts) = parts.filter(|parts| *parts != self.parts) {
            self.parts = parts;
            self.moved = true;
        }
    }
}

/// All jobs that have a place.
pub(crate) type Residents = BTreeMap<JobId, Resident>;

/// One row over `width` nodes from `first` on.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    first: u32,
    width: u32,
    /// As far as anything is taken.
    taken: Vec<Slots>,
    /// The same by jobs that share the other slots: where there is one, there is nobody else.
    shared: Vec<Slots>,
    /// The jobs at home here.
    pub(crate) jobs: Vec<JobId>,
}

impl Row {
    /// A row with all its columns free.
    pub(crate) fn new(first: u32, width: u32) -> Self {
        Row { first, width, taken: Vec::new(), shared: Vec::new(), jobs: Vec::new() }
    }

    fn of(&self, of: &[Slots], node: NodeId) -> Slots {
        let at = node.0.checked_sub(self.first).map(|at| at as usize);
        at.and_then(|at| of.get(at)).copied().unwrap_or(Slots::NONE)
    }

    fn free(&self, machine: &Machine, node: NodeId, shares: bool) -> Slots {
        let all = machine.node(node).map_or(0, |known| known.slots);
        let (taken, shared) = (self.of(&self.taken, node), self.of(&self.shared, node));
        match shares {
            true if taken.is_empty() => Slots::first(serial_slots(all)).without(&shared),
            false if shared.is_empty() => Slots::first(all).without(&taken),
            _ => Slots::NONE,
        }
    }

    /// The nodes of this row.
    fn nodes(&self, machine: &Machine) -> impl Iterator<Item = NodeId> + use<> {
        (self.first..self.first.saturating_add(self.width).min(machine.len())).map(NodeId)
    }

    /// True if all columns of the parts are free.
    pub(crate) fn is_free(&self, parts: &[Part]) -> bool {
        parts.iter().all(|part| {
            let (taken, shared) = (self.of(&self.taken, part.node), self.of(&self.shared, part.node));
            match part.shared {
                true => taken.is_empty() && shared.is_disjoint(&part.slots),
                false => shared.is_empty() && taken.is_disjoint(&part.slots),
            }
        })
    }

    /// Takes the columns of the parts.
    pub(crate) fn take(&mut self, parts: &[Part]) {
        for part in parts {
            let at = (part.node.0 - self.first) as usize;
            let of = if part.shared { &mut self.shared } else { &mut self.taken };
            if at >= of.len() {
                of.resize(at + 1, Slots::NONE);
            }
            assert!(of[at].is_disjoint(&part.slots), "a slot of {part:?} is taken twice in a row");
            of[at] = of[at].with(&part.slots);
        }
    }

    /// Takes columns of parts of which some may be taken: what all rows together have.
    pub(crate) fn join(&mut self, parts: &[Part]) {
        for part in parts {
            let at = (part.node.0 - self.first) as usize;
            if at >= self.taken.len() {
                self.taken.resize(at + 1, Slots::NONE);
            }
            self.taken[at] = self.taken[at].with(&part.slots);
        }
    }

    /// Whether somebody has each column here that [`Self::join`] has put into the other row.
    pub(crate) fn has_all_of(&self, other: &Row) -> bool {
        other.taken.iter().zip(other.first..).all(|(slots, node)| {
            let node = NodeId(node);
            slots.without(&self.of(&self.taken, node)).without(&self.of(&self.shared, node)).is_empty()
        })
    }

    /// Puts the job at home here.
    pub(crate) fn put(&mut self, job: JobId, parts: &[Part]) {
        self.take(parts);
        self.jobs.push(job);
    }

    /// Takes the job out; false if it is not at home here.
    pub(crate) fn remove(&mut self, job: JobId, parts: &[Part]) -> bool {
        let Some(at) = self.jobs.iter().position(|&here| here == job) else { return false };
        self.jobs.remove(at);
        for part in parts {
            let of = if part.shared { &mut self.shared } else { &mut self.taken };
            let taken = &mut of[(part.node.0 - self.first) as usize];
            *taken = taken.without(&part.slots);
        }
        true
    }

    /// Takes out several.
    fn remove_all(&mut self, residents: &Residents, jobs: &[JobId]) {
        jobs.iter().for_each(|job| _ = self.remove(*job, &residents[job].parts));
    }

    /// The parts that the job would get in this row; None if it does not fit.
    pub(crate) fn choose(&self, machine: &Machine, demand: &Demand) -> Option<Vec<Part>> {
        match &demand.place {
            Place::Given(parts) => parts
                .iter()
                .map(|&(node, ranks)| {
                    machine.admits(node, demand).then(|| self.part(machine, demand, node, ranks)).flatten()
                })
                .collect(),
            place => {
                let split = place.split().expect("Machine::settle has made it Any");
                self.choose_any(machine, demand, split)
            }
        }
    }

    /// Best fit: the fullest nodes that will do, so that large holes stay for large jobs.
    fn choose_any(&self, machine: &Machine, demand: &Demand, split: Split) -> Option<Vec<Part>> {
        let Split { nodes, low, high, .. } = split;
        let more = split.more as usize;
        let fits = |node: NodeId, ranks: u32| self.part(machine, demand, node, ranks).is_some();
        let mut able: Vec<_> = self
            .nodes(machine)
            .filter(|&node| machine.admits(node, demand) && fits(node, low))
            .map(|node| (self.free(machine, node, demand.shares_slots()).count(), node))
            .collect();
        able.sort_unstable();
        let mut parts = Vec::with_capacity(nodes as usize);
        if more > 0 {
            able.retain(|&(_, node)| {
                let takes = parts.len() < more && fits(node, high);
                if takes {
                    parts.extend(self.part(machine, demand, node, high));
                }
                !takes
            });
        }
        if parts.len() < more {
            return None;
        }
        let rest = nodes as usize - parts.len();
        parts.extend(able.iter().take(rest).filter_map(|&(_, node)| self.part(machine, demand, node, low)));
        // Rank 0 is on the lowest of the nodes with one more.
        parts.sort_unstable_by_key(|part| (std::cmp::Reverse(part.ranks), part.node));
        (parts.len() == nodes as usize).then_some(parts)
    }

    /// `ranks` of the job on this node in this row; None if the slots are not free.
    fn part(&self, machine: &Machine, demand: &Demand, node: NodeId, ranks: u32) -> Option<Part> {
        if ranks > machine.ranks_most(node, demand) {
            return None;
        }
        let all = machine.node(node)?.slots;
        let shared = demand.shares_slots();
        let is_whole = demand.exclusive || demand.phases.is_some() && !shared;
        let wanted = if is_whole { all } else { ranks.min(all) };
        let slots = self.free(machine, node, shared).lowest(wanted);
        (slots.count() == wanted).then_some(Part { node, ranks, slots, shared })
    }

    /// The same nodes with slots that are free here: the same slots if they are, else others; None if there
    /// are too few.
    pub(crate) fn move_here(&self, machine: &Machine, parts: &[Part]) -> Option<Vec<Part>> {
        if self.is_free(parts) {
            return Some(parts.to_vec());
        }
        let moved = parts.iter().map(|part| {
            let wanted = part.slots.count();
            let slots = self.free(machine, part.node, part.shared).lowest(wanted);
            (slots.count() == wanted).then_some(Part { slots, ..*part })
        });
        moved.collect()
    }

    /// The same for several jobs that are to stand here side by side.
    fn move_all_here(&self, machine: &Machine, residents: &Residents, jobs: &[JobId]) -> Option<Moves> {
        #[cfg(test)]
        tests::LOOKS.set(tests::LOOKS.get() + 1);
        if let [job] = jobs {
            return Some(vec![(*job, self.move_here(machine, &residents[job].parts)?)]);
        }
        let mut space = self.clone();
        let place = |job: &JobId| {
            let parts = space.move_here(machine, &residents[job].parts)?;
            space.take(&parts);
            Some((*job, parts))
        };
        jobs.iter().map(place).collect()
    }

    fn put_all(&mut self, moves: &[(JobId, Vec<Part>)]) {
        moves.iter().for_each(|(job, parts)| self.put(*job, parts));
    }
}

/// Jobs, and the parts that they get.
type Moves = Vec<(JobId, Vec<Part>)>;

/// Rows over the same nodes: a queue of the tree, or the whole matrix.
#[derive(Clone, Debug)]
pub(crate) struct Rows {
    first: u32,
    width: u32,
    rows: Vec<Row>,
}

impl Rows {
    pub(crate) fn new(first: u32, width: u32) -> Self {
        Rows { first, width, rows: Vec::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter()
    }

    /// Where the job would go: the first row with room, or a new one.
    pub(crate) fn choose(&self, machine: &Machine, demand: &Demand) -> Option<(usize, Vec<Part>)> {
        let found =
            self.rows.iter().enumerate().find_map(|(at, row)| Some((at, row.choose(machine, demand)?)));
        found.or_else(|| Some((self.rows.len(), Row::new(self.first, self.width).choose(machine, demand)?)))
    }

    /// Puts the job at home in row `at`, which is new if it is the number of rows.
    pub(crate) fn put(&mut self, at: usize, job: JobId, parts: &[Part]) {
        if at == self.rows.len() {
            self.rows.push(Row::new(self.first, self.width));
        }
        self.rows[at].put(job, parts);
    }

    /// Puts back a job whose nodes are settled: its slots may be others.
    pub(crate) fn put_back(&mut self, machine: &Machine, job: JobId, resident: &mut Resident) {
        let mut rows = self.rows.iter().enumerate();
        let found = rows.find_map(|(at, row)| Some((at, row.move_here(machine, &resident.parts)?)));
        // In a row of its own all slots are free.
        let at = found.as_ref().map_or(self.rows.len(), |found| found.0);
        resident.move_to(found.map(|found| found.1));
        self.put(at, job, &resident.parts);
    }

    /// Takes the job out; its row goes with it if it was the last there.
    pub(crate) fn remove(&mut self, job: JobId, parts: &[Part]) {
        for row in &mut self.rows {
            row.remove(job, parts);
        }
        self.rows.retain(|row| !row.jobs.is_empty());
    }

    /// Unifies rows: each group moves to the first row that has room for it on its nodes, those of the last
    /// row first. Rows are only filled until they are looked at themselves, and then they are no more to move
    /// to: where one job has found no room another with the same parts finds none.
    pub(crate) fn compact(&mut self, machine: &Machine, residents: &mut Residents, connected: &Connected) {
        let mut first_fits = HashMap::<Vec<Part>, usize>::new();
        for from in (1..self.rows.len()).rev() {
            for group in connected.groups(&self.rows[from].jobs) {
                let mut first = match &group[..] {
                    [job] => Some(first_fits.entry(residents[job].parts.clone()).or_default()),
                    _ => None,
                };
                let begin = first.as_ref().map_or(0, |first| **first);
                let place = |to: usize| Some((to, self.rows[to].move_all_here(machine, residents, &group)?));
                let found = (begin..from).find_map(place);
                if let Some(first) = &mut first {
                    **first = found.as_ref().map_or(from, |found| found.0).max(begin);
                }
                if let Some((to, moves)) = found {
                    self.rows[from].remove_all(residents, &group);
                    self.rows[to].put_all(&moves);
                    settle(residents, moves);
                }
            }
        }
        self.rows.retain(|row| !row.jobs.is_empty());
    }

    /// Brings jobs that are connected to one row, where their slots allow. Nobody pays for it: there are no
    /// more rows than before, and together they are not heavier.
    pub(crate) fn unite(&mut self, machine: &Machine, residents: &mut Residents, connected: &Connected) {
        for (one, other) in connected.pairs() {
            let row_of = |job: JobId| self.rows.iter().position(|row| row.jobs.contains(&job));
            let (Some(first), Some(second)) = (row_of(one), row_of(other)) else { continue };
            if first == second || !could_share_a_row(machine, [&residents[&one], &residents[&other]]) {
                continue;
            }
            let ways = [((one, first), (other, second)), ((other, second), (one, first))];
            let found = ways
                .into_iter()
                .find_map(|(stays, comes)| self.united(machine, residents, connected, stays, comes));
            if let Some((rows, moves)) = found {
                self.rows = rows;
                settle(residents, moves);
            }
        }
    }

    /// The rows when the group of the job that comes has moved to the row of the one that stays, and all
    /// moves: who has no room there any more stands in other rows. None: that cannot be.
    fn united(
        &self,
        machine: &Machine,
        residents: &Residents,
        connected: &Connected,
        (stays, to): (JobId, usize),
        (comes, from): (JobId, usize),
    ) -> Option<(Vec<Row>, Moves)> {
        let staying = connected.group(stays, &self.rows[to].jobs);
        let coming = connected.group(comes, &self.rows[from].jobs);
        let mut rows = self.rows.clone();
        let others: Vec<JobId> =
            self.rows[to].jobs.iter().copied().filter(|job| !staying.contains(job)).collect();
        rows[to].remove_all(residents, &others);
        rows[from].remove_all(residents, &coming);
        let mut moves = rows[to].move_all_here(machine, residents, &coming)?;
        rows[to].put_all(&moves);
        for group in connected.groups(&others) {
            // Where they are, else in the first row that has room.
            let mut places = std::iter::once(to).chain(0..rows.len());
            let place = |at: usize| Some((at, rows[at].move_all_here(machine, residents, &group)?));
            let (at, moved) = places.find_map(place)?;
            rows[at].put_all(&moved);
            moves.extend(moved);
        }
        rows.retain(|row| !row.jobs.is_empty());
        let is_as_light = weight(&rows, residents) <= weight(&self.rows, residents);
        is_as_light.then_some((rows, moves))
    }

    /// The rows as lists of jobs.
    pub(crate) fn home_rows(&self) -> Vec<Vec<JobId>> {
        self.rows.iter().map(|row| row.jobs.clone()).collect()
    }
}

fn settle(residents: &mut Residents, moves: Moves) {
    for (job, parts) in moves {
        residents.entry(job).and_modify(|resident| resident.move_to(Some(parts)));
    }
}

/// Weight of the rows, of each its heaviest job: the whole of which a job gets its part.
fn weight(rows: &[Row], residents: &Residents) -> u64 {
    let of_row = |row: &Row| row.jobs.iter().map(|job| u64::from(residents[job].weight)).max();
    rows.iter().filter_map(of_row).sum()
}

/// No node has too few slots for both.
fn could_share_a_row(machine: &Machine, [one, other]: [&Resident; 2]) -> bool {
    one.parts.iter().all(|part| {
        let both = other.parts.iter().filter(|theirs| theirs.node == part.node);
        let slots: u32 = both.map(|theirs| part.slots.count() + theirs.slots.count()).sum();
        slots <= machine.node(part.node).map_or(0, |node| node.slots)
    })
}

#[cfg(test)]
mod tests;
