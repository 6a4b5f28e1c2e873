//! Files are opened, closed, deleted, resized and synchronised (MPI 14.2).

use std::cell::Cell;
use std::ffi::CString;
use std::io;
use std::rc::Rc;

use core::ffi::c_int;

use tutti_datatype::{Buffer, View};
use tutti_runtime::file_locks::FileLocks;
use tutti_shm::arena::Range;

use super::hints::{self, Hints, Key};
use super::opened::{File, Opened, Shown, class_of};
use super::pointer::{Pointer, TAGS};
use super::representation::Representation;
use super::system::{self, Lock, OpenFile};
use crate::abi::*;
use crate::check::inspection::Inspect;
use crate::collective::schedule::Schedule;
use crate::collective::task::Task;
use crate::comm::Channel;
use crate::comm::HasComms;
use crate::comm::calls::{self, EndsComms};
use crate::datatype::HasTypes;
use crate::engine::LOST;
use crate::engine::message::{Message, Mode};
use crate::errhandler;
use crate::error::{Error, Result, check as ensure};
use crate::file::HasFiles;
use crate::info::Info;
use crate::progress::Progress;
use crate::request::Started;

/// Aggregators on each node, if the user does not say it.
const AGGREGATORS_OF_NODE: usize = 2;
/// Mode of a new file.
const MODE: Key = Key::of("file_perm");
/// Shared memory of a file: one word.
const WORD_BYTES: u64 = 4096;

/// Prefixes that scripts put before paths, for another library's drivers.
const PREFIXES: [&[u8]; 4] = [b"ufs:", b"nfs:", b"xfs:", b"testfs:"];

/// A path of the user, without the prefix of a driver.
fn path_of(name: &[u8]) -> Result<CString> {
    let path = PREFIXES.iter().find_map(|prefix| name.strip_prefix(*prefix)).unwrap_or(name);
    ensure(!path.is_empty(), MPI_ERR_BAD_FILE, || "filename is empty".into())?;
    CString::new(path).map_err(|_| Error::new(MPI_ERR_BAD_FILE, "filename has a zero byte"))
}

fn check_amode(amode: c_int) -> Result<()> {
    let accesses = [MPI_MODE_RDONLY, MPI_MODE_WRONLY, MPI_MODE_RDWR];
    let count = accesses.iter().filter(|mode| amode & **mode != 0).count();
    ensure(count == 1, MPI_ERR_AMODE, || {
        format!("amode has {count} of MPI_MODE_RDONLY, MPI_MODE_WRONLY and MPI_MODE_RDWR, expected one")
    })?;
    let creates = amode & (MPI_MODE_CREATE | MPI_MODE_EXCL) != 0;
    ensure(amode & MPI_MODE_RDONLY == 0 || !creates, MPI_ERR_AMODE, || {
        "amode has MPI_MODE_RDONLY with MPI_MODE_CREATE or MPI_MODE_EXCL".into()
    })?;
    let is_both = amode & MPI_MODE_RDWR != 0 && amode & MPI_MODE_SEQUENTIAL != 0;
    ensure(!is_both, MPI_ERR_AMODE, || "amode has MPI_MODE_RDWR with MPI_MODE_SEQUENTIAL".into())
}

/// A descriptor, and whether it can be read and written.
#[derive(Debug)]
pub(super) struct Descriptor {
    pub file: OpenFile,
    pub is_readable: bool,
    pub is_writable: bool,
}

pub(super) fn open_path(path: &CString, amode: c_int, extra: c_int, mode: u32) -> io::Result<Descriptor> {
    let (access, is_writable) = match amode {
        _ if amode & MPI_MODE_RDONLY != 0 => (libc::O_RDONLY, false),
        // Locks for reading want a descriptor that can be read; what the user may do is checked elsewhere.
        _ => (libc::O_RDWR, true),
    };
    let mut is_readable = true;
    let file = match system::open(path, access | extra, mode) {
        Err(error) if amode & MPI_MODE_WRONLY != 0 && error.raw_os_error() == Some(libc::EACCES) => {
            is_readable = false;
            system::open(path, libc::O_WRONLY | extra & !libc::O_EXCL, mode)?
        }
        other => other?,
    };
    if system::is_directory(&file) {
        return Err(io::Error::from_raw_os_error(libc::EISDIR));
    }
    Ok(Descriptor { file, is_readable, is_writable })
}

fn cannot(verb: &str, path: &CString, error: &io::Error) -> Error {
    let (path, advice) = (path.to_string_lossy(), advice(error));
    Error::new(class_of(error), format_args!("cannot {verb} {path}: {error}{advice}"))
}

/// Advice to the user about an error of the kernel, behind its text.
pub(super) fn advice(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EMFILE | libc::ENFILE) => "; raise the limit of open files (ulimit -n)",
        Some(libc::ENOTCONN) => {
            "; a job has files of its origin when it was started with --files, as long as their server runs"
        }
        Some(libc::EXDEV) => "; it is not in the folders of --files, or a link leads out of them",
        _ => "",
    }
}

/// Opens a file (14.2.1).
///
/// # Errors
/// MPI_ERR_COMM, MPI_ERR_AMODE, MPI_ERR_BAD_FILE, or what the kernel says; the same on all ranks.
pub fn open_file(
    call: &mut (impl Inspect + EndsComms),
    comm: MPI_Comm,
    name: &[u8],
    amode: c_int,
    given: Result<Info>,
) -> Result<MPI_File> {
    let group = call.comms().intracomm(comm)?.group.clone();
    let inner = calls::create_comm(call, comm, group)?;
    let opened = open_over(call, inner, name, amode, given);
    if opened.is_err() {
        free_file_comm(call, inner)?;
    }
    opened
}

fn open_over(
    call: &mut (impl Progress + Inspect + HasComms + HasTypes + HasFiles),
    comm: MPI_Comm,
    name: &[u8],
    amode: c_int,
    given: Result<Info>,
) -> Result<MPI_File> {
    let argument = check_amode(amode).and_then(|()| Ok((path_of(name)?, given?)));
    let class = argument.as_ref().map_or_else(|error| error.class, |_| MPI_SUCCESS);
    let [place, job_low, job_high] = place_of_file(call, comm)?;
    let records = meet(call, comm, [class as u32, amode as u32, place, job_low, job_high])?;
    let (path, given) = argument?;
    refuse_if_any(records.iter().map(|record| record[0]))?;
    ensure(records.iter().all(|record| record[1] == amode as u32), MPI_ERR_AMODE, || {
        "the ranks give different access modes".into()
    })?;
    let mut wanted = Hints::default();
    let wrong = wanted.take(&given);
    call.inspect().say_wrong_hints(&wrong);
    let (descriptor, hints) = open_one_after_the_other(call, comm, &path, amode, wanted)?;
    let nodes = numbered(records.iter().map(|record| [record[2], record[3], record[4]]));
    let (aggregators, aggregators_wanted) = order_of_aggregators(&nodes);
    let (context, members, me) = {
        let comm = call.comms().find(comm)?;
        (comm.context, comm.group.members().to_vec(), comm.rank)
    };
    let pointer = Rc::new(make_pointer(call, comm, &nodes)?);
    let opened = Rc::new(Opened {
        file: descriptor.file,
        path,
        context: context + Channel::Collective as u32,
        members,
        me,
        aggregators,
        aggregators_wanted,
        is_readable: descriptor.is_readable,
        is_writable: descriptor.is_writable,
        is_locked: Cell::new(false),
        locks: FileLocks::of(&call.engine().job),
    });
    let bytes = call.types().layout(MPI_BYTE)?;
    let shown = Shown {
        view: Rc::new(View::of_bytes()),
        displacement: 0,
        etype: bytes.clone(),
        etype_bytes: 1,
        filetype: bytes,
        representation: Rc::new(Representation::Native),
    };
    let handler = errhandler::default_of_files();
    errhandler::retain(handler);
    let hints = hints.for_file(system::is_on_nfs(&opened.file));
    let is_served = matches!(*pointer, Pointer::Own(_)) && opened.members.len() > 1;
    let mut file = File {
        comm,
        amode,
        shown,
        position: 0,
        pointer: pointer.clone(),
        hints,
        is_atomic: false,
        errhandler: handler,
        split: None,
        accesses: 0,
        opened: opened.clone(),
    };
    if amode & MPI_MODE_APPEND != 0 {
        file.position = opened.file.bytes().unwrap_or(0) as i64;
        file.pointer.set(file.position);
        meet(call, comm, [0])?;
    }
    let handle = call.files_mut().keep(file);
    if is_served {
        serve_pointer(call, handle)?;
    }
    Ok(handle)
}

/// Begins the task by which rank 0 keeps the shared pointer for the others.
///
/// # Errors
/// MPI_ERR_FILE.
pub(super) fn serve_pointer(
    call: &mut (impl Progress + HasComms + HasFiles),
    handle: MPI_File,
) -> Result<()> {
    let file = call.files().find(handle)?;
    let (comm, pointer) = (file.comm, file.pointer.clone());
    let context = call.comms().find(comm)?.context + Channel::Introduction as u32;
    let mut schedule = Schedule::new(context, 0);
    schedule.task(Task::new(|turn| pointer.serve(turn, context)));
    let request = call.launch(schedule);
    call.files_mut().servers.insert(comm.0, request);
    Ok(())
}

/// Node and launch of this process, equal for those that share memory. The launch is 0 without guests.
pub(super) fn place_of_file(call: &(impl Progress + HasComms), comm: MPI_Comm) -> Result<[u32; 3]> {
    let job = match call.comms().find(comm)?.has_guests(call.engine()) {
        true => call.engine().process_name(call.engine().world_rank()).job,
        false => 0,
    };
    Ok([call.engine().job.node(), job as u32, (job >> 32) as u32])
}

/// Rank 0 first, which creates the file; then all others. All have it, or none.
fn open_one_after_the_other(
    call: &mut (impl Progress + HasComms),
    comm: MPI_Comm,
    path: &CString,
    amode: c_int,
    hints: Hints,
) -> Result<(Descriptor, Hints)> {
    let creates = if amode & MPI_MODE_CREATE != 0 { libc::O_CREAT } else { 0 };
    let exclusive = if amode & MPI_MODE_EXCL != 0 { libc::O_EXCL } else { 0 };
    let errno = |opened: &io::Result<Descriptor>| match opened {
        Ok(_) => 0,
        Err(error) => error.raw_os_error().unwrap_or(libc::EIO) as u32,
    };
    let meeting = calls::whole(call, comm)?;
    let mut first = None;
    let mut words = Vec::new();
    if meeting.me == 0 {
        let opened = open_path(path, amode, creates | exclusive, hints.number(MODE));
        words.push(errno(&opened));
        words.extend(hints.encode());
        first = Some(opened);
    }
    let words = meeting.broadcast(call, 0, words)?;
    let hints = Hints::decode(&words[1..=hints::WORDS]);
    if words[0] != 0 {
        return Err(cannot("open", path, &io::Error::from_raw_os_error(words[0] as i32)));
    }
    // A client of NFS may not know yet that the file is there: none may want it to be new.
    let opened = first.unwrap_or_else(|| open_path(path, amode, creates, hints.number(MODE)));
    let outcomes = meet(call, comm, [errno(&opened)])?;
    let failed = outcomes.iter().position(|[errno]| *errno != 0);
    match (opened, failed) {
        (Err(error), _) => Err(cannot("open", path, &error)),
        (Ok(_), Some(rank)) => {
            let error = io::Error::from_raw_os_error(outcomes[rank][0] as i32);
            let (path, advice) = (path.to_string_lossy(), advice(&error));
            let text = format!("rank {rank} cannot open {path}: {error}{advice}");
            Err(Error::new(class_of(&error), text))
        }
        (Ok(descriptor), None) => Ok((descriptor, hints)),
    }
}

/// The shared pointer of a new file.
pub(super) fn make_pointer(
    call: &mut (impl Progress + HasComms),
    comm: MPI_Comm,
    nodes: &[u32],
) -> Result<Pointer> {
    let me = call.comms().find(comm)?.rank;
    if nodes.len() == 1 {
        return Ok(Pointer::Own(Cell::new(0)));
    }
    let remote = || if me == 0 { Pointer::Own(Cell::new(0)) } else { Pointer::Remote };
    if nodes.iter().any(|node| *node != nodes[0]) {
        return Ok(remote());
    }
    let taken = match me {
        0 => call.rank().allocate_shared(WORD_BYTES),
        _ => None,
    };
    let meeting = calls::whole(call, comm)?;
    let Range { offset, bytes } = taken.unwrap_or_default();
    let halves = |number: u64| [number as u32, (number >> 32) as u32];
    let words = meeting.broadcast(call, 0, [halves(offset), halves(bytes)].concat())?;
    let number = |at: usize| u64::from(words[at]) | u64::from(words[at + 1]) << 32;
    let range = Range { offset: number(0), bytes: number(2) };
    let mapping = if range.bytes == 0 { None } else { call.engine().job.map(range).ok() };
    let have = meet(call, comm, [u32::from(mapping.is_some())])?;
    match mapping {
        Some(mapping) if have.iter().all(|[has]| *has == 1) => Ok(Pointer::Word { mapping, taken }),
        _ => {
            give_range_back(call, taken);
            Ok(remote())
        }
    }
}

pub(super) fn give_range_back(call: &mut impl Progress, taken: Option<Range>) {
    if let Some(range) = taken {
        call.rank().free_shared(range);
    }
}

/// All ranks tell each other a few numbers.
pub(super) fn meet<const N: usize>(
    call: &mut (impl Progress + HasComms),
    comm: MPI_Comm,
    record: [u32; N],
) -> Result<Vec<[u32; N]>> {
    let meeting = calls::whole(call, comm)?;
    meeting.allgather(call, record)
}

/// Closes a file (14.2.2). All accesses have ended.
///
/// # Errors
/// MPI_ERR_FILE; MPI_ERR_OTHER while a split collective access has begun.
pub fn close_file(call: &mut impl EndsComms, handle: MPI_File) -> Result<()> {
    let file = call.files().find(handle)?;
    file.check_no_split()?;
    let comm = file.comm;
    // When a rank of another launch is lost each closes the file by itself.
    let mut met = meet(call, comm, [0]).map(drop);
    if let Some(request) = call.files_mut().servers.remove(&comm.0) {
        if met.is_ok() {
            met = ask_pointer(call, comm, Pointer::stop()).map(drop);
        }
        call.finish_request(request);
    }
    let file = call.files_mut().take(handle).expect("the file was looked up above");
    errhandler::release(file.errhandler);
    if let Pointer::Word { taken, .. } = &*file.pointer {
        give_range_back(call, *taken);
    }
    let (path, me, deletes) =
        (file.opened.path.clone(), file.opened.me, file.amode & MPI_MODE_DELETE_ON_CLOSE != 0);
    // What a file that is deleted has lost nobody reads.
    let flushed = if deletes { Ok(()) } else { file.opened.file.flush() };
    drop(file);
    let mut result = flushed.map_err(|error| cannot("write all of", &path, &error));
    if deletes {
        // Where the file is open elsewhere, its client may keep it under another name.
        if met.is_ok() {
            met = meet(call, comm, [0]).map(drop);
        }
        // Others may go on with a file that not all have closed.
        if me == 0 && met.is_ok() {
            result = system::remove(&path).map_err(|error| cannot("delete", &path, &error));
        }
    }
    free_file_comm(call, comm)?;
    met.and(result)
}

/// Frees the communicator of a file that all ranks close. Its context may be used again: all have met,
/// and no message is left. With guests it is not: what is known of it ends with their job.
fn free_file_comm(call: &mut impl EndsComms, comm: MPI_Comm) -> Result<()> {
    let met = meet(call, comm, [0]).map(drop);
    let (context, rank) = {
        let comm = call.comms().find(comm)?;
        (comm.context, comm.rank)
    };
    let has_guests = call.comms().find(comm)?.has_guests(call.engine());
    calls::free_comm(call, comm)?;
    if rank == 0 && met.is_ok() && !has_guests {
        call.engine_mut().contexts.use_again(context);
    }
    met
}

/// Moves the shared pointer by so many etypes, and gives where it was.
///
/// # Errors
/// MPI_ERR_FILE.
pub(super) fn move_pointer(
    call: &mut (impl Progress + HasComms + HasFiles),
    handle: MPI_File,
    etypes: i64,
) -> Result<i64> {
    let file = call.files().find(handle)?;
    match file.pointer.add(etypes) {
        Some(position) => Ok(position),
        None => {
            let comm = file.comm;
            ask_pointer(call, comm, etypes)
        }
    }
}

/// Place of the shared pointer.
///
/// # Errors
/// MPI_ERR_FILE.
pub fn move_shared_pointer(
    call: &mut (impl Progress + HasComms + HasFiles),
    handle: MPI_File,
) -> Result<i64> {
    move_pointer(call, handle, 0)
}

/// Asks rank 0; a question that stops it has no answer.
pub(super) fn ask_pointer(
    call: &mut (impl Progress + HasComms),
    comm: MPI_Comm,
    question: i64,
) -> Result<i64> {
    let (to, context) = {
        let comm = call.comms().find(comm)?;
        (comm.group.members()[0], comm.context + Channel::Introduction as u32)
    };
    let buffer = |number: &mut i64| Buffer::contiguous((&raw mut *number).cast(), size_of::<i64>());
    let (mut question, mut answer) = (question, 0_i64);
    let received = (question != Pointer::stop()).then(|| {
        let request = crate::request::Request::new(
            crate::request::RequestKind::Receive,
            buffer(&mut answer),
            context,
            to as i32,
            TAGS[1],
        );
        call.engine_mut().receive(request)
    });
    let message = Message { to, context, tag: TAGS[0], buffer: buffer(&mut question), mode: Mode::Standard };
    if let Started::Pending(sent) = call.engine_mut().send(message) {
        call.finish_request(sent);
    }
    if let Some(received) = received {
        let received = call.finish_request(received);
        ensure(received.error == MPI_SUCCESS, received.error, || LOST.into())?;
    }
    Ok(answer)
}

/// Deletes a file (14.2.3).
///
/// # Errors
/// MPI_ERR_BAD_FILE, or what the kernel says.
pub fn delete_file(name: &[u8]) -> Result<()> {
    let path = path_of(name)?;
    system::remove(&path).map_err(|error| cannot("delete", &path, &error))
}

/// Does something with a file on rank 0, between two meetings of all; all learn how it went.
fn change_file(
    call: &mut (impl Progress + HasComms + HasFiles),
    handle: MPI_File,
    verb: &str,
    bytes: i64,
    change: impl FnOnce(&OpenFile) -> io::Result<()>,
) -> Result<()> {
    let file = call.files().find(handle)?;
    let (comm, opened) = (file.comm, file.opened.clone());
    let refused = file
        .check_writable()
        .and_then(|()| file.check_no_split())
        .and_then(|()| ensure(bytes >= 0, MPI_ERR_ARG, || format!("size is {bytes}, expected 0 or more")));
    let class = refused.as_ref().map_or_else(|error| error.class, |()| MPI_SUCCESS);
    let records = meet(call, comm, [class as u32, bytes as u32, (bytes >> 32) as u32])?;
    refused?;
    refuse_if_any(records.iter().map(|record| record[0]))?;
    ensure(records.iter().all(|record| record[1..] == records[0][1..]), MPI_ERR_NOT_SAME, || {
        "the ranks give different sizes".into()
    })?;
    let result = if opened.me == 0 { change(&opened.file) } else { Ok(()) };
    let errno = result.as_ref().map_or_else(|error| error.raw_os_error().unwrap_or(libc::EIO), |()| 0);
    let outcomes = meet(call, comm, [errno as u32])?;
    let errno = outcomes[0][0] as i32;
    if errno == 0 {
        return Ok(());
    }
    Err(cannot(verb, &opened.path, &io::Error::from_raw_os_error(errno)))
}

/// Sets the size of a file (14.2.4).
///
/// # Errors
/// MPI_ERR_FILE, MPI_ERR_READ_ONLY, MPI_ERR_ARG, MPI_ERR_NOT_SAME, or what the kernel says.
pub fn resize_file(
    call: &mut (impl Progress + HasComms + HasFiles),
    handle: MPI_File,
    bytes: i64,
) -> Result<()> {
    change_file(call, handle, "resize", bytes, |file| file.set_len(bytes as u64))
}

/// Makes sure that there is room for the first bytes of a file (14.2.5).
///
/// # Errors
/// As [`resize_file`].
pub fn preallocate_file(
    call: &mut (impl Progress + HasComms + HasFiles),
    handle: MPI_File,
    bytes: i64,
) -> Result<()> {
    change_file(call, handle, "make room in", bytes, |file| system::allocate(file, bytes))
}

/// Size of a file (14.2.6).
///
/// # Errors
/// MPI_ERR_FILE, or what the kernel says.
pub fn file_size(call: &impl HasFiles, handle: MPI_File) -> Result<i64> {
    let opened = &call.files().find(handle)?.opened;
    let bytes = opened.file.bytes().map_err(|error| cannot("look at", &opened.path, &error))?;
    Ok(bytes as i64)
}

/// Brings what was written to the storage, and makes what others wrote visible (14.6.1).
///
/// # Errors
/// MPI_ERR_FILE, or what the kernel says.
pub fn sync_file(call: &mut (impl Progress + HasComms + HasFiles), handle: MPI_File) -> Result<()> {
    let file = call.files().find(handle)?;
    let refused = file.check_no_split();
    let (comm, opened, is_nfs) = (file.comm, file.opened.clone(), file.hints.is_nfs());
    let synced = if opened.is_writable { call.unlocked(|| opened.file.sync_all()) } else { Ok(()) };
    let class = match (&refused, &synced) {
        (Err(error), _) => error.class,
        (_, Err(error)) => class_of(error),
        _ => MPI_SUCCESS,
    };
    let records = meet(call, comm, [class as u32])?;
    // A client of NFS looks at the file anew when it locks it: behind the writes of all others.
    if is_nfs && let Some(Ok(())) = opened.try_lock(Lock::Shared, 0, 0) {
        opened.unlock(0, 0);
    }
    refused?;
    synced.map_err(|error| cannot("synchronise", &opened.path, &error))?;
    refuse_if_any(records.iter().map(|record| record[0]))
}

/// Sets atomic mode (14.6.1).
///
/// # Errors
/// MPI_ERR_FILE; MPI_ERR_NOT_SAME.
pub fn set_atomic(
    call: &mut (impl Progress + HasComms + HasFiles),
    handle: MPI_File,
    is_atomic: bool,
) -> Result<()> {
    let comm = call.files().find(handle)?.comm;
    let records = meet(call, comm, [u32::from(is_atomic)])?;
    ensure(records.iter().all(|[other]| *other == u32::from(is_atomic)), MPI_ERR_NOT_SAME, || {
        "the ranks give different flags".into()
    })?;
    call.files_mut().find_mut(handle)?.is_atomic = is_atomic;
    Ok(())
}

/// Takes hints (14.2.8); those of rank 0 hold for all. A rank that has none takes part all the same.
///
/// # Errors
/// MPI_ERR_FILE; that of the hints.
pub fn set_file_hints(
    call: &mut (impl Progress + Inspect + HasComms + HasFiles),
    handle: MPI_File,
    given: Result<Info>,
) -> Result<()> {
    let file = call.files().find(handle)?;
    let (comm, mut hints) = (file.comm, file.hints);
    let wrong = given.as_ref().map_or_else(|_| Vec::new(), |given| hints.take(given));
    call.inspect().say_wrong_hints(&wrong);
    let meeting = calls::whole(call, comm)?;
    let words = meeting.broadcast(call, 0, hints.encode().to_vec())?;
    let file = call.files_mut().find_mut(handle)?;
    // Whether it is on NFS each node knows for itself, whatever rank 0 says.
    file.hints = Hints::decode(&words).for_file(system::is_on_nfs(&file.opened.file));
    given.map(drop)
}

/// Fails if another rank has said an error class.
pub(super) fn refuse_if_any(classes: impl Iterator<Item = u32>) -> Result<()> {
    for (rank, class) in classes.enumerate() {
        ensure(class == 0, class as c_int, || format!("the arguments of rank {rank} are wrong"))?;
    }
    Ok(())
}

/// Numbers for places, equal for equal ones, in the order in which they appear.
pub(super) fn numbered(places: impl Iterator<Item = [u32; 3]>) -> Vec<u32> {
    let mut seen = std::collections::HashMap::new();
    places
        .map(|place| {
            let next = seen.len() as u32;
            *seen.entry(place).or_insert(next)
        })
        .collect()
}

/// The ranks in the order in which they become aggregators, and how many do: some of each node, spread
/// evenly.
pub(super) fn order_of_aggregators(nodes: &[u32]) -> (Vec<u32>, usize) {
    let mut turns: Vec<(usize, u32)> = Vec::with_capacity(nodes.len());
    let mut seen = std::collections::HashMap::new();
    for (rank, node) in nodes.iter().enumerate() {
        let turn = seen.entry(*node).and_modify(|turn| *turn += 1).or_insert(0_usize);
        turns.push((*turn, rank as u32));
    }
    turns.sort_unstable();
    let wanted = turns.iter().filter(|(turn, _)| *turn < AGGREGATORS_OF_NODE).count();
    (turns.into_iter().map(|(_, rank)| rank).collect(), wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_aggregators_are_spread_over_nodes() {
        assert_eq!(order_of_aggregators(&[0, 0, 0, 1, 1, 2]), (vec![0, 3, 5, 1, 4, 2], 5));
        assert_eq!(order_of_aggregators(&[7]), (vec![0], 1));
        let places = [[0, 5, 1], [1, 5, 1], [0, 6, 1], [0, 5, 1]];
        assert_eq!(numbered(places.into_iter()), [0, 1, 2, 0]);
    }

    #[test]
    fn file_access_modes_are_checked() {
        let wrong = [
            0,
            MPI_MODE_RDONLY | MPI_MODE_RDWR,
            MPI_MODE_RDONLY | MPI_MODE_CREATE,
            MPI_MODE_RDONLY | MPI_MODE_EXCL,
            MPI_MODE_RDWR | MPI_MODE_SEQUENTIAL,
        ];
        assert!(wrong.iter().all(|amode| check_amode(*amode).unwrap_err().class == MPI_ERR_AMODE));
        check_amode(MPI_MODE_WRONLY | MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_SEQUENTIAL).unwrap();
    }

    #[test]
    fn file_paths_lose_the_prefix_of_a_driver() {
        assert_eq!(path_of(b"ufs:/tmp/a").unwrap().as_bytes(), b"/tmp/a");
        assert_eq!(path_of(b"/tmp/nfs:a").unwrap().as_bytes(), b"/tmp/nfs:a");
        assert_eq!(path_of(b"").unwrap_err().class, MPI_ERR_BAD_FILE);
    }
}
