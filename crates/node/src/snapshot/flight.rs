//! What is in flight: the messages that their senders have let go and their receivers have not taken.
//!
//! Between nodes by the words of both ends (`tutti_channel::cut`): of the sender's records those behind what the receiver has taken.

use tutti_channel::Seq;
use tutti_channel::cut::{FlowWords, cut};

use super::{Flow, Message, Snapshot};

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
    /// What it is.
    pub message: &'a Message,
}

impl Snapshot {
    /// All that is in flight, by sender and receiver, oldest first; and what does not fit together, one line each.
    pub fn in_flight(&self) -> (Vec<InFlight<'_>>, Vec<String>) {
        let mut found = Vec::new();
        let mut troubles = Vec::new();
        for node in &self.nodes {
            found.extend(node.rings.iter().map(|message| InFlight { place: Place::Ring, message }));
            for flow in &node.flows {
                match self.of_flow(flow) {
                    Ok(more) => found.extend(more),
                    Err(text) => {
                        troubles.push(format!("from rank {} to rank {}: {text}", flow.from, flow.to));
                    }
                }
            }
        }
        (found, troubles)
    }

    fn of_flow<'a>(&'a self, flow: &'a Flow) -> Result<Vec<InFlight<'a>>, String> {
        let mut flows = self.nodes.iter().flat_map(|node| &node.flows);
        let other = flows.find(|other| (other.from, other.to) == (flow.to, flow.from));
        // Who has never heard of a sender expects its first record.
        let expected = other.map_or(0, |other| other.rcv_nxt);
        let sender = words(flow, flow.rcv_nxt);
        let cut = cut(&sender, &words(flow, expected)).map_err(|error| error.to_string())?;
        let taken = cut.from.since(sender.snd_una).cast_unsigned() as usize;
        let sent = cut.end.since(sender.snd_una).cast_unsigned() as usize;
        let place = |at| if at < sent { Place::Network } else { Place::Queue };
        let records = flow.records.iter().enumerate().skip(taken);
        Ok(records.map(|(at, message)| InFlight { place: place(at), message }).collect())
    }
}

fn words(flow: &Flow, rcv_nxt: u32) -> FlowWords {
    FlowWords {
        snd_una: Seq(flow.snd_una),
        una_offset: 0,
        snd_nxt: Seq(flow.snd_nxt),
        snd_high: Seq(flow.snd_high),
        rcv_nxt: Seq(rcv_nxt),
        rewind: 0,
    }
}
