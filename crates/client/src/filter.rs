//! Which jobs a command is about, by user, state and name.

use tutti_os::stderr::escape_control;

use tutti_protocol::users::JobState;
use tutti_protocol::users::watch::{Part, SELECTED_MAX, Selection};

use crate::{states, users};

/// States of jobs that are not over.
const STATES: [JobState; 5] =
    [JobState::Waiting, JobState::Starting, JobState::Running, JobState::Suspended, JobState::Ending];

/// Which jobs are listed.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Of these users, by name or number; empty: of all.
    pub user: Vec<String>,
    /// In these states; empty: in any.
    pub state: Vec<String>,
    /// With these names; empty: with any.
    pub name: Vec<String>,
}

impl Filter {
    /// No name of a user is misspelt.
    ///
    /// # Errors
    /// A text for the user.
    pub fn check(&self) -> Result<(), String> {
        let is_known = |user: &&String| user.parse::<u32>().is_ok() || users::is_known("passwd", user);
        match self.user.iter().find(|user| !is_known(user)) {
            Some(user) => Err(format!("there is no user {}", escape_control(user))),
            None => Ok(()),
        }
    }

    /// Jobs that a daemon is asked for: no fewer than the filter takes.
    #[must_use]
    pub fn selection(&self) -> Selection {
        let numbers: Option<Vec<u32>> = self.user.iter().map(|user| users::number(user)).collect();
        let state = |word: &String| match word.as_str() {
            "deadlock" => Some(JobState::Running),
            word => STATES.into_iter().find(|state| states::word(*state) == word),
        };
        let of_states: Option<Vec<JobState>> = self.state.iter().map(state).collect();
        Selection {
            parts: vec![Part::Jobs],
            // What is too long, or not understood, is looked for here.
            uids: numbers.filter(|numbers| numbers.len() <= SELECTED_MAX).unwrap_or_default(),
            states: of_states.unwrap_or_default(),
            names: if self.name.len() <= SELECTED_MAX { self.name.clone() } else { Vec::new() },
        }
    }

    /// Whether a job in such a state, with such a name, of that user is listed.
    pub fn takes(&self, state: &str, name: &str, uid: u32) -> bool {
        let one_of = |wanted: &[String], is_it: &dyn Fn(&str) -> bool| {
            wanted.is_empty() || wanted.iter().any(|wanted| is_it(wanted))
        };
        // A user without a name, or with one that looks like a number, is shown by the number.
        one_of(&self.state, &|wanted| wanted == state)
            && one_of(&self.name, &|wanted| wanted == name)
            && one_of(&self.user, &|user| user.parse() == Ok(uid) || user == users::name(uid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filter_asks_for_no_fewer_jobs_than_it_takes() {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let filter = Filter {
            user: words(&["root", "7"]),
            state: words(&["deadlock", "waiting"]),
            name: words(&["a"]),
        };
        let selection = filter.selection();
        assert_eq!(selection.uids, [0, 7]);
        assert_eq!(selection.states, [JobState::Running, JobState::Waiting]);
        assert_eq!(selection.names, ["a"]);
        let unknown = Filter { user: words(&["root", "no such user"]), ..Filter::default() };
        assert_eq!(unknown.selection().uids, [0_u32; 0], "all: who it is may be known to others");
        assert_eq!(Filter { state: words(&["over"]), ..Filter::default() }.selection().states, []);
    }
}
