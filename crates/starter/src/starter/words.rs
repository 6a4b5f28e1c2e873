//! Words of the servers of a job on several nodes to each other, by the road of orders for new ranks
//! ([`crate::pmi::word`]): those of PMI barriers of ranks that were started later, and published names; those
//! of PMIx what only they read.

use super::Starter;
use crate::pmi::NameChange;
use crate::pmi::word::Word;
use crate::readiness::now_ns;
use crate::spawning::{Asked, Over, Spawning};
use tutti_protocol::wire::Job;

impl Starter {
    /// Sends a word; `name`: the rank that waits for it, and what it wants. Whether it was short enough.
    pub(super) fn send_word(&mut self, word: &Word, name: Option<(u32, NameChange)>) -> bool {
        let Some(ask) = word.encode() else { return false };
        // Nothing is asked again of it: no room is wanted.
        self.put_ask(Asked { ask, ends_ns: now_ns(), name });
        true
    }

    /// All ranks of this node of a group that was started later may be in its barrier.
    pub(super) fn send_words(&mut self) {
        let node = self.later.job.as_ref().map(Job::node);
        let Some((foreign, node)) = self.parts.foreign.as_mut().zip(node).filter(|_| !self.alone) else {
            return;
        };
        for word in foreign.pmi.poll_words(node) {
            self.send_word(&word, None);
        }
    }

    /// A rank has published a name, or takes it back: all nodes are notified before it is answered.
    pub(super) fn change_name(&mut self, rank: u32, change: NameChange) {
        let number = self.parts.ranks.world_rank(rank);
        let word = match change.clone() {
            NameChange::Publish(service, port) => Word::Publish { rank: number, service, port },
            NameChange::Unpublish(service) => Word::Unpublish { rank: number, service },
        };
        if !self.send_word(&word, Some((rank, change.clone()))) {
            self.run_pmi(|pmi| pmi.answer_name(rank, &change, false));
        }
    }

    /// The hub's order is a word; it is over when all nodes have taken it.
    pub(super) fn begin_word(&mut self, order: u32, word: &Word, asked: Option<Asked>) {
        self.later.begun = order;
        let mut spawning = Spawning::new(order, None);
        let mut is_done = false;
        if let Word::Pmix { node, piece } = word {
            self.run_pmix(|pmix| {
                pmix.handle_word(*node, piece);
                Vec::new()
            });
        }
        if let Word::Absent(ranks) = word {
            self.note_absent(ranks);
        }
        self.run_pmi(|pmi| match pmi.handle_word(word) {
            Ok((done, events)) => {
                is_done = done;
                events
            }
            // The starters of a job are one version: none sends what is no keys and values.
            Err(_) => Vec::new(),
        });
        if let Some((rank, change)) = asked.and_then(|asked| asked.name) {
            spawning.over = Over::Name(rank, change, is_done);
        }
        self.add_spawning(spawning);
    }
}
