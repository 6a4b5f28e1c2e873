//! Collective calls are compared before they do anything.
//!
//! In front of the steps of each operation its schedule has an exchange: every rank sends its [`Record`] to
//! all others, waits for theirs and compares. It is the same exchange whatever was called, on the
//! communicator's own context and with the number of the operation as its tag, so that calls that do not
//! match find each other. A nonblocking operation does not wait: the exchange is part of what goes on in the
//! background.
//!
//! All ranks see the same records; the first says what does not match.

use core::ffi::CStr;
use std::rc::Rc;

use tutti_datatype::Buffer;

use super::exchange::Exchange;
use super::inspection::Inspection;
use super::record::{self, Record, Speaker};
use super::{CALL, Severity, line_up, name_of};
use crate::abi::*;
use crate::check_mode::{self, Mode};
use crate::collective::plan::Place;
use crate::collective::schedule::Schedule;
use crate::collective::work::Work;

impl Exchange {
    /// Puts an exchange in front of a schedule.
    fn begin(
        mut schedule: Schedule,
        comm: MPI_Comm,
        place: &Place,
        say: impl FnOnce(Speaker) -> Record,
    ) -> Schedule {
        let (members, me) = place.members();
        let is_inter = place.is_inter();
        let speaker = Speaker { me, ranks: members.len(), is_inter };
        let words = record::words(members.len());
        let bytes = words * size_of::<u64>();
        let records = schedule.memory(bytes * members.len()).cast::<u64>();
        let exchange = Exchange { comm, number: place.number(), members, me, is_inter, records, words };
        let mine = say(speaker);
        // SAFETY: the memory of the schedule has room for a record of each member.
        unsafe { std::ptr::copy_nonoverlapping(mine.words().as_ptr(), exchange.at(me), words) };
        for (rank, &world) in exchange.members.iter().enumerate() {
            if rank != me {
                schedule.receive(world, Buffer::contiguous(exchange.at(rank).cast(), bytes));
            }
        }
        for (rank, &world) in exchange.members.iter().enumerate() {
            if rank != me {
                schedule.send(world, Buffer::contiguous(exchange.at(me).cast(), bytes));
            }
        }
        schedule.await_all();
        schedule.compare(Rc::new(exchange));
        schedule
    }

    /// Where a member's record stands.
    fn at(&self, rank: usize) -> *mut u64 {
        self.records.wrapping_add(rank * self.words)
    }

    /// Compares what has arrived from all.
    ///
    /// # Safety
    /// The schedule of the exchange is alive, and the steps before this one are done.
    pub unsafe fn compare(&self, mut inspection: Inspection<'_>) {
        let records: Vec<Record> = (0..self.members.len())
            .map(|rank| {
                // SAFETY: our contract; each record has so many words.
                Record::from_words(unsafe { std::slice::from_raw_parts(self.at(rank), self.words) })
            })
            .collect();
        let Some((what, details)) = record::mismatch(&records) else { return };
        if self.me == 0 {
            let text = self.text(&inspection, what, &records, &details);
            inspection.find(Severity::Error, text);
        } else if check_mode::mode() == Mode::On {
            // The first member says it and ends the job; nothing wrong is done meanwhile.
            loop {
                std::thread::sleep(std::time::Duration::from_secs(1));
            }
        }
    }

    fn text(
        &self,
        inspection: &Inspection<'_>,
        what: &str,
        records: &[Record],
        details: &[String],
    ) -> String {
        let name = inspection.comm_name(self.comm);
        let mut text = format!("collective calls with {what} on {name}, its collective call {}", self.number);
        let calls: Vec<(usize, String)> =
            records.iter().enumerate().map(|(rank, record)| (rank, record.text())).collect();
        text += &line_up(&calls);
        for detail in details {
            text += &format!("\n    {detail}");
        }
        let is_world = self.members.iter().enumerate().all(|(rank, &world)| rank == world as usize);
        if self.is_inter {
            text += &format!("\n    (ranks of both groups, in the order of world ranks {:?})", self.members);
        } else if !is_world {
            text += &format!("\n    (world ranks of the members: {:?})", self.members);
        }
        text
    }
}

/// The schedule for work on a communicator, behind the exchange that compares it.
pub fn plan(
    mut inspection: Inspection<'_>,
    comm: MPI_Comm,
    place: &Place,
    work: &Work,
    function: &'static CStr,
) -> Schedule {
    if place.members().1 == 0
        && let Some(reduction) = record::reduction_of(work)
    {
        inspection.remark_on_reduction(&reduction.reducer);
    }
    inspection.check_aliasing(comm, work, function);
    let record = |speaker| Record::of(name_of(function), speaker, work);
    place.plan_behind(Exchange::begin(place.schedule(), comm, place, record), work)
}

/// The schedule that compares calls which make a communicator out of `comm`, and whether the call must not
/// wait for it.
pub fn creation(comm: MPI_Comm, place: &Place) -> (Schedule, bool) {
    let function = name_of(CALL.get());
    let record = |speaker| Record::of_creation(function, speaker);
    let schedule = Exchange::begin(place.schedule(), comm, place, record);
    (schedule, function.starts_with("MPI_Comm_idup"))
}

/// The function that this thread is in; a persistent operation is known by the call that made it.
pub fn current_function() -> &'static CStr {
    CALL.get()
}
