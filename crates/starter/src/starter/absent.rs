//! Ranks that have ended well without MPI_Init, while others wait for them: those would wait for ever.
//!
//! ```text
//! ranks are absent -> all nodes are notified (a word) -> on some node ranks wait for one -> the job ends
//! ```
//!
//! On our own library a rank waits for one that is absent if no other can end its wait, whatever it does. One
//! that waits for any rank does not: what becomes of it is seen with all ranks ([`super::stuck`]).
//!
//! Over PMI a rank waits when it is in a barrier of all. Of PMIx only the server knows who is in a fence; but
//! MPI_Init has one of all ranks, so there it is enough that all that live have begun. `prterun` ends a job
//! as soon as one has.

use std::collections::BTreeMap;

use super::Starter;
use crate::pmi::word::Word;
use tutti_protocol::wire::Library;
use tutti_shm::segment::Segment;
use tutti_snapshot::absent_peer;

/// Between two words of a node about such ranks: after the first, and at most.
const ANNOUNCE_NS: (u64, u64) = (500_000_000, 8_000_000_000);

impl Starter {
    /// Ends the job if ranks here wait for one that never comes; asked from time to time.
    pub(super) fn judge_absent(&mut self, now_ns: u64) {
        if self.parts.ranks.is_ending() {
            return;
        }
        self.look_for_absent();
        self.announce_absent(now_ns);
        let Some(foreign) = self.parts.foreign.as_ref().filter(|foreign| !foreign.absent.is_empty()) else {
            return;
        };
        let ranks = &self.parts.ranks;
        let do_all_wait = match foreign.seen.contains(&Library::Pmix) {
            true => ranks.have_living_begun(),
            false => foreign.pmi.do_living_wait(|rank| ranks.is_dead(rank)),
        };
        let first = foreign.absent.first_key_value().filter(|_| do_all_wait);
        let found = first.or_else(|| {
            let segment = self.parts.segment.as_ref()?;
            foreign.absent.get_key_value(&awaited(segment, &foreign.absent)?)
        });
        if let Some((rank, pid)) = found.map(|(rank, pid)| (*rank, *pid))
            && let Some(ended) = self.parts.ranks.handle_absent(rank, pid)
        {
            self.handle_ended(ended);
        }
    }

    /// Looks for such ranks of this node. Nothing that they have started may still call MPI_Init.
    fn look_for_absent(&mut self) {
        let Some(foreign) = &self.parts.foreign else { return };
        let ranks = &self.parts.ranks;
        let found: Vec<u32> =
            ranks.absent().filter(|rank| !foreign.own_absent.ranks.contains(rank)).collect();
        if found.is_empty() || self.has_orphans() {
            return;
        }
        let named = |rank: &u32| Some((ranks.world_rank(*rank), ranks.pid_of(*rank)?));
        let named: Vec<(u32, u32)> = found.iter().filter_map(named).collect();
        for rank in &found {
            // What is sent to it is sent to nobody.
            self.parts.segment.iter().for_each(|segment| segment.mark_left(*rank as usize));
            self.add_exited(*rank);
        }
        self.note_absent(&named);
        if let Some(foreign) = &mut self.parts.foreign {
            foreign.own_absent.ranks.extend(&found);
            foreign.own_absent.unsent.extend(&named);
        }
    }

    /// Notifies the other nodes. Programs without MPI may leave one by one: of their ends the later ones are
    /// sent together, ever more seldom.
    fn announce_absent(&mut self, now_ns: u64) {
        let Some(own) = self.parts.foreign.as_mut().map(|foreign| &mut foreign.own_absent) else { return };
        if self.alone || own.unsent.is_empty() || now_ns < own.next_ns {
            return;
        }
        own.after_ns = (2 * own.after_ns).clamp(ANNOUNCE_NS.0, ANNOUNCE_NS.1);
        own.next_ns = now_ns + own.after_ns;
        let word = Word::Absent(std::mem::take(&mut own.unsent));
        self.send_word(&word, None);
    }

    /// Ranks of some node will never come; gives the number and the pid of each.
    pub(super) fn note_absent(&mut self, absent: &[(u32, u32)]) {
        self.parts.foreign.iter_mut().for_each(|foreign| foreign.absent.extend(absent.iter().copied()));
    }
}

/// Absent rank for which a rank here waits for ever. No rank is frozen: what stands still before
/// and after the look did so in between.
fn awaited(segment: &Segment, absent: &BTreeMap<u32, u32>) -> Option<u32> {
    let ranks_end = u64::from(segment.geometry().world_room());
    let absent: Vec<u32> = absent.keys().copied().collect();
    (0..segment.present() as usize).find_map(|rank| {
        let still = || Some((segment.stillness(rank)?, segment.signals(rank)?));
        let before = still()?;
        let found = absent_peer(&tutti_snapshot::rank_view(segment, rank), &absent, ranks_end)?;
        (still() == Some(before)).then_some(found)
    })
}
