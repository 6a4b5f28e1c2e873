//! A flow: everything between this rank and one remote rank, both ways.

use crate::bulk::{BulkQueue, Incoming};
use crate::config::Config;
use crate::fifo::Fifo;
use crate::packet::{FULL, Header, Kind};
use crate::path::Path;
use crate::ports::{FlowMemory, FlowWord};
use crate::stream::{Receiver, Sender, Waiting};
use crate::timers::{Timers, Wait};
use crate::types::{BulkId, Identity, Incarnation, Rank, Seq};
use crate::window::Window;

/// Small packets that a flow has to send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wants {
    pub nack: bool,
    /// Answer to the other side's probe of this number.
    pub answer: Option<u32>,
    /// Answer to the other side's trial of this number ([`Path`]).
    pub path_answer: Option<u32>,
    pub probe: bool,
    pub bulk_probe: bool,
    pub ack: bool,
    /// The other side is to acknowledge at once what it has taken.
    pub ask: bool,
}

impl Wants {
    #[inline]
    pub(crate) fn any(self) -> bool {
        let answers = self.answer.is_some() | self.path_answer.is_some();
        answers | self.nack | self.probe | self.bulk_probe | self.ack | self.ask
    }
}

/// Effect of timers that have fired, apart from what the flow [`Wants`] now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fired {
    /// The other side is asked, since it owes an answer.
    pub asks: bool,
    /// Acknowledgements of bulk messages are due.
    pub bulk_acks: bool,
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
    pub bulk: BulkQueue,
    timers: Timers,
    /// Stands in the endpoint's queue of flows with something to send.
    pub queued: bool,
    /// The other side has left.
    pub exited: bool,
    /// Whether nothing is taken from the other side.
    pub closed: bool,
    /// The message on its way in that the published words speak of.
    bulk_shown: Option<u16>,
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
            bulk: BulkQueue::default(),
            timers: Timers::new(config),
            queued: false,
            exited: false,
            closed: false,
            bulk_shown: None,
            active_in: 0,
        }
    }

    /// The flow to the next process of this rank, in the same memory.
    pub(crate) fn renew(self, incarnation: Incarnation, config: &Config, credit: u32) -> Self {
        let Flow { rank, memory, queued, .. } = self;
        Flow { queued, ..Flow::new((rank, incarnation), memory, config, credit) }
    }

    /// Bytes of truesize under way.
    #[inline]
    pub(crate) fn flight(&self) -> u32 {
        self.tx.flight() + self.bulk.flight()
    }

    /// The header of a packet to the other side. It acknowledges everything taken so far, so nothing is owed
    /// any more.
    #[inline]
    pub(crate) fn header(&mut self, identity: &Identity, credit: u16, kind: Kind) -> Header {
        self.rx.owed = 0;
        self.wants.ack = false;
        self.timers.clear_ack();
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
        self.is_under_way() || self.tx.waiting == Waiting::Room
    }

    #[inline]
    fn is_under_way(&self) -> bool {
        self.tx.is_outstanding() || self.bulk.flight() != 0
    }

    #[inline]
    fn wait(&self, config: &Config) -> Wait {
        if !self.awaits() || self.exited {
            Wait::Nothing
        } else if self.is_under_way() {
            Wait::Acknowledgement { timeout_ns: self.window.timeout_ns(config.rto_ns_min) }
        } else {
            Wait::Room
        }
    }

    /// Notes that something was heard that shows progress: the wait for the next begins.
    #[inline]
    pub(crate) fn note_progress(&mut self, now_ns: u64, config: &Config) {
        let wait = self.wait(config);
        self.timers.note_progress(now_ns, wait, self.window.rtt_ns(), config);
    }

    /// Data leave: an answer is awaited.
    #[inline]
    pub(crate) fn note_departure(&mut self, now_ns: u64, config: &Config) {
        self.timers.note_departure(|| now_ns + self.window.timeout_ns(config.rto_ns_min));
    }

    /// Notes silence: nothing can leave. Where the end of what did is lost nothing comes behind it that would
    /// tell, so the first question about bulk, whose end is acknowledged at once, comes as soon as the answer
    /// is overdue.
    #[inline]
    pub(crate) fn note_silence(&mut self, now_ns: u64, config: &Config) {
        if self.bulk.flight() != 0 && !self.exited {
            self.timers.ask_early(|| now_ns + self.window.overdue_ns(config.probe_ns.0));
        }
    }

    /// Records were taken, whose acknowledgement may wait for a packet to ride on.
    #[inline]
    pub(crate) fn owe_ack(&mut self, now_ns: u64, config: &Config) {
        self.timers.owe_ack(now_ns, config);
    }

    /// The same of a fragment.
    #[inline]
    pub(crate) fn owe_bulk_ack(&mut self, now_ns: u64, config: &Config) {
        self.timers.owe_bulk_ack(now_ns, config);
    }

    /// Begins all timers anew: the rank was frozen, or its clock jumped.
    pub(crate) fn rearm(&mut self, now_ns: u64, config: &Config) {
        self.tx.timed = None;
        self.bulk.forget_timed();
        self.path.rearm(now_ns);
        let wait = self.wait(config);
        self.timers.rearm(now_ns, wait, self.window.rtt_ns(), config);
    }

    /// Lets timers fire that are due.
    pub(crate) fn fire(&mut self, now_ns: u64, config: &Config) -> Fired {
        self.wants.ack |= self.timers.take_ack(now_ns);
        let asks = self.timers.is_probe_due(now_ns);
        if asks {
            self.wants.probe = self.tx.is_outstanding() || self.tx.waiting == Waiting::Room;
            self.wants.bulk_probe = self.bulk.flight() != 0;
            // The last answer may have come with nothing new in it: then nothing is awaited any more.
            self.timers.note_probe(now_ns, self.awaits() && !self.exited, config);
        }
        let asks = asks && (self.wants.probe || self.wants.bulk_probe);
        Fired { asks, bulk_acks: self.timers.take_bulk_ack(now_ns) }
    }

    /// The next time at which a timer fires.
    #[inline]
    pub(crate) fn deadline(&self) -> u64 {
        self.timers.deadline()
    }
}
