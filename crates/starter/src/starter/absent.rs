//! Ranks that have ended well without MPI_Init, while others wait for them over PMI or PMIx: those would wait
//! for ever. Ranks on our own library are judged by [`super::stuck`].
//!
//! ```text
//! a rank is absent -> all nodes are told (a word) -> on some node all that live wait -> the job ends
//! ```
//!
//! Over PMI a rank waits when it is in a barrier of all. Of PMIx only the server knows who is in a fence; but
//! MPI_Init has one of all ranks, so there it is enough that all that live have begun. `prterun` ends a job
//! as soon as one has.

use super::Starter;
use crate::pmi::word::Word;
use tutti_protocol::wire::Library;

impl Starter {
    /// Ends the job if ranks here wait for one that never comes; asked from time to time.
    pub(super) fn judge_absent(&mut self) {
        if self.parts.ranks.is_ending() {
            return;
        }
        self.look_for_absent();
        let Some(foreign) = &self.parts.foreign else { return };
        let Some((rank, pid)) = foreign.absent else { return };
        let ranks = &self.parts.ranks;
        let do_wait = match foreign.seen.contains(&Library::Pmix) {
            true => ranks.have_living_begun(),
            false => foreign.pmi.do_living_wait(|rank| ranks.is_dead(rank)),
        };
        if do_wait && let Some(ended) = self.parts.ranks.handle_absent(rank, pid) {
            self.handle_ended(ended);
        }
    }

    /// Looks for such a rank of this node. Nothing that it has started may still call MPI_Init.
    fn look_for_absent(&mut self) {
        let Some(foreign) = self.parts.foreign.as_ref().filter(|foreign| !foreign.is_absence_told) else {
            return;
        };
        let Some(found) = self.parts.ranks.first_absent().filter(|_| !self.has_orphans()) else { return };
        let is_known = foreign.absent.is_some();
        if self.alone {
            self.note_absent(found);
        } else if !is_known {
            self.send_word(&Word::Absent { rank: found.0, pid: found.1 }, None);
        }
        self.parts.foreign.iter_mut().for_each(|foreign| foreign.is_absence_told = true);
    }

    /// A rank of some node will never come; gives its number and its pid.
    pub(super) fn note_absent(&mut self, absent: (u32, u32)) {
        self.parts.foreign.iter_mut().for_each(|foreign| _ = foreign.absent.get_or_insert(absent));
    }
}
