//! The floor: a link that has begun a line longer than a frame speaks alone until the line ends, so that
//! lines of several nodes never mix.
//!
//! ```text
//! hub: handle_frame of each frame -> may_speak before another link is read -> poll_silent, judge
//! ```
//!
//! A link loses the floor when nothing of the rest has come for [`SILENCE`]. A time in which our stdout takes
//! nothing, or in which we do not run ourselves, is no silence: what waits to be read is looked at first.

use std::time::{Duration, Instant};

/// The rest of a long line has this time to follow before others speak.
const SILENCE: Duration = Duration::from_millis(500);

/// The holder of the floor, and when its silence is judged.
#[derive(Debug, Default)]
pub(super) struct Floor(Option<(usize, Instant)>);

impl Floor {
    /// Whether some link is in the middle of a long line.
    pub(super) fn is_held(&self) -> bool {
        self.0.is_some()
    }

    /// Whether output of this link may be taken now.
    pub(super) fn may_speak(&self, link: usize) -> bool {
        self.0.is_none_or(|(holder, _)| holder == link)
    }

    /// Output of a link has come; `continues`: it ends within a long line.
    pub(super) fn handle_frame(&mut self, link: usize, continues: bool, now: Instant) {
        self.0 = continues.then(|| (link, now + SILENCE));
    }

    /// Takes the floor from a link of which nothing more comes.
    pub(super) fn handle_end(&mut self, link: usize) {
        self.0 = self.0.filter(|(holder, _)| *holder != link);
    }

    /// Time at which to look whether the holder is silent.
    pub(super) fn wake_at(&self) -> Option<Instant> {
        self.0.map(|(_, until)| until)
    }

    /// The holder, if none of its frames has been taken for so long; asked while stdout takes something.
    pub(super) fn poll_silent(&self, now: Instant) -> Option<usize> {
        self.0.filter(|(_, until)| now >= *until).map(|(holder, _)| holder)
    }

    /// Keeps the floor for a holder of which something waits to be read; a silent one loses it.
    pub(super) fn judge(&mut self, has_more: bool, now: Instant) {
        self.0 = self.0.filter(|_| has_more).map(|(holder, _)| (holder, now + SILENCE));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floor_is_of_one_link_until_its_line_ends() {
        let (mut floor, now) = (Floor::default(), Instant::now());
        floor.handle_frame(1, true, now);
        assert!(floor.is_held() && floor.may_speak(1) && !floor.may_speak(0));
        floor.handle_frame(1, true, now);
        floor.handle_end(0);
        assert!(floor.is_held());
        floor.handle_frame(1, false, now);
        assert!(!floor.is_held() && floor.may_speak(0));
        floor.handle_frame(1, true, now);
        floor.handle_end(1);
        assert!(floor.may_speak(0));
    }

    #[test]
    fn floor_is_lost_by_silence_and_by_nothing_that_only_looks_so() {
        let (mut floor, begin) = (Floor::default(), Instant::now());
        floor.handle_frame(1, true, begin);
        assert_eq!(floor.poll_silent(begin + SILENCE / 2), None);
        // We were away, or stdout took nothing: its frames wait.
        let late = begin + 10 * SILENCE;
        assert_eq!((floor.poll_silent(late), floor.wake_at()), (Some(1), Some(begin + SILENCE)));
        floor.judge(true, late);
        assert!(!floor.may_speak(0) && floor.poll_silent(late).is_none());
        floor.judge(false, late + SILENCE);
        assert!(floor.may_speak(0) && floor.wake_at().is_none());
    }
}
