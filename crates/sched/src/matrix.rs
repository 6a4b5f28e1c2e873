//! Ousterhout's matrix: rows are time slots, columns are the slots of all nodes.
//!
//! Which job is at home in which row is the business of the policy; here the rows are put together from it:
//! exclusive jobs stand in every row; holes are filled with further jobs whose columns are free there, so a
//! job keeps running through a change of rows if it is in both. The number of the version grows when, and
//! only when, some row has other jobs than before.

mod steps;

use std::collections::BTreeSet;

use crate::connected::Connected;
use crate::demand::{Demand, Part, Place};
use crate::dqt::Dqt;
use crate::machine::Machine;
use crate::message::{Moved, Plan};
use crate::space::{Resident, Residents, Row, Rows};
use crate::types::{JobId, Version};

/// How jobs are given their nodes and rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub enum Policy {
    /// Any nodes that fit best, in the first row that has room; rows take turns.
    #[default]
    RoundRobin,
    /// SCore-D's Distributed Queue Tree: partitions of 2^l nodes, each with a queue.
    Dqt,
}

/// The rows of one version.
#[derive(Clone, Debug, Default)]
pub(crate) struct PlannedRow {
    /// Jobs for whose sake the row gets its turn.
    pub(crate) home: Vec<JobId>,
    /// Jobs of the row, those that fill its holes too; ascending.
    pub(crate) all: Vec<JobId>,
}

/// Jobs that fill holes as one.
#[derive(Debug)]
struct Group<'a> {
    /// Whether all of them are fillers.
    is_filler: bool,
    /// Rows that it has, over its weight.
    share: u64,
    /// Growth of that by a row.
    part: u64,
    jobs: Vec<JobId>,
    /// Columns that it has, by the job that they are of.
    columns: Vec<&'a [Part]>,
}

impl Group<'_> {
    /// Orders them: the first one is given a hole before others.
    fn compare(&self, other: &Self) -> std::cmp::Ordering {
        let key = |group: &'_ Self| (group.is_filler, group.share);
        key(self).cmp(&key(other)).then_with(|| self.jobs.cmp(&other.jobs))
    }
}

impl std::str::FromStr for Policy {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "matrix" => Ok(Policy::RoundRobin),
            "dqt" => Ok(Policy::Dqt),
            _ => Err("a policy is matrix or dqt"),
        }
    }
}

impl std::fmt::Display for Policy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Policy::RoundRobin => "matrix",
            Policy::Dqt => "dqt",
        })
    }
}

#[derive(Clone, Debug)]
enum Layout {
    RoundRobin(Rows),
    Dqt(Dqt),
}

/// The matrix.
#[derive(Clone, Debug)]
pub(crate) struct Matrix {
    layout: Layout,
    /// Rows that never have a turn: they only spread the jobs that take none over the nodes.
    loose: Rows,
    fill_holes: bool,
    rows_max: usize,
    pub(crate) residents: Residents,
    /// Jobs that have left their columns to others ([`Matrix::leave`]).
    away: BTreeSet<JobId>,
    /// Connections that count, and those that there are: the same since [`Matrix::unite`].
    connected: Connected,
    wanted: Connected,
    /// Connected jobs may stand in different rows although their slots allow one.
    apart: bool,
    rows: Vec<PlannedRow>,
    moved: Vec<Moved>,
    /// The first version that has these slots.
    moved_in: Version,
    version: Version,
    stale: bool,
}

impl Matrix {
    pub(crate) fn new(policy: Policy, fill_holes: bool, rows_max: usize, version: Version) -> Self {
        let layout = match policy {
            Policy::RoundRobin => Layout::RoundRobin(Rows::new(0, u32::MAX)),
            Policy::Dqt => Layout::Dqt(Dqt::default()),
        };
        Matrix {
            layout,
            loose: Rows::new(0, u32::MAX),
            fill_holes,
            rows_max,
            residents: Residents::new(),
            away: BTreeSet::new(),
            connected: Connected::default(),
            wanted: Connected::default(),
            apart: false,
            rows: Vec::new(),
            moved: Vec::new(),
            moved_in: version,
            version,
            stale: false,
        }
    }

    /// The rows of the version in force.
    pub(crate) fn rows(&self) -> &[PlannedRow] {
        &self.rows
    }

    pub(crate) fn version(&self) -> Version {
        self.version
    }

    /// Finds nodes and a row for the job and takes them; false if there is no room now. One that runs already
    /// is told its slots with every plan, as if it had been moved: it has those of an earlier controller. If
    /// it had its nodes under that one, it gets them beside whoever is there: an exclusive job takes turns
    /// with those.
    pub(crate) fn place(&mut self, machine: &Machine, job: JobId, demand: &Demand, runs: bool) -> bool {
        let owner = demand.holder.within.map(|owner| self.residents.get(&owner));
        let (parts, exclusive) = match owner {
            None if runs && demand.awaits_lost() => {
                let there = self.make_shared(machine, demand);
                let exclusive = demand.exclusive && !there;
                // Its nodes may have less now.
                let demand = Demand { exclusive, memory_bytes: 0, ..demand.clone() }.with_gpus(0);
                (self.choose(machine, job, &demand), exclusive)
            }
            None => (self.choose(machine, job, demand), demand.exclusive),
            Some(None) => return false,
            Some(Some(owner)) => (steps::choose(&self.residents, owner, demand), owner.exclusive),
        };
        let Some(parts) = parts else { return false };
        let resident = Resident {
            slots: parts.iter().map(|part| u64::from(part.slots.count())).sum(),
            parts,
            weight: demand.weight,
            exclusive,
            gang: demand.gang,
            fill: demand.fill,
            active: false,
            moved: runs && demand.gang,
            within: demand.holder.within,
        };
        self.residents.insert(job, resident);
        self.rows_changed();
        true
    }

    /// Exclusive jobs on the nodes of a job that is found there share them from now on, with turns; `true`:
    /// some job has a part there.
    fn make_shared(&mut self, machine: &Machine, demand: &Demand) -> bool {
        let Place::Given(wanted) = &demand.place else { return false };
        if !wanted.iter().all(|(node, _)| machine.node(*node).is_some_and(|known| known.here)) {
            return false;
        }
        let is_there = |resident: &Resident| {
            resident.parts.iter().any(|part| wanted.iter().any(|(node, _)| *node == part.node))
        };
        let there: Vec<JobId> =
            self.residents.iter().filter(|(_, resident)| is_there(resident)).map(|(job, _)| *job).collect();
        for job in &there {
            let Some(resident) = self.residents.get_mut(job) else { continue };
            // One that is away finds its row when it comes back.
            let in_rows = resident.within.is_none() && resident.gang && !self.away.contains(job);
            if std::mem::take(&mut resident.exclusive) && in_rows {
                match &mut self.layout {
                    Layout::RoundRobin(rows) => rows.put_back(machine, *job, resident),
                    Layout::Dqt(tree) => tree.put_back(machine, *job, resident),
                }
            }
        }
        !there.is_empty()
    }

    /// Two jobs are connected to each other, or no longer. That counts from the next [`Self::unite`] on.
    pub(crate) fn set_connected(&mut self, one: JobId, other: JobId, connected: bool) {
        self.apart |= self.wanted.set(one, other, connected);
    }

    /// Whether jobs that take turns get their nodes in whole partitions.
    pub(crate) fn has_partitions(&self) -> bool {
        matches!(self.layout, Layout::Dqt(_))
    }

    /// The job has ended: nobody is connected to it.
    pub(crate) fn forget_connections(&mut self, job: JobId) {
        self.connected.forget(job);
        self.wanted.forget(job);
    }

    /// Connected jobs may stand in different rows although their slots allow one.
    pub(crate) fn is_apart(&self) -> bool {
        self.apart
    }

    /// Connections that count: which jobs are connected with which.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn connected(&self) -> &Connected {
        &self.connected
    }

    /// Brings jobs that are connected to the same rows, where their slots allow.
    pub(crate) fn unite(&mut self, machine: &Machine) {
        (self.apart, self.stale) = (false, true);
        self.connected.clone_from(&self.wanted);
        match &mut self.layout {
            Layout::RoundRobin(rows) => rows.unite(machine, &mut self.residents, &self.connected),
            Layout::Dqt(tree) => tree.unite(machine, &mut self.residents, &self.connected),
        }
    }

    fn rows_changed(&mut self) {
        self.apart |= !self.wanted.is_empty();
    }

    /// Nodes for a job; more ranks than slots share a node only where no row has a slot for each.
    fn choose(&mut self, machine: &Machine, job: JobId, demand: &Demand) -> Option<Vec<Part>> {
        if demand.oversubscribe {
            let alone = Demand { oversubscribe: false, ..demand.clone() };
            if let Some(parts) = self.choose_as(machine, job, &alone) {
                return Some(parts);
            }
        }
        self.choose_as(machine, job, demand)
    }

    fn choose_as(&mut self, machine: &Machine, job: JobId, demand: &Demand) -> Option<Vec<Part>> {
        if demand.exclusive {
            // Machine::admits lets it in only where nobody is, so its columns are free in every row.
            return Row::new(0, u32::MAX).choose(machine, demand);
        }
        if !demand.gang {
            let (at, parts) = self.loose.choose(machine, demand)?;
            self.loose.put(at, job, &parts);
            return Some(parts);
        }
        match &mut self.layout {
            Layout::RoundRobin(rows) => {
                let (at, parts) = rows.choose(machine, demand)?;
                if at >= self.rows_max {
                    return None;
                }
                rows.put(at, job, &parts);
                Some(parts)
            }
            Layout::Dqt(tree) => {
                let parts = tree.place(machine, &self.residents, job, demand)?;
                if tree.home_rows(machine, &self.residents, &self.connected).len() > self.rows_max {
                    tree.remove(job, &parts);
                    return None;
                }
                Some(parts)
            }
        }
    }

    /// The job has ended.
    pub(crate) fn remove(&mut self, machine: &Machine, job: JobId) -> Option<Resident> {
        let resident = self.residents.remove(&job)?;
        self.away.remove(&job);
        self.take_out(machine, job, &resident);
        Some(resident)
    }

    /// The job leaves its columns to others until [`Self::come_back`].
    pub(crate) fn leave(&mut self, machine: &Machine, job: JobId) {
        let Some(resident) = self.residents.get(&job).cloned() else { return };
        self.away.insert(job);
        self.take_out(machine, job, &resident);
    }

    fn take_out(&mut self, machine: &Machine, job: JobId, resident: &Resident) {
        self.stale = true;
        self.rows_changed();
        match &mut self.layout {
            _ if resident.exclusive || resident.within.is_some() => {}
            _ if !resident.gang => self.loose.remove(job, &resident.parts),
            Layout::RoundRobin(rows) => {
                rows.remove(job, &resident.parts);
                rows.compact(machine, &mut self.residents, &self.connected);
            }
            Layout::Dqt(tree) => {
                tree.remove(job, &resident.parts);
                tree.compact(machine, &mut self.residents, &self.connected);
            }
        }
    }

    /// The job comes back to its nodes: its slots may be others.
    pub(crate) fn come_back(&mut self, machine: &Machine, job: JobId) {
        self.stale = true;
        self.rows_changed();
        let Some(resident) = self.residents.get_mut(&job) else { return };
        self.away.remove(&job);
        match &mut self.layout {
            _ if resident.exclusive || !resident.gang || resident.within.is_some() => {}
            Layout::RoundRobin(rows) => rows.put_back(machine, job, resident),
            Layout::Dqt(tree) => tree.put_back(machine, job, resident),
        }
    }

    /// The job takes part in the rows from now on, or no longer; its columns stay its own.
    pub(crate) fn set_active(&mut self, job: JobId, active: bool) {
        if let Some(resident) = self.residents.get_mut(&job)
            && resident.active != active
        {
            resident.active = active;
            self.stale = true;
        }
    }

    pub(crate) fn set_weight(&mut self, job: JobId, weight: u32) {
        if let Some(resident) = self.residents.get_mut(&job) {
            resident.weight = weight;
            self.stale = true;
        }
    }

    /// Puts the rows together anew if something has changed; `false`: nothing has. The version is another if
    /// some row has other jobs, or some job other slots.
    pub(crate) fn refresh(&mut self, machine: &Machine) -> bool {
        if !std::mem::take(&mut self.stale) {
            return false;
        }
        steps::follow(&mut self.residents);
        let rows = self.assemble(machine);
        let moved = self.moved();
        let same = rows.len() == self.rows.len() && rows.iter().zip(&self.rows).all(|(a, b)| a.all == b.all);
        let bound = moved.iter().all(|moved| self.moved.contains(moved));
        (self.rows, self.moved) = (rows, moved);
        if !same || !bound {
            self.version = self.version.next();
        }
        if !bound {
            self.moved_in = self.version;
        }
        true
    }

    /// The first version in which all slots are as they are now.
    pub(crate) fn moved_in(&self) -> Version {
        self.moved_in
    }

    /// The rows that are sent to the nodes.
    pub(crate) fn plan(&self) -> Plan {
        Plan {
            version: self.version,
            rows: self.rows.iter().map(|row| row.all.clone()).collect(),
            moved: self.moved.clone(),
        }
    }

    fn moved(&self) -> Vec<Moved> {
        let moved = self.residents.iter().filter(|(_, resident)| resident.moved);
        let parts = moved.flat_map(|(&job, resident)| resident.parts.iter().map(move |part| (job, part)));
        parts.map(|(job, part)| Moved { job, node: part.node, slots: part.slots }).collect()
    }

    fn assemble(&self, machine: &Machine) -> Vec<PlannedRow> {
        let mut home_rows = match &self.layout {
            Layout::RoundRobin(rows) => rows.home_rows(),
            Layout::Dqt(tree) => tree.home_rows(machine, &self.residents, &self.connected),
        };
        let steps = steps::by_owner(&self.residents);
        for row in &mut home_rows {
            // Those of an exclusive job stand in all rows, as it does.
            let those = row.iter().filter_map(|job| steps.get(job)).flatten().copied().collect::<Vec<_>>();
            row.extend(those);
            row.retain(|job| self.residents.get(job).is_some_and(|resident| resident.active));
        }
        home_rows.retain(|row| !row.is_empty());
        let exclusive: Vec<_> = self
            .residents
            .iter()
            .filter(|(_, resident)| resident.exclusive && resident.active)
            .map(|(&job, _)| job)
            .collect();
        if home_rows.is_empty() && !exclusive.is_empty() {
            home_rows.push(exclusive.clone());
        }
        let mut rows: Vec<_> = home_rows
            .into_iter()
            .map(|home| {
                let mut all = home.clone();
                all.extend(exclusive.iter().filter(|job| !home.contains(job)));
                PlannedRow { home, all }
            })
            .collect();
        if self.fill_holes && rows.len() > 1 {
            self.fill(&mut rows);
        }
        for row in &mut rows {
            row.all.sort_unstable();
        }
        rows
    }

    /// Adds to each row the jobs whose columns are free there, those that are connected as one; who has the
    /// fewest rows for its weight comes first, fillers last. A row in which all columns are taken that any
    /// job has is full: with hundreds of rows most are, and none of the others is looked at for them.
    fn fill(&self, rows: &mut [PlannedRow]) {
        let mut groups: Vec<Group<'_>> =
            rows.iter().flat_map(|row| self.bundles(&row.home)).map(|jobs| self.group(jobs)).collect();
        let mut columns = Row::new(0, u32::MAX);
        groups.iter().flat_map(|group| &group.columns).for_each(|parts| columns.join(parts));
        let has_slots = |parts: &&[Part]| parts.iter().any(|part| !part.slots.is_empty());
        let may_be_full = groups.iter().all(|group| group.columns.iter().any(has_slots));
        groups.sort_unstable_by(Group::compare);
        let mut is_sorted = true;
        for row in rows {
            let mut space = Row::new(0, u32::MAX);
            self.owners(&row.all).for_each(|parts| space.take(parts));
            if may_be_full && space.has_all_of(&columns) {
                continue;
            }
            if !std::mem::replace(&mut is_sorted, true) {
                groups.sort_unstable_by(Group::compare);
            }
            for group in &mut groups {
                // Those of a group have columns of their own each, but for steps, which have their job's.
                let is_free = group.columns.iter().all(|parts| space.is_free(parts));
                if is_free && !row.all.contains(&group.jobs[0]) {
                    group.columns.iter().for_each(|parts| space.take(parts));
                    row.all.extend_from_slice(&group.jobs);
                    group.share += group.part;
                    is_sorted = false;
                    if may_be_full && space.has_all_of(&columns) {
                        break;
                    }
                }
            }
        }
    }

    /// Jobs that move between rows as one, with the part that they have by the row in which they are at home.
    fn group(&self, jobs: Vec<JobId>) -> Group<'_> {
        let weight = jobs.iter().map(|job| u64::from(self.residents[job].weight)).max();
        let part = 1_000_000 / weight.unwrap_or(1).max(1);
        let is_filler = jobs.iter().all(|job| self.residents[job].fill);
        Group { is_filler, share: part, part, columns: self.owners(&jobs).collect(), jobs }
    }

    /// The jobs of a row that move between rows as one: those that are connected, and the steps of a job.
    fn bundles(&self, row: &[JobId]) -> Vec<Vec<JobId>> {
        let mut bundles: Vec<(Vec<JobId>, Vec<JobId>)> = Vec::new();
        for jobs in self.connected.groups(row) {
            let (mut owners, mut jobs) = (self.owners_of(&jobs), jobs);
            let is_other =
                |known: &mut (Vec<JobId>, Vec<JobId>)| known.0.iter().any(|owner| owners.contains(owner));
            let joined: Vec<_> = bundles.extract_if(.., is_other).collect();
            for (known_owners, known_jobs) in joined {
                owners.extend(known_owners);
                jobs.extend(known_jobs);
            }
            bundles.push((owners, jobs));
        }
        bundles.into_iter().map(|(_, jobs)| jobs).collect()
    }

    /// The jobs whose columns these have, each once.
    fn owners_of(&self, jobs: &[JobId]) -> Vec<JobId> {
        let owner = |job: &JobId| self.residents[job].within.unwrap_or(*job);
        let mut owners: Vec<_> = jobs.iter().map(owner).collect();
        owners.sort_unstable();
        owners.dedup();
        owners
    }

    /// The columns that jobs have.
    fn owners(&self, jobs: &[JobId]) -> impl Iterator<Item = &[Part]> {
        let owners = self.owners_of(jobs).into_iter();
        owners.filter_map(|owner| self.residents.get(&owner)).map(|resident| resident.parts.as_slice())
    }
}

#[cfg(test)]
mod tests;
