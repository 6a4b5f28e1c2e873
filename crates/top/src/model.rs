//! State of the live screen, and what each event makes of it. Pure: time comes with the events, and what is
//! to be done comes back as effects.
//!
//! ```text
//! keys, mouse ---\
//! reports --------> Model::handle --> Effect: quit, stop, ask anew, do something to a job
//! answers -------/        |
//!                         v
//!                    screen::draw
//! ```

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use tutti_protocol::users::Control;
use tutti_sched::JobId;

use crate::screen::layout::{self, Column, Layout, View};
use crate::screen::texts;
use tutti_client::report::{Job, Key, Report};

/// How long a line about something that was done stays, in ms.
const NOTICE_MS: u64 = 8000;
/// Lines that a turn of the wheel moves.
const WHEEL: i64 = 3;
/// Characters of a filter.
const FILTER_CHARS: usize = 64;

/// Order that may be given to a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    Suspend,
    Resume,
    Kill,
}

impl Deed {
    /// The word of the question.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Deed::Suspend => "suspend",
            Deed::Resume => "resume",
            Deed::Kill => "kill",
        }
    }

    /// As the daemon is asked for it.
    pub(crate) fn control(self) -> Control {
        match self {
            Deed::Suspend => Control::Suspend,
            Deed::Resume => Control::Resume,
            Deed::Kill => Control::Kill,
        }
    }
}

/// Meaning of keys at the moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Browse,
    /// A filter is typed; the one before it.
    Filter(String),
    /// A question, answered by y.
    Question(Deed, JobId),
    /// Help on the keys, from this line on.
    Help(usize),
    /// Everything about a job, from this line on.
    Details(Key, usize),
}

impl Mode {
    /// First line that is shown of a text; none: there is no text.
    fn first_mut(&mut self) -> Option<&mut usize> {
        match self {
            Mode::Help(first) | Mode::Details(_, first) => Some(first),
            Mode::Browse | Mode::Filter(_) | Mode::Question(..) => None,
        }
    }
}

/// Event of the screen.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    Key(KeyEvent),
    Mouse(MouseEvent),
    /// Columns and lines of the window.
    Resize(u16, u16),
    /// Report, or why there is none.
    Report(Result<Report, String>),
    /// A daemon keeps silent: a line about it.
    Silence(String),
    /// Answer: what was asked for has been done, or has been refused with a line.
    Done(Deed, JobId, Result<(), String>),
}

/// Effect of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    Quit,
    /// The shell takes over until the program is continued.
    Stop,
    /// The whole screen is drawn anew.
    Repaint,
    /// A report is wanted at once.
    Ask,
    Do(Deed, JobId),
}

/// How things are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    pub(crate) colour: bool,
    pub(crate) utf8: bool,
}

/// Everything that the screen shows.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) look: Look,
    size: (u16, u16),
    pub(crate) view: View,
    pub(crate) mode: Mode,
    pub(crate) report: Option<Report>,
    /// Why the last question was not answered; the report is an older one then.
    trouble: Option<String>,
    /// The moment of the last event, in ms since 1970.
    pub(crate) now_ms: u64,
    /// A line about what was done, and until when it stays.
    notice: Option<(String, u64)>,
    pub(crate) filter: String,
    pub(crate) sort: Column,
    reversed: bool,
    paused: bool,
    pub(crate) selected: Option<Key>,
    /// Places in the report of the jobs that the filter takes, as they are sorted.
    order: Vec<usize>,
    /// The first line that is shown, by view.
    first: [usize; 3],
}

impl Model {
    /// Makes a model that knows nothing yet.
    pub(crate) fn new(look: Look, size: (u16, u16), now_ms: u64) -> Self {
        Model {
            look,
            size,
            view: View::Jobs,
            mode: Mode::Browse,
            report: None,
            trouble: None,
            now_ms,
            notice: None,
            filter: String::new(),
            sort: Column::Job,
            reversed: false,
            paused: false,
            selected: None,
            order: Vec::new(),
            first: [0; 3],
        }
    }

    /// Takes an event in.
    pub(crate) fn handle(&mut self, now_ms: u64, event: Event) -> Option<Effect> {
        self.now_ms = now_ms;
        if self.notice.as_ref().is_some_and(|(_, until_ms)| now_ms >= *until_ms) {
            self.notice = None;
        }
        let effect = match event {
            Event::Key(key) => self.handle_key(key),
            Event::Mouse(mouse) => {
                self.handle_mouse(mouse);
                None
            }
            Event::Resize(columns, lines) => {
                self.size = (columns, lines);
                Some(Effect::Repaint)
            }
            Event::Report(Ok(report)) => {
                self.trouble = None;
                if !self.paused {
                    self.report = Some(report);
                    self.arrange();
                }
                None
            }
            Event::Report(Err(text)) | Event::Silence(text) => {
                self.trouble = Some(text);
                None
            }
            Event::Done(deed, job, Ok(())) => {
                self.say(format!("job {job}: {} was asked for", deed.word()));
                Some(Effect::Ask)
            }
            Event::Done(_, _, Err(text)) => {
                self.say(text);
                None
            }
        };
        self.keep_in_view();
        effect
    }

    /// Time has passed: nothing else has happened.
    pub(crate) fn handle_tick(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
        if self.notice.as_ref().is_some_and(|(_, until_ms)| now_ms >= *until_ms) {
            self.notice = None;
        }
    }

    /// Columns and lines of the window.
    pub(crate) fn size(&self) -> (u16, u16) {
        self.size
    }

    /// Why the last question was not answered; the report is an older one then.
    pub(crate) fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// The picture is held.
    pub(crate) fn is_paused(&self) -> bool {
        self.paused
    }

    /// The line about what was done last.
    pub(crate) fn notice(&self) -> Option<&str> {
        self.notice.as_ref().map(|(text, _)| text.as_str())
    }

    /// The jobs as they are listed.
    pub(crate) fn jobs(&self) -> impl ExactSizeIterator<Item = &Job> {
        let jobs = self.report.as_ref().map_or(&[][..], |report| &report.jobs);
        self.order.iter().map(|at| &jobs[*at])
    }

    /// The job that is selected, if it is listed.
    pub(crate) fn selected_job(&self) -> Option<&Job> {
        self.jobs().find(|job| Some(job.id.key) == self.selected)
    }

    /// The job with this key, listed or not; none: it is over.
    pub(crate) fn job(&self, key: Key) -> Option<&Job> {
        self.report.as_ref()?.jobs.iter().find(|job| job.id.key == key)
    }

    /// The first line that is shown.
    pub(crate) fn first(&self) -> usize {
        self.first[self.view as usize]
    }

    /// Where everything is.
    pub(crate) fn layout(&self) -> Layout {
        layout::of(self.size, self.view, self.report.as_ref())
    }

    fn say(&mut self, text: String) {
        self.notice = Some((text, self.now_ms + NOTICE_MS));
    }

    /// Lines that the view has.
    fn line_count(&self) -> usize {
        let of_report = |count: fn(&Report) -> usize| self.report.as_ref().map_or(0, count);
        match self.view {
            View::Jobs => self.order.len(),
            View::Nodes => of_report(layout::node_lines),
            View::Users => of_report(|report| report.users.len()),
        }
    }

    fn handle_key(&mut self, key: KeyEvent) -> Option<Effect> {
        let has_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match (key.code, has_control) {
            (KeyCode::Char('c'), true) => return Some(Effect::Quit),
            (KeyCode::Char('z'), true) => return Some(Effect::Stop),
            (KeyCode::Char('l'), true) => return Some(Effect::Repaint),
            (KeyCode::Char(_), true) => return None,
            _ => {}
        }
        match std::mem::replace(&mut self.mode, Mode::Browse) {
            Mode::Filter(before) => {
                self.type_filter(key.code, before);
                None
            }
            Mode::Question(deed, job) => {
                let is_meant = matches!(key.code, KeyCode::Char('y' | 'Y'));
                if !is_meant {
                    self.say("nothing was done".into());
                }
                is_meant.then_some(Effect::Do(deed, job))
            }
            text @ (Mode::Help(_) | Mode::Details(..)) => {
                self.mode = text;
                match self.steps(key.code).filter(|_| self.text_most() > 0) {
                    Some(lines) => self.scroll_by(lines),
                    None => self.mode = Mode::Browse,
                }
                None
            }
            Mode::Browse => self.browse(key.code),
        }
    }

    fn type_filter(&mut self, code: KeyCode, before: String) {
        match code {
            KeyCode::Enter => {}
            KeyCode::Esc => self.filter = before,
            KeyCode::Backspace => {
                self.filter.pop();
                self.mode = Mode::Filter(before);
            }
            KeyCode::Char(letter) => {
                if self.filter.chars().count() < FILTER_CHARS {
                    self.filter.push(letter);
                }
                self.mode = Mode::Filter(before);
            }
            _ => self.mode = Mode::Filter(before),
        }
        self.arrange();
    }

    fn browse(&mut self, code: KeyCode) -> Option<Effect> {
        if let Some(lines) = self.steps(code) {
            self.move_by(lines);
            return None;
        }
        match code {
            KeyCode::Char('q') => return Some(Effect::Quit),
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => self.mode = Mode::Help(0),
            KeyCode::Char('1') => self.view = View::Jobs,
            KeyCode::Char('2') => self.view = View::Nodes,
            KeyCode::Char('3') => self.view = View::Users,
            KeyCode::Tab => self.view = View::ALL[(self.view as usize + 1) % 3],
            KeyCode::BackTab => self.view = View::ALL[(self.view as usize + 2) % 3],
            KeyCode::Char('>') | KeyCode::Right => self.sort_by_next(1),
            KeyCode::Char('<') | KeyCode::Left => self.sort_by_next(Column::ALL.len() - 1),
            KeyCode::Char('r') => {
                self.reversed = !self.reversed;
                self.arrange();
            }
            KeyCode::Char('/') => self.mode = Mode::Filter(self.filter.clone()),
            KeyCode::Esc => {
                self.filter.clear();
                self.arrange();
            }
            KeyCode::Enter if self.view == View::Jobs => {
                let job = self.selected_job().map(|job| job.id.key);
                self.mode = job.map_or(Mode::Browse, |job| Mode::Details(job, 0));
            }
            KeyCode::Char(' ' | 'p') => {
                self.paused = !self.paused;
                return (!self.paused).then_some(Effect::Ask);
            }
            KeyCode::Char('s') => self.ask(Deed::Suspend),
            KeyCode::Char('c') => self.ask(Deed::Resume),
            KeyCode::Char('k') => self.ask(Deed::Kill),
            _ => {}
        }
        None
    }

    /// Lines that a key moves by.
    fn steps(&self, code: KeyCode) -> Option<i64> {
        let is_text = matches!(self.mode, Mode::Help(_) | Mode::Details(..));
        let height = if is_text { layout::text_height(&self.layout()) } else { self.layout().lines.height };
        let page = i64::from(height.max(2)) - 1;
        match code {
            KeyCode::Down => Some(1),
            KeyCode::Up => Some(-1),
            KeyCode::PageDown => Some(page),
            KeyCode::PageUp => Some(-page),
            KeyCode::Home => Some(i64::MIN),
            KeyCode::End => Some(i64::MAX),
            _ => None,
        }
    }

    /// Lines of the text that is shown in place of the view, as wide as the screen; none: there is no text.
    pub(crate) fn text(&self) -> Option<Vec<String>> {
        let lines = match self.mode {
            Mode::Help(_) => texts::HELP.map(str::to_owned).to_vec(),
            Mode::Details(key, _) => match self.job(key) {
                Some(job) => texts::details(job, self.now_ms),
                None => vec![format!("job {} is over", key.job)],
            },
            Mode::Browse | Mode::Filter(_) | Mode::Question(..) => return None,
        };
        let width = usize::from(self.layout().lines.width);
        Some(texts::folded_lines(lines.iter().map(String::as_str), width, self.look.utf8))
    }

    /// Lines of the text that have no room on the screen at once.
    pub(crate) fn text_most(&self) -> usize {
        let height = usize::from(layout::text_height(&self.layout()));
        self.text().map_or(0, |lines| lines.len().saturating_sub(height))
    }

    fn scroll_by(&mut self, lines: i64) {
        let most = self.text_most();
        if let Some(first) = self.mode.first_mut() {
            *first = (*first as i64).saturating_add(lines).clamp(0, most as i64) as usize;
        }
    }

    /// Asks whether it is meant: a key is pressed easily.
    fn ask(&mut self, deed: Deed) {
        let meant = self.selected_job().filter(|_| self.view == View::Jobs);
        match meant.map(|job| (job.id.key, job.id.user.clone())) {
            None => self.say(format!("select the job to {} (view 1, up and down)", deed.word())),
            Some((Key { other: None, job }, _)) => self.mode = Mode::Question(deed, JobId(job)),
            Some((Key { job, .. }, user)) => {
                self.say(format!(
                    "job {job} of {user} has another daemon: {user} and root alone can do this to it"
                ));
            }
        }
    }

    fn move_by(&mut self, lines: i64) {
        let last = self.line_count().saturating_sub(1) as i64;
        if self.view != View::Jobs {
            let first = &mut self.first[self.view as usize];
            *first = (*first as i64).saturating_add(lines).clamp(0, last) as usize;
            return;
        }
        let at = self.jobs().position(|job| Some(job.id.key) == self.selected);
        let next = at.map_or(0, |at| (at as i64).saturating_add(lines).clamp(0, last)) as usize;
        let selected = self.jobs().nth(next).map(|job| job.id.key);
        self.selected = selected;
    }

    fn handle_mouse(&mut self, mouse: MouseEvent) {
        match mouse.kind {
            MouseEventKind::ScrollDown => self.turn_wheel(WHEEL),
            MouseEventKind::ScrollUp => self.turn_wheel(-WHEEL),
            MouseEventKind::Down(MouseButton::Left) if self.mode == Mode::Browse => {
                self.click(mouse.column, mouse.row);
            }
            MouseEventKind::Down(_) if matches!(self.mode, Mode::Help(_) | Mode::Details(..)) => {
                self.mode = Mode::Browse;
            }
            _ => {}
        }
    }

    /// Moves what is shown; the job that a question is about stays selected.
    fn turn_wheel(&mut self, lines: i64) {
        match self.mode {
            Mode::Help(_) | Mode::Details(..) => self.scroll_by(lines),
            Mode::Browse | Mode::Filter(_) => self.move_by(lines),
            Mode::Question(..) => {}
        }
    }

    fn click(&mut self, column: u16, line: u16) {
        let layout = self.layout();
        if let Some(view) = layout.view_at(column, line) {
            self.view = view;
        } else if self.view == View::Jobs && line == layout.head {
            if let Some(column) = layout.column_at(column) {
                (self.sort, self.reversed) = (column, self.sort == column && !self.reversed);
                self.arrange();
            }
        } else if self.view == View::Jobs
            && let Some(at) = layout.line_at(line)
        {
            let clicked = self.jobs().nth(self.first() + at).map(|job| job.id.key);
            self.selected = clicked.or(self.selected);
        }
    }

    fn sort_by_next(&mut self, steps: usize) {
        let at = Column::ALL.iter().position(|column| *column == self.sort).unwrap_or(0);
        self.sort = Column::ALL[(at + steps) % Column::ALL.len()];
        self.arrange();
    }

    /// Filters and sorts.
    fn arrange(&mut self) {
        let jobs = self.report.as_ref().map_or(&[][..], |report| &report.jobs);
        let words: Vec<String> = self.filter.split_whitespace().map(str::to_lowercase).collect();
        let takes = |job: &Job| {
            words.iter().all(|word| {
                [&job.id.number, job.state, &job.id.user, &job.label.name, &job.label.command]
                    .iter()
                    .any(|text| text.to_lowercase().contains(word))
            })
        };
        let mut order: Vec<usize> = (0..jobs.len()).filter(|at| takes(&jobs[*at])).collect();
        // Numbers of what is largest come first, of everything else the smallest.
        let key = |at: &usize| {
            let job = &jobs[*at];
            let largest = |value: Option<u32>| (u64::MAX - value.map_or(0, |value| u64::from(value) + 1), "");
            let (number, text): (u64, &str) = match self.sort {
                Column::Job => (0, ""),
                Column::State => (0, job.state),
                Column::User => (0, &job.id.user),
                Column::Ranks => (u64::MAX - job.size.ranks, ""),
                Column::Row => (job.place.rows.first().map_or(u64::MAX, |row| u64::from(*row)), ""),
                Column::Asked => largest(job.share.asked_permille),
                Column::Had => largest(job.share.had_permille),
                Column::Busy => largest(job.share.busy_permille),
                Column::Messages => {
                    (u64::MAX - job.place.sent.per_s.map_or(0, |rate| rate.saturating_add(1)), "")
                }
                Column::Time => (job.time.since_ms, ""),
                Column::Command => (0, &job.label.command),
            };
            (number, text, job.id.key)
        };
        order.sort_by(|one, two| key(one).cmp(&key(two)));
        if self.reversed {
            order.reverse();
        }
        self.order = order;
        if self.selected_job().is_none() {
            // The one that was there has ended, or is hidden: the one that took its place.
            let at = self.first[View::Jobs as usize].min(self.order.len().saturating_sub(1));
            let next = self.jobs().nth(at).map(|job| job.id.key);
            self.selected = next;
        }
    }

    /// Brings what is selected into view; there is no empty space below the last line.
    fn keep_in_view(&mut self) {
        let height = usize::from(self.layout().lines.height);
        let most = self.line_count().saturating_sub(height.max(1));
        let at = self.jobs().position(|job| Some(job.id.key) == self.selected);
        let first = &mut self.first[self.view as usize];
        if let (View::Jobs, Some(at)) = (self.view, at) {
            *first = (*first).clamp((at + 1).saturating_sub(height), at);
        }
        *first = (*first).min(most);
        // The text, or the window, may have become shorter.
        self.scroll_by(0);
    }
}

#[cfg(test)]
pub(crate) mod tests;
