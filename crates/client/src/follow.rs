//! Follows what a daemon has: everything once, then changes only ([`tutti_protocol::users::watch`]). Callers
//! ask again and again with [`Follower::answers`], at a pace of their own.
//!
//! A daemon, or a controller, of an earlier release does not know the question. Lists are asked for then, and
//! the question is tried again after [`LISTS`].

use std::time::{Duration, Instant};

use tutti_protocol::paths;
use tutti_protocol::users::watch::{Changes, Picture, Selection, Watch};
use tutti_protocol::users::{Answer, Request};

use crate::gather::{self, OTHER_VERSION, now_ms};
use crate::report::Answers;
use crate::{others, requests};

/// Lists are asked for so long where changes are not to be had.
const LISTS: Duration = Duration::from_secs(60);

/// Reader of a daemon.
#[derive(Debug, Default)]
pub struct Follower {
    selection: Selection,
    picture: Picture,
    /// Lists are asked for until then.
    lists_until: Option<Instant>,
    missed: u64,
}

impl Follower {
    /// Reader of these items.
    #[must_use]
    pub fn new(selection: Selection) -> Self {
        Follower { selection, ..Follower::default() }
    }

    /// States of the daemon that the reader has not seen, since there were newer ones.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// State as it is known.
    #[must_use]
    pub fn picture(&self) -> &Picture {
        &self.picture
    }

    /// Answers at this moment, as [`gather::answers`] gives them.
    ///
    /// # Errors
    /// As there.
    pub fn answers(&mut self, notify: &mut dyn FnMut(&str)) -> Result<Answers, String> {
        if self.lists_until.is_some_and(|until| Instant::now() < until) {
            return gather::answers(notify);
        }
        match self.ask(notify) {
            Ok(Some(_)) => {}
            Ok(None) => return Ok(Answers { others: others::jobs(), at_ms: now_ms(), ..Answers::default() }),
            // Lists say whether something else is wrong.
            Err(_) => {
                self.picture = Picture::default();
                let answers = gather::answers(notify)?;
                self.lists_until = Some(Instant::now() + LISTS);
                return Ok(answers);
            }
        }
        Ok(Answers { others: others::jobs(), at_ms: now_ms(), ..Answers::of(&self.picture) })
    }

    /// Asks for what has changed, and takes it; none: there is no daemon. `true`: something is different.
    ///
    /// # Errors
    /// When the daemon refuses or keeps silent, or when there is none although one is named. A text for the
    /// user.
    pub fn ask(&mut self, notify: &mut dyn FnMut(&str)) -> Result<Option<bool>, String> {
        let watch = Watch { since: self.picture.since(), selection: self.selection.clone() };
        let request = Request::Watch(Box::new(watch));
        let answer = match paths::is_named() {
            // Whoever names a socket means a daemon.
            true => Some(requests::request_with(&request, notify)?.0),
            false => requests::request_if_running_with(&request, notify)?,
        };
        let Some(answer) = answer else {
            self.picture = Picture::default();
            return Ok(None);
        };
        let Answer::Changes(changes) = answer else { return Err(OTHER_VERSION.into()) };
        let is_different = !changes.is_empty();
        self.missed += self.missed_by(&changes);
        self.picture.take(*changes);
        Ok(Some(is_different))
    }

    /// Number of states that the reader has missed; 0 at first.
    fn missed_by(&self, changes: &Changes) -> u64 {
        self.picture.since().map_or(0, |_| changes.missed)
    }
}
