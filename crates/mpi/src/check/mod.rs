//! The checker of programs: `TUTTI_CHECK=1` finds the mistakes of MPI programs and says them,
//! `TUTTI_CHECK=warn` only says them.
//!
//! | what | where |
//! |---|---|
//! | collective calls that do not match | [`collectives`]: the ranks exchange a [`record`] in front of each operation |
//! | type signatures that do not match | [`tutti_datatype::note`]: every buffer knows what its data are, a word of it travels with the message |
//! | buffers in use by two operations | [`overlap`]: at the start of each send and receive |
//! | no rank can go on | [`deadlock`]: each rank writes what it waits for; the starter judges, as always |
//! | what is left at Finalize | [`leftovers`]: messages, requests, handles |
//!
//! **What it costs when it is off.** Nothing on the fast path. The phase is [`phase::CHECKED`] instead of
//! RUNNING, so the one test at the entry of every call leads here; a committed type always has a program, so
//! that no type is plain and the ways that know plain types only are not gone; a communicator gets no block;
//! the rings take no data inside envelopes. What is left are branches where a message, type or communicator
//! is made the long way.

pub mod collectives;
pub mod deadlock;
pub mod exchange;
pub mod inspection;
pub mod leftovers;
pub mod overlap;
pub mod record;
mod start;
pub mod state;

use core::cell::Cell;
use core::ffi::CStr;
use std::fmt::Write;

use crate::events;
use crate::phase;
use crate::process::{self, Guard, Process};

pub use start::start;
use state::Check;

/// Exit status of a job that the checker ends.
const STATUS: i32 = 3;
/// Beginning of the report of a rank that does not wait.
const LAST_CALL: &str = "its last call was ";
/// Findings that a rank says; more of them would hide the first.
const FINDINGS_MAX: usize = 20;

thread_local! {
    /// The function that this thread is in, or was in last.
    static CALL: Cell<&'static CStr> = const { Cell::new(c"MPI_Init") };
}

/// Enters the library for a call of the function `name`; `None` before Init and after Finalize.
#[inline(always)]
pub fn enter_call(name: &'static CStr) -> Option<Guard> {
    if phase::phase() != phase::RUNNING {
        return enter(name);
    }
    // SAFETY: the phase is RUNNING.
    Some(unsafe { process::take_lock() })
}

/// The objects that were made since the last look belong to the last call.
fn attribute_created(check: &mut Check, process: &Process) {
    let function = check.last_call;
    let [requests, comms, groups, types, ops] = &mut check.kept;
    requests.look(&process.engine.requests, function);
    comms.look(process.comms.made(), function);
    groups.look(process.comms.groups(), function);
    types.look(process.types.made(), function);
    ops.look(&process.colls.ops, function);
}

/// Enters the library for a call of a function while the program is being checked, or an event of a tool
/// waits; `None` when MPI is not running.
#[cold]
pub fn enter(function: &'static CStr) -> Option<Guard> {
    // Nothing is locked or borrowed here.
    phase::disarm();
    if matches!(phase::phase(), phase::RUNNING | phase::CHECKED) {
        events::deliver();
    }
    if matches!(phase::phase(), phase::RUNNING | phase::PENDING) {
        // SAFETY: the phase is one of the two.
        return Some(unsafe { process::take_lock() });
    }
    let mut guard = process::enter()?;
    CALL.set(function);
    let mut check = guard.check.take()?;
    attribute_created(&mut check, &guard);
    check.last_call = function;
    check.waiting = state::Waiting::default();
    let me = guard.engine.job.rank();
    guard.engine.job.report(me).write(&format!("{LAST_CALL}{}", name_of(function)));
    guard.check = Some(check);
    Some(guard)
}

/// The function that this thread is in.
fn function() -> &'static str {
    name_of(CALL.get())
}

fn name_of(function: &'static CStr) -> &'static str {
    function.to_str().unwrap_or("?")
}

/// Whether a finding ends the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Results are wrong, or there will be none.
    Error,
    /// The program is not right, but its results are.
    Remark,
}

/// "1 request", "2 requests".
fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Ranks as text: "rank 3", "ranks 0, 2-5".
fn ranks_text(ranks: &[usize]) -> String {
    let mut text = String::from(if ranks.len() == 1 { "rank " } else { "ranks " });
    let mut at = 0;
    while at < ranks.len() {
        let mut end = at;
        while end + 1 < ranks.len() && ranks[end + 1] == ranks[end] + 1 {
            end += 1;
        }
        let comma = if at == 0 { "" } else { ", " };
        let _ = match end - at {
            0 => write!(text, "{comma}{}", ranks[at]),
            1 => write!(text, "{comma}{}, {}", ranks[at], ranks[end]),
            _ => write!(text, "{comma}{}-{}", ranks[at], ranks[end]),
        };
        at = end + 1;
    }
    text
}

/// Lines "ranks: what", one for each different text, in the order of the first rank that has it.
fn line_up(texts: &[(usize, String)]) -> String {
    let mut groups: Vec<(Vec<usize>, &str)> = Vec::new();
    for (rank, text) in texts {
        match groups.iter_mut().find(|group| group.1 == text) {
            Some(group) => group.0.push(*rank),
            None => groups.push((vec![*rank], text)),
        }
    }
    groups.into_iter().fold(String::new(), |mut lines, (ranks, text)| {
        let _ = write!(lines, "\n    {}: {text}", ranks_text(&ranks));
        lines
    })
}

#[cfg(test)]
mod tests {
    use super::state::Counts;
    use super::*;
    use crate::handle::Slab;

    #[test]
    fn checker_rank_lists_are_short() {
        assert_eq!(ranks_text(&[3]), "rank 3");
        assert_eq!(ranks_text(&[0, 1]), "ranks 0, 1");
        assert_eq!(ranks_text(&[0, 2, 3, 4, 7]), "ranks 0, 2-4, 7");
    }

    #[test]
    fn checker_groups_equal_texts() {
        let texts = [(0, "a"), (1, "b"), (2, "a"), (3, "b")].map(|(rank, text)| (rank, text.to_string()));
        assert_eq!(line_up(&texts), "\n    ranks 0, 2: a\n    ranks 1, 3: b");
    }

    #[test]
    fn checker_attributes_objects_to_the_creating_call() {
        let mut slab = Slab::new(crate::handle::Kind::Group);
        let mut kept = Counts::default();
        kept.look(&slab, c"MPI_Init");
        let index = slab.insert(1);
        kept.look(&slab, c"MPI_Comm_group");
        kept.look(&slab, c"MPI_Barrier");
        assert_eq!(kept.maker(slab.handle(index), index), Some(c"MPI_Comm_group"));
        slab.remove(index);
        kept.look(&slab, c"MPI_Group_free");
        let again = slab.insert(2);
        assert_eq!(kept.maker(slab.handle(again), again), None, "another object at the same place");
        kept.look(&slab, c"MPI_Group_incl");
        assert_eq!(kept.maker(slab.handle(again), again), Some(c"MPI_Group_incl"));
    }
}
