//! CREATE and WAIT_FOR_END: every rank runs `main`, silently, up to the CREATE that makes it a process; from
//! there on it sees the shared memory as rank 0 has left it, and calls the function.
//!
//! | form | who calls the function |
//! |---|---|
//! | CREATE(function, n) | n - 1 others, and rank 0 itself |
//! | CREATE(function) | one other; rank 0 goes on |
//! | CREATE_WITH_ARG(function, argument) | the same; the argument is what the other process makes of it |

use crate::object::Kind;
use crate::process::{self, Numbering, Stage, Way};
use crate::site::Site;
use crate::{executor, failure, object, os, present, replay, start, variables};

use std::sync::atomic::Ordering::SeqCst;

/// CREATE; `count` is 0 in the form that has none. The function is what a process runs.
pub fn create(function: impl FnOnce(), count: i64, site: Site<'_>) {
    let (me, ranks, stage, created) =
        process::with(|running| (running.me(), running.ranks(), running.stage, running.processes.created));
    let first = created + 1;
    let end = if count == 0 { first + 1 } else { count.clamp(0, 1 << 30) as usize };
    match stage {
        Stage::Main => {}
        Stage::Replaying => return become_process(me, function, count, end, site),
        _ => failure::end(format_args!("{site}: CREATE inside a created process: main alone creates")),
    }
    if count < 0 || end > ranks {
        let wanted = if count < 0 { count } else { end as i64 };
        failure::end_alone(
            2,
            format_args!(
                "{site}: CREATE of {wanted} processes, but the job has {ranks} ranks: start it with -n {wanted}"
            ),
        );
    }
    if count > 0 && created > 0 {
        failure::end(format_args!("{site}: CREATE a second time: processes are created once"));
    }
    numbering(site);
    open_heap();
    replay::create(first, if count == 0 { end } else { ranks }, count);
    let held = process::with(|running| {
        running.processes.created = end - 1;
        running.processes.are_all = count > 0;
        // Keepers hear at the first CREATE which locks `main` has taken.
        if created == 0 { std::mem::take(&mut running.held) } else { Vec::new() }
    });
    held.into_iter().for_each(|lock| object::lock_number(lock, site));
    (first..end).for_each(|rank| object::set_flag(rank as u64, site));
    executor::mark_part(false);
    begin_variables(me);
    if count > 0 {
        function();
    }
}

/// GET_PID: the number of a process, in the order in which processes ask; 0 is the first.
pub fn number(site: Site<'_>) -> u64 {
    let Numbering { lock, place } = numbering(site);
    object::lock(lock, site);
    let number = present::load_word(place);
    present::store_word(place, number + 1);
    object::unlock(lock, site);
    number
}

/// Counter of numbers. It is made where all ranks come alike: at the first CREATE, or by `main` before.
fn numbering(site: Site<'_>) -> Numbering {
    let made = process::with(|running| running.processes.numbering);
    made.unwrap_or_else(|| {
        let lock = object::make(Kind::Lock, site);
        let place = object::allocate(size_of::<u64>() as u64, site);
        let made = Numbering { lock, place };
        process::with(|running| running.processes.numbering = Some(made));
        made
    })
}

/// In a job that is checked a process changes no variable of C that others have.
fn begin_variables(me: usize) {
    if executor::with_member(|member| member.is_checked()) == Some(true) {
        variables::begin(me);
    }
}

/// Before the first process begins, what all ranks know of the heap goes to where all ask from now on.
fn open_heap() {
    note_large();
    let blocks = process::with(|running| {
        if running.processes.created > 0 {
            return None;
        }
        if let Way::Node(words) = &running.way {
            words.next().store(running.objects, SeqCst);
            words.taken_bytes().store(running.heap.common.end(), SeqCst);
        }
        Some(running.heap.common.clone())
    });
    if let Some(blocks) = blocks {
        executor::with_member(|member| *member.kept().blocks() = blocks);
    }
}

/// The member of this rank knows the blocks of large pages that `main` has taken.
fn note_large() {
    let runs: Vec<_> = process::with(|running| running.heap.common.large().collect());
    executor::with_member(|member| runs.into_iter().for_each(|run| member.note_large(run)));
}

/// WAIT_FOR_END: rank 0 goes on when the others have ended.
pub fn wait_for_end(site: Site<'_>) {
    let (stage, ranks, awaited, created) = process::with(|running| {
        (running.stage, running.ranks(), running.processes.awaited, running.processes.created)
    });
    if stage == Stage::Replaying {
        // It was not created, and is not: rank 0 goes on alone.
        return;
    }
    if process::with(|running| running.processes.are_all && awaited < created) {
        // No other one is there when this one has its turn again: it meets nobody any more.
        object::end();
    }
    for rank in awaited + 1..=created {
        object::wait_flag((ranks + rank) as u64, site);
    }
    executor::mark_part(true);
    variables::end();
    process::with(|running| running.processes.awaited = running.processes.created);
}

/// A rank that replays comes to CREATE; it returns when the process is another's.
fn become_process(me: usize, function: impl FnOnce(), count: i64, end: usize, site: Site<'_>) {
    replay::expect_create(count, site);
    numbering(site);
    if count == 0 && me >= end {
        process::with(|running| running.processes.created = end - 1);
        return;
    }
    let is_needed = me < end;
    let ranks = process::with(|running| {
        start::join(running);
        running.stage = if is_needed { Stage::Created } else { Stage::Ended };
        running.processes.created = end - 1;
        running.ranks()
    });
    note_large();
    if is_needed {
        replay::unsilence();
        object::wait_flag(me as u64, site);
        executor::mark_part(false);
        begin_variables(me);
        function();
        os::flush_streams();
        object::set_flag((ranks + me) as u64, site);
        executor::mark_part(true);
        process::with(|running| running.stage = Stage::Ended);
    }
    object::end();
    // Until all end, this rank is the home of its part of the memory.
    os::exit(0);
}
