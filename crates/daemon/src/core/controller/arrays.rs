//! Arrays (`tutti submit --array`): one submission, many tasks, each a job with a number of its own.
//!
//! ```text
//! job 12, the whole: no ranks, behind all its tasks as behind `--after`   over when all tasks are
//! jobs 13, 14, ...: its tasks 12_1, 12_2, ...                             as any job that waits
//!
//! submitted -> a file of each task, then that of the whole -> the user has its number; tasks start
//! ```
//!
//! The whole keeps how its tasks have ended as a job does that waits for others ([`super::dependencies`]): a
//! new controller has it from its file or from the nodes, and no task is forgotten before it is in the file.
//! Its file is written last, and goes last. So a controller that finds tasks without it has found a
//! submission that nobody was notified of, which is asked for again: it removes them.
//!
//! What is done to the whole is done to its tasks that are not over.

use std::collections::BTreeSet;

use tutti_protocol::array::{Array, ArrayTask, InArray};
use tutti_protocol::output::{expand, name_task};
use tutti_protocol::variables;
use tutti_protocol::wire::Text;
use tutti_sched::Demand;

use super::Controller;
use super::answers::Requester;
use super::filings::Filing;
use super::job::mixed;
use super::jobs::Jobs;
use super::waits::Waits;
use crate::core::action::Action;
use crate::core::context::Context;
use crate::core::outbox::Outbox;
use crate::core::record::Queued;
use crate::message::{After, Batch, JobId, Launch, Submit};

impl Jobs {
    /// Tasks of an array that are not over.
    pub(super) fn tasks_of(&self, array: JobId) -> Vec<JobId> {
        let Some(whole) = self.get(array) else { return Vec::new() };
        let is_open = |id: &JobId| self.get(*id).is_some_and(|job| !job.is_over());
        whole.named_before().filter(|_| whole.is_array()).filter(is_open).collect()
    }

    /// As many tasks of the array have nodes, or are about to, as may at once.
    fn is_array_full(&self, array: JobId) -> bool {
        let at_once =
            self.get(array).and_then(|whole| whole.launch.batch.array()).map_or(0, |array| array.at_once);
        let has_nodes = |id: &JobId| {
            let job = self.get(*id).filter(|job| !job.is_over());
            job.is_some_and(|job| job.queued.as_ref().is_none_or(|queued| queued.is_submitted()))
        };
        at_once > 0 && self.tasks_of(array).iter().filter(|id| has_nodes(id)).count() >= at_once as usize
    }
}

impl Controller {
    /// A new array: its tasks want nodes. Its user, `requester`, gets the number of the whole when the files
    /// of all are written.
    pub(super) fn queue_array(
        &mut self,
        cx: Context<'_>,
        (number, launch, array): (JobId, Launch, Array),
        demand: Demand,
        requester: Requester,
    ) {
        // Those of its tasks follow.
        let whole = number.max(self.jobs.next_id());
        let numbered = (whole.0 + 1..).map(JobId).zip(array.tasks.iter().copied());
        let tasks: Vec<(JobId, u32)> = numbered.collect();
        for (id, task) in &tasks {
            let of_task = task_of(&launch, &array, whole, (*id, *task));
            self.log_submission(cx, *id, &of_task);
            self.queue(cx, *id, of_task, demand.clone(), Filing::Task(whole));
        }
        let after = tasks.iter().map(|(id, _)| After { job: *id, ok: false, not_ok: false }).collect();
        let batch = Batch { after, name: launch.batch.name.clone(), ..Batch::default() };
        let mut launch = Launch { batch, output: None, ..launch };
        launch.batch.set_array(InArray::Whole(array));
        self.log_submission(cx, whole, &launch);
        self.queue(cx, whole, launch, demand, Filing::New(requester));
    }

    /// The file of an array is there, or cannot be, or that of one of its tasks cannot.
    pub(super) fn begin_array(&mut self, cx: Context<'_>, whole: JobId, filed: &Result<(), String>) {
        let tasks = self.jobs.tasks_of(whole);
        for id in tasks {
            if filed.is_err() {
                self.jobs.remove(id);
                cx.out.act(Action::Queue(id, None));
            } else {
                self.jobs.pending.insert(id);
                self.try_to_schedule(cx, id);
            }
        }
    }

    /// Tasks of an array are over, perhaps hundreds at once: its file is written once for all that have ended
    /// while it was written before.
    pub(super) fn file_outcomes(&mut self, out: &Outbox, array: JobId) {
        if self.filings.has_outcomes(array) {
            return;
        }
        let queued = self.jobs.get(array).and_then(|job| job.queued.as_ref());
        let new = queued.map(Waits::unfiled).unwrap_or_default();
        if !new.is_empty() {
            self.file(out, array, Filing::Outcomes(new));
        }
    }

    /// The file of an array says that these tasks are over.
    pub(super) fn record_outcomes(&mut self, out: &Outbox, array: JobId, over: &[JobId]) {
        over.iter().for_each(|task| self.jobs.record_filed(array, *task));
        self.file_outcomes(out, array);
    }
}

/// Arrays that have as many tasks at once as they may, while waiting jobs are looked at one after the other.
#[derive(Debug, Default)]
pub(super) struct FullArrays(BTreeSet<JobId>);

impl FullArrays {
    /// Why a task of an array has to wait for others of it.
    pub(super) fn why_waits(&mut self, jobs: &Jobs, id: JobId) -> Option<String> {
        let array = jobs.get(id)?.array_id()?;
        if !self.0.contains(&array) && !jobs.is_array_full(array) {
            return None;
        }
        self.0.insert(array);
        let at_once = jobs.get(array)?.launch.batch.array()?.at_once;
        Some(format!("{at_once} tasks of its array have nodes, which are as many as may at once"))
    }
}

/// The array that a user asks for.
///
/// # Errors
/// When it could not be: a text for the user.
pub(super) fn asked(submit: &mut Submit, is_detached: bool) -> Result<Option<Array>, String> {
    let Some(array) = submit.batch.array().cloned() else {
        // Which job is a task the controller alone says.
        submit.batch.set_array(InArray::None);
        return Ok(None);
    };
    if !is_detached {
        return Err("--array is for tutti submit".into());
    }
    array.checked().map(Some).map_err(|text| format!("--array: {text}"))
}

/// One task of the array that is submitted as `launch`.
pub(super) fn task_of(launch: &Launch, array: &Array, whole: JobId, (id, task): (JobId, u32)) -> Launch {
    let mut launch = launch.clone();
    launch.batch.set_array(InArray::Task(ArrayTask { array: whole, task }));
    (launch.key, launch.job.id) = (mixed(launch.key, id.0), mixed(launch.job.id, id.0));
    // The submission itself has the number of the whole for an answer.
    launch.request_id = mixed(launch.request_id, id.0) | 1 << 63;
    let (count, first, last) = (array.tasks.len(), array.tasks.first(), array.tasks.last());
    let variables = [
        (variables::ARRAY_ID, whole.to_string()),
        (variables::ARRAY_TASK, task.to_string()),
        (variables::ARRAY_COUNT, count.to_string()),
        (variables::ARRAY_MIN, first.copied().unwrap_or_default().to_string()),
        (variables::ARRAY_MAX, last.copied().unwrap_or_default().to_string()),
    ];
    for program in &mut launch.job.programs {
        let pair = |(name, value): &(&str, String)| (Text::from(*name), Text::from(value.as_str()));
        program.variables.extend(variables.iter().map(pair));
    }
    if let Some(output) = &mut launch.output {
        // A file that tasks share is emptied by none of them.
        output.append |= output.out.iter().chain(&output.errors).any(|name| !is_of_a_task(name));
        for name in [&mut output.out, &mut output.errors].into_iter().flatten() {
            *name = name_task(name, whole, task);
        }
    }
    launch
}

/// Each task has its own file of this name.
fn is_of_a_task(name: &Text) -> bool {
    let of = |id: u64| expand(name_task(name, JobId(0), id as u32).as_bytes(), JobId(id), None);
    of(0) != of(1)
}

/// Jobs that waited without those tasks of arrays whose submission nobody was notified of; those go.
pub(super) fn without_unfinished(out: &Outbox, queued: Vec<(JobId, Queued)>) -> Vec<(JobId, Queued)> {
    let is_whole = |(id, queued): &(JobId, Queued)| queued.launch.batch.array().map(|_| *id);
    let wholes: BTreeSet<JobId> = queued.iter().filter_map(is_whole).collect();
    let is_finished = |(_, queued): &(JobId, Queued)| {
        queued.launch.batch.array_task().is_none_or(|task| wholes.contains(&task.array))
    };
    let (kept, unfinished): (Vec<_>, Vec<_>) = queued.into_iter().partition(is_finished);
    unfinished.into_iter().for_each(|(id, _)| out.act(Action::Queue(id, None)));
    kept
}
