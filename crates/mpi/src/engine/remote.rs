//! Peers on other nodes: the same messages as inside a node, over the records and bulk messages of a channel.
//!
//! | record | from | after the head | meaning |
//! |---|---|---|---|
//! | EAGER | sender | data | a whole small message |
//! | STREAM | sender | the first data | an eager message of several records; the rest follows in PARTs |
//! | PART | sender | data | the next of the message that is streaming |
//! | RTS | sender | - | a large or synchronous message |
//! | CTS | receiver | - | matched: send it in bulk under the name in `word` |
//! | FIN | receiver | - | matched, and there is nothing to send |
//! | CREDIT | receiver | - | nothing new but the credit in `word` |
//! | CANCEL | sender | - | an announced message is dropped if no receive has taken it |
//! | CANCELLED | receiver | - | it is dropped |
//! | FAR_RTR, FAR_WRITE, RTR_VOID, RTR_VOIDED | | | a receive that came first ([`super::far_write`]) |
//! | NAMES | any | names | a question about published names, to rank 0 ([`super::names`]) |
//! | NAMED | rank 0 | a name | its answer |
//!
//! Records arrive once and in order, so the parts of a message need no number, and matching sees messages in
//! the order of sending. The data of an announced message go from the sender's buffer into datagrams and from
//! there into the receiver's: nothing else copies them.
//!
//! What waits for room in a FIFO is the backlog; what waits for a free place among the bulk messages,
//! `to_accept` and `to_send`. All of it goes on at each look at the network ([`super::remote_client`]).

use std::cell::RefMut;

use tutti_runtime::net::Traffic;
use tutti_runtime::router::{Client, RouteId, Router};
use tutti_runtime::service_state;
use tutti_shm::envelope::{CANCEL, Head, NAMES};
use tutti_shm::names::Question;

use super::counters::Counters;
use super::message::Message;
use super::names::{Answer, KEEPER, NoAnswer};
use super::remote_client::{Remote, RemoteClient, deliver};
use super::remote_state::{Outgoing, Outlet};
use super::unexpected_message::Unexpected;
use super::{Engine, Left};
use crate::check_mode;
use crate::request::{Request, RequestKind, Started};

impl Engine {
    /// The network, and what the engine does with its records and bulk messages.
    pub(super) fn network(&mut self) -> (RefMut<'_, Router>, RouteId, RemoteClient<'_>) {
        let Engine { remote, requests, matching, counters, .. } = self;
        let remote = remote.as_deref_mut().expect("a rank of another node is known by its network");
        let Remote { router, route, state, .. } = remote;
        (router.borrow_mut(), *route, RemoteClient { state, requests, matching, counters })
    }

    /// [`Engine::try_forget`] for a rank of another node.
    pub(super) fn try_forget_far(&mut self, rank: usize) -> Left {
        let Some((ended, processes)) = self.job.left_far(rank) else { return Left::Forgotten };
        let is_named = |request: &Request| !request.done && request.peer == rank as i32;
        if self.requests.iter().any(|(_, request)| is_named(request)) || !self.matching.discard(rank) {
            return Left::Kept;
        }
        let Some(remote) = self.remote.as_deref_mut() else { return Left::Kept };
        if !remote.router.borrow_mut().renew(rank, processes) {
            return Left::Kept;
        }
        remote.state.forget(rank);
        remote.note_forgotten(rank);
        self.job.forget_far(rank, ended);
        Left::ForgottenFar
    }

    /// Starts a send to a rank of another node.
    pub(super) fn send_to_node(&mut self, message: Message) -> Started {
        let to = message.to as usize;
        if self.is_guest(to) {
            return self.send_to_guest(message);
        }
        self.look_for_far_rtr(&message);
        let (mut router, route, mut client) = self.network();
        client.send_gathered(&mut router.outbox(route));
        if !check_mode::is_on() && client.state.try_eager(&mut router.outbox(route), &message) {
            client.counters.eager += 1;
            if !router.may_wait(to) {
                router.transmit_as(route, &mut client);
            }
            return Started::Done;
        }
        let index = client.queue_send(&mut router.outbox(route), message);
        // Of a burst of announcements all but the first go together, as small messages do.
        let message = client.requests.get(index).posted as u32;
        let waits = client.state.has_rendezvous(to, message, index) && router.may_wait(to);
        if !waits {
            router.transmit_as(route, &mut client);
        }
        drop(router);
        // A checked send stays until the program has completed it.
        if self.requests.get(index).done && !check_mode::is_on() {
            self.requests.remove(index);
            return Started::Done;
        }
        Started::Pending(index)
    }

    /// Withdraws a send to another node that is not matched yet; its receiver is asked, if it knows of it.
    pub(super) fn cancel_send_to_node(&mut self, to: usize, posted: u64, index: u32) {
        if self.is_guest(to) {
            return self.cancel_send_to_guest(to, posted, index);
        }
        let number = posted as u32;
        let (mut router, route, mut client) = self.network();
        let peer = &mut client.state.peers[to];
        let waits = |one: &Outgoing| matches!(one, Outgoing::Send { request, .. } if *request == index);
        if peer.backlog.withdraw(posted, waits) {
            if peer.backlog.is_empty() {
                client.state.busy.retain(|busy| *busy != to);
            }
            drop(router);
            self.finish_cancelled(index);
        } else if client.state.is_rendezvous(to, number, index) {
            client.state.send_control(to, Head { kind: CANCEL, number, ..Head::default() });
            client.push_out(&mut router.outbox(route));
            router.transmit_as(route, &mut client);
        }
    }

    /// A send to a rank of another node that is to be taken back, if that has left without having answered.
    /// It is owed to nobody.
    pub(super) fn forget_vain_send_to_node(&mut self, index: u32, to: usize, number: u32) {
        let Some(remote) = self.remote.as_deref_mut().filter(|_| to < self.job.ranks()) else { return };
        let peer = &mut remote.state.peers[to];
        if peer.has_exited && peer.rendezvous.get(number) == Some(&index) {
            peer.rendezvous.take(number);
            self.finish_cancelled(index);
        }
    }

    /// Brings a message of another node and the receive that takes it together.
    pub(super) fn deliver_from_node(&mut self, from: usize, message: Unexpected, index: u32) {
        if self.is_guest(from) {
            return self.deliver_from_guest(from, message, index);
        }
        let (mut router, route, mut client) = self.network();
        deliver(client.state, client.requests, from, message, index);
        router.advance_as(route, &mut client);
    }

    /// An unexpected eager message of a rank has reached a receive's buffer.
    pub(super) fn release_credit(&mut self, from: usize, bytes: usize) {
        if self.peers.has(from) {
            if from != self.me {
                self.peers[from].release_credit(bytes);
            }
        } else if self.is_guest(from) {
            self.release_credit_of_guest(from, bytes);
        } else if let Some(remote) = self.remote.as_deref_mut() {
            remote.state.release_credit(from, bytes);
            service_state::sent();
        }
    }

    /// Moves whatever can be moved to and from other nodes. `for_local`: the caller waits for a rank of this
    /// node.
    #[inline(never)]
    pub(super) fn progress_remote(&mut self, for_local: bool) -> bool {
        let Some(remote) = self.remote.as_deref_mut() else { return false };
        if !remote.router.borrow_mut().is_due(for_local) {
            return false;
        }
        service_state::polled();
        let (mut router, route, mut client) = self.network();
        router.poll_as(route, &mut client)
    }

    /// Lends what the engine does with its records and bulk messages.
    pub fn lend_client(&mut self, use_client: &mut dyn FnMut(&mut dyn Client)) {
        let Engine { remote, requests, matching, counters, .. } = self;
        let remote = remote.as_deref_mut().expect("an engine with records has a network");
        // The router is in use by whoever polls.
        use_client(&mut RemoteClient { state: &mut remote.state, requests, matching, counters });
    }

    /// Asks the table of published names. Gives the answer, or the number under which
    /// [`Engine::poll_names`] has it later.
    pub fn ask_names(&mut self, question: Question<'_>) -> Result<Answer, u32> {
        if self.job.local_ranks().contains(KEEPER) {
            return Ok(self.job.names().answer(self.me as u32, question).map_err(NoAnswer::Refused));
        }
        let (mut router, route, mut client) = self.network();
        let number = client.state.questions.next_number();
        let (tag, service_bytes, data) = question.encode();
        let head = Head { kind: NAMES, number, tag, length: service_bytes as u64, ..Head::default() };
        client.state.put_off(KEEPER, Outgoing::Record(Box::new((head, data))));
        client.push_out(&mut router.outbox(route));
        router.transmit_as(route, &mut client);
        Err(number)
    }

    /// The answer to a question, when it is there.
    pub fn poll_names(&mut self, number: u32) -> Option<Answer> {
        let (_, _, client) = self.network();
        client.state.questions.poll(number)
    }

    /// Counts by now, the job's turns included.
    pub fn counted(&self) -> Counters {
        let turns = self.job.clock().turns();
        Counters { thaws: turns.thaw_count, frozen_us: turns.frozen_ns_total / 1000, ..self.counters }
    }

    /// Traffic of this rank's datagrams, if it has a network.
    pub fn traffic(&self) -> Option<Traffic> {
        Some(self.remote.as_deref()?.router.borrow().traffic())
    }
}

impl RemoteClient<'_> {
    /// Starts a send behind what waits for room already; its request may be done.
    pub(super) fn queue_send(&mut self, outbox: &mut impl Outlet, message: Message) -> u32 {
        let Message { to, context, tag, buffer, mode } = message;
        let mut request = Request::new(RequestKind::Send, buffer, context, to as i32, tag);
        request.bytes = request.buffer.bytes;
        let index = self.requests.insert(request);
        let ticket = self.state.put_off(to as usize, Outgoing::Send { request: index, mode });
        self.requests.get_mut(index).posted = ticket;
        self.push_out(outbox);
        if !self.state.to_send.is_empty() {
            self.push_bulk(outbox);
        }
        index
    }
}
