//! One neighbour in the tree: words to it and from it, each once and in order, over datagrams as long as they get through, else over the
//! daemons' link. No I/O, no clock.
//!
//! ```text
//! push -> number -> datagrams, again after 10 and 20 ms until the other side has them; 40 ms later, or when there is no room, the link
//! ```
//!
//! A word may be calm for some time: one behind which the next one comes by then, as a switch that says how long its slice is. It is
//! acknowledged by what goes the other way anyhow: a datagram less for both, in every slice. If nothing follows in time who has taken it asks, and
//! gets what he has missed; who has said it says it again a little later than that.
//!
//! | what a datagram says | so that |
//! |---|---|
//! | ask | the other side answers, with all that has not come |
//! | calm: how long its newest word is calm; 0: not at all | nobody acknowledges it before |
//! | echo: the newest datagram heard | who is heard knows it, and takes this way |
//! | have: words taken so far | they need not be kept |
//! | first, words | what is to be done: words from this number on |
//!
//! A word goes over the link only behind all earlier ones that may not have come, so what comes over the link leaves no gap. What comes
//! as a datagram and is not the next word is thrown away; it comes again.
//!
//! Memory: [`WORDS`] words of [`WORD_BYTES`]. Nothing is allocated after [`Lane::new`].

/// A word that is longer goes over the link.
pub(super) const WORD_BYTES: usize = 1024;
/// Words that may be on their way.
const WORDS: usize = 16;
/// What a datagram says at most, before it is sealed: no path cuts it into pieces.
pub(super) const TEXT_BYTES: usize = HEAD_BYTES + 2 + WORD_BYTES;
const HEAD_BYTES: usize = 1 + 4 * 8;
/// A word that the other side has not taken by then is said again; then twice as late.
const AGAIN_NS: u64 = 10_000_000;
/// So often, before the way is given up.
const AGAIN_MAX: u32 = 2;
/// A word that was taken is acknowledged by the next word the other way, or after so long.
const OWING_NS: u64 = 4_000_000;
/// When something should have followed a calm word, and has not, the other side is asked; it says it again three times as late.
const LATE_NS: u64 = 5_000_000;
/// A word is calm for at most so long: for longer slices two datagrams more are nothing.
const CALM_NS_MAX: u64 = 250_000_000;
/// Between two questions whether there is a way, at first; then twice as long.
const ASK_NS: u64 = 10_000_000;
/// At most so long.
const ASK_NS_MAX: u64 = 1_000_000_000;
const ASK: u8 = 1;

/// What does not go by datagram: its number and the word.
pub(super) type Link<'a> = &'a mut dyn FnMut(u64, &[u8]);

#[derive(Debug)]
enum Way {
    /// Nobody knows whether datagrams get through: an echo of this one or a later one would tell.
    Asking { since: u64, at_ns: u64, pause_ns: u64 },
    /// They do.
    Open,
}

#[derive(Debug)]
pub(super) struct Lane {
    way: Way,
    words: Box<[[u8; WORD_BYTES]; WORDS]>,
    lengths: [usize; WORDS],
    /// How long each is calm.
    calm_ns: [u64; WORDS],
    /// Words below have been taken by the other side, or have gone over the link.
    done: u64,
    /// Words below have been in a datagram.
    said: u64,
    /// Number of the next word.
    next: u64,
    again: Option<(u64, u32)>,
    /// Number of the next datagram.
    datagram: u64,
    /// The newest datagram heard.
    heard: u64,
    /// Words taken.
    have: u64,
    owing_ns: Option<u64>,
    /// The next datagram asks.
    asks: bool,
    /// Until when something should follow the last word taken, and how often that has been asked for.
    expected: Option<(u64, u32)>,
}

/// What a datagram says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Text<'a> {
    asks: bool,
    echo: u64,
    have: u64,
    first: u64,
    calm_ns: u64,
    words: &'a [u8],
}

impl<'a> Text<'a> {
    /// None: no lane says that.
    pub(super) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (flags, rest) = bytes.split_first()?;
        let (echo, rest) = rest.split_first_chunk()?;
        let (have, rest) = rest.split_first_chunk()?;
        let (first, rest) = rest.split_first_chunk()?;
        let (calm, words) = rest.split_first_chunk()?;
        let [echo, have, first, calm_ns] = [echo, have, first, calm].map(|bytes| u64::from_le_bytes(*bytes));
        let text = Text { asks: flags & ASK != 0, echo, have, first, calm_ns, words };
        let mut rest = words;
        while !rest.is_empty() {
            rest = split_word(rest)?.1;
        }
        (flags & !ASK == 0).then_some(text)
    }
}

/// After how long a word is said again that is calm for so long.
fn patience_ns(calm_ns: u64) -> u64 {
    if calm_ns == 0 { AGAIN_NS } else { calm_ns + 3 * LATE_NS }
}

fn split_word(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))
}

impl Lane {
    pub(super) fn new(now_ns: u64) -> Self {
        Lane {
            way: Way::Asking { since: 1, at_ns: now_ns, pause_ns: ASK_NS },
            words: Box::new([[0; WORD_BYTES]; WORDS]),
            lengths: [0; WORDS],
            calm_ns: [0; WORDS],
            done: 0,
            said: 0,
            next: 0,
            again: None,
            datagram: 1,
            heard: 0,
            have: 0,
            owing_ns: None,
            asks: false,
            expected: None,
        }
    }

    /// Datagrams get through.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.way, Way::Open)
    }

    /// A word for the other side, behind which the next one comes within `calm_ns`; 0: or does not.
    pub(super) fn push(&mut self, now_ns: u64, word: &[u8], calm_ns: u64, link: Link<'_>) {
        let has_room = self.next - self.done < WORDS as u64 && word.len() <= WORD_BYTES;
        if !self.is_open() || !has_room {
            // Only a silent way is given up: one that has too much to carry is not.
            self.flush(link);
            link(self.next, word);
            self.next += 1;
            (self.done, self.said) = (self.next, self.next);
            return;
        }
        let at = (self.next % WORDS as u64) as usize;
        self.words[at][..word.len()].copy_from_slice(word);
        self.lengths[at] = word.len();
        self.calm_ns[at] = if calm_ns <= CALM_NS_MAX { calm_ns } else { 0 };
        self.next += 1;
        let at_ns = now_ns + patience_ns(self.calm_ns[at]);
        // Who says words again goes on as he does: with each new one he would begin anew, and never give up.
        self.again = match self.again {
            Some((sooner_ns, 0)) => Some((sooner_ns.min(at_ns), 0)),
            again => again.or(Some((at_ns, 0))),
        };
    }

    /// When the first of the words that have not come is said again.
    fn again_ns(&self, now_ns: u64) -> Option<u64> {
        let waiting = (self.done..self.next).map(|number| self.calm_ns[(number % WORDS as u64) as usize]);
        waiting.map(|calm_ns| now_ns + patience_ns(calm_ns)).min()
    }

    /// Words that nobody has acknowledged go over the link.
    fn flush(&mut self, link: Link<'_>) {
        for number in self.done..self.next {
            let at = (number % WORDS as u64) as usize;
            link(number, &self.words[at][..self.lengths[at]]);
        }
        (self.done, self.said, self.again) = (self.next, self.next, None);
    }

    /// A word has come over the link: `true` if it is new.
    pub(super) fn take(&mut self, number: u64) -> bool {
        let is_new = number >= self.have;
        if is_new {
            self.expected = None;
        }
        self.have = self.have.max(number.saturating_add(1));
        is_new
    }

    /// A datagram of the other side, with its number; `deliver` gets the words that are new.
    pub(super) fn handle(
        &mut self,
        now_ns: u64,
        number: u64,
        text: &Text<'_>,
        deliver: &mut dyn FnMut(&[u8]),
    ) {
        self.heard = self.heard.max(number);
        if let Way::Asking { since, .. } = self.way
            && (since..self.datagram).contains(&text.echo)
        {
            self.way = Way::Open;
        }
        // What there has never been cannot have come.
        if self.done < text.have && text.have <= self.next {
            self.done = text.have;
            self.said = self.said.max(text.have);
            self.again = self.again_ns(now_ns).map(|at_ns| (at_ns, 0));
        }
        if let Some((_, asked)) = self.expected
            && asked > 0
        {
            // He lives, and says again what has not come.
            self.expected = None;
        }
        let mut rest = text.words;
        let mut at = text.first;
        while let Some((word, behind)) = split_word(rest) {
            if at == self.have {
                self.have += 1;
                let calm_ns = if behind.is_empty() { text.calm_ns.min(CALM_NS_MAX) } else { 0 };
                self.expected = (calm_ns > 0).then_some((now_ns + calm_ns + LATE_NS, 0));
                deliver(word);
            }
            if self.expected.is_none() {
                self.owing_ns = self.owing_ns.or(Some(now_ns + OWING_NS));
            }
            (rest, at) = (behind, at.saturating_add(1));
        }
        if text.asks {
            self.owing_ns = Some(now_ns);
            self.said = self.done;
        }
    }

    /// Time has passed.
    pub(super) fn handle_time(&mut self, now_ns: u64, link: Link<'_>) {
        match self.again {
            Some((at_ns, times)) if now_ns >= at_ns && times < AGAIN_MAX => {
                self.said = self.done;
                self.asks = true;
                self.again = Some((now_ns + (AGAIN_NS << (times + 1)), times + 1));
            }
            Some((at_ns, _)) if now_ns >= at_ns => {
                self.flush(link);
                self.way = Way::Asking { since: self.datagram, at_ns: now_ns, pause_ns: ASK_NS };
            }
            _ => {}
        }
        if let Some((at_ns, asked)) = &mut self.expected
            && now_ns >= *at_ns
        {
            if *asked < AGAIN_MAX && matches!(self.way, Way::Open) {
                *asked += 1;
                *at_ns = now_ns + (LATE_NS << *asked);
                self.asks = true;
            } else {
                self.expected = None;
            }
        }
    }

    /// When [`Self::handle_time`] and [`Self::poll`] are to be called at the latest.
    pub(super) fn timeout_ns(&self) -> Option<u64> {
        let asking = match self.way {
            Way::Asking { at_ns, .. } => Some(at_ns),
            Way::Open => None,
        };
        let late = [self.again, self.expected].map(|late| late.map(|(at_ns, _)| at_ns));
        [asking, self.owing_ns].into_iter().chain(late).flatten().min()
    }

    /// The next datagram: its number, and how many bytes of `text` it says.
    pub(super) fn poll(&mut self, now_ns: u64, text: &mut [u8; TEXT_BYTES]) -> Option<(u64, usize)> {
        let has_words = self.is_open() && self.said < self.next;
        let mut asks = std::mem::take(&mut self.asks);
        if let Way::Asking { at_ns, pause_ns, .. } = &mut self.way
            && now_ns >= *at_ns
        {
            asks = true;
            *at_ns = now_ns + *pause_ns;
            *pause_ns = (*pause_ns * 2).min(ASK_NS_MAX);
        }
        let owes = self.owing_ns.is_some_and(|at_ns| now_ns >= at_ns);
        if !has_words && !asks && !owes {
            return None;
        }
        self.owing_ns = None;
        // Who answers wants to know as well whether he is heard.
        text[0] = if self.is_open() && !asks { 0 } else { ASK };
        text[1..9].copy_from_slice(&self.heard.to_le_bytes());
        text[9..17].copy_from_slice(&self.have.to_le_bytes());
        text[17..25].copy_from_slice(&self.said.to_le_bytes());
        let mut end = HEAD_BYTES;
        let mut calm_ns = 0;
        while has_words && self.said < self.next {
            let at = (self.said % WORDS as u64) as usize;
            let word = &self.words[at][..self.lengths[at]];
            let Some(place) = text.get_mut(end..end + 2 + word.len()) else { break };
            place[..2].copy_from_slice(&(word.len() as u16).to_le_bytes());
            place[2..].copy_from_slice(word);
            end += 2 + word.len();
            calm_ns = self.calm_ns[at];
            self.said += 1;
        }
        text[25..HEAD_BYTES].copy_from_slice(&calm_ns.to_le_bytes());
        let number = self.datagram;
        self.datagram += 1;
        Some((number, end))
    }
}

#[cfg(test)]
mod tests;
