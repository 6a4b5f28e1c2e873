//! Open files while ranks move ([`crate::moving`]): a successor opens those of its predecessor by their
//! paths, under the same handles, with their views and pointers.
//!
//! | when | who | what |
//! |---|---|---|
//! | before all agree | mover | brings to the file system what it has written ([`openings`]) |
//! | | successor | opens them ([`open_again`]); if it cannot, no rank moves |
//! | before data are flushed | rank 0 of a file | ends the task of the shared pointer ([`end_service`]) |
//! | hand over | mover, successor | views and pointers ([`held`], [`take`]) |
//! | go on | all ranks of the file | its ranks and its shared pointer ([`renew`]) |
//!
//! A path may name another file on another node: one with another inode or time of birth is refused. Messages
//! of a file go over its own communicator, which moves as every communicator does.

use std::cell::Cell;
use std::ffi::CString;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::rc::Rc;
use std::time::UNIX_EPOCH;

use core::ffi::c_int;

use tutti_datatype::Layout;
use tutti_runtime::file_locks::FileLocks;

use super::hints::{self, Hints};
use super::open::{self, Descriptor};
use super::opened::{File, Opened};
use super::pointer::Pointer;
use super::representation::Representation;
use super::system::{self, OpenFile};
use super::views;
use super::{Files, HasFiles};
use crate::abi::*;
use crate::comm::{Channel, HasComms};
use crate::datatype::HasTypes;
use crate::errhandler;
use crate::error::Result;
use crate::progress::Progress;

/// A file that a successor opens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Opening {
    /// Path, from the root on.
    pub path: Vec<u8>,
    /// Access mode.
    pub amode: c_int,
    /// Marks of the file.
    pub file: Identity,
}

/// Marks that tell a file from others that a path may name on other nodes. File systems in memory count their
/// inodes from the same number on, and copies of a disk have the same ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    /// Number of the file in its file system; 0: not known.
    pub inode: u64,
    /// When it was made, in ns since 1970; 0: not known.
    pub born_ns: u64,
}

impl Identity {
    fn of(file: &OpenFile) -> Self {
        let OpenFile::Here(file) = file else { return Identity::default() };
        let Ok(found) = file.metadata() else { return Identity::default() };
        let born = found.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let born_ns = born.and_then(|since| u64::try_from(since.as_nanos()).ok()).unwrap_or(0);
        Identity { inode: found.ino(), born_ns }
    }

    /// Whether both may be the same file, as far as is known.
    fn may_be(self, other: Identity) -> bool {
        let is_known = self.born_ns != 0 && other.born_ns != 0;
        self.inode == other.inode && (!is_known || self.born_ns == other.born_ns)
    }
}

/// An open file, as a successor gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HeldFile {
    /// Handle.
    pub handle: MPI_File,
    /// Communicator of its own.
    pub comm: MPI_Comm,
    /// Error handler: one of the standard's.
    pub errhandler: MPI_Errhandler,
    /// Hints.
    pub hints: [u32; hints::WORDS],
    /// View.
    pub view: HeldView,
    /// Individual pointer, then the shared one if it is with this rank, in etypes.
    pub pointers: [i64; 2],
    /// Whether it is in atomic mode.
    pub is_atomic: bool,
    /// Collective accesses so far.
    pub accesses: u32,
}

/// View of a file, as a successor gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HeldView {
    /// Where it begins.
    pub displacement: i64,
    /// Etype and filetype, by their places among the layouts that are handed over.
    pub types: [u32; 2],
    /// Name of the data representation.
    pub representation: Vec<u8>,
}

/// Files that a successor has opened, in the order of their openings.
#[derive(Debug, Default)]
pub(crate) struct OpenedAgain(Vec<(Descriptor, Opening)>);

impl Files {
    /// Whether the view of one has a representation that the program has registered: functions, which stay.
    pub(crate) fn has_own_representation(&self) -> bool {
        let is_own = |file: &File| matches!(*file.shown.representation, Representation::User(_));
        self.open.iter().any(|(_, file)| is_own(file))
    }

    /// Whether a request is that of a task which keeps a shared pointer.
    pub(crate) fn is_server(&self, request: u32) -> bool {
        self.servers.values().any(|server| *server == request)
    }

    fn all(&self) -> impl Iterator<Item = (MPI_File, &File)> {
        self.open.iter().map(|(index, file)| (MPI_File(self.open.handle(index)), file))
    }
}

/// The files of this rank, for its successor. What has been written is where others find it.
///
/// # Errors
/// The sentence of one that the file system has lost data of.
pub(crate) fn openings(call: &impl HasFiles) -> std::result::Result<Vec<Opening>, String> {
    let opening = |(_, file): (MPI_File, &File)| {
        let opened = &file.opened;
        opened.file.flush().map_err(|error| format!("cannot write all of {}: {error}", opened.name()))?;
        Ok(Opening { path: path_now(opened), amode: file.amode, file: Identity::of(&opened.file) })
    };
    call.files().all().map(opening).collect()
}

/// The path of an open file, which may have been renamed.
fn path_now(opened: &Opened) -> Vec<u8> {
    let of_descriptor = match &opened.file {
        OpenFile::Here(file) => std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok(),
        OpenFile::Origin(_) => None,
    };
    of_descriptor.map_or_else(|| opened.path.as_bytes().to_vec(), |path| path.into_os_string().into_vec())
}

/// Opens the files of the process whose place this one takes.
///
/// # Errors
/// A sentence about the first one that is not there.
pub(crate) fn open_again(openings: Vec<Opening>) -> std::result::Result<OpenedAgain, String> {
    let again = |opening: Opening| {
        let name = String::from_utf8_lossy(&opening.path).into_owned();
        let path = CString::new(&*opening.path).map_err(|_| format!("{name} is no path"))?;
        let descriptor = open::open_path(&path, opening.amode, 0, 0)
            .map_err(|error| format!("cannot open {name}: {error}{}", open::advice(&error)))?;
        match Identity::of(&descriptor.file).may_be(opening.file) {
            true => Ok((descriptor, opening)),
            false => Err(format!("{name} is another file there")),
        }
    };
    openings.into_iter().map(again).collect::<std::result::Result<_, _>>().map(OpenedAgain)
}

/// Files with one of these processes among their ranks, in an order that is the same at all ranks.
fn with_any(
    call: &(impl HasComms + HasFiles),
    is_meant: impl Fn(&Opened) -> bool,
) -> Result<Vec<(MPI_File, MPI_Comm)>> {
    let files = call.files().all().filter(|(_, file)| is_meant(&file.opened));
    let mut found = Vec::new();
    for (handle, file) in files {
        found.push((call.comms().find(file.comm)?.context, handle, file.comm));
    }
    found.sort_by_key(|(context, ..)| *context);
    Ok(found.into_iter().map(|(_, handle, comm)| (handle, comm)).collect())
}

fn names(opened: &Opened, movers: &[u32]) -> bool {
    opened.members.iter().any(|member| movers.contains(member))
}

/// Ends the tasks that keep shared pointers of files that have movers among their ranks.
///
/// # Errors
/// As of every question about a pointer.
pub(crate) fn end_service(call: &mut (impl Progress + HasComms + HasFiles), movers: &[u32]) -> Result<()> {
    for (_, comm) in with_any(call, |opened| names(opened, movers))? {
        if let Some(request) = call.files_mut().servers.remove(&comm.0) {
            open::ask_pointer(call, comm, Pointer::stop())?;
            call.finish_request(request);
        }
    }
    Ok(())
}

/// The files of this rank as its successor gets them, in the order of [`openings`]. `places`: those of
/// [`layouts`] among all that are handed over.
pub(crate) fn held(call: &impl HasFiles, places: &[u32]) -> Vec<HeldFile> {
    let files = call.files().all().zip(places.chunks_exact(2));
    let held = files.map(|((handle, file), places)| HeldFile {
        handle,
        comm: file.comm,
        errhandler: match errhandler::is_predefined(file.errhandler) {
            true => file.errhandler,
            // A handler of the user's on MPI_FILE_NULL is of the process that has left.
            false => MPI_ERRORS_RETURN,
        },
        hints: file.hints.encode(),
        view: HeldView {
            displacement: file.shown.displacement,
            types: [places[0], places[1]],
            representation: file.shown.representation.name().to_vec(),
        },
        pointers: [file.position, file.pointer.add(0).unwrap_or(0)],
        is_atomic: file.is_atomic,
        accesses: file.accesses,
    });
    held.collect()
}

/// Layouts that the views of files show.
pub(crate) fn layouts(call: &impl HasFiles) -> Vec<Rc<Layout>> {
    let shown = call.files().all().map(|(_, file)| &file.shown);
    shown.flat_map(|shown| [shown.etype.clone(), shown.filetype.clone()]).collect()
}

/// Takes the files of another process; its communicators have been taken. [`renew`] makes them whole.
///
/// # Errors
/// None of files that another process has had open: their communicators, views and types are right.
pub(crate) fn take(
    call: &mut (impl Progress + HasComms + HasTypes + HasFiles),
    held: Vec<HeldFile>,
    again: OpenedAgain,
    layouts: &[Rc<Layout>],
) -> Result<()> {
    for (held, (descriptor, opening)) in held.into_iter().zip(again.0) {
        let comm = call.comms().find(held.comm)?;
        let (context, members, me) = (comm.context, comm.group.members().to_vec(), comm.rank);
        let [etype, filetype] = held.view.types.map(|place| Rc::clone(&layouts[place as usize]));
        let representation = Representation::of_name(&held.view.representation)?;
        let shown = views::show(
            call,
            (held.view.displacement, etype, filetype),
            representation,
            opening.amode & MPI_MODE_RDONLY == 0,
        )?;
        let locks = FileLocks::of(&call.engine().job);
        let is_nfs = system::is_on_nfs(&descriptor.file);
        let opened = Opened {
            file: descriptor.file,
            path: CString::new(opening.path).expect("it has been opened by this path"),
            context: context + Channel::Collective as u32,
            members,
            me,
            aggregators: Vec::new(),
            aggregators_wanted: 0,
            is_readable: descriptor.is_readable,
            is_writable: descriptor.is_writable,
            is_locked: Cell::new(false),
            locks,
        };
        errhandler::retain(held.errhandler);
        let file = File {
            comm: held.comm,
            opened: Rc::new(opened),
            amode: opening.amode,
            shown,
            position: held.pointers[0],
            pointer: Rc::new(Pointer::Own(Cell::new(held.pointers[1]))),
            hints: Hints::decode(&held.hints).for_file(is_nfs),
            is_atomic: held.is_atomic,
            errhandler: held.errhandler,
            split: None,
            accesses: held.accesses,
        };
        call.files_mut().open.insert_at(held.handle.0, file);
    }
    Ok(())
}

/// Renews the ranks and the shared pointers of files that have a successor among their ranks. All ranks of
/// those files call this, behind the barrier.
///
/// # Errors
/// None where all ranks are of one launch.
pub(crate) fn renew(
    call: &mut (impl Progress + HasComms + HasFiles),
    number_now: impl Fn(u32) -> u32,
    successors: &[u32],
) -> Result<()> {
    let has_successor =
        |opened: &Opened| opened.members.iter().any(|member| successors.contains(&number_now(*member)));
    for (handle, comm) in with_any(call, has_successor)? {
        let shared = call.files().find(handle)?.pointer.add(0).unwrap_or(0);
        let places = open::place_of_file(call, comm)?;
        // Behind this meeting no rank needs the former pointer.
        let nodes = open::numbered(open::meet(call, comm, places)?.into_iter());
        if let Pointer::Word { taken, .. } = &*call.files().find(handle)?.pointer {
            let taken = *taken;
            open::give_range_back(call, taken);
        }
        let pointer = Rc::new(open::make_pointer(call, comm, &nodes)?);
        let members = call.comms().find(comm)?.group.members().to_vec();
        let is_served = matches!(*pointer, Pointer::Own(_)) && members.len() > 1;
        let file = call.files_mut().find_mut(handle)?;
        let opened = Rc::get_mut(&mut file.opened).expect("no access is under way");
        (opened.aggregators, opened.aggregators_wanted) = open::order_of_aggregators(&nodes);
        opened.members = members;
        if opened.me == 0 {
            pointer.set(shared);
        }
        file.pointer = pointer;
        if is_served {
            open::serve_pointer(call, handle)?;
        }
        open::meet(call, comm, [0])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moved_file_differs_from_another_of_its_inode_by_its_birth() {
        let one = Identity { inode: 3, born_ns: 7 };
        assert!(one.may_be(one) && one.may_be(Identity { inode: 3, born_ns: 0 }));
        assert!(!one.may_be(Identity { inode: 4, ..one }) && !one.may_be(Identity { born_ns: 8, ..one }));
        let unknown = Identity::default();
        assert!(unknown.may_be(unknown) && !unknown.may_be(one));
    }
}
