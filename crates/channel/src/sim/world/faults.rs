//! Faults in the simulator, and how they end.

use super::{Happening, World};
use crate::endpoint::Endpoint;
use crate::sim::node::{KEY, Process};
use crate::sim::{Board, SimMemory};
use crate::steady::{SteadyResponder, SteadyTest};
use crate::types::{Generation, Identity, Incarnation, Rank};

/// State that a roll-back needs.
#[derive(Clone, Debug)]
pub(in crate::sim) struct Checkpoint {
    saved: Vec<Vec<u8>>,
    board: Board,
}

impl World {
    pub(in crate::sim) fn handle_fault(&mut self, happening: Happening) {
        match happening {
            Happening::Fault => self.fault(),
            Happening::Freeze(rank) if !self.ending => self.nodes[rank].freeze(self.time_ns),
            Happening::Thaw(rank) => {
                self.nodes[rank].thaw(self.time_ns);
                self.wake(rank, 0);
            }
            Happening::Cut => self.take_cut(),
            Happening::Heal => self.heal(),
            _ => (),
        }
    }

    /// The rank stops where it is, for a while.
    pub(in crate::sim) fn freeze(&mut self, rank: usize, for_ns: u64) {
        self.report.freezes += 1;
        self.log(format!("{rank} is frozen for {for_ns}"));
        self.nodes[rank].freeze(self.time_ns);
        self.at(for_ns, Happening::Thaw(rank));
    }

    fn fault(&mut self) {
        if self.ending {
            return;
        }
        self.network.change_width(&mut self.random);
        let rank = self.random.below(self.options.ranks as u64) as usize;
        let for_ns = self.random.below(30_000_000);
        match self.random.below(10) {
            0 | 1 => self.freeze(rank, for_ns),
            2 | 3 => self.freeze_gang(for_ns),
            4 => {
                self.log(format!("the network falls apart for {for_ns}"));
                for half in 0..self.options.ranks {
                    self.network.half[half] = self.random.chance(500);
                }
                self.at(for_ns, Happening::Heal);
            }
            5 => {
                self.log(format!("{rank} is deaf for {for_ns}"));
                self.nodes[rank].program.deaf = true;
                self.at(for_ns, Happening::Heal);
            }
            6 => {
                self.log(format!("the clock of {rank} jumps"));
                let mut random = self.random.clone();
                self.nodes[rank].jump(&mut random);
                self.random = random;
                self.wake(rank, 0);
            }
            7 => self.take_checkpoint(),
            8 => self.roll_back(),
            _ => self.restore(),
        }
        let next_ns = self.random.below(2 * self.options.fault_every_ns);
        self.at(next_ns, Happening::Fault);
    }

    /// All ranks, each a little later than the others; then the cut; then they go on, each a little later
    /// again.
    fn freeze_gang(&mut self, for_ns: u64) {
        const SKEW_NS: u64 = 200_000;
        self.log(format!("the gang is frozen for {for_ns}"));
        for rank in 0..self.options.ranks {
            let (early, late) = (self.random.below(SKEW_NS), self.random.below(SKEW_NS));
            self.at(early, Happening::Freeze(rank));
            self.at(2 * SKEW_NS + for_ns + late, Happening::Thaw(rank));
            self.report.freezes += 1;
        }
        self.at(SKEW_NS, Happening::Cut);
    }

    /// The cut of all flows, and the paper's predicate, which has to say the same.
    fn take_cut(&mut self) {
        if self.nodes.iter().any(|node| !node.frozen) {
            return;
        }
        for (from, to) in self.pairs() {
            let Process::Alive(endpoint) = &self.nodes[from].process else { continue };
            let memory = endpoint.memory(Rank(to as u32)).expect("a flow to every other");
            self.board.borrow_mut().check_cut(from, to, Some(crate::ports::FlowMemory::fifo(memory)));
        }
        for rank in 0..self.options.ranks {
            self.probe_quiescence(rank);
        }
    }

    /// Daemon asks daemon over a network that loses half, while packets of the job lie in sockets and
    /// elsewhere.
    fn probe_quiescence(&mut self, rank: usize) {
        let generation = Generation(7);
        let identity = |rank: usize| Identity {
            key: KEY,
            incarnation: Incarnation(self.incarnation),
            rank: Rank(rank as u32),
        };
        let others: Vec<_> = (0..self.options.ranks).filter(|peer| *peer != rank).collect();
        let board = self.board.borrow();
        let flows = others.iter().map(|peer| (Rank(*peer as u32), board.words(rank, *peer)));
        let mut test = SteadyTest::new(identity(rank), generation, 3, 0, flows);
        let responder = |rank| SteadyResponder::new(identity(rank));
        let mut responders: Vec<_> = (0..self.options.ranks).map(responder).collect();
        let (mut probe, mut answer) = ([0; 64], [0; 64]);
        while let Some(due_ns) = test.poll_timeout() {
            while let Some(probed) = test.poll_probe(due_ns, &mut probe) {
                if self.random.chance(500) {
                    continue;
                }
                let peer = probed.to.0 as usize;
                let words = |from: Rank| Some(board.words(peer, from.0 as usize));
                let reply = responders[peer].handle_probe(&probe[..probed.bytes], true, words, &mut answer);
                let reply = reply.expect("a good probe").expect("a frozen rank's daemon answers");
                assert!(responders[peer].is_closed(Rank(rank as u32)));
                if self.random.chance(500) {
                    test.handle_answer(&answer[..reply.bytes]).expect("a good answer");
                }
            }
        }
        for peer in others {
            let (sender, receiver) = (board.words(rank, peer), board.words(peer, rank));
            let refused = (receiver.rcv_nxt, sender.snd_high);
            let expected = (sender.snd_una != sender.snd_high).then_some(refused);
            assert_eq!(test.refused(Rank(peer as u32)), expected, "refused from {rank} to {peer}");
        }
        drop(board);
        self.report.steady += 1;
    }

    /// All ranks are saved, to be rolled back to this moment.
    fn take_checkpoint(&mut self) {
        self.log("a checkpoint".to_owned());
        let mut saved = vec![Vec::new(); self.options.ranks];
        for (rank, saved) in saved.iter_mut().enumerate() {
            if let Some(endpoint) = self.nodes[rank].alive() {
                endpoint.save(saved);
            }
        }
        self.checkpoint = Some(Checkpoint { saved, board: self.board.borrow().clone() });
    }

    /// All ranks go on from the checkpoint, while packets of what is now undone are still under way.
    fn roll_back(&mut self) {
        let Some(checkpoint) = self.checkpoint.clone() else { return };
        self.log("back to the checkpoint".to_owned());
        self.incarnation += 1;
        *self.board.borrow_mut() = checkpoint.board;
        self.board.borrow_mut().restoring = true;
        for rank in 0..self.options.ranks {
            self.restore_rank(rank, &checkpoint.saved[rank]);
            self.nodes[rank].program.refused.fill(false);
        }
        self.end_restoring();
    }

    /// Some ranks are saved and restored, the others go on; all under another incarnation, what is under way
    /// is void.
    fn restore(&mut self) {
        self.incarnation += 1;
        let incarnation = Incarnation(self.incarnation);
        self.board.borrow_mut().restoring = true;
        for rank in 0..self.options.ranks {
            let (now, is_saved) = (self.nodes[rank].now(self.time_ns), self.random.chance(600));
            let Some(endpoint) = self.nodes[rank].alive() else { continue };
            if is_saved {
                let mut saved = Vec::new();
                endpoint.save(&mut saved);
                self.restore_rank(rank, &saved);
            } else {
                endpoint.handle_incarnation(now, incarnation);
            }
        }
        self.end_restoring();
    }

    fn restore_rank(&mut self, rank: usize, saved: &[u8]) {
        let (board, fifo_bytes) = (self.board.clone(), self.options.fifo_bytes);
        let now = self.nodes[rank].now(self.time_ns);
        let Some(endpoint) = self.nodes[rank].alive() else { return };
        let refusals = endpoint.counters().refusals;
        let memory = |peer: Rank| Some(SimMemory::new(&board, rank, peer.0 as usize, fifo_bytes));
        let incarnation = Incarnation(self.incarnation);
        let restored = Endpoint::restore(saved, incarnation, self.options.config, now, memory);
        let endpoint = self.nodes[rank].alive().expect("it lived just now");
        *endpoint = restored.expect("what was saved can be restored");
        self.report.refusals += refusals;
        self.report.restores += 1;
        self.log(format!("{rank} is restored"));
    }

    fn end_restoring(&mut self) {
        self.board.borrow_mut().restoring = false;
        for (from, to) in self.pairs() {
            self.board.borrow_mut().check_cut(from, to, None);
        }
        for rank in 0..self.options.ranks {
            self.wake(rank, 0);
        }
    }

    fn heal(&mut self) {
        self.network.join();
        for node in &mut self.nodes {
            node.program.deaf = false;
        }
    }

    /// From here on all is well, but for one who may be killed.
    pub(in crate::sim) fn end(&mut self) {
        self.log("all is well from here on".to_owned());
        self.ending = true;
        self.network.become_well();
        self.heal();
        if self.options.kill {
            self.nodes[0].process = Process::Dead;
        }
        for rank in 0..self.options.ranks {
            self.nodes[rank].program.refuse_permille = 0;
            self.nodes[rank].thaw(self.time_ns);
            self.wake(rank, 0);
        }
    }

    fn pairs(&self) -> Vec<(usize, usize)> {
        let ranks = self.options.ranks;
        (0..ranks)
            .flat_map(|from| (0..ranks).map(move |to| (from, to)))
            .filter(|(from, to)| from != to)
            .collect()
    }
}
