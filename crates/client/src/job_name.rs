//! Jobs as users name them: by number, or by array and task.

use std::str::FromStr;

use tutti_protocol::array::Array;

use crate::requests::{Answer, JobId, Request, request};

/// A job as a user names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobName {
    /// `17`: a job, or all tasks of an array.
    Number(u64),
    /// `12_3`: a task of an array.
    Task(u64, u32),
}

impl std::fmt::Display for JobName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            JobName::Number(number) => write!(f, "{number}"),
            JobName::Task(array, task) => write!(f, "{array}_{task}"),
        }
    }
}

impl FromStr for JobName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || "a number is expected, or that of a task such as 12_3".to_owned();
        let Some((array, task)) = text.split_once('_') else {
            return text.parse().map(JobName::Number).map_err(|_| expected());
        };
        let task = array.parse().ok().zip(task.parse().ok());
        task.map(|(array, task)| JobName::Task(array, task)).ok_or_else(expected)
    }
}

impl JobName {
    /// Names of several tasks: `12_[1-3,7]`; none: the text is no such list.
    ///
    /// # Errors
    /// When it is one and is wrong; a text for the user.
    pub fn tasks(text: &str) -> Option<Result<Vec<JobName>, String>> {
        let (array, list) = text.strip_suffix(']')?.split_once("_[")?;
        let array: u64 = array.parse().ok()?;
        let tasks = Array::parse(list).map(|list| list.tasks);
        Some(tasks.map(|tasks| tasks.into_iter().map(|task| JobName::Task(array, task)).collect()))
    }

    /// The job's own number. That of a task the daemon says.
    ///
    /// # Errors
    /// When there is no daemon, or no such task; a text for the user.
    pub fn resolve(self) -> Result<JobId, String> {
        let (array, task) = match self {
            JobName::Number(number) => return Ok(JobId(number)),
            JobName::Task(array, task) => (array, task),
        };
        let Answer::Jobs(rows) = request(&Request::Job(JobId(array)))?.0 else {
            return Err("the daemon is of another version".into());
        };
        let whole = rows.first().and_then(|row| row.array()).ok_or(format!("job {array} is no array"))?;
        whole
            .job_of(JobId(array), task)
            .ok_or_else(|| format!("job {array} has no task {task}: it has {whole}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_names_are_numbers_and_tasks() {
        assert_eq!("17".parse(), Ok(JobName::Number(17)));
        assert_eq!("12_3".parse(), Ok(JobName::Task(12, 3)));
        for wrong in ["", "x", "_3", "12_", "12_x", "-1", "12_3_4"] {
            assert!(wrong.parse::<JobName>().is_err(), "{wrong}");
        }
        let of = |text: &str| JobName::tasks(text).map(|names| names.map(|names| names.len()));
        assert_eq!((of("12"), of("12_3"), of("x_[3]")), (None, None, None));
        assert_eq!(of("12_[1-3,7]"), Some(Ok(4)));
        assert!(of("12_[7-1]").is_some_and(|names| names.is_err()));
    }
}
