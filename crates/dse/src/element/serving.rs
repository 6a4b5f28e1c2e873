//! Functions and programs that run on this element for others, each of one starter.
//!
//! A function runs in the DSE process: in `serve`, or in a thread beside the program. A program is a child of
//! the kernel, and no element: it does not find the place in the job, its standard input is empty, and its
//! output is the element's. A thread waits for its end, so programs of several starters run at once and
//! beside a function.
//!
//! ```text
//! order != 0 -> function: one at a time -> returned -> end(starter)
//!            -> program:  child         -> waited for -> end(starter)
//! asked > 0     before it began: end(starter) without it; a program gets TERM, and KILL when it is asked again
//! ```
//!
//! | who takes orders | functions | programs | dismissal |
//! |---|---|---|---|
//! | a call that serves | unless a thread does | unless a thread does | yes |
//! | the thread beside the program | yes; not in a kernel of its own | yes | no |
//!
//! The lock of [`HERE`] is never held while the library is called: the tests of waits take it under the
//! process lock.

use core::ffi::c_int;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tutti_runtime::sleep;
use tutti_shmem::{fault, memory, start};

use crate::element::topology::{self, Way};
use crate::element::{Elements, WORDS_MAX, relay, running};
use crate::fault::{Code, refuse};

/// An order: serving ends.
pub(crate) const DISMISSED: u64 = u64::MAX;
/// An order: a program.
pub(crate) const PROGRAM: u64 = u64::MAX - 1;
/// A state: it runs, or is to.
pub(crate) const RUNS: u64 = 1;
/// A state: it has ended with a value.
pub(crate) const ENDED: u64 = 2;
/// A state: the element has no function of the number.
pub(crate) const UNKNOWN: u64 = 3;
/// A state: the program cannot be started; the value is the kernel's number of the error.
pub(crate) const NOT_STARTED: u64 = 4;
/// A state: its end was asked for before it had begun.
pub(crate) const NOT_BEGUN: u64 = 5;

/// Variables by which a rank finds its place in the job, or a program of another library believes to have
/// one.
const OF_RANKS: [&str; 16] = [
    "TUTTI_TICKET",
    "TUTTI_RANK",
    "TUTTI_SIZE",
    "TUTTI_LOCAL_RANK",
    "TUTTI_LOCAL_SIZE",
    "TUTTI_APPNUM",
    "TUTTI_SPAWNED",
    "TUTTI_VIRTUAL_NODE",
    "TUTTI_PHASES",
    "TUTTI_BOARD",
    "PMI_FD",
    "PMI_RANK",
    "PMI_SIZE",
    "PMI_SPAWNED",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
];

/// A function to run here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Next {
    /// Starter.
    pub(crate) starter: usize,
    /// Number.
    pub(crate) function: u64,
    /// Argument.
    pub(crate) argument: i64,
}

/// How a function of the program is called; none: there is none of its number.
pub(crate) type Call = fn(Next) -> Option<i64>;

/// A program that runs here.
#[derive(Debug)]
struct Running {
    pid: libc::pid_t,
    /// Whether it has ended: its number may be another process's, and its starter is about to be told.
    has_ended: bool,
    /// Count of the times that its starter had asked for its end when it was last signalled.
    asked: u64,
}

#[derive(Debug, Default)]
struct Here {
    /// The starter of the function that runs.
    function: Option<usize>,
    /// By starter.
    programs: BTreeMap<usize, Running>,
    /// Whether a thread takes orders beside the program, and whether functions too.
    beside: Option<bool>,
    /// Ends with that thread.
    ended: Option<Receiver<()>>,
}

static HERE: Mutex<Here> =
    Mutex::new(Here { function: None, programs: BTreeMap::new(), beside: None, ended: None });

fn here() -> MutexGuard<'static, Here> {
    HERE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// View that a server has of [`HERE`]: a copy, since no word is read under its lock.
struct Seen {
    is_calling: bool,
    /// The starters of programs, and how often each had asked for the end when that was last passed on.
    programs: Vec<(usize, u64)>,
    beside: Option<bool>,
}

impl Seen {
    fn now() -> Self {
        let here = here();
        let programs = here.programs.iter().map(|(starter, program)| (*starter, program.asked)).collect();
        Seen { is_calling: here.function.is_some(), programs, beside: here.beside }
    }
}

/// Next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Function(usize),
    Program(usize),
    /// The end of a program is asked for, so often by now.
    End(usize, u64),
    Dismissal(usize),
    Stop,
}

/// Thread that looks for work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Server {
    /// A call of the program that serves.
    Call,
    /// The thread beside it.
    Thread,
}

impl Server {
    fn look(self, elements: &Elements) -> Option<Found> {
        let here = Seen::now();
        let is_of_thread = |functions: bool| match here.beside {
            Some(with_functions) => !functions || with_functions,
            None => false,
        };
        let is_mine = |functions| is_of_thread(functions) == (self == Server::Thread);
        let rests = !here.is_calling && here.programs.is_empty();
        let (mut dismissal, mut is_idle) = (None, rests);
        for starter in (0..elements.count).filter(|starter| *starter != elements.me) {
            let [order, _, end] = elements.started("serve", elements.me, starter);
            let order = order.load();
            let program = here.programs.iter().find(|(by, _)| *by == starter);
            if let Some((_, before)) = program.filter(|_| is_mine(false)) {
                let asked = end.load();
                if asked > *before {
                    return Some(Found::End(starter, asked));
                }
            }
            match order {
                0 => {}
                DISMISSED => dismissal = Some(starter),
                PROGRAM if is_mine(false) => return Some(Found::Program(starter)),
                PROGRAM => is_idle = false,
                _ if is_mine(true) && !here.is_calling => return Some(Found::Function(starter)),
                _ => is_idle = false,
            }
        }
        match self {
            Server::Call => dismissal.filter(|_| is_idle).map(Found::Dismissal),
            Server::Thread => (rests && elements.serving_ends("serve").load() != 0).then_some(Found::Stop),
        }
    }

    /// The next function that is to run; what else comes is done. None: serving ends.
    fn next(self, elements: &Elements) -> Option<Next> {
        loop {
            let mut found = None;
            memory::wait_until(|| {
                found = self.look(elements);
                found.is_some()
            });
            match found? {
                Found::Program(starter) => begin_program(elements, starter),
                Found::End(starter, asked) => signal_program(starter, asked),
                Found::Function(starter) => {
                    if let Some(next) = begin_function(elements, starter) {
                        return Some(next);
                    }
                }
                Found::Dismissal(starter) => {
                    let [order, ..] = elements.started("serve", elements.me, starter);
                    order.set(0);
                    return None;
                }
                Found::Stop => return None,
            }
        }
    }
}

/// Waits for the next function that a call is to run; programs that come first are started. None: this
/// element is dismissed, and all that was started here has ended.
pub(crate) fn next(elements: &Elements) -> Option<Next> {
    Server::Call.next(elements)
}

/// Begins to take orders beside the program; functions are called where that is known.
pub(crate) fn begin_beside(call: Option<Call>) -> Result<(), Code> {
    let elements = running("serve_beside")?;
    if here().beside.is_some() {
        return Err(refuse(Code::Busy, "serve_beside", format_args!("this element does so already")));
    }
    elements.serving_ends("serve_beside").set(0);
    let (end, ended) = mpsc::channel();
    let body = move || {
        while let Some(next) = Server::Thread.next(&elements) {
            // In a thread of its own, since ends of programs are to be seen meanwhile.
            spawn("tutti-dse-call", move || {
                let value = call.and_then(|call| call(next));
                note_function_end(&elements, next.starter, value);
            });
        }
        drop(end);
    };
    {
        let mut here = here();
        here.beside = Some(call.is_some());
        here.ended = Some(ended);
    }
    spawn("tutti-dse-serve", body);
    Ok(())
}

/// Ends the taking of orders beside the program, when what runs has ended.
pub(crate) fn stop(elements: &Elements) {
    let ended = here().ended.take();
    if let Some(ended) = ended {
        elements.serving_ends("finish").set(1);
        // It gives nothing, and ends.
        let _ = ended.recv();
        here().beside = None;
    }
}

/// Starts a thread that works for other elements, so that a process whose other threads all wait is not known
/// to be stuck.
fn spawn(name: &str, body: impl FnOnce() + Send + 'static) {
    sleep::note_handlers();
    if let Err(error) = start::spawn(name, body) {
        // Others wait for what it would have done.
        fault::end("serve", format_args!("no thread can be started: {error}"));
    }
}

/// Takes the order of a function; none: its end is asked for already.
fn begin_function(elements: &Elements, starter: usize) -> Option<Next> {
    let [order, argument, end] = elements.started("serve", elements.me, starter);
    let next = Next { starter, function: order.load() - 1, argument: argument.load() as i64 };
    here().function = Some(starter);
    order.set(0);
    if end.load() == 0 {
        return Some(next);
    }
    report_end(elements, starter, NOT_BEGUN, 0);
    here().function = None;
    None
}

/// The function of this starter has returned a value, or there is none of its number.
pub(crate) fn note_function_end(elements: &Elements, starter: usize, value: Option<i64>) {
    report_end(elements, starter, value.map_or(UNKNOWN, |_| ENDED), value.unwrap_or(0));
    here().function = None;
    memory::notify(elements.me as c_int);
}

/// Whether the starter of the function that runs here asks for its end.
pub(crate) fn is_function_ended(elements: &Elements) -> bool {
    let starter = here().function;
    starter.is_some_and(|starter| elements.started("is_ended", elements.me, starter)[2].load() != 0)
}

/// Takes the order of a program and starts it.
fn begin_program(elements: &Elements, starter: usize) {
    let [order, length, end] = elements.started("serve", elements.me, starter);
    let mut words = vec![0; usize::try_from(length.load()).unwrap_or(0).min(WORDS_MAX)];
    let from = elements.words_at(elements.program_words(starter));
    // SAFETY: the starter has so many bytes there, and changes none before the order is taken.
    unsafe { memory::get("serve", words.as_mut_ptr(), from, words.len(), elements.me as c_int) };
    let began = if end.load() == 0 { start_child(&words).map(Some) } else { Ok(None) };
    let (how, value) = match began {
        Ok(Some(child)) => {
            let running = Running { pid: child.id() as libc::pid_t, has_ended: false, asked: 0 };
            here().programs.insert(starter, running);
            order.set(0);
            let elements = *elements;
            return spawn("tutti-dse-wait", move || wait_for(&elements, starter, child));
        }
        Ok(None) => (NOT_BEGUN, 0),
        Err(error) => (NOT_STARTED, i64::from(error.raw_os_error().unwrap_or(libc::EINVAL))),
    };
    order.set(0);
    report_end(elements, starter, how, value);
}

fn start_child(words: &[u8]) -> io::Result<Child> {
    let mut words = words.split(|byte| *byte == 0).map(OsStr::from_bytes);
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words.collect::<Vec<_>>().split_last().map_or(&[][..], |(_, words)| words));
    OF_RANKS.iter().for_each(|name| {
        command.env_remove(name);
    });
    // The threads of the library take no signals, and a child inherits that.
    let unblock = || {
        // SAFETY: zeroed is a valid set, which is filled in before it is used.
        unsafe {
            let mut none: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut none);
            libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
        }
        Ok(())
    };
    // SAFETY: the function changes the mask of the child and does nothing else.
    unsafe { command.pre_exec(unblock) };
    command.stdin(Stdio::null()).spawn()
}

/// Waits for the end of a program and tells its starter its exit status, as a shell gives it.
fn wait_for(elements: &Elements, starter: usize, mut child: Child) {
    // Its number stays its own until it is known here that it has ended: only then is it reaped.
    let pid = child.id();
    loop {
        // SAFETY: all zero is a valid value; the kernel fills it in.
        let waited = unsafe {
            let mut found: libc::siginfo_t = std::mem::zeroed();
            libc::waitid(libc::P_PID, pid, &raw mut found, libc::WEXITED | libc::WNOWAIT)
        };
        if waited == 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            break;
        }
    }
    if let Some(program) = here().programs.get_mut(&starter) {
        program.has_ended = true;
    }
    let (how, value) = match child.wait() {
        Ok(status) => (ENDED, status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))),
        // The program of this element has waited for all its children.
        Err(error) => (NOT_STARTED, error.raw_os_error().unwrap_or(libc::ECHILD)),
    };
    report_end(elements, starter, how, value.into());
    // Its starter may have started the next one.
    let is_its = |running: &Running| running.pid == pid as libc::pid_t;
    here().programs.retain(|by, running| *by != starter || !is_its(running));
    memory::notify(elements.me as c_int);
}

/// Signals a program whose starter has asked for its end so often.
fn signal_program(starter: usize, asked: u64) {
    let mut here = here();
    let Some(program) = here.programs.get_mut(&starter) else { return };
    program.asked = asked;
    if !program.has_ended {
        // SAFETY: no memory is touched; the child has not been reaped, so the number is its own.
        unsafe { libc::kill(program.pid, if asked > 1 { libc::SIGKILL } else { libc::SIGTERM }) };
    }
}

/// Tells the starter of a process how that has ended.
fn report_end(elements: &Elements, starter: usize, how: u64, value: i64) {
    // What the process wrote is done when its end is seen.
    memory::quiet("serve");
    let [state, value_word] = elements.ended("serve", starter, elements.me);
    // The topology connects the two, or routes: otherwise the starter would have been refused.
    let way = topology::check("serve", elements, starter).unwrap_or(Way::Direct);
    relay::set(elements, way, value_word, value as u64);
    relay::set(elements, way, state, how);
}
