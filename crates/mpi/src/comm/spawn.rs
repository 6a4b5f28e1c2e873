//! New processes (MPI 11.8): the root has the starter start further ranks of the job, which have a world of
//! their own, and both groups are bridged as those that meet at a port.
//!
//! | step | who |
//! |---|---|
//! | find the programs, ask the starter, await its answer ([`tutti_shm::spawn`]) | root |
//! | broadcast: class, first new rank, number, a code for each process | group of the root |
//! | groups, over MPI_COMM_SELF's contexts ([`super::ports`]) | root, first new rank in its MPI_Init |
//!
//! A new rank is no peer of the others until they meet it ([`Progress::meet_new_ranks`]): in a wait, or when
//! they learn of a group that it may be in.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use core::ffi::c_int;

use tutti_shm::spawn::{Answer, Program, Request, Spawned};
use tutti_shm::ticket::NODE_VARIABLE;

use super::agreement::Meeting;
use super::open_ports::Connection;
use super::ports::quoted;
use super::{Comm, Group};
use crate::abi::*;
use crate::error::{Error, Result, check};
use crate::info::{self, Info};
use crate::progress::Progress;
use crate::wait_goal::{Goal, Outside};

/// Names that every host has.
const LOCAL_NAMES: [&[u8]; 3] = [b"localhost", b"127.0.0.1", b"::1"];

/// Context of the world of a rank that is to take another one's place ([`crate::moving`]), until it has it:
/// that of the job's first world, which no rank is started with that gets a world of its own.
pub(crate) const SUCCESSOR: u32 = 0;

/// A program that the user wants to be started.
#[derive(Debug)]
pub struct Wish {
    /// Name of the program.
    pub command: Vec<u8>,
    /// Arguments of the program, without its name.
    pub arguments: Vec<Vec<u8>>,
    /// How many processes, at most.
    pub processes: c_int,
    /// Where and how.
    pub hints: Info,
}

/// Results for the processes that were wanted: MPI_SUCCESS or a class for each.
pub type Codes = Vec<c_int>;

/// New ranks.
#[derive(Debug)]
struct Launched {
    first: u32,
    number: u32,
    codes: Codes,
}

/// Starts processes, all or none, and bridges to them (11.8.2, 11.8.3). `wishes` is asked at the root only.
/// Gives the codes too, if it has come so far.
///
/// # Errors
/// What is wrong with the wishes; MPI_ERR_SPAWN on all when there is no such program, no room, or the kernel
/// refuses.
pub(super) fn spawn(
    call: &mut impl Progress,
    meeting: &Meeting,
    root: usize,
    group: Rc<Group>,
    wishes: impl FnOnce() -> Result<Vec<Wish>>,
    codes: &mut Codes,
) -> Result<Comm> {
    let mut failed = None;
    let words = if meeting.me == root {
        let launched = wishes().and_then(|wishes| launch_wishes(call, &wishes, None, codes));
        let (class, first, number) = match launched {
            Ok(Launched { first, number, codes: all }) => {
                *codes = all;
                (MPI_SUCCESS, first, number)
            }
            Err(error) => {
                let class = error.class;
                failed = Some(error);
                (class, 0, 0)
            }
        };
        let codes = codes.iter().map(|code| *code as u32);
        [class as u32, first, number].into_iter().chain(codes).collect()
    } else {
        Vec::new()
    };
    let words = meeting.broadcast(call, root, words)?;
    let (class, first, number) = (words[0] as c_int, words[1], words[2]);
    *codes = words[3..].iter().map(|code| *code as c_int).collect();
    if let Some(error) = failed {
        return Err(error);
    }
    check(class == MPI_SUCCESS, class, || "the root could not start the processes".into())?;
    meeting.bridge(call, root, group, |call| {
        let me = call.engine().world_rank();
        Ok(Connection { from: me, number, is_behind: me > first }.meeting(me, first))
    })
}

/// The root's part; without a context the new world gets a new one. On errors of single processes their codes
/// are in `codes`.
fn launch_wishes(
    call: &mut impl Progress,
    wishes: &[Wish],
    context: Option<u32>,
    codes: &mut Codes,
) -> Result<Launched> {
    let job = &call.engine().job;
    let room = job.room_when_ended();
    let is_whole = job.is_whole();
    let (mut programs, mut missing) = (Vec::new(), None);
    let most = numbers(wishes, room)?;
    for (wish, ranks) in wishes.iter().zip(&most) {
        check(wish.processes > 0, MPI_ERR_ARG, || {
            format!("maxprocs is {}, expected 1 or more", wish.processes)
        })?;
        let found = wish.program(*ranks, is_whole);
        let code = if found.is_ok() { MPI_SUCCESS } else { MPI_ERR_SPAWN };
        codes.extend(std::iter::repeat_n(code, wish.processes as usize));
        match found {
            Ok(program) => programs.push(program),
            Err(error) => missing = missing.or(Some(error)),
        }
    }
    if let Some(error) = missing {
        none_of(codes);
        return Err(error);
    }
    let context = match context {
        Some(context) => context,
        None => call.engine_mut().new_context()?,
    };
    // First with the room of ranks that are about to end: the starter waits for them. Then with what
    // there is room for now.
    let mut ranks = most;
    let mut request = Request { number: call.engine_mut().contexts.next_connection(), context, programs };
    let mut answer = ask_starter(call, &request)?;
    if answer.first.is_none()
        && answer.failed.is_empty()
        && let Ok(fewer) = numbers(wishes, call.engine().job.room_for_later())
        && fewer != ranks
    {
        request.number = call.engine_mut().contexts.next_connection();
        request.programs.iter_mut().zip(&fewer).for_each(|(program, ranks)| program.ranks = *ranks);
        ranks = fewer;
        answer = ask_starter(call, &request)?;
    }
    let number = request.number;
    // The places among the codes of those that were asked for.
    let mut at = 0;
    let mut places = Vec::new();
    for (wish, ranks) in wishes.iter().zip(ranks) {
        places.extend(at..at + ranks as usize);
        at += wish.processes as usize;
    }
    match answer {
        Answer { first: Some(first), .. } => {
            codes.fill(MPI_ERR_SPAWN);
            places.iter().for_each(|place| codes[*place] = MPI_SUCCESS);
            Ok(Launched { first, number, codes: std::mem::take(codes) })
        }
        Answer { failed, text, .. } => {
            let of_failed = failed.iter().filter_map(|rank| places.get(*rank as usize));
            of_failed.for_each(|place| codes[*place] = MPI_ERR_SPAWN);
            none_of(codes);
            Err(Error::new(MPI_ERR_SPAWN, text))
        }
    }
}

fn ask_starter(call: &mut impl Progress, request: &Request) -> Result<Answer> {
    let failed = |error| Error::new(MPI_ERR_SPAWN, format_args!("the starter cannot be asked: {error}"));
    let gone = "a job with a starter keeps it";
    let starter = call.engine().job.starter_or_adopted();
    let starter = starter.map_err(|text| Error::new(MPI_ERR_SPAWN, text))?;
    starter.ask(request).map_err(failed)?;
    let goal = Goal::Outside(Outside::Starter);
    let answer = call
        .wait(None, goal, |engine| engine.job.starter().expect(gone).poll_answer(request.number).transpose());
    answer.map_err(failed)
}

/// Starts this program once more, on a node, to take this process's place: its number, and the way to it.
///
/// # Errors
/// MPI_ERR_SPAWN when there is no such node, no room, or no such program there.
pub(crate) fn launch_successor(call: &mut impl Progress, node: &[u8]) -> Result<(u32, Meeting)> {
    let wish = Wish::of_this_program(node)?;
    let Launched { first, number, .. } = launch_wishes(call, &[wish], Some(SUCCESSOR), &mut Codes::new())?;
    let me = call.engine().world_rank();
    Ok((first, Connection { from: me, number, is_behind: me > first }.meeting(me, first)))
}

/// The way of a new rank to the process that has started it.
pub(crate) fn meeting_with_parent(call: &impl Progress, spawned: &Spawned) -> Meeting {
    let Spawned { parent, number, .. } = *spawned;
    let me = call.engine().world_rank();
    Connection { from: parent, number, is_behind: parent > me }.meeting(me, parent)
}

/// Bridges to those who have started this process, from MPI_Init. What is made has no handle yet.
///
/// # Errors
/// As of every bridge.
pub(super) fn meet_parents(
    call: &mut impl Progress,
    meeting: &Meeting,
    group: Rc<Group>,
    spawned: &Spawned,
) -> Result<Comm> {
    meeting.bridge(call, 0, group, |call| Ok(meeting_with_parent(call, spawned)))
}

/// None is started: those that could have been are not either.
fn none_of(codes: &mut [c_int]) {
    let is_known = codes.contains(&MPI_ERR_SPAWN);
    let other = if is_known { MPI_ERR_OTHER } else { MPI_ERR_SPAWN };
    codes.iter_mut().filter(|code| **code == MPI_SUCCESS).for_each(|code| *code = other);
}

/// How many processes of each, where there is room for so many of all.
fn numbers(wishes: &[Wish], mut room: usize) -> Result<Vec<u32>> {
    let mut number = |wish: &Wish| {
        let ranks = wish.ranks(room)?;
        room = room.saturating_sub(ranks as usize);
        Ok(ranks)
    };
    wishes.iter().map(&mut number).collect()
}

impl Wish {
    /// Program of this process with its arguments, once.
    fn of_this_program(node: &[u8]) -> Result<Wish> {
        let failed = |error: std::io::Error| {
            Error::new(MPI_ERR_SPAWN, format_args!("the program of this process is not known: {error}"))
        };
        let command = std::env::current_exe().map_err(failed)?.into_os_string().into_vec();
        let line = std::fs::read("/proc/self/cmdline").map_err(failed)?;
        let words = line.strip_suffix(&[0]).unwrap_or(&line).split(|byte| *byte == 0);
        let arguments = words.skip(1).map(<[u8]>::to_vec).collect();
        let mut hints = Info::default();
        hints.set(b"host", node);
        Ok(Wish { command, arguments, processes: 1, hints })
    }

    /// How many processes, where there is room for so many.
    fn ranks(&self, room: usize) -> Result<u32> {
        let most = self.processes as u32;
        let Some(soft) = self.hints.get(b"soft") else { return Ok(most) };
        let most = u64::from(most).min(room as u64);
        let largest = largest_of(soft, most).ok_or_else(|| {
            let text = format_args!("soft is {}, expected numbers as in 1,2:8,10:20:5", quoted(soft));
            Error::new(MPI_ERR_INFO_VALUE, text)
        })?;
        check(largest > 0, MPI_ERR_SPAWN, || {
            format!(
                "there is room for {room} more ranks (mpiexec --universe N makes more), and soft is {}",
                quoted(soft)
            )
        })?;
        Ok(largest as u32)
    }

    fn program(&self, ranks: u32, is_whole: bool) -> Result<Program> {
        let refused = |text: String| Err(Error::new(MPI_ERR_SPAWN, text));
        let host = self.hints.get(b"host").map_or(Vec::new(), host_for_starter);
        if is_whole && !host.is_empty() && host != LOCAL_NAMES[0] && host != name_of_only_node() {
            return refused(format!("host {} is not this node, the only one of the job", quoted(&host)));
        }
        let wanted = self.hints.get(b"wdir").map_or(Path::new(""), |wdir| Path::new(OsStr::from_bytes(wdir)));
        let directory = std::env::current_dir().unwrap_or_default().join(wanted);
        if !directory.is_dir() {
            return refused(format!("cannot change to the working directory {}", directory.display()));
        }
        let Some(file) = self.find(&directory) else {
            return refused(format!(
                "cannot execute {}: there is no such program, or no permission to execute it",
                quoted(&self.command)
            ));
        };
        let arguments = std::iter::once(&self.command).chain(&self.arguments).cloned().collect();
        let (file, directory) = (file.into_os_string().into_vec(), directory.into_os_string().into_vec());
        Ok(Program { ranks, file, arguments, directory, host })
    }

    /// The file of the command: where it says, else in the directories of `path`, the working directory, or
    /// where programs are.
    fn find(&self, directory: &Path) -> Option<PathBuf> {
        let command = Path::new(OsStr::from_bytes(&self.command));
        if self.command.contains(&b'/') {
            let file = directory.join(command);
            return is_program(&file).then_some(file);
        }
        let path = self.hints.get(b"path").unwrap_or_default();
        let of_user = path.split(|byte| *byte == b':').filter(|part| !part.is_empty());
        let of_user = of_user.map(|part| directory.join(OsStr::from_bytes(part)));
        let programs = std::env::var_os("PATH").unwrap_or_default();
        let mut places = of_user.chain([directory.to_path_buf()]).chain(std::env::split_paths(&programs));
        places.find_map(|place| Some(place.join(command)).filter(|file| is_program(file)))
    }
}

fn is_program(file: &Path) -> bool {
    file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// The name of a node, as the starter is asked for it.
fn host_for_starter(host: &[u8]) -> Vec<u8> {
    if is_this_host(host) { LOCAL_NAMES[0].to_vec() } else { host.to_vec() }
}

fn is_this_host(host: &[u8]) -> bool {
    let own = info::host_name().unwrap_or_default();
    let short = |name: &[u8]| name.split(|byte| *byte == b'.').next().unwrap_or_default().to_vec();
    LOCAL_NAMES.contains(&host) || own == host || short(&own) == short(host)
}

/// The name of the node of a job on one node: what the daemon calls it, else what nodes without names are
/// called.
fn name_of_only_node() -> Vec<u8> {
    std::env::var_os(NODE_VARIABLE).map_or_else(|| b"node0".to_vec(), OsString::into_vec)
}

/// The largest number from 0 to `most` of a list such as `1,2:8,20:10:-5`, 0 if it has none; none if it is no
/// such list. Numbers out of that range do not count (11.8.4).
fn largest_of(list: &[u8], most: u64) -> Option<u64> {
    let most = i128::from(most);
    let mut largest = 0;
    for part in std::str::from_utf8(list).ok()?.split(',') {
        let numbers = part.split(':').map(|number| number.trim().parse::<i64>().ok().map(i128::from));
        let numbers = numbers.collect::<Option<Vec<i128>>>()?;
        let (first, last, step) = match numbers[..] {
            [one] => (one, one, 1),
            [first, last] => (first, last, 1),
            [first, last, step] if step != 0 => (first, last, step),
            _ => return None,
        };
        let steps = (last - first) / step;
        let ends_before = if step > 0 { first > last } else { first < last };
        if ends_before {
            continue;
        }
        // Where the numbers rise the last up to `most` counts, where they fall the first.
        let at = if step > 0 {
            (most - first).div_euclid(step).min(steps)
        } else {
            ((first - most).max(0) - step - 1) / -step
        };
        let number = first + at * step;
        if (0..=steps).contains(&at) && (0..=most).contains(&number) {
            largest = largest.max(number as u64);
        }
    }
    Some(largest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spawn_soft_number_is_the_largest_that_there_is_room_for() {
        for (list, most, expected) in [
            ("4", 8, Some(4)),
            ("4", 3, Some(0)),
            ("1:8", 5, Some(5)),
            ("0:8:3", 8, Some(6)),
            ("2,10:20:5", 17, Some(15)),
            ("2,10:20:5", 9, Some(2)),
            ("2, 3", 9, Some(3)),
            ("8:2", 9, Some(0)),
            ("", 9, None),
            ("1:2:0", 9, None),
            ("1:2:3:4", 9, None),
            ("-1", 9, Some(0)),
            ("-1,4", 9, Some(4)),
            ("10:1:-3", 9, Some(7)),
            ("10:1:-3", 3, Some(1)),
            ("10:8:-1", 7, Some(0)),
            ("3:8:-1", 7, Some(0)),
            ("-3:8:5", 6, Some(2)),
            ("-3:-1", 6, Some(0)),
            ("2:-9:-4", 6, Some(2)),
            ("-9223372036854775808:9223372036854775807:3", 6, Some(4)),
            ("two", 9, None),
        ] {
            assert_eq!(largest_of(list.as_bytes(), most), expected, "{list:?} of {most}");
        }
    }

    #[test]
    fn spawn_command_is_found_where_the_hints_say() {
        let find = |command: &[u8], path: Option<&[u8]>| {
            let mut hints = Info::default();
            path.into_iter().for_each(|path| hints.set(b"path", path));
            let wish = Wish { command: command.to_vec(), arguments: Vec::new(), processes: 1, hints };
            wish.find(Path::new("/"))
        };
        assert_eq!(find(b"bin/sh", None), Some("/bin/sh".into()));
        assert_eq!(find(b"sh", Some(b"/nowhere::bin")), Some("/bin/sh".into()));
        assert!(find(b"sh", None).is_some());
        assert_eq!(find(b"./no-such-program", None), None);
        assert_eq!(find(b"etc", None), None);
    }
}
