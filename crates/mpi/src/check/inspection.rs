//! The process as the checker sees it: everything that a finding may name, of which it changes nothing but
//! what is its own.

use core::ffi::CStr;
use std::fmt::Write;

use tutti_runtime::log;

use super::state::Check;
use super::{FINDINGS_MAX, STATUS, Severity, function, name_of};
use crate::abi::*;
use crate::check_mode::{self, Mode};
use crate::collective::op::Reducer;
use crate::collective::state::Collectives;
use crate::comm::Comms;
use crate::datatype::Types;
use crate::end_job::{By, end_job};
use crate::engine::Engine;
use crate::request::Suspect;

/// State that the checker looks at in a call.
#[derive(Debug)]
pub struct Inspection<'a> {
    /// Knowledge of the checker; none when the program is not checked.
    pub(crate) check: Option<&'a mut Check>,
    pub(crate) engine: &'a Engine,
    pub(crate) comms: &'a Comms,
    pub(crate) types: &'a Types,
    pub(crate) colls: &'a Collectives,
}

/// A call that the checker may look at.
pub trait Inspect {
    /// The process as the checker sees it.
    fn inspect(&mut self) -> Inspection<'_>;
}

impl Inspection<'_> {
    /// Says a finding as one block and ends the job, if errors end it. The first line of `text` says what it
    /// is.
    pub(super) fn find(&mut self, severity: Severity, mut text: String) {
        let ends = severity == Severity::Error && check_mode::mode() == Mode::On;
        let said = self.check.as_deref_mut().map(|check| {
            let is_new = check.said.insert(text.clone());
            (is_new, check.said.len())
        });
        match said {
            Some((true, count)) if count <= FINDINGS_MAX => {
                if ends {
                    text += "\n    the job is ended; TUTTI_CHECK=warn would only say this";
                } else if count == FINDINGS_MAX {
                    text += "\n    this rank has found much and says no more";
                }
                log::line(format_args!("check: {text}"));
            }
            _ => {}
        }
        if ends {
            end_job(By::Error, STATUS);
        }
    }

    /// Says that an error was raised where MPI-3.1 has it.
    pub fn remark_on_handler(&mut self, function: &CStr) {
        let rank = self.engine.world_rank();
        let text = format!(
            "rank {rank}: the handler of MPI_COMM_WORLD has an error of {}, which names no object; since MPI-4.0 that is \
             MPI_COMM_SELF's, and not every library asks both",
            function.to_string_lossy()
        );
        self.find(Severity::Remark, text);
    }

    /// The name of a communicator for the user.
    pub(super) fn comm_name(&self, handle: MPI_Comm) -> String {
        let Ok(comm) = self.comms.find(handle) else { return "no communicator".into() };
        if !comm.name.is_empty() {
            return String::from_utf8_lossy(&comm.name).into_owned();
        }
        let mut text = format!("a communicator of {} ranks", comm.peers().size());
        let maker = self.comms.made().index(handle.0).and_then(|index| self.maker_of_comm(handle, index));
        if let Some(maker) = maker {
            let _ = write!(text, " (made by {})", name_of(maker));
        }
        text
    }

    fn maker_of_comm(&self, handle: MPI_Comm, index: u32) -> Option<&'static CStr> {
        self.check.as_deref()?.kept[1].maker(handle.0, index)
    }

    /// The communicator that has a context, as a name.
    pub(super) fn context_name(&self, context: u32) -> String {
        self.comms
            .of_context(context)
            .map_or_else(|| "a communicator that is freed".into(), |comm| self.comm_name(comm))
    }

    /// The rank in a context's communicator that a world rank has there, as text.
    pub(super) fn rank_name(&self, context: u32, world: u32) -> String {
        let comm = self.comms.of_context(context).and_then(|handle| self.comms.find(handle).ok());
        match comm.and_then(|comm| comm.peers().rank_of(world)) {
            Some(rank) if rank == world => format!("rank {rank}"),
            Some(rank) => format!("rank {rank} (world rank {world})"),
            None => format!("world rank {world}"),
        }
    }

    /// Says that the message of a receive has another type signature.
    #[cold]
    pub fn say_suspect(&mut self, index: u32, suspect: Suspect) {
        let request = self.engine.requests.get(index);
        let (context, from, tag) = (request.context, request.peer, request.tag);
        let (wanted, handle) = (request.buffer.describe(), self.engine.requests.handle(index));
        let maker = self.check.as_deref().and_then(|check| check.kept[0].maker(handle, index));
        let by = match maker.map(name_of) {
            Some(maker) if maker != function() => format!("{maker} (completed by {})", function()),
            _ => function().into(),
        };
        let text = format!(
            "type signatures do not match on {}\n    {} sent {} with tag {tag}\n    rank {} receives it as {wanted} in {by}",
            self.context_name(context),
            self.rank_name(context, from as u32),
            suspect.word.describe(suspect.bytes),
            self.rank_here(context),
        );
        self.find(Severity::Error, text);
    }

    /// Rank of this process in the communicator of a context.
    pub(super) fn rank_here(&self, context: u32) -> usize {
        let comm = self.comms.of_context(context).and_then(|handle| self.comms.find(handle).ok());
        comm.map_or(self.engine.job.rank(), |comm| comm.rank)
    }

    /// Says which hints for a file are ignored, when the program is being checked.
    pub fn say_wrong_hints(&mut self, wrong: &[String]) {
        if check_mode::is_on() && !wrong.is_empty() {
            let wrong = wrong.join(", ");
            let text = format!("a hint for a file is ignored: {wrong}, which is no value of it");
            self.find(Severity::Remark, text);
        }
    }

    /// Says when a reduction works here and in other libraries, but need not work everywhere.
    pub fn remark_on_reduction(&mut self, reducer: &Reducer) {
        let Some((operation, handle)) = reducer.beyond_standard() else { return };
        let datatype = self.types.find(handle).map_or_else(|_| "?".into(), |found| found.name.clone());
        let datatype = String::from_utf8_lossy(&datatype).into_owned();
        let text = format!("{operation} on {datatype} is beyond the MPI standard; not every library has it");
        self.find(Severity::Remark, text);
    }
}
