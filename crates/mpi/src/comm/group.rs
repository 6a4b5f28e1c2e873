//! Groups (MPI 7.3): ordered sets of processes, and their algebra. Nothing here communicates.

use crate::abi::*;
use crate::attached::Origin;
use crate::error::{Result, check};
use core::ffi::c_int;
use std::rc::Rc;

/// No rank.
const ABSENT: u32 = u32::MAX;

/// An ordered set of processes, by world rank.
#[derive(Debug, Default)]
pub struct Group {
    members: Vec<u32>,
    /// Rank by world rank, up to the highest member.
    ranks: Vec<u32>,
    /// The session that it goes back to.
    origin: Option<Rc<Origin>>,
}

impl PartialEq for Group {
    fn eq(&self, other: &Group) -> bool {
        self.members == other.members
    }
}

impl Eq for Group {}

/// How two groups or communicators are alike: MPI_IDENT, MPI_CONGRUENT, MPI_SIMILAR, MPI_UNEQUAL.
pub type Likeness = c_int;

impl Group {
    /// The group of these world ranks, in this order. No rank stands twice.
    pub fn new(members: Vec<u32>) -> Self {
        let places = members.iter().max().map_or(0, |&highest| highest as usize + 1);
        let mut ranks = vec![ABSENT; places];
        for (rank, &world) in members.iter().enumerate() {
            assert_eq!(ranks[world as usize], ABSENT, "world rank {world} stands twice in a group");
            ranks[world as usize] = rank as u32;
        }
        Group { members, ranks, origin: None }
    }

    /// The same, going back to a session.
    pub fn of_session(&self, origin: Rc<Origin>) -> Group {
        Group { origin: Some(origin), ..self.part(self.members.clone()) }
    }

    /// The session that it goes back to.
    pub fn origin(&self) -> Option<Rc<Origin>> {
        self.origin.clone()
    }

    /// A group made from this one.
    fn part(&self, members: Vec<u32>) -> Group {
        Group { origin: self.origin(), ..Group::new(members) }
    }

    /// The same, with other world ranks for some: `number_now` gives that of each.
    pub fn renumbered(&self, number_now: impl Fn(u32) -> u32) -> Group {
        self.part(self.members.iter().map(|rank| number_now(*rank)).collect())
    }

    /// World ranks, in order.
    #[inline]
    pub fn members(&self) -> &[u32] {
        &self.members
    }

    /// Whether every rank is the world rank.
    pub fn is_identity(&self) -> bool {
        self.members.iter().enumerate().all(|(rank, world)| rank as u32 == *world)
    }

    /// How many ranks are the world rank: all, or none where some rank is another one.
    pub(super) fn untranslated(&self) -> u32 {
        if self.is_identity() { self.members.len() as u32 } else { 0 }
    }

    /// Rank of a process in the group.
    #[inline]
    pub fn rank_of(&self, world: u32) -> Option<u32> {
        self.ranks.get(world as usize).copied().filter(|&rank| rank != ABSENT)
    }

    /// How many members.
    #[inline]
    pub fn size(&self) -> usize {
        self.members.len()
    }

    /// Whether a process is a member.
    pub fn contains(&self, world: u32) -> bool {
        self.rank_of(world).is_some()
    }

    /// Whether no process is a member of both.
    pub fn is_disjoint(&self, other: &Group) -> bool {
        self.members.iter().all(|&world| !other.contains(world))
    }

    /// MPI_IDENT, MPI_SIMILAR (other order) or MPI_UNEQUAL.
    pub fn compare(&self, other: &Group) -> Likeness {
        if self.members == other.members {
            MPI_IDENT
        } else if self.size() == other.size() && self.members.iter().all(|&world| other.contains(world)) {
            MPI_SIMILAR
        } else {
            MPI_UNEQUAL
        }
    }

    /// All members of this group, then those of the other that are not in this one.
    pub fn union(&self, other: &Group) -> Group {
        let added = other.members.iter().filter(|&&world| !self.contains(world));
        let origin = self.origin().or_else(|| other.origin());
        Group { origin, ..Group::new(self.members.iter().chain(added).copied().collect()) }
    }

    /// The members that are also in the other group, in the order of this one.
    pub fn intersection(&self, other: &Group) -> Group {
        self.part(self.members.iter().copied().filter(|&world| other.contains(world)).collect())
    }

    /// The members that are not in the other group, in the order of this one.
    pub fn difference(&self, other: &Group) -> Group {
        self.part(self.members.iter().copied().filter(|&world| !other.contains(world)).collect())
    }

    /// The members of these ranks, in the order given.
    ///
    /// # Errors
    /// MPI_ERR_RANK when a rank is none of the group, or stands twice.
    pub fn include(&self, ranks: &[c_int]) -> Result<Group> {
        self.checked(ranks)?;
        Ok(self.part(ranks.iter().map(|&rank| self.members[rank as usize]).collect()))
    }

    /// The members without those of these ranks.
    ///
    /// # Errors
    /// MPI_ERR_RANK when a rank is none of the group, or stands twice.
    pub fn exclude(&self, ranks: &[c_int]) -> Result<Group> {
        let excluded = self.checked(ranks)?;
        let kept = self.members.iter().zip(excluded).filter(|(_, out)| !out);
        Ok(self.part(kept.map(|(&world, _)| world).collect()))
    }

    /// The ranks that a list of (first, last, stride) names, in order.
    ///
    /// # Errors
    /// MPI_ERR_ARG when a stride is 0; MPI_ERR_RANK when an end is no rank of the group.
    pub fn expand(&self, ranges: &[[c_int; 3]]) -> Result<Vec<c_int>> {
        let mut ranks = Vec::new();
        for (i, &[first, last, stride]) in ranges.iter().enumerate() {
            check(stride != 0, MPI_ERR_ARG, || format!("the stride of ranges[{i}] is 0"))?;
            // The last rank of a range need not be hit by the stride, but the ends must be sensible.
            self.check_rank(first, || format!("the first rank of ranges[{i}]"))?;
            let steps = (i64::from(last) - i64::from(first)) / i64::from(stride);
            check(steps >= 0, MPI_ERR_ARG, || {
                format!("ranges[{i}] goes from {first} to {last} by {stride}, which names no rank")
            })?;
            let end = i64::from(first) + steps * i64::from(stride);
            check((0..self.size() as i64).contains(&end), MPI_ERR_RANK, || {
                format!("ranges[{i}] reaches rank {end}, expected 0 to {}", self.size() as i64 - 1)
            })?;
            ranks.extend((0..=steps).map(|step| first + (step * i64::from(stride)) as c_int));
        }
        Ok(ranks)
    }

    /// The rank in `other` of each of these ranks; MPI_UNDEFINED for those not there, MPI_PROC_NULL stays.
    ///
    /// # Errors
    /// MPI_ERR_RANK when a rank is none of this group.
    pub fn translate(&self, ranks: &[c_int], other: &Group) -> Result<Vec<c_int>> {
        let one = |(i, &rank): (usize, &c_int)| {
            if rank == MPI_PROC_NULL {
                return Ok(MPI_PROC_NULL);
            }
            self.check_rank(rank, || format!("ranks1[{i}]"))?;
            Ok(other.rank_of(self.members[rank as usize]).map_or(MPI_UNDEFINED, |rank| rank as c_int))
        };
        ranks.iter().enumerate().map(one).collect()
    }

    /// Checks that all are ranks and none stands twice; tells for each rank of the group whether it is among
    /// them.
    fn checked(&self, ranks: &[c_int]) -> Result<Vec<bool>> {
        let mut seen = vec![false; self.size()];
        for (i, &rank) in ranks.iter().enumerate() {
            self.check_rank(rank, || format!("ranks[{i}]"))?;
            check(!std::mem::replace(&mut seen[rank as usize], true), MPI_ERR_RANK, || {
                format!("ranks[{i}] is {rank}, which stands there already")
            })?;
        }
        Ok(seen)
    }

    fn check_rank(&self, rank: c_int, what: impl FnOnce() -> String) -> Result<()> {
        check(rank >= 0 && (rank as usize) < self.size(), MPI_ERR_RANK, || match self.size() {
            0 => format!("{} is {rank}, but the group is empty", what()),
            size => format!("{} is {rank}, expected 0 to {}", what(), size - 1),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(members: &[u32]) -> Group {
        Group::new(members.to_vec())
    }

    #[test]
    fn group_algebra_keeps_standard_order() {
        let (a, b) = (group(&[5, 3, 1]), group(&[1, 2, 3]));
        assert_eq!(a.union(&b), group(&[5, 3, 1, 2]));
        assert_eq!(a.intersection(&b), group(&[3, 1]));
        assert_eq!(a.difference(&b), group(&[5]));
        assert_eq!(b.difference(&b).size(), 0);
    }

    #[test]
    fn group_compare_distinguishes_order_and_membership() {
        let a = group(&[2, 0, 1]);
        assert_eq!(a.compare(&group(&[2, 0, 1])), MPI_IDENT);
        assert_eq!(a.compare(&group(&[0, 1, 2])), MPI_SIMILAR);
        assert_eq!(a.compare(&group(&[0, 1])), MPI_UNEQUAL);
        assert_eq!(a.compare(&group(&[0, 1, 3])), MPI_UNEQUAL);
        assert_eq!(Group::default().compare(&group(&[])), MPI_IDENT);
    }

    #[test]
    fn group_incl_and_excl_order() {
        let a = group(&[10, 11, 12, 13]);
        assert_eq!(a.include(&[3, 0]).unwrap(), group(&[13, 10]));
        assert_eq!(a.exclude(&[3, 0]).unwrap(), group(&[11, 12]));
        assert_eq!(a.include(&[]).unwrap().size(), 0);
        for wrong in [&[4][..], &[-1], &[1, 1]] {
            assert_eq!(a.include(wrong).unwrap_err().class, MPI_ERR_RANK);
            assert_eq!(a.exclude(wrong).unwrap_err().class, MPI_ERR_RANK);
        }
    }

    #[test]
    fn group_ranges_go_both_ways() {
        let a = group(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(a.expand(&[[1, 8, 3], [9, 5, -2], [0, 0, 7]]).unwrap(), [1, 4, 7, 9, 7, 5, 0]);
        assert_eq!(a.expand(&[[8, 11, 5]]).unwrap(), [8]);
        assert_eq!(a.expand(&[[1, 2, 0]]).unwrap_err().class, MPI_ERR_ARG);
        assert_eq!(a.expand(&[[2, 1, 1]]).unwrap_err().class, MPI_ERR_ARG);
        assert_eq!(a.expand(&[[8, 12, 2]]).unwrap_err().class, MPI_ERR_RANK);
        assert_eq!(a.expand(&[[c_int::MAX, c_int::MIN, c_int::MIN]]).unwrap_err().class, MPI_ERR_RANK);
    }

    #[test]
    fn group_translate_knows_absent_ranks() {
        let (a, b) = (group(&[7, 8, 9]), group(&[9, 7]));
        assert_eq!(a.translate(&[2, 1, MPI_PROC_NULL, 0], &b).unwrap(), [0, MPI_UNDEFINED, MPI_PROC_NULL, 1]);
        assert_eq!(a.translate(&[3], &b).unwrap_err().class, MPI_ERR_RANK);
    }
}
