//! State of a process among those that invoke each other's functions: what is under way, by the messages
//! that come and the calls that the program makes. It runs nothing and waits for nothing: what is left to do
//! with a message outside of the lock is an [`Act`].

use core::ffi::c_int;
use std::collections::HashMap;

use tutti_native::handle::Handle;
use tutti_shm::queue::Queue;

use super::{LONG, PACKED, QUICK};
use crate::failure::fail;
use crate::flow::{Lane, credit_lines};
use crate::function::{Descriptor, Function, Functions, Name, Reply};
use crate::meeting::{self, Meeting};
use crate::open::{OpenCall, OpenCalls};
use crate::outbox::{Leaving, Outbox};
use crate::pack::{Added, PACKED_BYTES_MAX, Pack, Packs};
use crate::parts::{LONG_BYTES_MAX, Parts};
use crate::quick;
use crate::status::*;
use crate::wire::*;

/// Bytes of calls that wait for credit.
const BACKLOG_BYTES_MAX: usize = 64 << 20;

/// Reply of a function that no caller waits for.
pub(super) const NO_REPLY: Reply = Reply { to: -1, number: 0, room: 0, direct: 0 };

/// Arguments or a result.
pub(super) enum Data {
    /// The message from this byte on.
    Here(usize),
    /// Parts, put together.
    Whole(Vec<u8>),
}

impl Data {
    pub(super) fn of<'a>(&'a self, message: &'a [u8]) -> &'a [u8] {
        match self {
            Data::Here(begin) => &message[*begin..],
            Data::Whole(data) => data,
        }
    }
}

/// Work left to do with a message outside of the state.
pub(super) enum Act {
    Nothing,
    Run(Function, Reply, Data),
    /// Functions of a message, with the places of their arguments.
    RunAll(Vec<(Function, std::ops::Range<usize>)>),
    Tell(usize, c_int, Data),
}

#[derive(Debug)]
pub(super) struct State {
    me: usize,
    outbox: Outbox,
    packs: Packs,
    /// Places by rank of the job.
    places: HashMap<u32, usize>,
    open: OpenCalls,
    parts: Parts,
    functions: Functions,
    meeting: Meeting,
    sums: Sums,
    owns_mpi: bool,
}

impl State {
    /// State of the rank at place `me`; `queues`: those of all, by lane, `places`: places by rank of the job.
    pub(super) fn new(
        me: usize,
        queues: &[[Handle; 2]],
        places: HashMap<u32, usize>,
        functions: Functions,
        owns_mpi: bool,
    ) -> Self {
        let ranks = queues.len();
        // A message by a small credit is short, so that several are under way.
        let pack_bytes = if credit_lines(ranks) < 128 { MESSAGE_BYTES_MAX / 2 } else { MESSAGE_BYTES_MAX };
        State {
            me,
            outbox: Outbox::new(me, queues),
            packs: Packs::new(ranks, pack_bytes),
            places,
            open: OpenCalls::default(),
            parts: Parts::default(),
            functions,
            meeting: Meeting::new(me, ranks),
            sums: Sums::default(),
            owns_mpi,
        }
    }

    /// Place of this rank, and how many there are.
    pub(super) fn place(&self) -> (usize, usize) {
        (self.me, self.outbox.ranks())
    }

    /// Calls that are open, and bytes that wait for credit.
    pub(super) fn under_way(&self) -> (usize, usize) {
        (self.open.len(), self.outbox.backlog_bytes())
    }

    pub(super) fn own_queue(&self, lane: Lane) -> Handle {
        self.outbox.own_queue(lane)
    }

    /// Whether MPI was started here.
    pub(super) fn owns_mpi(&self) -> bool {
        self.owns_mpi
    }

    /// Whether nothing is under way.
    pub(super) fn is_at_rest(&self) -> bool {
        let has_calls = self.open.len() > 0 || !self.outbox.is_empty() || self.packs.has_bursts();
        !has_calls && !self.meeting.is_under_way()
    }

    /// Starts a function at the rank at a place; the number of the call, if `answer` is notified of its end.
    pub(super) fn call(
        &mut self,
        to: c_int,
        function: *const Descriptor,
        flags: c_int,
        arguments: &[u8],
        result_bytes: usize,
        answer: Option<usize>,
    ) -> Result<Option<Number>, c_int> {
        let (is_quick, is_packed, is_long) = (flags & QUICK != 0, flags & PACKED != 0, flags & LONG != 0);
        let is_right = flags & !(QUICK | PACKED | LONG) == 0
            && !(is_quick && is_long)
            && !(is_packed && (is_quick || answer.is_some()));
        let to = usize::try_from(to).ok().filter(|to| *to < self.outbox.ranks()).ok_or(NO_RANK)?;
        if !is_right {
            return Err(INVALID);
        }
        let arguments_max = if is_quick { ARGUMENT_BYTES_MAX } else { LONG_BYTES_MAX };
        if arguments.len() > arguments_max || result_bytes > RESULT_BYTES_MAX {
            return Err(TOO_LONG);
        }
        let (name, signature) = self.functions.name(function).ok_or(NO_FUNCTION)?;
        if self.outbox.backlog_bytes() + CALL_BYTES + arguments.len() > BACKLOG_BYTES_MAX {
            return Err(BUSY);
        }
        if is_packed && arguments.len() <= PACKED_BYTES_MAX {
            match self.packs.add(to, name, signature, arguments) {
                Added::Alone => {}
                Added::Kept => {
                    self.sums.sent += 1;
                    quick::ask_flush(&self.outbox.own_queue(Lane::Quick));
                    return Ok(None);
                }
                Added::Full(pack) => {
                    self.sums.sent += 1;
                    return self.send_pack(to, pack).map(|()| None);
                }
            }
        }
        let lane = if is_quick { Lane::Quick } else { Lane::Ordinary };
        if let (Lane::Ordinary, Some(pack)) = (lane, self.packs.take(to)) {
            self.send_pack(to, pack)?;
        }
        let (mut reply, mut answer_lines) = (None, 0);
        if let Some(answer) = answer {
            let room = result_bytes.max(TEXT_BYTES);
            answer_lines = Queue::lines_of(ANSWER_BYTES + room);
            let number =
                self.open.insert(OpenCall { to, lane, answer_lines, answer: Some(answer) }).ok_or(BUSY)?;
            reply = Some(Asked { number, room: room as u16, is_long });
        }
        self.sums.sent += 1;
        if let Err(status) = self.send_call(to, lane, arguments, answer_lines, |arguments| Message::Call {
            reply,
            name,
            signature,
            arguments,
        }) {
            self.sums.sent -= 1;
            if let Some(Asked { number, .. }) = reply {
                self.open.take(number, to);
            }
            return Err(status);
        }
        Ok(reply.map(|Asked { number, .. }| number))
    }

    /// From now on another address is notified of the end of a call, or nobody.
    pub(super) fn redirect(&mut self, call: Number, to: Option<usize>) -> Result<(), c_int> {
        if self.open.redirect(call, to) { Ok(()) } else { Err(INVALID) }
    }

    /// Answers a call.
    pub(super) fn answer(&mut self, reply: Reply, status: c_int, data: &[u8]) -> Result<(), c_int> {
        if reply.to >= 0 {
            let to = usize::try_from(reply.to).ok().filter(|to| *to < self.outbox.ranks()).ok_or(INVALID)?;
            let direct = (reply.direct as usize).min(RESULT_BYTES_MAX);
            if data.len() > (reply.room as usize).clamp(direct, LONG_BYTES_MAX) {
                return Err(TOO_LONG);
            }
            let status = i8::try_from(status).map_err(|_| INVALID)?;
            let number = Number::of(reply.number);
            self.send_answer(to, number, status, data, direct)?;
        }
        self.sums.ended += 1;
        Ok(())
    }

    /// Comes to a meeting.
    pub(super) fn arrive(&mut self) -> Result<(), c_int> {
        self.flush(true);
        if self.meeting.is_under_way() {
            return Err(BUSY);
        }
        let send = self.meeting.arrive(self.sums);
        self.send_meeting(send)
    }

    /// Sums of the last meeting.
    pub(super) fn arrived(&self) -> Result<Sums, c_int> {
        if self.meeting.is_under_way() { Err(PENDING) } else { Ok(self.meeting.last()) }
    }

    /// The next post to each rank leaves at once.
    pub(super) fn end_bursts(&mut self) {
        self.packs.end_bursts();
    }

    /// Sends a call whose message has these arguments, or their last part behind parts of its own.
    fn send_call<'a>(
        &mut self,
        to: usize,
        lane: Lane,
        arguments: &'a [u8],
        answer_lines: u64,
        message: impl FnOnce(&'a [u8]) -> Message<'a>,
    ) -> Result<(), c_int> {
        let (parts, last) = cut(arguments, ARGUMENT_BYTES_MAX);
        for data in parts {
            let part = Message::Part { of: PartOf::Call, data }.encode();
            self.outbox.send(to, lane, Leaving::call(part, 0))?;
        }
        self.outbox.send(to, lane, Leaving::call(message(last).encode(), answer_lines))
    }

    fn send_pack(&mut self, to: usize, pack: Pack) -> Result<(), c_int> {
        let sent = self.outbox.send(to, Lane::Ordinary, Leaving::call(pack.message, 0));
        if sent.is_err() {
            self.sums.sent -= pack.posts;
        }
        sent
    }

    /// Sends all packed posts; whether there were any. The next post to each rank leaves at once where
    /// their bursts end.
    pub(super) fn flush(&mut self, ends_bursts: bool) -> bool {
        if !self.packs.has_bursts() {
            return false;
        }
        let all = self.packs.take_all();
        let has_posts = !all.is_empty();
        for (to, pack) in all {
            // A rank that has left the job is noticed by whoever sends to it next.
            let _ = self.send_pack(to, pack);
        }
        if ends_bursts {
            self.packs.end_bursts();
        }
        has_posts
    }

    fn send_answer(
        &mut self,
        to: usize,
        number: Number,
        status: i8,
        data: &[u8],
        direct: usize,
    ) -> Result<(), c_int> {
        let (parts, last) = cut(data, direct.max(1));
        let is_whole = parts.len() == 0;
        for data in parts {
            let part = Message::Part { of: PartOf::Answer(number), data }.encode();
            self.outbox.send(to, Lane::Ordinary, Leaving::call(part, 0))?;
        }
        let message = Message::Answer { number, status, returned: self.outbox.tell(to), data: last }.encode();
        if is_whole { self.outbox.put(to, &message) } else { self.outbox.send_answer(to, message) }
    }

    fn send_meeting(&mut self, send: Option<meeting::Send>) -> Result<(), c_int> {
        match send {
            None => Ok(()),
            Some(meeting::Send::Up(to, sums)) => self.outbox.put(to, &Message::Up(sums).encode()),
            Some(meeting::Send::Down(sums)) => {
                let message = Message::Down(sums).encode();
                self.meeting.children().try_for_each(|to| self.outbox.put(to, &message))
            }
        }
    }

    /// A message by credit was taken out of a queue.
    fn note_taken(&mut self, from: usize, lane: Lane, bytes: usize) -> Result<(), c_int> {
        match self.outbox.handle_call(from, lane, bytes) {
            Some(returned) => self.outbox.put(from, &Message::Credit { lane, returned }.encode()),
            None => Ok(()),
        }
    }

    /// Deals with a message; what is of no rank, or is none, is dropped.
    pub(super) fn handle(&mut self, from: u32, bytes: &[u8]) -> Result<Act, c_int> {
        let Some(from) = self.places.get(&from).copied() else { return Ok(Act::Nothing) };
        match Message::decode(bytes) {
            None => {}
            Some(Message::Call { reply, name, signature, arguments }) => {
                self.note_taken(from, Lane::Ordinary, bytes.len())?;
                let whole = self.parts.end(from, PartOf::Call, arguments);
                let data = whole.map_or(Data::Here(CALL_BYTES), Data::Whole);
                return self.begin(from, reply, name, signature, data);
            }
            Some(Message::Posts(posts)) => {
                self.note_taken(from, Lane::Ordinary, bytes.len())?;
                let mut all = Vec::new();
                for post in posts {
                    let function = self.functions.find(post.name, post.signature);
                    let function = function.unwrap_or_else(|| self.fail_unknown(from));
                    all.push((function, post.arguments));
                }
                return Ok(Act::RunAll(all));
            }
            Some(Message::Part { of, data }) => {
                self.note_taken(from, Lane::Ordinary, bytes.len())?;
                let is_expected = match of {
                    PartOf::Call => true,
                    PartOf::Answer(number) => self.open.is_open(number, from),
                };
                if is_expected {
                    self.parts.add(from, of, data);
                }
            }
            Some(Message::Answer { number, status, returned, data }) => {
                self.outbox.handle_returned(from, Lane::Ordinary, returned);
                let Some(call) = self.open.take(number, from) else { return Ok(Act::Nothing) };
                self.outbox.handle_answer(from, call.lane, call.answer_lines);
                let whole = self.parts.end(from, PartOf::Answer(number), data);
                if let Some(address) = call.answer {
                    let status = c_int::from(status);
                    let data = match whole {
                        None if status == NO_FUNCTION => Data::Whole(self.both_programs(from, data)),
                        None => Data::Here(bytes.len() - data.len()),
                        Some(whole) => Data::Whole(whole),
                    };
                    return Ok(Act::Tell(address, status, data));
                }
            }
            Some(Message::Credit { lane, returned }) => self.outbox.handle_returned(from, lane, returned),
            Some(Message::Up(sums)) => {
                let send = self.meeting.handle_up(from, sums);
                self.send_meeting(send)?;
            }
            Some(Message::Down(sums)) => {
                let send = self.meeting.handle_down(from, sums);
                self.send_meeting(send)?;
            }
        }
        Ok(Act::Nothing)
    }

    /// Deals with a message of the quick queue, where calls come and nothing else.
    pub(super) fn handle_quick(&mut self, from: u32, bytes: &[u8]) -> Result<Act, c_int> {
        let Some(from) = self.places.get(&from).copied() else { return Ok(Act::Nothing) };
        let Some(Message::Call { reply, name, signature, .. }) = Message::decode(bytes) else {
            return Ok(Act::Nothing);
        };
        self.note_taken(from, Lane::Quick, bytes.len())?;
        self.begin(from, reply, name, signature, Data::Here(CALL_BYTES))
    }

    /// Programs of this rank and of another one, which has sent its path.
    fn both_programs(&self, from: usize, theirs: &[u8]) -> Vec<u8> {
        let theirs = String::from_utf8_lossy(theirs);
        format!("rank {from} runs {theirs}, and rank {} {}", self.me, program()).into_bytes()
    }

    fn fail_unknown(&self, from: usize) -> ! {
        fail(format_args!(
            "rank {}, which runs {}, has been sent a function by rank {from} that it does not have: they run different programs or libraries",
            self.me,
            program()
        ));
    }

    /// A call has come: what runs, unless the function is not known here.
    fn begin(
        &mut self,
        from: usize,
        reply: Option<Asked>,
        name: Name,
        signature: u64,
        data: Data,
    ) -> Result<Act, c_int> {
        let Some(function) = self.functions.find(name, signature) else {
            let Some(Asked { number, room, .. }) = reply else { self.fail_unknown(from) };
            self.sums.ended += 1;
            self.send_answer(from, number, NO_FUNCTION as i8, program().as_bytes(), room.into())?;
            return Ok(Act::Nothing);
        };
        let reply = reply.map_or(NO_REPLY, |Asked { number, room, is_long }| Reply {
            to: from as i32,
            number: number.packed(),
            room: if is_long { LONG_BYTES_MAX as u32 } else { room.into() },
            direct: room.into(),
        });
        Ok(Act::Run(function, reply, data))
    }
}

/// Pieces of so many bytes, and the rest, which is not longer.
fn cut(data: &[u8], bytes_max: usize) -> (std::slice::ChunksExact<'_, u8>, &[u8]) {
    let parts = data.len().saturating_sub(1) / bytes_max * bytes_max;
    let (parts, last) = data.split_at(parts);
    (parts.chunks_exact(bytes_max), last)
}

/// Path of this program, as much of its end as the answer to every call has room for.
fn program() -> String {
    let path = std::env::current_exe()
        .map_or_else(|_| "a program without a path".into(), |path| path.display().to_string());
    let mut begin = path.len().saturating_sub(TEXT_BYTES);
    while !path.is_char_boundary(begin) {
        begin += 1;
    }
    path[begin..].to_owned()
}

#[cfg(test)]
mod tests;
