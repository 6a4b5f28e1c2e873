//! Ending, closing, another incarnation.

use super::{BulkReply, Endpoint, Pending};
use crate::counters::FlowState;
use crate::credit::Shares;
use crate::ports::FlowMemory;
use crate::stream::Waiting;
use crate::timers::NEVER;
use crate::types::{Incarnation, Now, Rank};

impl<M: FlowMemory> Endpoint<M> {
    /// Whether everything that was given to be sent has arrived, or its receiver has left: Finalize waits for
    /// this.
    pub fn is_flushed(&self) -> bool {
        self.flows.iter().all(|flow| (flow.exited || flow.tx.held() == 0) && flow.bulk.is_empty())
            && self.replies.is_empty()
    }

    /// How the flow to `rank` stands.
    pub fn flow_state(&self, rank: Rank) -> Option<FlowState> {
        let flow = &self.flows[self.flow(rank)?];
        Some(FlowState {
            held: flow.tx.held(),
            flight_bytes: flow.flight(),
            window_bytes: flow.window.bytes(),
            credit_bytes: flow.window.credit,
            rtt_ns: flow.window.rtt_ns(),
            waits_for_room: flow.tx.waiting == Waiting::Room,
            exited: flow.exited,
            is_narrow: flow.path.is_narrow(),
        })
    }

    /// The paper's steady state of a channel on a node: everything sent has been acknowledged or
    /// refused, so nothing of this rank is under way as far as it knows. A frozen rank cannot reach it by
    /// itself; its daemon asks for it ([`SteadyTest`](crate::SteadyTest)).
    pub fn is_steady(&self) -> bool {
        self.flows.iter().all(|flow| !flow.tx.is_outstanding() && flow.bulk.flight() == 0)
    }

    /// From now on nothing is taken from `from`, nor acknowledged, until
    /// [`open_all`](Endpoint::open_all).
    pub fn close(&mut self, from: Rank) {
        if let Some(at) = self.flow(from) {
            self.flows[at].closed = true;
        }
    }

    /// Ends what [`close`](Endpoint::close) began: the job was thawed.
    pub fn open_all(&mut self) {
        self.flows.iter_mut().for_each(|flow| flow.closed = false);
    }

    /// The process of `rank` has ended, and another one may have its number: the flow to it begins anew, as
    /// its `processes`th, counted from 0 over both sides. What was under way of the streams is dropped, and
    /// packets of the former process are those of another incarnation. `false`, and nothing has changed: bulk
    /// messages are under way, or events about them wait, or there is no such flow.
    pub fn renew(&mut self, rank: Rank, processes: u32) -> bool {
        let Some(at) = self.flow(rank) else { return false };
        let is_of_bulk = |event: &Pending| match *event {
            Pending::Sent { to, .. } | Pending::Refused { to, .. } => to == rank,
            Pending::Received { from, .. } => from == rank,
            Pending::Exited { .. } => false,
        };
        if !self.flows[at].bulk.is_empty()
            || self.incoming.iter().any(|place| place.flow == Some(at as u16))
            || self.pending.iter().any(is_of_bulk)
        {
            return false;
        }
        self.pending
            .retain(|event| !matches!(event, Pending::Exited { rank: exited, .. } if *exited == rank));
        self.replies.retain(|reply| match *reply {
            BulkReply::State(_) => true,
            BulkReply::Done { flow, .. } | BulkReply::Refused { flow, .. } => usize::from(flow) != at,
        });
        self.pieces.forget();
        self.silent_since[at] = NEVER;
        let credit = Shares::least_bytes(&self.config, self.flows.len());
        let incarnation = self.identity.incarnation.after(processes);
        // The last one has its place until the new one is there.
        let last_one = self.flows.swap_remove(at);
        self.flows.push(last_one.renew(incarnation, &self.config, credit));
        let last = self.flows.len() - 1;
        self.flows.swap(at, last);
        self.note_deadline(at);
        true
    }

    /// The job goes on under another incarnation: whatever is under way is void, so everything not
    /// acknowledged is sent again. All endpoints of the job have to change together, while all are frozen.
    pub fn handle_incarnation(&mut self, now: Now, incarnation: Incarnation) {
        let before = std::mem::replace(&mut self.identity.incarnation, incarnation);
        self.replies.clear();
        // Numbers of cut datagrams begin anew where a rank is restored.
        self.pieces.forget();
        for place in &mut self.incoming {
            place.ack_queued = false;
        }
        for at in 0..self.flows.len() {
            let flow = &mut self.flows[at];
            flow.incarnation = flow.incarnation.after(incarnation.0.wrapping_sub(before.0));
            flow.tx.rewind(&mut flow.memory);
            flow.tx.waiting = Waiting::Acks;
            flow.bulk.lose_all();
            (flow.wants.nack, flow.wants.answer) = (false, None);
            // Both sides learn anew where the other one is.
            flow.wants.ack = true;
            let mut slot = flow.bulk.first();
            while let Some(here) = slot {
                let place = &mut self.outgoing[usize::from(here)];
                place.lose_all();
                slot = place.next_slot;
            }
            self.flows[at].rearm(now.ns, &self.config);
            self.mark(at);
            self.note_deadline(at);
        }
        self.observe(now);
    }
}
