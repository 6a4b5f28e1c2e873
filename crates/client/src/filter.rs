//! Which jobs a command is about, by user, state and name.

use tutti_os::stderr::escape_control;

use crate::users;

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
