//! One neighbour in the tree: messages to it and from it, each once and in order, over datagrams as long as
//! they get through, else over the daemons' link. No I/O, no clock.
//!
//! ```text
//! push -> number -> datagrams, again after 10 and 20 ms until the other side has them; 40 ms later, or when there is no room, the link
//! ```
//!
//! A message may be calm for some time: one behind which the next one comes by then, as a switch that says
//! how long its slice is. It is acknowledged by what goes the other way anyhow: a datagram less for both, in
//! every slice. If nothing follows in time who has taken it asks, and gets what he has missed; who has said
//! it says it again a little later than that.
//!
//! | what a datagram says | so that |
//! |---|---|
//! | ask | the other side answers, with all that has not come |
//! | calm: how long its newest message is calm; 0: not at all | nobody acknowledges it before |
//! | echo: the newest datagram heard | who is heard knows it, and takes this way |
//! | have: messages taken so far | they need not be kept |
//! | first, messages | what is to be done: messages from this number on |
//!
//! A message goes over the link only behind all earlier ones that may not have come, so what comes over the
//! link leaves no gap. What comes as a datagram and is not the next message is thrown away; it comes again.
//!
//! Memory: [`MESSAGES`] messages of [`MESSAGE_BYTES`]. Nothing is allocated after [`SwitchLink::new`].

/// A message that is longer goes over the link.
pub(super) const MESSAGE_BYTES: usize = 1024;
/// Words that may be on their way.
const MESSAGES: usize = 16;
/// Bytes that a datagram says at most, before it is sealed: no path cuts it into pieces.
pub(super) const PAYLOAD_BYTES: usize = HEADER_BYTES + 2 + MESSAGE_BYTES;
const HEADER_BYTES: usize = 1 + 4 * 8;
/// A message that the other side has not taken by then is said again; then twice as late.
const RETRANSMIT_NS: u64 = 10_000_000;
/// Repetitions of a message, before the way is given up.
const RETRANSMITS_MAX: u32 = 2;
/// A message that was taken is acknowledged by the next message the other way, or after so long.
const ACK_NS: u64 = 4_000_000;
/// When something should have followed a calm message, and has not, the other side is asked; it says it again
/// three times as late.
const LATE_NS: u64 = 5_000_000;
/// A message is calm for at most so long: for longer slices two datagrams more are nothing.
const ACK_DELAY_NS_MAX: u64 = 250_000_000;
/// Between two questions whether there is a way, at first; then twice as long.
const PROBE_NS: u64 = 10_000_000;
/// At most so long.
const PROBE_NS_MAX: u64 = 1_000_000_000;
const PROBE: u8 = 1;

/// Way of messages that do not go by datagram: number and message.
pub(super) type Link<'a> = &'a mut dyn FnMut(u64, &[u8]);

#[derive(Debug)]
enum Path {
    /// Probes whether datagrams get through: nobody knows, and an echo of this one or a later one would tell.
    Probing { since: u64, at_ns: u64, pause_ns: u64 },
    /// Lets datagrams through.
    Open,
}

#[derive(Debug)]
pub(super) struct SwitchLink {
    path: Path,
    messages: Box<[[u8; MESSAGE_BYTES]; MESSAGES]>,
    lengths: [usize; MESSAGES],
    /// How long each is calm.
    ack_delay_ns: [u64; MESSAGES],
    /// Words below have been taken by the other side, or have gone over the link.
    done: u64,
    /// Words below have been in a datagram.
    sent: u64,
    /// Number of the next message.
    next: u64,
    retransmit: Option<(u64, u32)>,
    /// Number of the next datagram.
    datagram: u64,
    /// The newest datagram heard.
    received: u64,
    /// Words taken.
    have: u64,
    ack_due_ns: Option<u64>,
    /// The next datagram asks.
    probes: bool,
    /// Until when something should follow the last message taken, and how often that has been asked for.
    expected: Option<(u64, u32)>,
}

/// Content of a datagram, without its seal.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Payload<'a> {
    probes: bool,
    echo: u64,
    have: u64,
    first: u64,
    ack_delay_ns: u64,
    messages: &'a [u8],
}

impl<'a> Payload<'a> {
    /// None: no switch link says that.
    pub(super) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (flags, rest) = bytes.split_first()?;
        let (echo, rest) = rest.split_first_chunk()?;
        let (have, rest) = rest.split_first_chunk()?;
        let (first, rest) = rest.split_first_chunk()?;
        let (ack_delay, messages) = rest.split_first_chunk()?;
        let [echo, have, first, ack_delay_ns] =
            [echo, have, first, ack_delay].map(|bytes| u64::from_le_bytes(*bytes));
        let text = Payload { probes: flags & PROBE != 0, echo, have, first, ack_delay_ns, messages };
        let mut rest = messages;
        while !rest.is_empty() {
            rest = split_message(rest)?.1;
        }
        (flags & !PROBE == 0).then_some(text)
    }
}

/// After how long a message is said again that is calm for so long.
fn retransmit_after_ns(ack_delay_ns: u64) -> u64 {
    if ack_delay_ns == 0 { RETRANSMIT_NS } else { ack_delay_ns + 3 * LATE_NS }
}

fn split_message(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))
}

impl SwitchLink {
    pub(super) fn new(now_ns: u64) -> Self {
        SwitchLink {
            path: Path::Probing { since: 1, at_ns: now_ns, pause_ns: PROBE_NS },
            messages: Box::new([[0; MESSAGE_BYTES]; MESSAGES]),
            lengths: [0; MESSAGES],
            ack_delay_ns: [0; MESSAGES],
            done: 0,
            sent: 0,
            next: 0,
            retransmit: None,
            datagram: 1,
            received: 0,
            have: 0,
            ack_due_ns: None,
            probes: false,
            expected: None,
        }
    }

    /// Datagrams get through.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.path, Path::Open)
    }

    /// A message for the other side, behind which the next one comes within `ack_delay_ns`; 0: or does not.
    pub(super) fn push(&mut self, now_ns: u64, message: &[u8], ack_delay_ns: u64, link: Link<'_>) {
        let has_room = self.next - self.done < MESSAGES as u64 && message.len() <= MESSAGE_BYTES;
        if !self.is_open() || !has_room {
            // Only a silent way is given up: one that has too much to carry is not.
            self.flush(link);
            link(self.next, message);
            self.next += 1;
            (self.done, self.sent) = (self.next, self.next);
            return;
        }
        let at = (self.next % MESSAGES as u64) as usize;
        self.messages[at][..message.len()].copy_from_slice(message);
        self.lengths[at] = message.len();
        self.ack_delay_ns[at] = if ack_delay_ns <= ACK_DELAY_NS_MAX { ack_delay_ns } else { 0 };
        self.next += 1;
        let at_ns = now_ns + retransmit_after_ns(self.ack_delay_ns[at]);
        // Who says messages again goes on as he does: with each new one he would begin anew, and never give
        // up.
        self.retransmit = match self.retransmit {
            Some((sooner_ns, 0)) => Some((sooner_ns.min(at_ns), 0)),
            retransmit => retransmit.or(Some((at_ns, 0))),
        };
    }

    /// When the first of the messages that have not come is said again.
    fn retransmit_at_ns(&self, now_ns: u64) -> Option<u64> {
        let waiting =
            (self.done..self.next).map(|number| self.ack_delay_ns[(number % MESSAGES as u64) as usize]);
        waiting.map(|ack_delay_ns| now_ns + retransmit_after_ns(ack_delay_ns)).min()
    }

    /// Words that nobody has acknowledged go over the link.
    fn flush(&mut self, link: Link<'_>) {
        for number in self.done..self.next {
            let at = (number % MESSAGES as u64) as usize;
            link(number, &self.messages[at][..self.lengths[at]]);
        }
        (self.done, self.sent, self.retransmit) = (self.next, self.next, None);
    }

    /// A message has come over the link: `true` if it is new.
    pub(super) fn take(&mut self, number: u64) -> bool {
        let is_new = number >= self.have;
        if is_new {
            self.expected = None;
        }
        self.have = self.have.max(number.saturating_add(1));
        is_new
    }

    /// A datagram of the other side, with its number; `deliver` gets the messages that are new.
    pub(super) fn handle(
        &mut self,
        now_ns: u64,
        number: u64,
        text: &Payload<'_>,
        deliver: &mut dyn FnMut(&[u8]),
    ) {
        self.received = self.received.max(number);
        if let Path::Probing { since, .. } = self.path
            && (since..self.datagram).contains(&text.echo)
        {
            self.path = Path::Open;
        }
        // What there has never been cannot have come.
        if self.done < text.have && text.have <= self.next {
            self.done = text.have;
            self.sent = self.sent.max(text.have);
            self.retransmit = self.retransmit_at_ns(now_ns).map(|at_ns| (at_ns, 0));
        }
        if let Some((_, probed)) = self.expected
            && probed > 0
        {
            // He lives, and says again what has not come.
            self.expected = None;
        }
        let mut rest = text.messages;
        let mut at = text.first;
        while let Some((message, behind)) = split_message(rest) {
            if at == self.have {
                self.have += 1;
                let ack_delay_ns =
                    if behind.is_empty() { text.ack_delay_ns.min(ACK_DELAY_NS_MAX) } else { 0 };
                self.expected = (ack_delay_ns > 0).then_some((now_ns + ack_delay_ns + LATE_NS, 0));
                deliver(message);
            }
            if self.expected.is_none() {
                self.ack_due_ns = self.ack_due_ns.or(Some(now_ns + ACK_NS));
            }
            (rest, at) = (behind, at.saturating_add(1));
        }
        if text.probes {
            self.ack_due_ns = Some(now_ns);
            self.sent = self.done;
        }
    }

    /// Time has passed.
    pub(super) fn handle_time(&mut self, now_ns: u64, link: Link<'_>) {
        match self.retransmit {
            Some((at_ns, times)) if now_ns >= at_ns && times < RETRANSMITS_MAX => {
                self.sent = self.done;
                self.probes = true;
                self.retransmit = Some((now_ns + (RETRANSMIT_NS << (times + 1)), times + 1));
            }
            Some((at_ns, _)) if now_ns >= at_ns => {
                self.flush(link);
                self.path = Path::Probing { since: self.datagram, at_ns: now_ns, pause_ns: PROBE_NS };
            }
            _ => {}
        }
        if let Some((at_ns, probed)) = &mut self.expected
            && now_ns >= *at_ns
        {
            if *probed < RETRANSMITS_MAX && matches!(self.path, Path::Open) {
                *probed += 1;
                *at_ns = now_ns + (LATE_NS << *probed);
                self.probes = true;
            } else {
                self.expected = None;
            }
        }
    }

    /// When [`Self::handle_time`] and [`Self::poll`] are to be called at the latest.
    pub(super) fn timeout_ns(&self) -> Option<u64> {
        let asking = match self.path {
            Path::Probing { at_ns, .. } => Some(at_ns),
            Path::Open => None,
        };
        let late = [self.retransmit, self.expected].map(|late| late.map(|(at_ns, _)| at_ns));
        [asking, self.ack_due_ns].into_iter().chain(late).flatten().min()
    }

    /// The next datagram: its number, and how many bytes of `text` it says.
    pub(super) fn poll(&mut self, now_ns: u64, text: &mut [u8; PAYLOAD_BYTES]) -> Option<(u64, usize)> {
        let has_messages = self.is_open() && self.sent < self.next;
        let mut probes = std::mem::take(&mut self.probes);
        if let Path::Probing { at_ns, pause_ns, .. } = &mut self.path
            && now_ns >= *at_ns
        {
            probes = true;
            *at_ns = now_ns + *pause_ns;
            *pause_ns = (*pause_ns * 2).min(PROBE_NS_MAX);
        }
        let is_ack_due = self.ack_due_ns.is_some_and(|at_ns| now_ns >= at_ns);
        if !has_messages && !probes && !is_ack_due {
            return None;
        }
        self.ack_due_ns = None;
        // Who answers wants to know as well whether he is heard.
        text[0] = if self.is_open() && !probes { 0 } else { PROBE };
        text[1..9].copy_from_slice(&self.received.to_le_bytes());
        text[9..17].copy_from_slice(&self.have.to_le_bytes());
        text[17..25].copy_from_slice(&self.sent.to_le_bytes());
        let mut end = HEADER_BYTES;
        let mut ack_delay_ns = 0;
        while has_messages && self.sent < self.next {
            let at = (self.sent % MESSAGES as u64) as usize;
            let message = &self.messages[at][..self.lengths[at]];
            let Some(place) = text.get_mut(end..end + 2 + message.len()) else { break };
            place[..2].copy_from_slice(&(message.len() as u16).to_le_bytes());
            place[2..].copy_from_slice(message);
            end += 2 + message.len();
            ack_delay_ns = self.ack_delay_ns[at];
            self.sent += 1;
        }
        text[25..HEADER_BYTES].copy_from_slice(&ack_delay_ns.to_le_bytes());
        let number = self.datagram;
        self.datagram += 1;
        Some((number, end))
    }
}

#[cfg(test)]
mod tests;
