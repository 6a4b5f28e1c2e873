//! Ranks as they look after their channels.

use super::board::Bulk;
use super::node::Process;
use super::trace::{Packet, Step};
use super::world::{Happening, World};
use crate::bulk::BULK_BYTES_MAX;
use crate::counters::Drop as Dropped;
use crate::endpoint::{BulkError, Event, Expected, SendError};
use crate::exited::ExitedRank;
use crate::packet::{FRAGMENT_BYTES_BEFORE, Kind, fragment_place, parse};
use crate::ports::{Sink, Source};
use crate::types::{BulkId, Rank};

impl World {
    pub(super) fn run_rank(&mut self, rank: usize) {
        if self.nodes[rank].frozen || self.nodes[rank].is_dead() {
            return;
        }
        self.send_unsent(rank);
        if let Process::Exited(_) = self.nodes[rank].process {
            return self.answer_for(rank);
        }
        self.receive(rank);
        if !self.ending {
            self.send_something(rank);
        }
        self.confirm(rank);
        self.notify_room(rank);
        self.transmit(rank);
        self.fetch_events(rank);
        self.try_to_leave(rank);
        let node = &mut self.nodes[rank];
        let due = node.alive().and_then(|endpoint| endpoint.poll_timeout());
        let due = due.map(|ns| node.time_of(ns).saturating_sub(self.time_ns));
        let think_ns = self.random.below(200_000);
        let more = !self.nodes[rank].socket.is_empty();
        self.wake(rank, due.unwrap_or(think_ns).min(if more { 0 } else { think_ns }));
    }

    fn receive(&mut self, rank: usize) {
        let now = self.nodes[rank].now(self.time_ns);
        self.nodes[rank].alive().expect("a live rank").handle_timeout(now);
        for _ in 0..1 + self.random.below(32) {
            let node = &mut self.nodes[rank];
            let Some(datagram) = node.socket.pop_front() else { break };
            node.socket_bytes -= self.options.config.charges.of(datagram.len());
            let Process::Alive(endpoint) = &mut node.process else { break };
            // As a transport does that puts data where they are expected; the sink looks whether they belong
            // there.
            let cut = datagram.len().min(FRAGMENT_BYTES_BEFORE);
            let (head, data) = datagram.split_at(cut);
            let is_long_enough = |expected: &Expected| data.len() <= expected.bytes;
            let expected = endpoint.expected().filter(is_long_enough);
            let expected = expected.filter(|it| node.program.has_place(it.tag, it.offset, data.len()));
            // The kernel has put the data there before anybody knows whose they are.
            expected.iter().for_each(|expected| node.program.place(expected.tag, expected.offset, data));
            let placed = expected
                .filter(|expected| endpoint.handle_placed(now, head, data, expected.tag, expected.offset));
            let result = match placed {
                Some(expected) => {
                    node.program.fragment(expected.tag, expected.offset, data);
                    Ok(())
                }
                None => endpoint.handle_datagram(now, &datagram, &mut node.program),
            };
            let packet = Packet::of(&datagram);
            self.note(Step::Taken { rank, packet, dropped: result.err() });
            match result {
                Ok(()) | Err(Dropped::WrongIncarnation | Dropped::UnknownBulk) => (),
                Err(other) => panic!("a packet from one of us was dropped: {other}"),
            }
        }
    }

    fn send_something(&mut self, rank: usize) {
        let mut record = Vec::new();
        for _ in 0..self.random.below(6) {
            let to = self.random.below(self.options.ranks as u64) as usize;
            if to == rank {
                continue;
            }
            self.board.borrow().next_record(rank, to, &mut record);
            let split = self.random.below(record.len() as u64 + 1) as usize;
            let endpoint = self.nodes[rank].alive().expect("a live rank");
            match endpoint.try_send(Rank(to as u32), &record[..split], &record[split..]) {
                Ok(()) => self.board.borrow_mut().note_sent(rank, to),
                Err(SendError::Full) => (),
                Err(other) => panic!("{rank} cannot send to {to}: {other}"),
            }
        }
        if self.random.chance(60) {
            let to = self.random.below(self.options.ranks as u64) as usize;
            self.send_bulk(rank, to);
        }
    }

    /// The two programs agree on a message; how they do is not the channel's business.
    fn send_bulk(&mut self, from: usize, to: usize) {
        if from == to || self.nodes[to].frozen || self.nodes[to].alive().is_none() {
            return;
        }
        let most = if self.random.chance(100) { 400_000 } else { 20_000 };
        let (bytes, tag) = (self.random.below(most), self.next_tag);
        self.next_tag += 1;
        if self.random.chance(50) {
            // A message that nobody accepted.
            let id = BulkId::from_bits(self.random.number() | 1 << 31);
            let _ =
                self.nodes[from].alive().expect("a live rank").send_bulk(Rank(to as u32), id, bytes + 1, tag);
            return;
        }
        let offers = bytes > 0 && self.random.chance(400);
        let endpoint = self.nodes[to].alive().expect("a live rank");
        // A message may be shorter than its receive.
        let room = bytes + if self.random.chance(500) { self.random.below(20_000) } else { 0 };
        let accepted = if offers {
            endpoint.offer_bulk(Rank(from as u32), room, tag)
        } else {
            endpoint.accept_bulk(Rank(from as u32), bytes, tag)
        };
        let id = match accepted {
            Ok(id) => id,
            Err(BulkError::Full) => return,
            Err(other) => panic!("{to} cannot accept from {from}: {other}"),
        };
        let offered = offers.then_some(room);
        let bulk = Bulk { begun: !offers, offered, ..Bulk::new(from, to, id, tag, bytes) };
        self.board.borrow_mut().bulk.insert(tag, bulk);
        let sent = self.nodes[from].alive().expect("a live rank").send_bulk(Rank(to as u32), id, bytes, tag);
        match sent {
            Ok(()) => (),
            // An accepted message that its sender never sends keeps its place, unless it is empty and so
            // complete.
            Err(BulkError::Full) if bytes > 0 => drop(self.board.borrow_mut().bulk.remove(&tag)),
            Err(BulkError::Full) => {
                self.board.borrow_mut().bulk.get_mut(&tag).expect("it was put there just now").sent = true;
            }
            Err(other) => panic!("{from} cannot send {bytes} of at most {BULK_BYTES_MAX} to {to}: {other}"),
        }
        self.log(format!("{from} sends message {tag} of {bytes} B to {to}: {sent:?}"));
        self.wake(to, 0);
    }

    /// Records that say how long the messages are for which room was offered.
    fn confirm(&mut self, rank: usize) {
        let is_open = |bulk: &Bulk| bulk.to == rank && bulk.offered.is_some() && !bulk.received;
        let board = self.board.borrow();
        let mut open: Vec<u64> = board.bulk.iter().filter(|it| is_open(it.1)).map(|it| *it.0).collect();
        drop(board);
        open.sort_unstable();
        for tag in open {
            if !self.ending && !self.random.chance(200) {
                continue;
            }
            let (id, bytes) = {
                let board = self.board.borrow();
                (board.bulk[&tag].id, board.bulk[&tag].bytes.len() as u64)
            };
            let endpoint = self.nodes[rank].alive().expect("a live rank");
            assert!(endpoint.confirm_bulk(id, bytes), "message {tag} is of {bytes} B");
            let bulk = &mut self.board.borrow_mut();
            let bulk = bulk.bulk.get_mut(&tag).expect("nothing ends in between");
            (bulk.offered, bulk.begun) = (None, true);
        }
    }

    fn notify_room(&mut self, rank: usize) {
        for from in 0..self.options.ranks {
            let node = &mut self.nodes[rank];
            if node.program.refused[from] && !node.program.deaf && (self.ending || self.random.chance(300)) {
                node.program.refused[from] = false;
                node.alive().expect("a live rank").handle_room(Rank(from as u32));
            }
        }
    }

    fn transmit(&mut self, rank: usize) {
        let now = self.nodes[rank].now(self.time_ns);
        let mut buffer = std::mem::take(&mut self.buffer);
        loop {
            let node = &mut self.nodes[rank];
            let Process::Alive(endpoint) = &mut node.process else { break };
            let Some(sent) = endpoint.poll_transmit(now, &mut node.program, &mut buffer) else { break };
            let to = sent.to.0 as usize;
            for datagram in buffer[..sent.bytes].chunks(sent.segment_bytes) {
                let mut datagram = datagram.to_vec();
                if let Some(tag) = sent.lies_in {
                    let (offset, bytes) = fragment_place(&datagram);
                    datagram.resize(FRAGMENT_BYTES_BEFORE + bytes, 0);
                    node.program.read(tag, offset, &mut datagram[FRAGMENT_BYTES_BEFORE..]);
                }
                node.unsent.push((to, datagram));
            }
            // Frozen after the packet was claimed and before it left.
            if !self.ending && self.options.fault_every_ns > 0 && self.random.chance(1) {
                let for_ns = self.random.below(20_000_000);
                self.freeze(rank, for_ns);
                break;
            }
            self.send_unsent(rank);
        }
        self.buffer = buffer;
    }

    fn send_unsent(&mut self, rank: usize) {
        for (to, datagram) in std::mem::take(&mut self.nodes[rank].unsent) {
            let arrivals = self.network.arrivals(&mut self.random, (rank, to), datagram.len());
            self.report.pieces +=
                u64::from(matches!(parse(&datagram), Ok((head, _)) if head.kind == Kind::Piece));
            self.note(Step::Sent { rank, to, packet: Packet::of(&datagram), arrivals });
            for after_ns in arrivals.into_iter().flatten() {
                self.at(after_ns, Happening::Arrival(to, datagram.clone()));
            }
        }
    }

    fn fetch_events(&mut self, rank: usize) {
        while let Some(event) = self.nodes[rank].alive().and_then(|endpoint| endpoint.poll_event()) {
            self.log(format!("{rank} {event:?}"));
            let mut board = self.board.borrow_mut();
            match event {
                Event::BulkSent { to, tag } => {
                    let Some(bulk) = board.bulk.get_mut(&tag) else {
                        // Of a rank that left nobody knows which messages it never accepted.
                        assert!(
                            matches!(self.nodes[to.0 as usize].process, Process::Exited(_)),
                            "message {tag} counts as sent"
                        );
                        continue;
                    };
                    assert!(bulk.from == rank && !std::mem::replace(&mut bulk.sent, true));
                    assert!(
                        bulk.has_magic(tag, bulk.bytes.len() as u64),
                        "message {tag} counts as sent and is not there"
                    );
                }
                Event::BulkReceived { tag, .. } => {
                    let bulk = board.bulk.get_mut(&tag).expect("a message that was accepted");
                    assert!(bulk.to == rank && !std::mem::replace(&mut bulk.received, true));
                    assert!(
                        bulk.has_magic(tag, bulk.bytes.len() as u64),
                        "message {tag} counts as received and is not there"
                    );
                    self.report.bulk += 1;
                }
                Event::BulkRefused { tag, .. } => {
                    assert!(!board.bulk.contains_key(&tag), "message {tag} was accepted and then refused");
                }
                Event::PeerExited { rank: peer, unread } => {
                    assert!(unread == 0 && matches!(self.nodes[peer.0 as usize].process, Process::Exited(_)));
                }
            }
            board.bulk.retain(|_, bulk| !(bulk.sent && bulk.received));
        }
    }

    /// At the end a rank leaves when it has all that is meant for it and what it sent has arrived.
    fn try_to_leave(&mut self, rank: usize) {
        let is_done = self.ending && self.has_all(rank) && self.nodes[rank].unsent.is_empty();
        let node = &mut self.nodes[rank];
        let Process::Alive(endpoint) = &node.process else { return };
        if !is_done || !endpoint.is_flushed() || self.options.kill {
            return;
        }
        let identity = endpoint.identity();
        let counters = *endpoint.counters();
        let board = self.board.borrow();
        let expected = endpoint.peers().map(|peer| (peer, 0, board.words(rank, peer.0 as usize).rcv_nxt));
        let exited = ExitedRank::new(identity, endpoint.config().first_seq, expected);
        drop(board);
        self.report.refusals += counters.refusals;
        node.process = Process::Exited(exited);
        self.log(format!("{rank} leaves"));
    }

    fn answer_for(&mut self, rank: usize) {
        let mut into = [0; 256];
        while let Some(datagram) = self.nodes[rank].socket.pop_front() {
            self.nodes[rank].socket_bytes -= self.options.config.charges.of(datagram.len());
            let Process::Exited(exited) = &self.nodes[rank].process else { return };
            let answer = exited.handle_datagram(&datagram, &mut into);
            self.note(Step::Taken { rank, packet: Packet::of(&datagram), dropped: answer.err() });
            if let Ok(Some(answer)) = answer {
                self.nodes[rank].unsent.push((answer.to.0 as usize, into[..answer.bytes].to_vec()));
            }
        }
        self.send_unsent(rank);
        self.wake(rank, 1_000_000);
    }
}
