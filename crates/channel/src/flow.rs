//! A flow: everything between this rank and one remote rank, both ways.

use crate::bulk::Incoming;
use crate::config::Config;
use crate::fifo::Fifo;
use crate::packet::{FULL, Header, Kind};
use crate::path::Path;
use crate::ports::{FlowMemory, FlowWord};
use crate::stream::{Receiver, Sender, Waiting};
use crate::types::{BulkId, Identity, Incarnation, Rank, Seq};
use crate::window::Window;

/// No timer is armed.
pub(crate) const NEVER: u64 = u64::MAX;

/// Small packets that a flow has to send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wants {
    pub nack: bool,
    pub answer: bool,
    pub path_answer: bool,
    pub probe: bool,
    pub bulk_probe: bool,
    pub ack: bool,
    /// The other side is to acknowledge at once what it has taken.
    pub ask: bool,
}

impl Wants {
    #[inline]
    pub(crate) fn any(self) -> bool {
        self.nack | self.answer | self.path_answer | self.probe | self.bulk_probe | self.ack | self.ask
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Flow<M> {
    pub rank: Rank,
    /// Incarnation of the job, and how often one of the two sides has become another process.
    pub incarnation: Incarnation,
    pub memory: M,
    pub tx: Sender,
    pub rx: Receiver,
    pub window: Window,
    pub path: Path,
    pub wants: Wants,
    /// The probe to be answered.
    pub answer_echo: u32,
    /// Stands in the endpoint's queue of flows with something to send.
    pub queued: bool,
    /// The other side has left.
    pub exited: bool,
    /// Whether nothing is taken from the other side.
    pub closed: bool,
    /// Bulk has the next turn.
    pub bulk_turn: bool,
    /// First and last message on their way out.
    pub out_first: Option<u16>,
    pub out_last: Option<u16>,
    /// The message on its way in that the published words speak of.
    pub bulk_shown: Option<u16>,
    /// Bursts that have gone past rests of messages.
    pub rests_passed: u32,
    /// Order of the next fragment.
    pub order: u32,
    /// Bytes of truesize of fragments under way.
    pub bulk_flight: u32,
    /// A fragment whose round trip is timed, and when it left.
    pub bulk_timed: Option<(u32, u64)>,
    /// When a waiting acknowledgement goes without a packet to ride on.
    pub ack_at: u64,
    /// The same for bulk.
    pub bulk_ack_at: u64,
    /// When to ask where the other side is.
    pub probe_at: u64,
    /// How long until it is asked again.
    pub probe_interval_ns: u64,
    /// Since the last progress the question was brought forward ([`Flow::note_silence`]).
    pub probes_early: bool,
    /// Thaws since the last progress.
    pub thaws: u8,
    /// The period of [`Shares`](crate::credit::Shares) in which it was last heard.
    pub active_in: u64,
}

impl<M: FlowMemory> Flow<M> {
    /// Publishes how far the message in `slot` has come: what is claimed is stored. If it stops between two
    /// of the stores there is no message, or less of it than there is.
    #[inline]
    pub(crate) fn show_bulk(&mut self, slot: u16, place: &Incoming, fragment_bytes: usize) {
        let here = (u64::from(place.base) * fragment_bytes as u64).min(place.bytes);
        if self.bulk_shown.replace(slot) == Some(slot) {
            return self.memory.publish(FlowWord::BulkHere, here);
        }
        let id = BulkId { slot: u32::from(slot), turn: place.turn };
        self.memory.publish(FlowWord::BulkName, 0);
        self.memory.publish(FlowWord::BulkBytes, place.bytes);
        self.memory.publish(FlowWord::BulkHere, here);
        self.memory.publish(FlowWord::BulkName, id.to_bits() + 1);
    }

    /// The message in `slot` is complete.
    #[inline]
    pub(crate) fn hide_bulk(&mut self, slot: u16) {
        if self.bulk_shown == Some(slot) {
            self.bulk_shown = None;
            self.memory.publish(FlowWord::BulkName, 0);
        }
    }

    pub(crate) fn new(
        (rank, incarnation): (Rank, Incarnation),
        mut memory: M,
        config: &Config,
        credit: u32,
    ) -> Self {
        let fifo = Fifo::new(memory.fifo().len(), config.fifo_records);
        let tx = Sender::new(config.first_seq, fifo, &mut memory);
        let rx = Receiver::new(config.first_seq, &mut memory);
        memory.publish(FlowWord::BulkName, 0);
        Flow {
            rank,
            incarnation,
            memory,
            tx,
            rx,
            window: Window::new(credit, config.charge_max()),
            path: Path::new(config.first_seq),
            wants: Wants::default(),
            answer_echo: 0,
            queued: false,
            exited: false,
            closed: false,
            bulk_turn: false,
            out_first: None,
            out_last: None,
            bulk_shown: None,
            rests_passed: 0,
            order: 0,
            bulk_flight: 0,
            bulk_timed: None,
            ack_at: NEVER,
            bulk_ack_at: NEVER,
            probe_at: NEVER,
            probe_interval_ns: config.probe_ns.0,
            probes_early: false,
            thaws: 0,
            active_in: 0,
        }
    }

    /// Bytes of truesize under way.
    #[inline]
    pub(crate) fn flight(&self) -> u32 {
        self.tx.flight() + self.bulk_flight
    }

    /// The header of a packet to the other side. It acknowledges everything taken so far, so nothing is owed
    /// any more.
    #[inline]
    pub(crate) fn header(&mut self, identity: &Identity, credit: u16, kind: Kind) -> Header {
        self.rx.owed = 0;
        self.wants.ack = false;
        self.ack_at = NEVER;
        Header {
            key: identity.key,
            incarnation: self.incarnation,
            from: identity.rank,
            to: self.rank,
            kind,
            flags: if self.rx.full { FULL } else { 0 },
            seq: Seq(0),
            ack: self.rx.nxt,
            rewind: 0,
            echo: 0,
            credit,
        }
    }

    /// Whether an answer of the other side is awaited.
    #[inline]
    pub(crate) fn awaits(&self) -> bool {
        self.tx.is_outstanding() || self.bulk_flight != 0 || self.tx.waiting == Waiting::Room
    }

    /// Notes that something was heard that shows progress: the wait for the next begins.
    #[inline]
    pub(crate) fn note_progress(&mut self, now_ns: u64, config: &Config) {
        self.thaws = 0;
        self.rearm_wait(now_ns, config);
    }

    fn rearm_wait(&mut self, now_ns: u64, config: &Config) {
        self.probes_early = false;
        self.probe_interval_ns = config.probe_ns.0.max(self.window.rtt_ns()).min(config.probe_ns.1);
        self.probe_at = if !self.awaits() || self.exited {
            NEVER
        } else if self.tx.is_outstanding() || self.bulk_flight != 0 {
            now_ns + self.window.timeout_ns(config.rto_ns_min)
        } else {
            now_ns + self.probe_interval_ns
        };
    }

    /// Data leave: an answer is awaited.
    #[inline]
    pub(crate) fn note_departure(&mut self, now_ns: u64, config: &Config) {
        if self.probe_at == NEVER {
            self.probe_at = now_ns + self.window.timeout_ns(config.rto_ns_min);
        }
    }

    /// Notes silence: nothing can leave. Where the end of what did is lost nothing comes behind it that would
    /// tell, so the first question about bulk, whose end is acknowledged at once, comes as soon as the answer
    /// is overdue.
    #[inline]
    pub(crate) fn note_silence(&mut self, now_ns: u64, config: &Config) {
        if self.bulk_flight != 0 && !self.probes_early && !self.exited {
            self.probes_early = true;
            self.probe_at = self.probe_at.min(now_ns + self.window.overdue_ns(config.probe_ns.0));
        }
    }

    /// All timers begin anew: the rank was frozen, or its clock jumped. The question about an answer is
    /// put off only if it is due by now, by what a switch may take at most, and by half as much at each thaw
    /// that follows without progress: slices may be shorter than a round trip on crowded cores, and what is
    /// lost would never be asked for.
    pub(crate) fn rearm(&mut self, now_ns: u64, config: &Config) {
        self.tx.timed = None;
        self.bulk_timed = None;
        self.path.rearm(now_ns);
        for at in [&mut self.ack_at, &mut self.bulk_ack_at] {
            if *at != NEVER {
                *at = now_ns + config.ack_delay_ns;
            }
        }
        let due_at = self.probe_at.max(now_ns + (config.rto_ns_min >> self.thaws.min(63)));
        self.rearm_wait(now_ns, config);
        if self.probe_at != NEVER {
            self.probe_at = self.probe_at.min(due_at);
        }
        self.thaws = self.thaws.saturating_add(1);
    }

    /// The next time at which a timer fires.
    #[inline]
    pub(crate) fn deadline(&self) -> u64 {
        self.ack_at.min(self.bulk_ack_at).min(self.probe_at)
    }
}
