//! Arrays of jobs: one submission that starts the same program many times, each time with another number.
//!
//! ```text
//! --array 1-10:2,20%4     tasks 1 3 5 7 9 20, at most 4 of them at once
//! job 12                  stands for all of them: it has no ranks, and is over when all tasks are
//! 12_3                    task 3; a job with a number of its own, too
//! ```

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use tutti_sched::JobId;

/// Tasks of an array, at most.
pub const ARRAY_TASKS_MAX: usize = 1000;
/// The highest number of a task.
const TASK_MAX: u32 = 999_999_999;

/// Forms that are read, for the line about what cannot.
const EXPECTED: &str = "numbers and ranges with commas between them, such as 1-100, 0-9:3 or 1,5,7-9, and %N for \
                        at most N at once";

/// Tasks of an array.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Array {
    /// Numbers of the tasks, each once, in order.
    pub tasks: Vec<u32>,
    /// Tasks that run at once, at most; 0: all.
    pub at_once: u32,
}

/// One task of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArrayTask {
    /// The job that stands for the array.
    pub array: JobId,
    /// Number of the task in it.
    pub task: u32,
}

impl ArrayTask {
    /// Reads what is displayed, such as 12_3; none: it is no task.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (array, task) = text.split_once('_')?;
        Some(ArrayTask { array: JobId(array.parse().ok()?), task: task.parse().ok()? })
    }
}

impl std::fmt::Display for ArrayTask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}_{}", self.array, self.task)
    }
}

/// Part that a job has in an array.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum InArray {
    /// No array.
    #[default]
    None,
    /// The job that stands for all tasks, and has no ranks.
    Whole(Array),
    /// Task of an array.
    Task(ArrayTask),
}

impl InArray {
    /// Tasks of the array that the job stands for.
    #[must_use]
    pub fn whole(&self) -> Option<&Array> {
        if let InArray::Whole(array) = self { Some(array) } else { None }
    }

    /// Task of an array that the job is.
    #[must_use]
    pub fn task(&self) -> Option<ArrayTask> {
        if let InArray::Task(task) = self { Some(*task) } else { None }
    }
}

impl Array {
    /// Reads what `--array` takes.
    ///
    /// # Errors
    /// A text for the user: what is expected, or that there are too many tasks.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (list, at_once) = match text.split_once('%') {
            Some((list, at_once)) => (list, number(at_once).filter(|at_once| *at_once > 0).ok_or(EXPECTED)?),
            None => (text, 0),
        };
        let mut tasks = BTreeSet::new();
        for part in list.split(',') {
            let (range, step) =
                part.split_once(':').map_or((part, Some(1)), |(range, step)| (range, number(step)));
            let step = step.filter(|step| *step > 0).ok_or(EXPECTED)?;
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last) = (number(first).ok_or(EXPECTED)?, number(last).ok_or(EXPECTED)?);
            if first > last || part.contains(':') && !range.contains('-') {
                return Err(EXPECTED.into());
            }
            let count = u64::from((last - first) / step) + 1;
            if count > ARRAY_TASKS_MAX as u64 {
                return Err(too_many(count));
            }
            tasks.extend((first..=last).step_by(step as usize));
        }
        Array { tasks: tasks.into_iter().collect(), at_once }.checked()
    }

    /// The array as it may be asked for: each number once, in order, and not too many.
    ///
    /// # Errors
    /// A text for the user.
    pub fn checked(self) -> Result<Self, String> {
        let tasks: BTreeSet<u32> = self.tasks.into_iter().collect();
        if tasks.is_empty() || tasks.last().is_some_and(|last| *last > TASK_MAX) {
            return Err(EXPECTED.into());
        }
        if tasks.len() > ARRAY_TASKS_MAX {
            return Err(too_many(tasks.len() as u64));
        }
        Ok(Array { tasks: tasks.into_iter().collect(), at_once: self.at_once })
    }
}

impl Array {
    /// The number of the job that is a task of the array of job `whole`; none: it has no such task.
    #[must_use]
    pub fn job_of(&self, whole: JobId, task: u32) -> Option<JobId> {
        let place = self.tasks.binary_search(&task).ok()?;
        Some(JobId(whole.0 + 1 + place as u64))
    }
}

impl std::fmt::Display for Array {
    /// As `--array` takes it: `1-3,7%2`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for task in &self.tasks {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == *task => *last = *task,
                _ => ranges.push((*task, *task)),
            }
        }
        for (at, (first, last)) in ranges.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            let range = if first == last { first.to_string() } else { format!("{first}-{last}") };
            write!(f, "{comma}{range}")?;
        }
        if self.at_once > 0 { write!(f, "%{}", self.at_once) } else { Ok(()) }
    }
}

fn too_many(count: u64) -> String {
    format!("{count} tasks are more than the {ARRAY_TASKS_MAX} that an array may have")
}

fn number(text: &str) -> Option<u32> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten().filter(|number| *number <= TASK_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_numbers_ranges_steps_and_a_bound() {
        let of = |text: &str| Array::parse(text).map(|array| (array.tasks, array.at_once));
        assert_eq!(of("3"), Ok((vec![3], 0)));
        assert_eq!(of("0-4"), Ok((vec![0, 1, 2, 3, 4], 0)));
        assert_eq!(of("1-10:4%2"), Ok((vec![1, 5, 9], 2)));
        assert_eq!(of("7,1-3,2"), Ok((vec![1, 2, 3, 7], 0)));
        for wrong in
            ["", "x", "5-1", "1-", "-3", "1-5:0", "3:2", "1%0", "1%x", "%3", "1,,2", "1 2", "4294967296"]
        {
            assert_eq!(of(wrong), Err(EXPECTED.into()), "{wrong}");
        }
    }

    #[test]
    fn array_text_is_read_back() {
        let task = ArrayTask { array: JobId(12), task: 3 };
        assert_eq!(ArrayTask::parse(&task.to_string()), Some(task));
        assert_eq!(ArrayTask::parse("12"), None);
        for text in ["3", "0-4", "1,5,9%2", "1-3,7"] {
            assert_eq!(Array::parse(text).unwrap().to_string(), text);
        }
        let array = Array::parse("5,9,1").unwrap();
        assert_eq!(
            [1, 5, 9, 2].map(|task| array.job_of(JobId(12), task).map(|job| job.0)),
            [Some(13), Some(14), Some(15), None]
        );
    }

    /// Refusal comes before any memory is taken for the tasks.
    #[test]
    fn arrays_of_too_many_tasks_are_refused_in_one_line() {
        for (text, count) in [("1-1000000", 1_000_000), ("0-1000", 1001), ("0-999999999", 1_000_000_000)] {
            assert_eq!(Array::parse(text), Err(too_many(count)), "{text}");
        }
        let text = Array::parse("0-999,2000").unwrap_err();
        assert_eq!(text, "1001 tasks are more than the 1000 that an array may have");
        assert_eq!(Array::parse("0-999").unwrap().tasks.len(), ARRAY_TASKS_MAX);
    }
}
