//! The paper's steady state of a channel: every message sent has been acknowledged or refused, asked
//! for between the starters of two frozen ranks. A refused message is safely in its sender's FIFO, so a
//! receiver that is full and stopped does not keep the state from being reached.
//!
//! ```text
//! sender's starter                    receiver's starter
//! SteadyTest  -- SteadyProbe(g, n) -->  SteadyResponder: is my rank frozen?
//!             <- SteadyAnswer(g, n, rcv_nxt) --   then the flow is closed until thaw, and what it holds is
//! said
//! ```
//!
//! The cut ([`crate::cut`]) needs none of this. It is there for `tutti up --strict`: the starter of each node
//! asks by the sockets of its frozen ranks, and drops what still comes for them. What is claimed is only what
//! is true: whatever arrives later is a duplicate by its number or is dropped, since the flow is closed.

use crate::counters::Drop;
use crate::cut::FlowWords;
use crate::endpoint::Transmit;
use crate::packet::{HEADER_BYTES, Header, Kind, parse, write_header};
use crate::types::{Generation, Identity, Rank, Seq};

/// A probe is repeated after this long, then after twice as long, and so on.
const REPEAT_NS: (u64, u64) = (200_000, 10_000_000);

#[derive(Clone, Copy, Debug)]
struct Probed {
    to: Rank,
    high: Seq,
    una: Seq,
    /// Record before which the receiver holds everything. `None`: not answered yet.
    held: Option<Seq>,
}

/// The sender's side of the test, for all flows of one frozen rank.
#[derive(Clone, Debug)]
pub struct SteadyTest {
    identity: Identity,
    generation: Generation,
    probe: u32,
    flows: Vec<Probed>,
    next: usize,
    due_ns: u64,
    interval_ns: u64,
}

impl SteadyTest {
    /// Begins test number `probe` for a rank frozen in `generation`. Flows on which all is acknowledged need
    /// no question.
    pub fn new(
        identity: Identity,
        generation: Generation,
        probe: u32,
        now_ns: u64,
        flows: impl IntoIterator<Item = (Rank, FlowWords)>,
    ) -> Self {
        let probed = |(to, words): (Rank, FlowWords)| Probed {
            to,
            high: words.snd_high,
            una: words.snd_una,
            held: None,
        };
        let flows =
            flows.into_iter().filter(|(_, words)| words.snd_una != words.snd_high).map(probed).collect();
        SteadyTest { identity, generation, probe, flows, next: 0, due_ns: now_ns, interval_ns: REPEAT_NS.0 }
    }

    /// Whether every record sent is known to be held by its receiver or not: acknowledged or refused.
    #[must_use]
    pub fn is_steady(&self) -> bool {
        self.flows.iter().all(|flow| flow.held.is_some())
    }

    /// Of the records sent to `to` and not acknowledged those that its receiver refused, `first..end`, once
    /// it has answered.
    #[must_use]
    pub fn refused(&self, to: Rank) -> Option<(Seq, Seq)> {
        self.flows.iter().find(|flow| flow.to == to).and_then(|flow| Some((flow.held?, flow.high)))
    }

    /// The next probe to send, to the daemon of rank `to`.
    ///
    /// # Panics
    /// When `into` is shorter than a header.
    pub fn poll_probe(&mut self, now_ns: u64, into: &mut [u8]) -> Option<Transmit> {
        if now_ns < self.due_ns {
            return None;
        }
        while let Some(flow) = self.flows.get(self.next) {
            self.next += 1;
            if flow.held.is_none() {
                let header = control(
                    &self.identity,
                    flow.to,
                    Kind::SteadyProbe,
                    self.generation,
                    self.probe,
                    flow.high,
                );
                write_header(&header, 0, into);
                return Some(Transmit {
                    to: flow.to,
                    bytes: HEADER_BYTES,
                    segment_bytes: HEADER_BYTES,
                    lies_in: None,
                });
            }
        }
        self.next = 0;
        self.due_ns = now_ns + self.interval_ns;
        self.interval_ns = (2 * self.interval_ns).min(REPEAT_NS.1);
        None
    }

    /// When unanswered probes are to be repeated.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<u64> {
        (!self.is_steady()).then_some(self.due_ns)
    }

    /// Takes an answer in.
    ///
    /// # Errors
    /// It is not the answer to a probe of this test: of another generation or test, or nonsense.
    pub fn handle_answer(&mut self, datagram: &[u8]) -> Result<(), Drop> {
        let (header, _) = parse(datagram).map_err(Drop::Malformed)?;
        check(&self.identity, &header, Kind::SteadyAnswer)?;
        if header.generation() != self.generation || header.echo != self.probe {
            return Err(Drop::Wrong);
        }
        let flow = self.flows.iter_mut().find(|flow| flow.to == header.from).ok_or(Drop::OutsidePartition)?;
        if header.ack.is_before(flow.una) || flow.high.is_before(header.ack) {
            return Err(Drop::AckBeyond);
        }
        flow.held = Some(header.ack);
        Ok(())
    }
}

/// The receiver's side, for one rank.
#[derive(Clone, Debug)]
pub struct SteadyResponder {
    identity: Identity,
    closed: Vec<Rank>,
}

impl SteadyResponder {
    /// Stands for a rank.
    #[must_use]
    pub fn new(identity: Identity) -> Self {
        SteadyResponder { identity, closed: Vec::new() }
    }

    /// Answers a probe, if the rank `is_frozen` (known for certain: `frozen 1`); `words` gives the words of
    /// its
    /// flow from a rank, or `None` outside the partition. From then on the flow is closed.
    ///
    /// # Errors
    /// It is no probe for this rank.
    ///
    /// # Panics
    /// When `into` is shorter than a header.
    pub fn handle_probe(
        &mut self,
        datagram: &[u8],
        is_frozen: bool,
        words: impl FnOnce(Rank) -> Option<FlowWords>,
        into: &mut [u8],
    ) -> Result<Option<Transmit>, Drop> {
        let (header, _) = parse(datagram).map_err(Drop::Malformed)?;
        check(&self.identity, &header, Kind::SteadyProbe)?;
        let words = words(header.from).ok_or(Drop::OutsidePartition)?;
        if !is_frozen {
            return Ok(None);
        }
        if !self.is_closed(header.from) {
            self.closed.push(header.from);
        }
        Ok(Some(answer(&self.identity, &header, words.rcv_nxt, into)))
    }

    /// Whether what comes from `from` is to be neither stored nor acknowledged.
    #[must_use]
    pub fn is_closed(&self, from: Rank) -> bool {
        self.closed.contains(&from)
    }

    /// The rank is thawed: all flows are open.
    pub fn handle_thaw(&mut self) {
        self.closed.clear();
    }
}

/// Writes the answer to a probe: all before `held` has been taken.
pub(crate) fn answer(identity: &Identity, probe: &Header, held: Seq, into: &mut [u8]) -> Transmit {
    let mut answer =
        control(identity, probe.from, Kind::SteadyAnswer, probe.generation(), probe.echo, Seq(0));
    answer.ack = held;
    write_header(&answer, 0, into);
    Transmit { to: probe.from, bytes: HEADER_BYTES, segment_bytes: HEADER_BYTES, lies_in: None }
}

fn control(identity: &Identity, to: Rank, kind: Kind, generation: Generation, echo: u32, seq: Seq) -> Header {
    Header {
        key: identity.key,
        incarnation: identity.incarnation,
        from: identity.rank,
        to,
        kind,
        flags: 0,
        seq,
        ack: Seq(0),
        rewind: generation.0,
        echo,
        credit: 0,
    }
}

fn check(identity: &Identity, header: &Header, kind: Kind) -> Result<(), Drop> {
    if header.key != identity.key {
        return Err(Drop::WrongKey);
    }
    if header.incarnation != identity.incarnation {
        return Err(Drop::WrongIncarnation);
    }
    if header.to != identity.rank {
        return Err(Drop::WrongRank);
    }
    if header.kind != kind { Err(Drop::Wrong) } else { Ok(()) }
}
