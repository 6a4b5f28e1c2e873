//! Messages in flight: those that their senders have let go and their receivers have not taken.
//!
//! Between nodes by the words of both ends (`tutti_channel::cut`): of the sender's records those behind what
//! the receiver has taken.

use std::collections::{HashMap, HashSet};

use tutti_channel::Seq;
use tutti_channel::cut::{CutError, FlowWords, cut};

use crate::state::{Flow, Message, Snapshot};

/// Where a message in flight is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the ring of two ranks of a node.
    Ring,
    /// In its sender's FIFO, and perhaps in the network.
    Network,
    /// In its sender's FIFO: no packet has had it yet.
    Queue,
}

/// A message in flight.
#[derive(Clone, Copy, Debug)]
pub struct InFlight<'a> {
    /// Where it is kept.
    pub place: Place,
    /// Message that is in flight.
    pub message: &'a Message,
}

impl Snapshot {
    /// All that is known to be in flight, by sender and receiver, oldest first; and what does not fit
    /// together, one line each.
    pub fn in_flight(&self) -> (Vec<InFlight<'_>>, Vec<String>) {
        let mut found = Vec::new();
        let mut troubles = Vec::new();
        // Nodes with all flows listed.
        let shown = self.nodes.iter().filter(|node| node.flows_omitted == 0);
        let shown: HashSet<u32> = shown.flat_map(|node| &node.ranks).map(|view| view.rank).collect();
        let flows = self.nodes.iter().flat_map(|node| &node.flows);
        let by_ends: Flows<'_> = flows.map(|flow| ((flow.from, flow.to), flow)).collect();
        // Nodes with only those flows listed on which something is not acknowledged.
        let reticent = self.nodes.iter().filter(|node| node.acknowledged_omitted);
        let reticent: HashSet<u32> = reticent.flat_map(|node| &node.ranks).map(|view| view.rank).collect();
        for node in &self.nodes {
            found.extend(node.rings.iter().map(|message| InFlight { place: Place::Ring, message }));
            for flow in &node.flows {
                // What its other end has taken is not known.
                if !shown.contains(&flow.to) && !by_ends.contains_key(&(flow.to, flow.from)) {
                    continue;
                }
                // A receiver that does not know a sender expects its first record; whatever else is not known
                // counts as not taken.
                let expected = if reticent.contains(&flow.to) { flow.snd_una } else { 0 };
                let expected = by_ends.get(&(flow.to, flow.from)).map_or(expected, |other| other.rcv_nxt);
                match of_flow(flow, expected, &mut found) {
                    Ok(()) => {}
                    Err(error) => {
                        troubles.push(format!("from rank {} to rank {}: {error}", flow.from, flow.to));
                    }
                }
            }
        }
        (found, troubles)
    }
}

/// Flows by sender and receiver: a job has about as many as its ranks squared.
type Flows<'a> = HashMap<(u32, u32), &'a Flow>;

/// `expected`: the next record that its other end takes.
fn of_flow<'a>(flow: &'a Flow, expected: u32, found: &mut Vec<InFlight<'a>>) -> Result<(), CutError> {
    let sender = flow_words(flow, flow.rcv_nxt);
    let cut = cut(&sender, &flow_words(flow, expected))?;
    let taken = cut.from.since(sender.snd_una).cast_unsigned() as usize;
    let sent = cut.end.since(sender.snd_una).cast_unsigned() as usize;
    let place = |at| if at < sent { Place::Network } else { Place::Queue };
    let records = flow.records.iter().enumerate().skip(taken);
    found.extend(records.map(|(at, message)| InFlight { place: place(at), message }));
    Ok(())
}

fn flow_words(flow: &Flow, rcv_nxt: u32) -> FlowWords {
    FlowWords {
        snd_una: Seq(flow.snd_una),
        una_offset: 0,
        snd_nxt: Seq(flow.snd_nxt),
        snd_high: Seq(flow.snd_high),
        rcv_nxt: Seq(rcv_nxt),
        rewind: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{Doing, RankView, View};

    /// A flow on which `sent` records have left, none acknowledged, and `taken` have been taken.
    fn flow(from: u32, to: u32, sent: u32, taken: u32) -> Flow {
        let record = |tag| Message { from, to, kind: "eager".into(), context: 0, tag, bytes: 4, data: None };
        let records = (0..sent as i32).map(record).collect();
        Flow { from, to, snd_una: 0, snd_high: sent, snd_nxt: sent, rcv_nxt: taken, bulk: None, records }
    }

    fn snapshot(nodes: Vec<View>) -> Snapshot {
        Snapshot { job: 1, command: String::new(), ranks: 0, taken_ms: 0, room: None, nodes }
    }

    #[test]
    fn snapshot_flows_of_hundreds_of_ranks_are_paired() {
        const RANKS: u32 = 512;
        const RANKS_PER_NODE: u32 = 64;
        let node = |first: u32| {
            let own = first..first + RANKS_PER_NODE;
            let others = (0..RANKS).filter(|rank| !own.contains(rank));
            let flows = others.flat_map(|to| own.clone().map(move |from| flow(from, to, 2, 1))).collect();
            View { flows, ..View::default() }
        };
        let snapshot = snapshot((0..RANKS).step_by(RANKS_PER_NODE as usize).map(node).collect());
        let (found, troubles) = snapshot.in_flight();
        assert_eq!(troubles, [""; 0]);
        assert_eq!(found.len() as u32, RANKS * (RANKS - RANKS_PER_NODE));
        assert!(found.iter().all(|one| one.place == Place::Network && one.message.tag == 1));
    }

    #[test]
    fn snapshot_flow_without_its_other_end_is_unknown() {
        let view = |rank| RankView { rank, pid: 1, doing: Doing::Runs, taking: false, unread: None };
        let first = View { ranks: vec![view(0)], flows: vec![flow(0, 1, 2, 0)], ..View::default() };
        let second = View { ranks: vec![view(1)], ..View::default() };
        let in_flight = |second: &View| snapshot(vec![first.clone(), second.clone()]).in_flight().0.len();
        assert_eq!(in_flight(&second), 2, "nothing was ever taken");
        let listed = View { flows: vec![flow(1, 0, 0, 1)], flows_omitted: 1, ..second.clone() };
        assert_eq!(in_flight(&listed), 1, "another one is omitted");
        assert_eq!(in_flight(&View { flows_omitted: 1, ..second.clone() }), 0);
        let reticent = View { acknowledged_omitted: true, ..second.clone() };
        let far = View {
            flows: vec![Flow { snd_una: 7, snd_high: 9, snd_nxt: 9, ..flow(0, 1, 2, 0) }],
            ..first.clone()
        };
        assert_eq!(
            snapshot(vec![far, reticent.clone()]).in_flight().0.len(),
            2,
            "what it has taken is not known"
        );
        assert_eq!(in_flight(&View { flows: vec![flow(1, 0, 1, 2)], ..reticent }), 1);
        assert_eq!(in_flight(&View::of_trouble("it is gone")), 0);
    }
}
