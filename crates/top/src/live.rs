//! The live screen. One thread reads keys, one asks daemons, one is started for each thing that is done to a
//! job; all send events to the main thread, which alone keeps the model, draws, and takes the signals.
//!
//! The main thread waits for nothing but events: a daemon that is silent, and a terminal whose output is
//! stopped, keep nobody from ending the program.

use std::io::{self, Stdout};
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::time::{Duration, Instant};

use crossterm::event::{Event as Input, KeyEventKind};
use ratatui::backend::{Backend, CrosstermBackend};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::process::{Signal, kill_current_process_group};
use tutti_client::requests;
use tutti_client::top_options::Options;
use tutti_os::Signals;
use tutti_os::stderr::print_line;
use tutti_protocol::users::Request;
use tutti_sched::JobId;

use crate::model::{Deed, Effect, Event, Model};
use crate::{screen, terminal};
use tutti_client::follow::Follower;
use tutti_client::gather;
use tutti_client::report::{Before, Report};

/// Times are drawn anew so often.
const TICK: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
/// A question to the daemon is followed by a pause of so many times what it took: it has other things to do.
const PAUSES: u32 = 9;

/// Signals that end the program, after the terminal has been given back.
const ENDS: [Signal; 4] = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT];

/// Shows what there is until the user has seen enough.
///
/// # Errors
/// When there is no terminal; a text for the user.
pub(crate) fn run(options: &Options) -> Result<ExitCode, String> {
    terminal::check()?;
    // Before there is another thread, which would take them.
    let wanted: Vec<i32> = ENDS.iter().chain(&[Signal::TSTP]).map(|signal| signal.as_raw()).collect();
    let signals = Signals::new(&wanted).map_err(|error| format!("cannot wait for signals: {error}"))?;
    std::panic::set_hook(Box::new(|panic| {
        terminal::give_back();
        let text = panic.to_string().replace('\n', " ");
        print_line(format_args!("tutti top: a mistake of its own, please report it: {text}"));
        std::process::exit(1);
    }));
    let shown = terminal::take().and_then(|()| Live::new(options, signals)).and_then(Live::run);
    terminal::give_back();
    match shown {
        Ok(None) => Ok(ExitCode::SUCCESS),
        Ok(Some(signal)) => {
            // A core file is of no use to anybody.
            if signal != Signal::QUIT.as_raw() {
                tutti_os::raise_default(signal);
            }
            Ok(ExitCode::from(128 + signal as u8))
        }
        Err(error) => Err(format!("the terminal is gone: {error}")),
    }
}

/// Sends events, and wakes the main thread.
#[derive(Debug)]
struct Post {
    events: Sender<Event>,
    bell: OwnedFd,
}

impl Post {
    fn try_clone(&self) -> io::Result<Self> {
        Ok(Post { events: self.events.clone(), bell: self.bell.try_clone()? })
    }

    /// `false`: nobody is there any more.
    fn send(&self, event: Event) -> bool {
        let is_sent = self.events.send(event).is_ok();
        // A bell that is full is a bell that rings.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
        is_sent
    }

    /// A line about a daemon that keeps silent.
    fn notify(&self, text: &str) {
        self.send(Event::Silence(text.to_owned()));
    }
}

#[derive(Debug)]
struct Live {
    model: Model,
    /// The terminal, and what it shows. It is asked nothing: one that does not answer is as good.
    output: CrosstermBackend<Stdout>,
    shown: Buffer,
    signals: Signals,
    post: Post,
    events: Receiver<Event>,
    /// Wakes the thread that asks daemons.
    asks: SyncSender<()>,
    is_stale: bool,
}

impl Live {
    fn new(options: &Options, signals: Signals) -> io::Result<Self> {
        let output = CrosstermBackend::new(io::stdout());
        let size = output.size()?;
        let (sender, events) = channel();
        let (asks, asked) = sync_channel(1);
        let post = Post { events: sender, bell: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)? };
        let (keys, reports) = (post.try_clone()?, post.try_clone()?);
        let options = options.clone();
        std::thread::Builder::new().spawn(move || read_keys(&keys))?;
        std::thread::Builder::new().spawn(move || report(&options, &reports, &asked))?;
        let model = Model::new(terminal::look(), (size.width, size.height), gather::now_ms());
        let shown = Buffer::empty(Rect::ZERO);
        Ok(Live { model, output, shown, signals, post, events, asks, is_stale: true })
    }

    /// To the end; the signal that it came by, if one did.
    fn run(mut self) -> io::Result<Option<i32>> {
        loop {
            if self.wait()? && self.is_stale {
                self.draw()?;
            }
            while let Some(signal) = self.signals.next_signal() {
                if signal != Signal::TSTP.as_raw() {
                    return Ok(Some(signal));
                }
                self.stop()?;
            }
            while let Ok(event) = self.events.try_recv() {
                self.is_stale = true;
                let effect = self.model.handle(gather::now_ms(), event);
                if effect.is_some_and(|effect| effect == Effect::Quit) {
                    return Ok(None);
                }
                effect.map_or(Ok(()), |effect| self.perform(effect))?;
            }
        }
    }

    /// Waits for an event, a signal, or the next second; whether the terminal has room for a picture.
    fn wait(&mut self) -> io::Result<bool> {
        let stdout = io::stdout();
        let output = if self.is_stale { PollFlags::OUT } else { PollFlags::empty() };
        let mut polled = [
            PollFd::from_borrowed_fd(stdout.as_fd(), output),
            PollFd::from_borrowed_fd(self.signals.descriptor(), PollFlags::IN),
            PollFd::new(&self.post.bell, PollFlags::IN),
        ];
        let found = match poll(&mut polled, Some(&TICK)) {
            Err(rustix::io::Errno::INTR) => return Ok(false),
            found => found?,
        };
        let of_terminal = polled[0].revents();
        let rings = !polled[2].revents().is_empty();
        if of_terminal.intersects(PollFlags::HUP | PollFlags::ERR) && polled[1].revents().is_empty() {
            return Err(rustix::io::Errno::IO.into());
        }
        if rings {
            let _ = rustix::io::read(&self.post.bell, &mut [0_u8; 8]);
        }
        if found == 0 {
            self.model.handle_tick(gather::now_ms());
            self.is_stale = true;
        }
        Ok(of_terminal.contains(PollFlags::OUT))
    }

    fn draw(&mut self) -> io::Result<()> {
        let size = self.output.size()?;
        if (size.width, size.height) != self.model.size() {
            let _ = self.model.handle(gather::now_ms(), Event::Resize(size.width, size.height));
        }
        let area = Rect::new(0, 0, size.width, size.height);
        if self.shown.area != area {
            self.output.clear()?;
            self.shown = Buffer::empty(area);
        }
        let mut next = Buffer::empty(area);
        screen::draw(&self.model, &mut next);
        self.output.draw(self.shown.diff(&next).into_iter())?;
        Backend::flush(&mut self.output)?;
        self.shown = next;
        self.is_stale = false;
        Ok(())
    }

    fn perform(&mut self, effect: Effect) -> io::Result<()> {
        match effect {
            Effect::Quit => {}
            // All of the group, as the key does it elsewhere; the signal comes to us as well.
            Effect::Stop => kill_current_process_group(Signal::TSTP)?,
            Effect::Repaint => self.shown = Buffer::empty(Rect::ZERO),
            // One that is there already is enough.
            Effect::Ask => drop(self.asks.try_send(())),
            Effect::Do(deed, job) => {
                let post = self.post.try_clone()?;
                std::thread::Builder::new().spawn(move || control(&post, deed, job))?;
            }
        }
        Ok(())
    }

    /// The shell has the terminal until this process is continued.
    fn stop(&mut self) -> io::Result<()> {
        terminal::give_back();
        tutti_os::raise_default(Signal::TSTP.as_raw());
        terminal::take()?;
        self.shown = Buffer::empty(Rect::ZERO);
        self.is_stale = true;
        Ok(())
    }
}

/// Keys, the mouse and the size of the window, until there is no terminal.
fn read_keys(post: &Post) {
    while let Ok(input) = crossterm::event::read() {
        let event = match input {
            Input::Key(key) if key.kind != KeyEventKind::Release => Event::Key(key),
            Input::Mouse(mouse) => Event::Mouse(mouse),
            Input::Resize(columns, lines) => Event::Resize(columns, lines),
            _ => continue,
        };
        if !post.send(event) {
            return;
        }
    }
}

/// Asks daemons again and again.
fn report(options: &Options, post: &Post, asked: &Receiver<()>) {
    let (filter, mut before) = (options.filter(), Before::default());
    let mut follower = Follower::default();
    loop {
        let began = Instant::now();
        let answers = follower.answers(&mut |text| post.notify(text));
        let report = answers.map(|answers| {
            let report = Report::new(&answers, &before, &filter);
            before.add(&answers);
            report
        });
        if !post.send(Event::Report(report)) {
            return;
        }
        let pause: Duration = options.interval.max(began.elapsed() * PAUSES);
        if asked.recv_timeout(pause) == Err(RecvTimeoutError::Disconnected) {
            return;
        }
    }
}

fn control(post: &Post, deed: Deed, job: JobId) {
    let request = Request::Control(job, deed.control());
    let done = requests::request_with(&request, &mut |text| post.notify(text));
    post.send(Event::Done(deed, job, done.map(drop)));
}
