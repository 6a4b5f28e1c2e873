//! The upcalls of libpmix, from a thread of its own: each is a [`Request`] for the receiver, and what waits
//! for its answer. An upcall never waits.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::sync::OnceLock;

use super::abi::{
    App, BYTE_OBJECT, Info, InfoCallback, LookupCallback, ModexCallback, OpCallback, RawProcess, STRING,
    SpawnCallback, bytes_of, process_of, processes_of, slice, texts_of,
};
use super::reply::{Callback, Pending};
use crate::gathers::Kind;
use crate::names::{Lookup, Range, Value};
use crate::spaces::Process;
use crate::wire::Command;
use crate::{status, texts};

/// A request of ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// A process has called PMIx_Init.
    Connected(Process),
    /// A process has called PMIx_Finalize.
    Finalized(Process),
    /// A process wants the job to end with this status.
    Abort(Process, i32),
    /// A process has a text for the user; none: libpmix itself.
    Log(Option<Process>, Vec<u8>),
    /// All processes of this node are in an operation.
    Gather {
        /// Kind.
        kind: Kind,
        /// The processes of all nodes.
        processes: Vec<Process>,
        /// Bytes that those of this node have given.
        bytes: Vec<u8>,
        /// Whether they want a number for their group.
        wants_context: bool,
        /// How long they wait, in seconds.
        timeout_s: Option<u64>,
    },
    /// A process wants the keys of one of another node.
    Keys(Process, Option<u64>),
    /// A process publishes entries.
    Publish {
        /// The process.
        owner: Process,
        /// The processes that may see them.
        range: Range,
        /// Whether they go with the first that reads them.
        is_read_once: bool,
        /// Keys and values.
        entries: Vec<(String, Value)>,
    },
    /// A process wants entries, and how long it waits, in seconds.
    Lookup(Lookup, Option<u64>),
    /// A process takes entries back.
    Unpublish(Process, Vec<String>),
    /// A process wants more processes.
    Spawn(Process, Vec<Command>),
}

/// The receiver of upcalls.
pub trait Upcalls: Send + Sync {
    /// A request, which the receiver answers by a [`super::Reply`]; or the number ([`status`]) of why it does
    /// not.
    ///
    /// # Errors
    /// That number.
    fn handle(&self, request: Request, pending: Pending) -> Result<(), i32>;

    /// Handles that there are more connections than this, which the process may have.
    fn handle_crowd(&self, limit: u32);

    /// The keys of a process of this node, that another node has asked for with this number.
    fn handle_keys(&self, node: u32, number: u64, status: i32, bytes: &[u8]);
}

pub(super) static UPCALLS: OnceLock<Box<dyn Upcalls>> = OnceLock::new();

type ClientConnected2 =
    unsafe extern "C" fn(*const RawProcess, *mut c_void, *mut Info, usize, OpCallback, *mut c_void) -> c_int;
type ClientFinalized = unsafe extern "C" fn(*const RawProcess, *mut c_void, OpCallback, *mut c_void) -> c_int;
type Abort = unsafe extern "C" fn(
    *const RawProcess,
    *mut c_void,
    c_int,
    *const c_char,
    *mut RawProcess,
    usize,
    OpCallback,
    *mut c_void,
) -> c_int;
type Fence = unsafe extern "C" fn(
    *const RawProcess,
    usize,
    *const Info,
    usize,
    *mut c_char,
    usize,
    ModexCallback,
    *mut c_void,
) -> c_int;
type DirectModex =
    unsafe extern "C" fn(*const RawProcess, *const Info, usize, ModexCallback, *mut c_void) -> c_int;
type Publish = unsafe extern "C" fn(*const RawProcess, *const Info, usize, OpCallback, *mut c_void) -> c_int;
type LookupCall = unsafe extern "C" fn(
    *const RawProcess,
    *const *const c_char,
    *const Info,
    usize,
    LookupCallback,
    *mut c_void,
) -> c_int;
type Unpublish = unsafe extern "C" fn(
    *const RawProcess,
    *const *const c_char,
    *const Info,
    usize,
    OpCallback,
    *mut c_void,
) -> c_int;
type Spawn = unsafe extern "C" fn(
    *const RawProcess,
    *const Info,
    usize,
    *const App,
    usize,
    SpawnCallback,
    *mut c_void,
) -> c_int;
type Connect =
    unsafe extern "C" fn(*const RawProcess, usize, *const Info, usize, OpCallback, *mut c_void) -> c_int;
type Log =
    unsafe extern "C" fn(*const RawProcess, *const Info, usize, *const Info, usize, OpCallback, *mut c_void);
type Group = unsafe extern "C" fn(
    c_int,
    *const c_char,
    *const RawProcess,
    usize,
    *const Info,
    usize,
    InfoCallback,
    *mut c_void,
) -> c_int;

/// The table of upcalls; those without a name are not given. A newer library may read further: zeros follow.
#[repr(C)]
pub(super) struct Module {
    client_connected: *const c_void,
    client_finalized: Option<ClientFinalized>,
    abort: Option<Abort>,
    fence: Option<Fence>,
    direct_modex: Option<DirectModex>,
    publish: Option<Publish>,
    lookup: Option<LookupCall>,
    unpublish: Option<Unpublish>,
    spawn: Option<Spawn>,
    connect: Option<Connect>,
    disconnect: Option<Connect>,
    register_events_to_tool_connected: [*const c_void; 6],
    log: Option<Log>,
    allocate_to_push_stdin: [*const c_void; 7],
    group: Option<Group>,
    fabric: *const c_void,
    client_connected2: Option<ClientConnected2>,
    newer: [*const c_void; 36],
}

const _: () = assert!(std::mem::offset_of!(Module, log) == 17 * 8);
const _: () = assert!(std::mem::offset_of!(Module, group) == 25 * 8);
const _: () = assert!(std::mem::offset_of!(Module, client_connected2) == 27 * 8);

impl Module {
    pub(super) fn new() -> Self {
        Module {
            client_connected: ptr::null(),
            client_finalized: Some(on_finalized),
            abort: Some(on_abort),
            fence: Some(on_fence),
            direct_modex: Some(on_direct_modex),
            publish: Some(on_publish),
            lookup: Some(on_lookup),
            unpublish: Some(on_unpublish),
            spawn: Some(on_spawn),
            connect: Some(on_connect),
            disconnect: Some(on_disconnect),
            register_events_to_tool_connected: [ptr::null(); 6],
            log: Some(on_log),
            allocate_to_push_stdin: [ptr::null(); 7],
            group: Some(on_group),
            fabric: ptr::null(),
            client_connected2: Some(on_connected),
            newer: [ptr::null(); 36],
        }
    }
}

fn hand_on(request: Request, callback: Callback, data: *mut c_void) -> c_int {
    let Some(upcalls) = UPCALLS.get() else { return status::ERROR };
    match upcalls.handle(request, Pending { callback, data }) {
        Ok(()) => status::SUCCESS,
        Err(status) => status,
    }
}

/// The number of a directive.
fn directive(infos: &[Info], name: &str) -> Option<u64> {
    infos.iter().find(|info| info.name() == name).and_then(Info::number)
}

fn timeout_s(infos: &[Info]) -> Option<u64> {
    directive(infos, "pmix.timeout").filter(|seconds| *seconds > 0)
}

unsafe extern "C" fn on_connected(
    process: *const RawProcess,
    _object: *mut c_void,
    _info: *mut Info,
    _count: usize,
    callback: OpCallback,
    data: *mut c_void,
) -> c_int {
    // SAFETY: libpmix gives the process that it is about.
    let process = process_of(unsafe { &*process });
    hand_on(Request::Connected(process), Callback::Operation(callback), data)
}

unsafe extern "C" fn on_finalized(
    process: *const RawProcess,
    _object: *mut c_void,
    callback: OpCallback,
    data: *mut c_void,
) -> c_int {
    // SAFETY: libpmix gives the process that it is about.
    let process = process_of(unsafe { &*process });
    hand_on(Request::Finalized(process), Callback::Operation(callback), data)
}

unsafe extern "C" fn on_abort(
    process: *const RawProcess,
    _object: *mut c_void,
    status: c_int,
    _text: *const c_char,
    _others: *mut RawProcess,
    _count: usize,
    callback: OpCallback,
    data: *mut c_void,
) -> c_int {
    // SAFETY: libpmix gives the process that it is about.
    let process = process_of(unsafe { &*process });
    hand_on(Request::Abort(process, status), Callback::Operation(callback), data)
}

unsafe extern "C" fn on_fence(
    processes: *const RawProcess,
    count: usize,
    infos: *const Info,
    info_count: usize,
    given: *mut c_char,
    length: usize,
    callback: ModexCallback,
    data: *mut c_void,
) -> c_int {
    // SAFETY: libpmix gives so many of each; without any the pointer may be null.
    let (processes, infos, bytes) = unsafe {
        (processes_of(processes, count), slice(infos, info_count), slice(given.cast::<u8>(), length).to_vec())
    };
    let request = Request::Gather {
        kind: Kind::Fence,
        processes,
        bytes,
        wants_context: false,
        timeout_s: timeout_s(infos),
    };
    let status = hand_on(request, Callback::Modex(callback), data);
    if status == status::SUCCESS && !given.is_null() {
        // SAFETY: the host owns the blob, which libpmix has allocated with malloc.
        unsafe { libc::free(given.cast()) };
    }
    status
}

unsafe extern "C" fn on_direct_modex(
    process: *const RawProcess,
    infos: *const Info,
    info_count: usize,
    callback: ModexCallback,
    data: *mut c_void,
) -> c_int {
    // SAFETY: libpmix gives the process that it is about, and so many directives.
    let (process, infos) = unsafe { (process_of(&*process), slice(infos, info_count)) };
    hand_on(Request::Keys(process, timeout_s(infos)), Callback::Modex(callback), data)
}

unsafe extern "C" fn on_publish(
    process: *const RawProcess,
    infos: *const Info,
    info_count: usize,
    callback: OpCallback,
    data: *mut c_void,
) -> c_int {
    // SAFETY: libpmix gives the process that it is about, and so many entries.
    let (owner, infos) = unsafe { (process_of(&*process), slice(infos, info_count)) };
    let range = match directive(infos, "pmix.range") {
        Some(2) => Range::Node,
        Some(3) => Range::Space,
        Some(7) => Range::Process,
        _ => Range::Job,
    };
    let is_read_once = directive(infos, "pmix.persist") == Some(1);
    let mut entries = Vec::new();
    // Names that begin so are those of directives.
    for info in infos.iter().filter(|info| !info.name().starts_with("pmix.")) {
        // SAFETY: libpmix has handed it over, and it stays until the answer.
        let Some(value) = (unsafe { info.datum() }) else { return status::NOT_SUPPORTED };
        entries.push((info.name(), value));
    }
    hand_on(Request::Publish { owner, range, is_read_once, entries }, Callback::Operation(callback), data)
}

unsafe extern "C" fn on_lookup(
    process: *const RawProcess,
    keys: *const *const c_char,
    infos: *const Info,
    info_count: usize,
    callback: LookupCallback,
    data: *mut c_void,
) -> c_int {
    // SAFETY: libpmix gives the process, a list that ends with a null pointer, and so many directives.
    let (asker, keys, infos) = unsafe { (process_of(&*process), texts_of(keys), slice(infos, info_count)) };
    let keys = strings(keys);
    let all = keys.len() as u32;
    let wanted = match directive(infos, "pmix.wait") {
        None => 0,
        Some(0) => all,
        Some(count) => u32::try_from(count).unwrap_or(all).min(all),
    };
    let request = Request::Lookup(Lookup { asker, keys, wanted }, timeout_s(infos));
    hand_on(request, Callback::Lookup(callback), data)
}

unsafe extern "C" fn on_unpublish(
    process: *const RawProcess,
    keys: *const *const c_char,
    _infos: *const Info,
    _count: usize,
    callback: OpCallback,
    data: *mut c_void,
) -> c_int {
    // SAFETY: libpmix gives the process, and a list that ends with a null pointer, or is one.
    let (owner, keys) = unsafe { (process_of(&*process), texts_of(keys)) };
    hand_on(Request::Unpublish(owner, strings(keys)), Callback::Operation(callback), data)
}

fn strings(texts: Vec<Vec<u8>>) -> Vec<String> {
    texts.iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect()
}

unsafe extern "C" fn on_spawn(
    process: *const RawProcess,
    job_infos: *const Info,
    job_info_count: usize,
    apps: *const App,
    count: usize,
    callback: SpawnCallback,
    data: *mut c_void,
) -> c_int {
    // SAFETY: libpmix gives the process that asks, so many directives, and so many commands.
    let (process, job_infos, apps) =
        unsafe { (process_of(&*process), slice(job_infos, job_info_count), slice(apps, count)) };
    // SAFETY: libpmix has handed them over.
    let commands = apps.iter().map(|app| unsafe { command_of(app, job_infos) });
    let Some(commands) = commands.collect::<Option<Vec<Command>>>().filter(|all| !all.is_empty()) else {
        return status::BAD_PARAMETER;
    };
    hand_on(Request::Spawn(process, commands), Callback::Spawn(callback), data)
}

/// A command as ours; none where it has no name, or no processes.
///
/// # Safety
/// libpmix has handed it over.
unsafe fn command_of(app: &App, job_infos: &[Info]) -> Option<Command> {
    // SAFETY: the caller's promise: texts, and lists that end with a null pointer.
    let (file, mut arguments, environment, directory, infos) = unsafe {
        (
            bytes_of(app.command)?,
            texts_of(app.arguments),
            texts_of(app.environment),
            bytes_of(app.directory).unwrap_or_default(),
            slice(app.infos, app.count),
        )
    };
    // The first is the name.
    arguments.drain(..arguments.len().min(1));
    let wish = |name: &str| {
        let info = infos.iter().chain(job_infos).find(|info| info.name() == name)?;
        // SAFETY: the caller's promise.
        unsafe { info.datum() }.map(|value| value.bytes)
    };
    let (host, wanted) = (wish("pmix.host").unwrap_or_default(), wish("pmix.wdir"));
    let ranks = u32::try_from(app.ranks).ok().filter(|ranks| *ranks > 0)?;
    let directory = wanted.unwrap_or(directory);
    Some(Command { ranks, file, arguments, environment, directory, host })
}

unsafe extern "C" fn on_connect(
    processes: *const RawProcess,
    count: usize,
    infos: *const Info,
    info_count: usize,
    callback: OpCallback,
    data: *mut c_void,
) -> c_int {
    // SAFETY: libpmix gives so many of each.
    let (processes, infos) = unsafe { (processes_of(processes, count), slice(infos, info_count)) };
    join(Kind::Connect, processes, infos, callback, data)
}

unsafe extern "C" fn on_disconnect(
    processes: *const RawProcess,
    count: usize,
    infos: *const Info,
    info_count: usize,
    callback: OpCallback,
    data: *mut c_void,
) -> c_int {
    // SAFETY: libpmix gives so many of each.
    let (processes, infos) = unsafe { (processes_of(processes, count), slice(infos, info_count)) };
    join(Kind::Disconnect, processes, infos, callback, data)
}

/// Both of them.
fn join(
    kind: Kind,
    processes: Vec<Process>,
    infos: &[Info],
    callback: OpCallback,
    data: *mut c_void,
) -> c_int {
    let (bytes, wants_context, timeout_s) = (Vec::new(), false, timeout_s(infos));
    let request = Request::Gather { kind, processes, bytes, wants_context, timeout_s };
    hand_on(request, Callback::Operation(callback), data)
}

unsafe extern "C" fn on_group(
    operation: c_int,
    name: *const c_char,
    processes: *const RawProcess,
    count: usize,
    infos: *const Info,
    info_count: usize,
    callback: InfoCallback,
    data: *mut c_void,
) -> c_int {
    // SAFETY: libpmix gives a text, so many processes, and so many directives.
    let (name, mut processes, infos) =
        unsafe { (bytes_of(name), processes_of(processes, count), slice(infos, info_count)) };
    let is_set = |name: &str| infos.iter().any(|info| info.name() == name && info.is_true());
    if is_set("pmix.grp.lcl") {
        // libpmix has all that it needs; it only tells.
        return status::OPERATION_SUCCEEDED;
    }
    let name = String::from_utf8_lossy(&name.unwrap_or_default()).into_owned();
    let (kind, wants_context) = match operation {
        GROUP_CONSTRUCT => (Kind::Construct(name), is_set("pmix.grp.actxid")),
        GROUP_DESTRUCT => (Kind::Destruct(name), false),
        _ => return status::NOT_SUPPORTED,
    };
    // The same on all nodes, whatever order a rank has named them in.
    processes.sort_unstable();
    let given = infos.iter().find(|info| info.name() == "pmix.grp.endpt");
    // SAFETY: libpmix has handed it over, and it stays until the answer.
    let bytes = given.and_then(|info| unsafe { info.object() }).map(<[u8]>::to_vec).unwrap_or_default();
    let request = Request::Gather { kind, processes, bytes, wants_context, timeout_s: timeout_s(infos) };
    hand_on(request, Callback::Group(callback), data)
}

unsafe extern "C" fn on_log(
    process: *const RawProcess,
    entries: *const Info,
    count: usize,
    _directives: *const Info,
    _directive_count: usize,
    callback: OpCallback,
    data: *mut c_void,
) {
    // SAFETY: libpmix gives the process that it is about, or none for a message of its own, and so many
    // entries.
    let (process, entries) = unsafe { (process.as_ref().map(process_of), slice(entries, count)) };
    let texts = entries.iter().filter_map(|entry| {
        match (&*entry.name(), entry.value.kind) {
            // SAFETY: libpmix has handed it over.
            ("pmix.log.stderr" | "pmix.log.stdout", STRING | BYTE_OBJECT) => unsafe { entry.datum() },
            // SAFETY: the same.
            ("pmix.log.msg", BYTE_OBJECT) => unsafe { entry.datum() },
            _ => None,
        }
    });
    let texts: Vec<Vec<u8>> = texts.map(|value| texts::of_message(value.bytes)).collect();
    hand_on(Request::Log(process, texts.concat()), Callback::Operation(callback), data);
}

/// The keys of a rank that [`super::Library::ask_rank`] has asked for. `asked`: by whom.
pub(super) unsafe extern "C" fn on_keys(
    status: c_int,
    bytes: *const c_char,
    length: usize,
    asked: *mut c_void,
) {
    // SAFETY: `ask_rank` has leaked it for this call alone.
    let (node, number) = *unsafe { Box::from_raw(asked.cast::<(u32, u64)>()) };
    // SAFETY: so many bytes are there until this returns.
    let bytes = unsafe { slice(bytes.cast::<u8>(), length) };
    UPCALLS.get().into_iter().for_each(|upcalls| upcalls.handle_keys(node, number, status, bytes));
}

const GROUP_CONSTRUCT: c_int = 0;
const GROUP_DESTRUCT: c_int = 1;
