//! Selections of jobs by what is kept with them: account, QOS, reservation and the like. What no job has here
//! selects none: an option that were ignored would have `scancel` end jobs that nobody meant.

use crate::names::CLUSTER;
use crate::view::Job;

/// QOS of every job.
pub const QOS: &str = "normal";

/// A selection; without options it is of all jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    accounts: Option<Vec<String>>,
    nodes: Option<Vec<String>>,
    reservations: Option<Vec<String>>,
    /// Set once something was named that no job has.
    is_empty: bool,
    is_given: bool,
}

impl Selection {
    /// Takes an option; false: it is none that selects.
    pub fn take(&mut self, name: &str, value: &str) -> bool {
        let names = || value.split(',').map(|name| name.trim().to_owned()).collect::<Vec<_>>();
        let has = |known: &str| names().iter().any(|name| name == known);
        match name {
            "account" | "accounts" => self.accounts = Some(names()),
            "qos" => self.is_empty |= !has(QOS),
            "partition" => self.is_empty |= !has(CLUSTER),
            "reservation" => self.reservations = Some(names()),
            "licenses" | "wckey" | "sibling" => self.is_empty = true,
            _ => return false,
        }
        self.is_given = true;
        true
    }

    /// Nodes of which a job must have one.
    pub fn set_nodes(&mut self, nodes: Vec<String>) {
        (self.nodes, self.is_given) = (Some(nodes), true);
    }

    /// Nodes of which a job must have one, if some were named.
    #[must_use]
    pub fn nodes(&self) -> Option<&[String]> {
        self.nodes.as_deref()
    }

    /// Whether an option has selected.
    #[must_use]
    pub fn is_given(&self) -> bool {
        self.is_given
    }

    /// Whether a job is in it.
    #[must_use]
    pub fn has(&self, job: &Job) -> bool {
        let account = || Some(job.asked.account()).filter(|account| !account.is_empty()).unwrap_or("(null)");
        let has_node = |nodes: &Vec<String>| job.row.nodes.iter().any(|node| nodes.contains(node));
        !self.is_empty
            && self.nodes.as_ref().is_none_or(has_node)
            && self
                .reservations
                .as_ref()
                .is_none_or(|names| names.iter().any(|name| name == job.row.reservation()))
            && self.accounts.as_ref().is_none_or(|accounts| accounts.iter().any(|one| one == account()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::note::Note;
    use crate::view::tests;

    #[test]
    fn selection_has_no_job_that_was_not_meant() {
        let note = Note { account: "proj".into(), ..Note::default() };
        let job = Job::of(tests::job(7, json!({"kept_note": note.text().unwrap()})).row);
        for (name, value, is_in) in [
            ("account", "proj", true),
            ("account", "other,proj", true),
            ("account", "other", false),
            ("qos", "normal", true),
            ("qos", "high", false),
            ("partition", "tutti", true),
            ("partition", "other", false),
            ("reservation", "r", false),
            ("wckey", "k", false),
        ] {
            let mut selection = Selection::default();
            assert!(selection.take(name, value) && selection.is_given(), "{name}");
            assert_eq!(selection.has(&job), is_in, "--{name}={value}");
        }
        let mut selection = Selection::default();
        assert!(!selection.take("format", "x") && !selection.is_given() && selection.has(&job));
        selection.set_nodes(vec!["n1".into()]);
        assert!(selection.has(&job));
        selection.set_nodes(vec!["n2".into()]);
        assert!(!selection.has(&job));
    }
}
