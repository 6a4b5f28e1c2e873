//! Takes operations apart by their stamps: pure.
//!
//! ```text
//! A  call ... send() |                              | recv() ... return
//!    <------- Ta ---->                              <------- Tc ------>
//! B                      recv() ... apply ... send()
//!                        <----------- Tb ---------->
//! ```
//!
//! Where A's process asks a kernel that is another process (DSE), Ta begins when the kernel has taken the
//! question and Tc ends when it has given the answer, as in the paper; what is before and behind is its own:
//!
//! ```text
//! process of A   call ... ask()                                             ... return
//!                <--- asks ---->                                      <------ given --->
//! kernel of A                  taken ... send()  |  recv() ... give()
//!                              <----- Ta ----->     <------ Tc ----->
//! ```
//!
//! Records of a pair are applied in the order in which they were handed over, once each: so the n-th one that
//! A has handed over is the n-th that B has applied, whatever their clocks say. A bulk message counts as one:
//! nothing passes a long write, and a long read's goes the other way.

/// Marks of the library (`tutti.h`), and of the ranks' program.
const HANDED: u32 = 1;
const SENT: u32 = 2;
const RECEIVED: u32 = 3;
const APPLIED: u32 = 4;
const MAPPED: u32 = 5;
const ASKED: u32 = 6;
const TAKEN: u32 = 7;
const GIVEN: u32 = 8;
const CALL: u32 = 16;
const RETURN: u32 = 17;

/// When something happened, by the clock of its machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    pub mark: u32,
    pub begin_ns: u64,
    pub end_ns: u64,
    /// When the kernel had what came; 0: not known.
    pub arrived_ns: u64,
}

impl Stamp {
    fn took_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.begin_ns)
    }
}

/// Time in system calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    pub send_ns: u64,
    pub recv_ns: u64,
}

impl Calls {
    fn of<'a>(stamps: impl IntoIterator<Item = &'a Stamp>) -> Self {
        let mut calls = Calls::default();
        for stamp in stamps {
            match stamp.mark {
                SENT | GIVEN => calls.send_ns += stamp.took_ns(),
                RECEIVED => calls.recv_ns += stamp.took_ns(),
                _ => {}
            }
        }
        calls
    }
}

/// Where the time of an operation goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum What {
    /// The library and the program.
    Library,
    Send,
    Receive,
    /// The work on memory of a rank of the same node.
    Memory,
    /// The process of A and what lies between it and its kernel.
    Process,
}

/// Of which rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    A,
    B,
}

/// A stretch of an operation, in ns since the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub side: Side,
    pub what: What,
    pub begin_ns: i64,
    pub end_ns: i64,
}

/// One operation, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    pub t_ns: u64,
    /// From the call until the kernel of A, which is another process, has the question; else 0.
    pub asks_ns: u64,
    /// From the answer of that kernel until the call returns; else 0.
    pub given_ns: u64,
    pub ta_ns: u64,
    pub tb_ns: u64,
    pub tc_ns: u64,
    /// From request to answer on the network, by the kernel's times of arrival; none if they are not known or
    /// not by one clock.
    pub td_ns: Option<u64>,
    /// Of Ta, Tb and Tc.
    pub calls: [Calls; 3],
    pub spans: Vec<Span>,
}

impl Operation {
    /// Rest of T without these parts: the kernels and the way between; negative where both sides work at
    /// once.
    pub fn rest_ns(&self) -> i64 {
        self.t_ns as i64 - (self.asks_ns + self.ta_ns + self.tb_ns + self.tc_ns + self.given_ns) as i64
    }
}

/// Operations of a block of which all stamps are there, and how many lack some.
pub fn operations(a: &[Stamp], b: &[Stamp], one_clock: bool) -> (Vec<Operation>, usize) {
    let (a, b) =
        (&joined(a)[..], &b.iter().filter(|stamp| !is_of_process(stamp)).copied().collect::<Vec<_>>());
    let applied: Vec<usize> = places(b, APPLIED).collect();
    let (mut found, mut incomplete) = (Vec::new(), 0);
    let (mut handed, mut called) = (0, None);
    for (at, stamp) in a.iter().enumerate() {
        match stamp.mark {
            HANDED => handed += 1,
            CALL => called = Some((at, handed)),
            RETURN => {
                let Some((first, before)) = called.take() else { continue };
                let own = &a[first..=at];
                let operation = if before == handed {
                    inside(own)
                } else {
                    let behind = applied.get(handed).copied().unwrap_or(b.len());
                    let records = applied.get(before..handed).unwrap_or_default();
                    between(own, b, records, behind, one_clock)
                };
                match operation {
                    Some(operation) => found.push(operation),
                    None => incomplete += 1,
                }
            }
            _ => {}
        }
    }
    (found, incomplete)
}

fn is_of_process(stamp: &Stamp) -> bool {
    matches!(stamp.mark, ASKED | CALL | RETURN)
}

/// The stamps of a process and those of its kernel, operation by operation: what the kernel has done since a
/// call, up to its answer, stands before the return. Their clock is one, and an operation has one answer.
fn joined(a: &[Stamp]) -> Vec<Stamp> {
    if !a.iter().any(|stamp| stamp.mark == ASKED) {
        return a.to_vec();
    }
    let (process, kernel): (Vec<Stamp>, Vec<Stamp>) = a.iter().partition(|stamp| is_of_process(stamp));
    let mut kernel = kernel.into_iter().peekable();
    let mut joined = Vec::with_capacity(a.len());
    for stamp in process {
        match stamp.mark {
            CALL => {
                while let Some(before) = kernel.next_if(|one| one.begin_ns < stamp.begin_ns) {
                    joined.push(before);
                }
            }
            RETURN => {
                let mut is_answered = false;
                while !is_answered && let Some(one) = kernel.next_if(|one| one.begin_ns <= stamp.begin_ns) {
                    is_answered = one.mark == GIVEN;
                    // The process may be back before the call that wakes it is over.
                    joined.push(Stamp { end_ns: one.end_ns.min(stamp.end_ns), ..one });
                }
            }
            _ => {}
        }
        joined.push(stamp);
    }
    joined.extend(kernel);
    joined
}

/// When the part of A that works on remote memory has begun and ended: its kernel, or all of it.
fn kernel_part(own: &[Stamp]) -> Option<(u64, u64)> {
    let (call, end) = (own.first()?, own.last()?);
    if !own.iter().any(|stamp| stamp.mark == ASKED) {
        return Some((call.begin_ns, end.end_ns));
    }
    let taken = own.iter().find(|stamp| stamp.mark == TAKEN)?;
    let given = own.iter().rfind(|stamp| stamp.mark == GIVEN)?;
    Some((taken.begin_ns, given.end_ns))
}

fn places(stamps: &[Stamp], mark: u32) -> impl Iterator<Item = usize> {
    stamps.iter().enumerate().filter(move |(_, stamp)| stamp.mark == mark).map(|(at, _)| at)
}

fn last_before(stamps: &[Stamp], mark: u32, before: usize) -> Option<usize> {
    places(&stamps[..before], mark).last()
}

/// An operation without a message, from its call to its return.
fn inside(own: &[Stamp]) -> Option<Operation> {
    let (call, end) = (own.first()?, own.last()?);
    let mapped = own.iter().find(|stamp| stamp.mark == MAPPED)?;
    let since = |ns: u64| ns.saturating_sub(call.begin_ns);
    let (begin_ns, finish_ns) = kernel_part(own)?;
    let (t_ns, asks_ns, answered) = (since(end.end_ns), since(begin_ns), since(finish_ns));
    let (at_memory, tb_ns) = (since(mapped.begin_ns), mapped.took_ns());
    let (ta_ns, at_b) = (at_memory.checked_sub(asks_ns)?, at_memory + tb_ns);
    let (tc_ns, given_ns) = (answered.checked_sub(at_b)?, t_ns.checked_sub(answered)?);
    let span = |what, begin: u64, end: u64| Span {
        side: if what == What::Memory { Side::B } else { Side::A },
        what,
        begin_ns: begin as i64,
        end_ns: end as i64,
    };
    let mut spans = vec![
        span(What::Process, 0, asks_ns),
        span(What::Library, asks_ns, at_memory),
        span(What::Memory, at_memory, at_b),
    ];
    spans.extend(lane(Side::A, own, call.begin_ns, 0, (at_b as i64, answered as i64)));
    spans.push(span(What::Process, answered, t_ns));
    let calls = [Calls::default(), Calls::default(), Calls::of(own)];
    Some(Operation { t_ns, asks_ns, given_ns, ta_ns, tb_ns, tc_ns, td_ns: Some(tb_ns), calls, spans })
}

/// One whose records B has applied at `records`; `behind` is where the next operation begins there.
fn between(
    own: &[Stamp],
    b: &[Stamp],
    records: &[usize],
    behind: usize,
    one_clock: bool,
) -> Option<Operation> {
    let (call, end) = (own.first()?, own.last()?);
    let (first_in, last_in) = match (places(own, APPLIED).next(), places(own, APPLIED).last()) {
        (Some(first), Some(last)) => (last_before(own, RECEIVED, first)?, last_before(own, RECEIVED, last)?),
        _ if places(b.get(*records.first()?..behind)?, HANDED).next().is_some() => return None,
        // B has no record for A: what is awaited is the acknowledgement of the network.
        _ => {
            let sent = places(own, SENT).next()?;
            (places(own, RECEIVED).find(|at| *at > sent)?, places(own, RECEIVED).last()?)
        }
    };
    let last_out = last_before(own, SENT, first_in)?;

    let (request, last_record) = (*records.first()?, *records.last()?);
    let taken = last_before(b, RECEIVED, request)?;
    // What ends a long write is no record: it is behind the last that was applied.
    let answered = last_before(b, HANDED, behind).unwrap_or(last_record).max(last_record);
    // A long answer leaves by several calls.
    let is_out = |at: &usize| matches!(b[*at].mark, SENT | HANDED);
    let out = (answered + 1..behind).take_while(is_out).filter(|at| b[*at].mark == SENT).last()?;

    let since = |ns: u64| ns.checked_sub(call.begin_ns);
    let t_ns = since(end.end_ns)?;
    let (begin_ns, finish_ns) = kernel_part(own)?;
    let (asks_ns, answered) = (since(begin_ns)?, since(finish_ns)?);
    let given_ns = t_ns.checked_sub(answered)?;
    let sent = since(own[last_out].end_ns)?;
    let ta_ns = sent.checked_sub(asks_ns)?;
    let tb_ns = b[out].end_ns.checked_sub(b[taken].begin_ns)?;
    let tc_begin_ns = since(own[last_in].begin_ns)?;
    let tc_ns = answered.checked_sub(tc_begin_ns)?;
    let gap = (sent as i64, tc_begin_ns as i64);

    let (asked, came) = (b[taken].arrived_ns, own[last_in].arrived_ns);
    let td_ns = if one_clock && asked > 0 && came > 0 { came.checked_sub(asked) } else { None };
    // With two clocks B's work is drawn in the middle of A's wait.
    let b_begin_ns = if one_clock {
        b[taken].begin_ns as i64 - call.begin_ns as i64
    } else {
        gap.0 + (gap.1 - gap.0 - tb_ns as i64) / 2
    };
    let mut spans = lane(Side::A, own, call.begin_ns, 0, (asks_ns as i64, sent as i64));
    spans.extend(lane(Side::A, own, call.begin_ns, 0, (tc_begin_ns as i64, answered as i64)));
    for (from, to) in [(0, asks_ns), (answered, t_ns)] {
        let (begin_ns, end_ns) = (from as i64, to as i64);
        spans.push(Span { side: Side::A, what: What::Process, begin_ns, end_ns });
    }
    // A long operation is sent in parts while answers to the first ones come.
    let meanwhile = own[last_out + 1..last_in].iter().filter_map(|stamp| {
        let what = match stamp.mark {
            SENT => What::Send,
            RECEIVED => What::Receive,
            _ => return None,
        };
        let place = |ns: u64| ns as i64 - call.begin_ns as i64;
        Some(Span { side: Side::A, what, begin_ns: place(stamp.begin_ns), end_ns: place(stamp.end_ns) })
    });
    spans.extend(meanwhile);
    let whole = (b_begin_ns, b_begin_ns + tb_ns as i64);
    spans.extend(lane(Side::B, &b[taken..=out], b[taken].begin_ns, b_begin_ns, whole));
    Some(Operation {
        t_ns,
        asks_ns,
        given_ns,
        ta_ns,
        tb_ns,
        tc_ns,
        td_ns,
        calls: [Calls::of(&own[..=last_out]), Calls::of(&b[taken..=out]), Calls::of(&own[last_in..])],
        spans,
    })
}

/// The system calls of a side in a stretch of time, and the library between them. Its clock has `zero_ns` at
/// `at_ns` of the operation.
fn lane(side: Side, stamps: &[Stamp], zero_ns: u64, at_ns: i64, (begin, end): (i64, i64)) -> Vec<Span> {
    let mut spans = Vec::new();
    let mut now = begin;
    let place = |ns: u64| ns as i64 - zero_ns as i64 + at_ns;
    for stamp in stamps {
        let what = match stamp.mark {
            SENT | GIVEN => What::Send,
            RECEIVED => What::Receive,
            _ => continue,
        };
        let (from, to) = (place(stamp.begin_ns).max(now), place(stamp.end_ns).min(end));
        if from < to {
            if now < from {
                spans.push(Span { side, what: What::Library, begin_ns: now, end_ns: from });
            }
            spans.push(Span { side, what, begin_ns: from, end_ns: to });
            now = to;
        }
    }
    if now < end {
        spans.push(Span { side, what: What::Library, begin_ns: now, end_ns: end });
    }
    spans
}

/// Shares of the time, moment by moment: A's while A works, else B's while B works, else that of the kernels
/// and the way between. Adds up to T.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Shares {
    pub a_process_ns: f64,
    pub a_library_ns: f64,
    pub a_send_ns: f64,
    pub a_recv_ns: f64,
    pub b_library_ns: f64,
    pub b_recv_ns: f64,
    pub b_send_ns: f64,
    pub b_memory_ns: f64,
    pub between_ns: f64,
}

impl Shares {
    /// Of one operation.
    pub fn of(operation: &Operation) -> Self {
        let t_ns = operation.t_ns as i64;
        let mut edges: Vec<i64> =
            operation.spans.iter().flat_map(|span| [span.begin_ns, span.end_ns]).collect();
        edges.extend([0, t_ns]);
        edges.retain(|edge| (0..=t_ns).contains(edge));
        edges.sort_unstable();
        edges.dedup();
        let mut shares = Shares::default();
        for edge in edges.windows(2) {
            let covers = |span: &&Span| span.begin_ns <= edge[0] && edge[1] <= span.end_ns;
            let of = |side| operation.spans.iter().filter(move |span| span.side == side).find(covers);
            *shares.part(of(Side::A).or(of(Side::B))) += (edge[1] - edge[0]) as f64;
        }
        shares
    }

    fn part(&mut self, span: Option<&Span>) -> &mut f64 {
        match span.map(|span| (span.side, span.what)) {
            None => &mut self.between_ns,
            Some((_, What::Memory)) => &mut self.b_memory_ns,
            Some((_, What::Process)) => &mut self.a_process_ns,
            Some((Side::A, What::Library)) => &mut self.a_library_ns,
            Some((Side::A, What::Send)) => &mut self.a_send_ns,
            Some((Side::A, What::Receive)) => &mut self.a_recv_ns,
            Some((Side::B, What::Library)) => &mut self.b_library_ns,
            Some((Side::B, What::Send)) => &mut self.b_send_ns,
            Some((Side::B, What::Receive)) => &mut self.b_recv_ns,
        }
    }

    /// By name, in the order of the way.
    pub fn named(&self) -> [(&'static str, f64); 9] {
        [
            ("A process", self.a_process_ns),
            ("A library", self.a_library_ns),
            ("A send()", self.a_send_ns),
            ("B recv()", self.b_recv_ns),
            ("B library", self.b_library_ns),
            ("B memory", self.b_memory_ns),
            ("B send()", self.b_send_ns),
            ("A recv()", self.a_recv_ns),
            ("between", self.between_ns),
        ]
    }

    /// In system calls, of both sides.
    pub fn calls_ns(&self) -> f64 {
        self.a_send_ns + self.a_recv_ns + self.b_send_ns + self.b_recv_ns
    }
}

#[cfg(test)]
mod tests;
