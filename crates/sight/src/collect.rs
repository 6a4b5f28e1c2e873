//! The thread that asks daemons and reads their logs once a second, and hands on what there is: to the
//! history, to the counters, to readers of the page.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tutti_client::filter::Filter;
use tutti_client::follow::Follower;
use tutti_client::gather;
use tutti_client::report::{Answers, Before, Report};
use tutti_os::stderr::print_line;
use tutti_protocol::paths;

use crate::history::{self, Entry, History};
use crate::live::Frame;
use crate::log::{self, Event, Turns};
use crate::server::Site;
use crate::tail::Tail;

/// Between two looks.
const EVERY: Duration = Duration::from_secs(1);
/// A question to the daemon is followed by a pause of so many times what it took: it has other things to do.
const PAUSES: u32 = 9;
/// No pause is longer.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// Parts of a log that are read before daemons are asked again: what is older waits.
const PARTS_MAX: usize = 16;

/// Sources that are read, and where it all goes.
#[derive(Debug)]
pub struct Collector {
    site: Arc<Site>,
    history: History,
    /// Events for the history, and those that are counted.
    events: Tail,
    counted: Tail,
    turns: Tail,
    follower: Follower,
    before: Before,
    /// From the last look to this one, as it was to be.
    pause: Duration,
    /// Set while the history has what was taken from the log.
    is_kept: bool,
    /// The reason why no daemon answers, when it has been printed.
    silence: Option<String>,
}

impl Collector {
    /// Collector for a cluster whose logs are in this folder.
    pub fn new(site: Arc<Site>, history: History, logs: &Path) -> Self {
        let events = Tail::new(&logs.join(paths::EVENTS), history.position());
        let newest = |name: &str| {
            let mut tail = Tail::new(&logs.join(name), None);
            tail.skip_to_end();
            tail
        };
        let (counted, turns) = (newest(paths::EVENTS), newest(paths::TURNS));
        Collector {
            site,
            history,
            events,
            counted,
            turns,
            follower: Follower::default(),
            before: Before::default(),
            pause: EVERY,
            is_kept: true,
            silence: None,
        }
    }

    /// Looks again and again; until this socket is gone, if one is given.
    pub fn run(mut self, until_gone: Option<PathBuf>) {
        loop {
            let began = Instant::now();
            self.look();
            // A daemon that is ended takes its socket away, one that dies does not.
            if until_gone.as_ref().is_some_and(|socket| !socket.exists()) {
                return;
            }
            let pause = (began.elapsed() * PAUSES).clamp(EVERY, PAUSE_MAX);
            self.pause = began.elapsed() + pause;
            std::thread::sleep(pause);
        }
    }

    fn look(&mut self) {
        let answers = self.follower.answers(&mut |_| ());
        let answers = match answers {
            Ok(answers) => {
                self.silence = None;
                answers
            }
            Err(text) => {
                if self.silence.is_none() {
                    print_line(format_args!("tutti-sight: {text}"));
                }
                self.silence = Some(text);
                Answers { at_ms: gather::now_ms(), ..Answers::default() }
            }
        };
        let report = Report::new(&answers, &self.before, &Filter::default());
        self.before.add(&answers);
        self.record(&report);
        let turns: Vec<Turns> = log::parse(&self.turns.take().lines);
        let counted: Vec<Event> = log::parse(&self.counted.take().lines);
        let frame = Frame::after(&self.site.frames.borrow(), &report, &answers.nodes);
        self.site.present(|now| {
            counted.iter().for_each(|event| now.metrics.handle_event(event));
            turns.iter().for_each(|turns| now.metrics.handle_turns(&turns.batch));
            (now.answers, now.report) = (answers, report);
        });
        self.site.frames.send_replace(Arc::new(frame));
    }

    /// Events, and the report behind the last of them.
    fn record(&mut self, report: &Report) {
        if !self.is_kept && self.history.is_open() {
            // Only what the history has counts as taken; one that begins anew takes all that the log has.
            self.events.rewind(self.history.position());
            self.is_kept = true;
        }
        for part in 1..=PARTS_MAX {
            let taken = self.events.take();
            let events: Vec<Event> = log::parse(&taken.lines);
            let is_last = !taken.is_full || part == PARTS_MAX;
            let entry = Entry {
                now_ms: history::now_ms(),
                pause_ms: self.pause.as_millis() as i64,
                events: &events,
                position: self.events.position(),
                is_lost: taken.is_lost,
                report: is_last.then_some(report),
            };
            self.is_kept = self.history.record(&entry);
            if is_last || !self.is_kept {
                return;
            }
        }
    }
}
