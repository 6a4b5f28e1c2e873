//! Notes that the stand-ins keep with a job: what was asked for, in Slurm's terms, where Tutti has no word of
//! its own for it. The controller holds it as the job's note and gives it back with the job; inside of the
//! job it is the variable [`MARK`], by which `mpiexec` knows that the Slurm around it is none.

use serde::{Deserialize, Serialize};
use tutti_protocol::batch::NOTE_BYTES_MAX;

use crate::wanted::gpus::Gpus;

pub use tutti_protocol::variables::SLURM as MARK;

pub mod inside;

/// A job, as its user asked for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Note {
    /// Size.
    #[serde(flatten)]
    pub size: Size,
    /// Where it comes from.
    #[serde(flatten)]
    pub source: Origin,
    /// The array of which it is an element.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub array: Option<Shape>,
    /// Text of `--dependency`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub dependency: String,
    /// A remark of the user's.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub comment: String,
    /// The account that was named.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub account: String,
    /// A signal before its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<Warning>,
    /// Whether it is never to be requeued (`--no-requeue`).
    #[serde(skip_serializing_if = "is_false")]
    pub once: bool,
}

/// A signal that a job gets before its time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// Number.
    pub signal: u32,
    /// Time after the job's begin, in ms.
    pub after_ms: u64,
    /// Whether the script gets it; else its steps do.
    pub to_script: bool,
}

/// Tasks, nodes, cores and memory of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Size {
    /// Tasks, if they were named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tasks: Option<u32>,
    /// Tasks on each node, if they were named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_node: Option<u32>,
    /// Cores of a task, if they were named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cores: Option<u32>,
    /// Nodes.
    pub nodes: u32,
    /// Memory of a node or of a core in MiB, if it was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<u64>,
    /// Whether the memory is that of a core.
    #[serde(skip_serializing_if = "is_false")]
    pub memory_per_core: bool,
    /// GPUs, as they were asked for.
    #[serde(skip_serializing_if = "Gpus::is_nothing")]
    pub gpus: Gpus,
}

/// Script, folders and host of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Origin {
    /// The script's file; empty: none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub script: String,
    /// The folder in which it runs.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub folder: String,
    /// The folder of submission.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub submit_folder: String,
    /// The host of submission.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub submit_host: String,
    /// Arguments of the script, with blanks between.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub arguments: String,
    /// Nodes that were named, as a list.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub named_nodes: String,
    /// Nodes that were excluded, as a list.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub excluded_nodes: String,
    /// Value of `--nice`.
    #[serde(skip_serializing_if = "is_zero")]
    pub nice: i64,
}

/// Shape of an array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// Elements of the array.
    pub count: u32,
    /// The smallest index.
    pub min: u32,
    /// The largest index.
    pub max: u32,
    /// From one index to the next.
    pub step: u32,
    /// Number that runs at once; 0: all.
    pub at_once: u32,
}

/// An element of an array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Element {
    /// The array's number.
    pub job: u64,
    /// Index.
    pub task: u32,
    /// Shape of its array, as far as it was said.
    pub shape: Shape,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's form")]
fn is_false(value: &bool) -> bool {
    !value
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's form")]
fn is_zero(value: &i64) -> bool {
    *value == 0
}

impl Note {
    /// The text that is kept.
    ///
    /// # Errors
    /// When it is too long; a text for the user.
    pub fn text(&self) -> Result<String, String> {
        let text = serde_json::to_string(self).expect("it is serialisable");
        if text.len() > NOTE_BYTES_MAX {
            return Err(format!(
                "the names of script and folders and the comment take {} bytes, {NOTE_BYTES_MAX} at most are kept",
                text.len()
            ));
        }
        Ok(text)
    }

    /// Whether `scontrol requeue` may have it begin anew.
    #[must_use]
    pub fn may_requeue(&self) -> bool {
        !self.once
    }

    /// Folder in which it runs; empty: none.
    #[must_use]
    pub fn folder(&self) -> &str {
        &self.source.folder
    }

    /// Remark of its user; empty: none.
    #[must_use]
    pub fn comment(&self) -> &str {
        &self.comment
    }

    /// Account that was named; empty: none.
    #[must_use]
    pub fn account(&self) -> &str {
        &self.account
    }

    /// File of its script; empty: none.
    #[must_use]
    pub fn script(&self) -> &str {
        &self.source.script
    }

    /// File of its script and the script's arguments; empty: none.
    #[must_use]
    pub fn command(&self) -> String {
        match self.source.arguments.as_str() {
            "" => self.source.script.clone(),
            arguments => format!("{} {arguments}", self.source.script),
        }
    }

    /// Host of submission; empty: none.
    #[must_use]
    pub fn submit_host(&self) -> &str {
        &self.source.submit_host
    }

    /// Dependency that was asked for; empty: none.
    #[must_use]
    pub fn dependency(&self) -> &str {
        &self.dependency
    }

    /// Dependency as lists show it while it is not met: each job with its condition.
    #[must_use]
    pub fn open_dependency(&self) -> String {
        let parts = self.dependency.split(',').flat_map(|part| match part.split_once(':') {
            Some((condition, jobs)) => {
                jobs.split(':').map(|job| format!("{condition}:{job}(unfulfilled)")).collect()
            }
            None => vec![format!("{part}(unfulfilled)")],
        });
        parts.collect::<Vec<_>>().join(",")
    }

    /// A note of the stand-ins'; none: the job is not theirs.
    #[must_use]
    pub fn of(text: &str) -> Option<Note> {
        serde_json::from_str(text).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependency_is_shown_with_a_condition_for_each_job() {
        let of = |text: &str| Note { dependency: text.into(), ..Note::default() }.open_dependency();
        assert_eq!(
            of("afterok:1:2,singleton"),
            "afterok:1(unfulfilled),afterok:2(unfulfilled),singleton(unfulfilled)"
        );
    }

    #[test]
    fn note_is_read_as_it_was_written() {
        let shape = Shape { count: 4, min: 0, max: 3, step: 1, at_once: 2 };
        let note = Note { array: Some(shape), comment: "a\"b".into(), ..Note::default() };
        assert_eq!(Note::of(&note.text().unwrap()), Some(note.clone()));
        assert_eq!(Note::of(""), None);
        let long = Note { comment: "x".repeat(NOTE_BYTES_MAX), ..note };
        assert!(long.text().unwrap_err().contains("bytes"));
    }
}
