//! Where the output of a submitted job goes: files whose names are patterns.
//!
//! | in a name | is |
//! |---|---|
//! | `%j` | the job's number |
//! | `%A` | of a task of an array: the number of the array's job; [`name_task`] |
//! | `%a` | of a task of an array: the task's number in it; [`name_task`] |
//! | `%r` | the rank: one file for each |
//! | `%N` | the name of the rank's node: one file for each |
//! | `%%` | a percent sign |

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use serde::{Deserialize, Serialize};
use tutti_sched::JobId;

use crate::wire::Text;

/// Files for the output of a job, as its user names them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    /// For stdout; none: the last MiB is kept, as that of any job, and nothing else.
    pub out: Option<Text>,
    /// The same for stderr. It may be the same file.
    pub errors: Option<Text>,
    /// Whether what is in the files stays, and the job's output comes behind it.
    pub append: bool,
}

impl Output {
    /// Bytes of its names.
    #[must_use]
    pub fn bytes(&self) -> usize {
        [&self.out, &self.errors].into_iter().flatten().map(|name| name.as_bytes().len()).sum()
    }
}

/// Plan for the output files of a job, for the node that writes them: the one where it was submitted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputPlan {
    /// The files.
    pub output: Output,
    /// The folder in which relative names are.
    pub directory: Text,
    /// The job's file mode creation mask.
    pub umask: u32,
    /// The user's other groups.
    pub groups: Vec<u32>,
    /// World rank of each node's first rank.
    pub first_ranks: Vec<u32>,
    /// Ranks of the job.
    pub ranks: u32,
    /// The question that submitted the job: other clusters' jobs may have had its number.
    pub request_id: u64,
    /// Set for a job that takes the place of another one, and for a task of an array: this node was not asked
    /// for it, and knows nothing of its files.
    #[serde(default)]
    pub begins_anew: bool,
}

/// State of the files, for the controller.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputState {
    /// Number of the first file in its file system; none: it is not open yet.
    pub inode: Option<u64>,
    /// Bytes that the ranks wrote and no file has.
    pub lost_bytes: u64,
    /// Why.
    pub trouble: Option<String>,
    /// The files cannot be written at all: the job is ended, and this is why.
    pub refused: Option<String>,
}

/// Replaces the patterns in a name; those without a value stay.
pub fn expand(pattern: &[u8], job: JobId, rank: Option<(u32, &str)>) -> Vec<u8> {
    let mut name = Vec::new();
    let mut rest = pattern;
    while let [byte, behind @ ..] = rest {
        let put = match (byte, behind.first(), rank) {
            (b'%', Some(b'j'), _) => Some(job.to_string()),
            (b'%', Some(b'r'), Some((rank, _))) => Some(rank.to_string()),
            (b'%', Some(b'N'), Some((_, node))) => Some(node.to_owned()),
            (b'%', Some(b'%'), Some(_)) => Some("%".to_owned()),
            // It stays what it is when it is looked at again.
            (b'%', Some(b'%'), None) => Some("%%".to_owned()),
            _ => None,
        };
        match put {
            Some(text) => {
                name.extend_from_slice(text.as_bytes());
                rest = &behind[1..];
            }
            None => {
                name.push(*byte);
                rest = behind;
            }
        }
    }
    name
}

/// Puts the numbers of a task of an array into a name; the other patterns stay.
#[must_use]
pub fn name_task(pattern: &Text, array: JobId, task: u32) -> Text {
    let mut name = Vec::new();
    let mut rest = pattern.as_bytes();
    while let [byte, behind @ ..] = rest {
        let (put, taken) = match (byte, behind.first()) {
            (b'%', Some(b'A')) => (array.to_string().into_bytes(), 2),
            (b'%', Some(b'a')) => (task.to_string().into_bytes(), 2),
            (b'%', Some(b'%')) => (b"%%".to_vec(), 2),
            _ => (vec![*byte], 1),
        };
        name.extend_from_slice(&put);
        rest = &rest[taken..];
    }
    Text::from(OsString::from_vec(name))
}

/// Puts the number of a job into a name for good; the other patterns stay.
#[must_use]
pub fn name_job(pattern: &Text, job: JobId) -> Text {
    Text::from(OsString::from_vec(expand(pattern.as_bytes(), job, None)))
}

/// Whether each task of an array has its own.
#[must_use]
pub fn is_of_tasks(pattern: &[u8]) -> bool {
    let pattern = Text::from(OsString::from_vec(pattern.to_vec()));
    name_task(&pattern, JobId(0), 0) != pattern
}

/// Each rank has its own, or each node.
pub fn is_of_ranks(pattern: &[u8]) -> bool {
    let mut rest = pattern;
    while let [byte, behind @ ..] = rest {
        match (byte, behind.first()) {
            (b'%', Some(b'r' | b'N')) => return true,
            (b'%', Some(b'%')) => rest = &behind[1..],
            _ => rest = behind,
        }
    }
    false
}

impl Output {
    /// The patterns in their folder with the job's number in them, each once, for people.
    pub fn shown(&self, job: JobId, directory: &Text) -> Vec<String> {
        let folder = OsString::from(directory);
        let mut names: Vec<String> = Vec::new();
        for pattern in self.out.iter().chain(&self.errors) {
            let name = expand(pattern.as_bytes(), job, None);
            // A percent sign in the folder's own name is no pattern.
            let folder = folder.to_string_lossy().replace('%', "%%");
            let path = Path::new(&folder).join(OsString::from_vec(name));
            let path = path.to_string_lossy().into_owned();
            if !names.contains(&path) {
                names.push(path);
            }
        }
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_names_hold_job_rank_and_node() {
        let whole = |pattern: &str| {
            String::from_utf8(expand(pattern.as_bytes(), JobId(12), Some((3, "node1")))).expect("text")
        };
        for (pattern, expected) in [
            ("tutti-%j.out", "tutti-12.out"),
            ("%j.%r.%N", "12.3.node1"),
            ("100%%", "100%"),
            ("%%j", "%j"),
            ("a%", "a%"),
            ("%x", "%x"),
        ] {
            assert_eq!(whole(pattern), expected);
        }
        assert_eq!(expand(b"%j.%r%%%N", JobId(12), None), b"12.%r%%%N");
    }

    #[test]
    fn output_names_of_tasks_hold_array_and_task() {
        for (pattern, expected) in
            [("tutti-%A_%a.out", "tutti-12_3.out"), ("%j.%r%%A", "%j.%r%%A"), ("%", "%"), ("%%%a", "%%3")]
        {
            assert_eq!(name_task(&pattern.into(), JobId(12), 3), expected.into(), "{pattern}");
        }
    }

    #[test]
    fn output_of_ranks_is_known_by_its_pattern() {
        for (pattern, expected) in [("%r", true), ("a%N", true), ("%%r", false), ("%j", false), ("%", false)]
        {
            assert_eq!(is_of_ranks(pattern.as_bytes()), expected, "{pattern}");
        }
    }

    #[test]
    fn output_is_shown_in_its_folder_and_once() {
        let same = || Some("tutti-%j.out".into());
        let output = Output { out: same(), errors: same(), append: false };
        assert_eq!(output.shown(JobId(7), &"/home/a".into()), ["/home/a/tutti-7.out"]);
        let output = Output { out: Some("/x/%r".into()), errors: Some("e".into()), append: false };
        assert_eq!(output.shown(JobId(7), &"/a%b".into()), ["/x/%r", "/a%%b/e"]);
    }
}
