//! Leftovers of a program that ends MPI: messages that nobody received, requests that nobody completed,
//! handles that nobody freed.
//!
//! MPI_Finalize is collective, so all ranks meet here: after that everything that was sent has been sent.
//! Each rank looks at what it has, rank 0 says it for all. These are remarks: no result is wrong because of
//! them.

use std::collections::{BTreeMap, HashSet};

use super::inspection::Inspection;
use super::{CALL, Severity, counted, line_up, name_of};
use crate::abi::MPI_Datatype;
use crate::comm::CONTEXTS_PER_COMM;
use crate::request::{RequestKind, WhenDone};

/// MPI_Finalize begins.
pub fn begin() {
    CALL.set(c"MPI_Finalize");
}

impl Inspection<'_> {
    /// Leftovers of this rank, as numbers for rank 0.
    pub fn leftover_numbers(&self) -> Vec<u32> {
        let mut numbers = Vec::new();
        for line in self.leftovers() {
            numbers.push(self.engine.world_rank());
            numbers.push(line.len() as u32);
            numbers.extend(line.bytes().map(u32::from));
        }
        numbers
    }

    /// Says what all have left.
    pub fn say_leftovers(&mut self, all: &[u32]) {
        let lines = decode(all);
        if !lines.is_empty() {
            let text = format!("left behind at MPI_Finalize{}", line_up(&lines));
            self.find(Severity::Remark, text);
        }
    }
}

/// Ranks and lines out of numbers: rank, length, bytes.
fn decode(numbers: &[u32]) -> Vec<(usize, String)> {
    let mut lines = Vec::new();
    let mut rest = numbers;
    while let [rank, length, more @ ..] = rest {
        let (text, behind) = more.split_at(*length as usize);
        let bytes: Vec<u8> = text.iter().map(|&byte| byte as u8).collect();
        lines.push((*rank as usize, String::from_utf8_lossy(&bytes).into_owned()));
        rest = behind;
    }
    lines
}

impl Inspection<'_> {
    fn leftovers(&self) -> Vec<String> {
        let mut lines = self.messages_left();
        lines.extend(self.requests_left());
        lines.extend(self.handles_left());
        lines
    }

    fn messages_left(&self) -> Vec<String> {
        let mut queues: BTreeMap<(u32, u32), Vec<(i32, usize)>> = BTreeMap::new();
        for (context, from, tag, bytes) in self.engine.unreceived() {
            if context.is_multiple_of(CONTEXTS_PER_COMM) {
                queues.entry((context, from)).or_default().push((tag, bytes));
            }
        }
        let line = |(&(context, from), messages): (&(u32, u32), &Vec<(i32, usize)>)| {
            let (tag, bytes) = messages[0];
            let first = if messages.len() > 1 { "the first with " } else { "" };
            format!(
                "{} from {} on {} never received ({first}tag {tag}, {bytes} bytes)",
                counted(messages.len(), "message"),
                self.rank_name(context, from),
                self.context_name(context),
            )
        };
        let mut lines: Vec<String> = queues.iter().map(line).collect();
        if self.engine.extracted() > 0 {
            let count = counted(self.engine.extracted(), "message");
            lines.push(format!("{count} matched by a probe and never received"));
        }
        lines
    }

    fn requests_left(&self) -> Vec<String> {
        let requests = &self.engine.requests;
        let parts: HashSet<u32> =
            requests.iter().flat_map(|(index, _)| self.engine.pending_parts(index)).collect();
        let mut makers: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for (index, request) in requests.iter() {
            // What belongs to the library's own operations has other contexts; what stands for nothing is the
            // user's.
            let is_internal = matches!(request.kind, RequestKind::Send | RequestKind::Receive)
                && !request.context.is_multiple_of(CONTEXTS_PER_COMM);
            if request.when_done == WhenDone::Free || is_internal || parts.contains(&index) {
                continue;
            }
            let inactive = self.engine.is_inactive(request);
            let what = if inactive {
                "not freed (a persistent request)"
            } else if self.engine.is_done(index) {
                "never completed by a wait or test"
            } else {
                "still pending"
            };
            *makers.entry((self.maker(0, requests.handle(index), index), what)).or_default() += 1;
        }
        let line = |((maker, what), count): ((&str, &str), usize)| {
            format!("{} of {maker} {what}", counted(count, "request"))
        };
        makers.into_iter().map(line).collect()
    }

    fn handles_left(&self) -> Vec<String> {
        let comms = self
            .comms
            .made()
            .iter()
            .map(|(index, _)| (1, "communicator", self.comms.made().handle(index), index));
        // MPI made it, and the user need not free it.
        let comms = comms.filter(|(_, _, handle, _)| *handle != self.comms.parent().0);
        let groups = self
            .comms
            .groups()
            .iter()
            .map(|(index, _)| (2, "group", self.comms.groups().handle(index), index));
        let types = self.types.made().iter().filter(|(_, datatype)| !datatype.is_predefined());
        let types = types.map(|(index, _)| (3, "datatype", self.types.made().handle(index), index));
        let types = types.filter(|(_, _, handle, _)| !self.types.has_freed(MPI_Datatype(*handle)));
        let ops =
            self.colls.ops.iter().map(|(index, _)| (4, "operation", self.colls.ops.handle(index), index));
        let mut makers: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for (kind, what, handle, index) in comms.chain(groups).chain(types).chain(ops) {
            *makers.entry((what, self.maker(kind, handle, index))).or_default() += 1;
        }
        let line = |((what, maker), count): ((&str, &str), usize)| {
            format!("{} made by {maker} never freed", counted(count, what))
        };
        makers.into_iter().map(line).collect()
    }

    fn maker(&self, kind: usize, handle: usize, index: u32) -> &'static str {
        let maker = self.check.as_deref().and_then(|check| check.kept[kind].maker(handle, index));
        maker.map_or("an earlier call", name_of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leftover_lines_round_trip() {
        let numbers = [3, 2, b'a'.into(), b'b'.into(), 0, 0, 7, 1, b'c'.into()];
        let expected = [(3, "ab"), (0, ""), (7, "c")].map(|(rank, text)| (rank, text.to_string()));
        assert_eq!(decode(&numbers), expected);
    }
}
