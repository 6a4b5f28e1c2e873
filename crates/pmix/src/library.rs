//! libpmix, loaded at run time: the functions that the server calls, and the upcalls that it gets. This is
//! the only module of the crate with `unsafe`.
//!
//! The declarations are those of the PMIx standard, version 4 and 5, for 64 bits. libpmix calls up from a
//! thread of its own. An upcall never waits: it hands a [`Reply`] on, which another thread gives back.
//!
//! Nothing that is handed to libpmix is taken back: the process serves one job, and ends with it.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr;
use std::sync::OnceLock;

use crate::wire::Description;

const SUCCESS: c_int = 0;
const ERROR: c_int = -1;
const NOT_FOUND: c_int = -46;
const NOT_SUPPORTED: c_int = -47;
/// The call is over, and there is no answer to wait for.
const OPERATION_SUCCEEDED: c_int = -157;
/// Number that stands for all ranks of a namespace.
const RANK_WILDCARD: u32 = -2_i32 as u32;

const STRING: u16 = 3;
const UINT16: u16 = 13;
const UINT32: u16 = 14;
const INFO: u16 = 24;
const BYTE_OBJECT: u16 = 27;
const DATA_ARRAY: u16 = 39;
const PROC_RANK: u16 = 40;

/// Turns of libpmix's thread from the end of a rank to the last upcall about it, and some more.
const SETTLE_ROUNDS: usize = 16;

/// The first version that this server works with.
const MAJOR_MIN: u32 = 4;

#[repr(C)]
#[derive(Clone, Copy)]
struct Process {
    space: [c_char; 256],
    rank: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Value {
    kind: u16,
    data: [u64; 3],
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Info {
    key: [c_char; 512],
    flags: u32,
    value: Value,
}

#[repr(C)]
struct DataArray {
    kind: u16,
    size: usize,
    array: *mut c_void,
}

// As in the headers of 4.2.2 and 5.0.11.
const _: () = assert!(size_of::<Process>() == 260 && size_of::<Value>() == 32);
const _: () = assert!(size_of::<Info>() == 552 && size_of::<DataArray>() == 24);

type OpCallback = Option<unsafe extern "C" fn(c_int, *mut c_void)>;
type Release = Option<unsafe extern "C" fn(*mut c_void)>;
type ModexCallback =
    Option<unsafe extern "C" fn(c_int, *const c_char, usize, *mut c_void, Release, *mut c_void)>;

type ClientConnected2 =
    unsafe extern "C" fn(*const Process, *mut c_void, *mut Info, usize, OpCallback, *mut c_void) -> c_int;
type ClientFinalized = unsafe extern "C" fn(*const Process, *mut c_void, OpCallback, *mut c_void) -> c_int;
type Abort = unsafe extern "C" fn(
    *const Process,
    *mut c_void,
    c_int,
    *const c_char,
    *mut Process,
    usize,
    OpCallback,
    *mut c_void,
) -> c_int;
type Fence = unsafe extern "C" fn(
    *const Process,
    usize,
    *const Info,
    usize,
    *mut c_char,
    usize,
    ModexCallback,
    *mut c_void,
) -> c_int;
type DirectModex =
    unsafe extern "C" fn(*const Process, *const Info, usize, ModexCallback, *mut c_void) -> c_int;
type Log =
    unsafe extern "C" fn(*const Process, *const Info, usize, *const Info, usize, OpCallback, *mut c_void);

/// The table of upcalls; those without a name are not given. A newer library may read further: zeros follow.
#[repr(C)]
struct Module {
    client_connected: *const c_void,
    client_finalized: Option<ClientFinalized>,
    abort: Option<Abort>,
    fence: Option<Fence>,
    direct_modex: Option<DirectModex>,
    publish_to_tool_connected: [*const c_void; 12],
    log: Option<Log>,
    allocate_to_fabric: [*const c_void; 9],
    client_connected2: Option<ClientConnected2>,
    newer: [*const c_void; 36],
}

const _: () = assert!(std::mem::offset_of!(Module, log) == 17 * 8);
const _: () = assert!(std::mem::offset_of!(Module, client_connected2) == 27 * 8);

/// The answer to an upcall, which waits for nothing else than to be given.
#[derive(Debug)]
pub enum Reply {
    /// Callback of an operation.
    Operation(Operation),
    /// Callback of a fence, with what all nodes have given.
    Fence(PendingFence, Vec<u8>),
}

/// An operation that waits for its answer.
#[derive(Debug)]
pub struct Operation {
    callback: OpCallback,
    data: *mut c_void,
}

/// A fence that waits for the other nodes.
#[derive(Debug)]
pub struct PendingFence {
    callback: ModexCallback,
    data: *mut c_void,
}

// SAFETY: libpmix takes the answer to an upcall from any thread; the pointer is its own.
unsafe impl Send for Operation {}
// SAFETY: as above.
unsafe impl Send for PendingFence {}

impl Reply {
    /// Gives it to libpmix. Never from an upcall itself.
    pub fn give(self) {
        match self {
            Reply::Operation(Operation { callback: Some(callback), data }) => {
                // SAFETY: both are those that the upcall was given, and are used once: `self` is consumed.
                unsafe { callback(SUCCESS, data) }
            }
            Reply::Fence(PendingFence { callback: Some(callback), data }, given) => {
                let given = Box::leak(Box::new(given));
                let (bytes, length) = (given.as_ptr().cast(), given.len());
                // SAFETY: as above; the bytes stay until libpmix calls `release_bytes` with the same pointer.
                unsafe {
                    callback(SUCCESS, bytes, length, data, Some(release_bytes), ptr::from_mut(given).cast())
                }
            }
            Reply::Operation(_) | Reply::Fence(..) => {}
        }
    }
}

unsafe extern "C" fn release_bytes(bytes: *mut c_void) {
    // SAFETY: libpmix gives back, once, the pointer that `Reply::give` has leaked.
    drop(unsafe { Box::from_raw(bytes.cast::<Vec<u8>>()) });
}

/// The receiver of upcalls. Ranks are world ranks.
pub trait Upcalls: Send + Sync {
    /// A rank has called PMIx_Init.
    fn handle_connected(&self, rank: u32, reply: Reply);
    /// A rank has called PMIx_Finalize.
    fn handle_finalized(&self, rank: u32, reply: Reply);
    /// A rank wants the job to end with this status.
    fn handle_abort(&self, rank: u32, status: i32, reply: Reply);
    /// A rank has a text for the user.
    fn handle_log(&self, rank: u32, text: &[u8], reply: Reply);
    /// All ranks of this node are in a fence of all ranks, and have given these bytes.
    fn handle_fence(&self, given: &[u8], fence: PendingFence);
}

static UPCALLS: OnceLock<Box<dyn Upcalls>> = OnceLock::new();

fn operation(callback: OpCallback, data: *mut c_void) -> Reply {
    Reply::Operation(Operation { callback, data })
}

unsafe extern "C" fn on_connected(
    process: *const Process,
    _object: *mut c_void,
    _info: *mut Info,
    _count: usize,
    callback: OpCallback,
    data: *mut c_void,
) -> c_int {
    let Some(upcalls) = UPCALLS.get() else { return ERROR };
    // SAFETY: libpmix gives the process that it is about.
    upcalls.handle_connected(unsafe { (*process).rank }, operation(callback, data));
    SUCCESS
}

unsafe extern "C" fn on_finalized(
    process: *const Process,
    _object: *mut c_void,
    callback: OpCallback,
    data: *mut c_void,
) -> c_int {
    let Some(upcalls) = UPCALLS.get() else { return ERROR };
    // SAFETY: libpmix gives the process that it is about.
    upcalls.handle_finalized(unsafe { (*process).rank }, operation(callback, data));
    SUCCESS
}

unsafe extern "C" fn on_abort(
    process: *const Process,
    _object: *mut c_void,
    status: c_int,
    _text: *const c_char,
    _others: *mut Process,
    _count: usize,
    callback: OpCallback,
    data: *mut c_void,
) -> c_int {
    let Some(upcalls) = UPCALLS.get() else { return ERROR };
    // SAFETY: libpmix gives the process that it is about.
    upcalls.handle_abort(unsafe { (*process).rank }, status, operation(callback, data));
    SUCCESS
}

unsafe extern "C" fn on_fence(
    processes: *const Process,
    count: usize,
    _info: *const Info,
    _infos: usize,
    given: *mut c_char,
    length: usize,
    callback: ModexCallback,
    data: *mut c_void,
) -> c_int {
    let Some(upcalls) = UPCALLS.get() else { return ERROR };
    // SAFETY: libpmix gives so many processes.
    if count != 1 || unsafe { (*processes).rank } != RANK_WILDCARD {
        return NOT_SUPPORTED;
    }
    let bytes = match given.is_null() {
        true => &[][..],
        // SAFETY: so many bytes are there; without any the pointer may be null.
        false => unsafe { std::slice::from_raw_parts(given.cast::<u8>(), length) },
    };
    upcalls.handle_fence(bytes, PendingFence { callback, data });
    if !given.is_null() {
        // SAFETY: the host owns the blob, which libpmix has allocated with malloc.
        unsafe { libc::free(given.cast()) };
    }
    SUCCESS
}

/// A key of another node's rank that no fence has brought: there is none.
unsafe extern "C" fn on_direct_modex(
    _process: *const Process,
    _info: *const Info,
    _infos: usize,
    _callback: ModexCallback,
    _data: *mut c_void,
) -> c_int {
    NOT_FOUND
}

unsafe extern "C" fn on_log(
    process: *const Process,
    entries: *const Info,
    count: usize,
    _directives: *const Info,
    _directive_count: usize,
    callback: OpCallback,
    data: *mut c_void,
) {
    let Some(upcalls) = UPCALLS.get() else { return };
    // SAFETY: libpmix gives the process that it is about, or none for a message of its own, and so many
    // entries.
    let (rank, entries) = unsafe {
        let rank = process.as_ref().map_or(u32::MAX, |process| process.rank);
        let entries = if entries.is_null() { &[][..] } else { std::slice::from_raw_parts(entries, count) };
        (rank, entries)
    };
    let texts = entries.iter().filter_map(|entry| {
        // SAFETY: keys end with a zero; a string's value is a pointer to one, a byte object's two words are
        // pointer and length.
        unsafe {
            let key = CStr::from_ptr(entry.key.as_ptr()).to_bytes();
            let start = entry.value.data[0] as usize as *const c_char;
            match (key, entry.value.kind) {
                _ if start.is_null() => None,
                (b"pmix.log.stderr" | b"pmix.log.stdout", STRING) => Some(CStr::from_ptr(start).to_bytes()),
                (b"pmix.log.msg" | b"pmix.log.stderr" | b"pmix.log.stdout", BYTE_OBJECT) => {
                    Some(std::slice::from_raw_parts(start.cast::<u8>(), entry.value.data[1] as usize))
                }
                _ => None,
            }
        }
    });
    let texts: Vec<&[u8]> = texts.collect();
    upcalls.handle_log(rank, &texts.concat(), operation(callback, data));
}

/// The functions of a libpmix that has been loaded.
#[derive(Clone, Copy)]
pub struct Library {
    init: unsafe extern "C" fn(*mut Module, *mut Info, usize) -> c_int,
    register_space:
        unsafe extern "C" fn(*const c_char, c_int, *mut Info, usize, OpCallback, *mut c_void) -> c_int,
    register_client: unsafe extern "C" fn(
        *const Process,
        libc::uid_t,
        libc::gid_t,
        *mut c_void,
        OpCallback,
        *mut c_void,
    ) -> c_int,
    deregister_client: unsafe extern "C" fn(*const Process, OpCallback, *mut c_void),
    setup_fork: unsafe extern "C" fn(*const Process, *mut *mut *mut c_char) -> c_int,
    generate_regex: unsafe extern "C" fn(*const c_char, *mut *mut c_char) -> c_int,
    generate_ppn: unsafe extern "C" fn(*const c_char, *mut *mut c_char) -> c_int,
    error_string: unsafe extern "C" fn(c_int) -> *const c_char,
}

impl Library {
    /// Loads the first of these that can be loaded.
    ///
    /// # Errors
    /// One line of why none can, or why its version does not do.
    pub fn open(names: &[String]) -> Result<Self, String> {
        let mut refused = None;
        for name in names {
            if name.contains('/') && !Path::new(name).exists() {
                continue;
            }
            match load(name) {
                Ok(handle) => return Self::of(name, handle),
                Err(text) => refused = refused.or(Some(text)),
            }
        }
        let why = refused.unwrap_or_else(|| format!("none of {} is there", names.join(", ")));
        Err(format!(
            "programs of Open MPI need libpmix, which cannot be loaded: {why} (Debian's package libpmix2 has it; TUTTI_LIBPMIX names another file)"
        ))
    }

    fn of(name: &str, handle: *mut c_void) -> Result<Self, String> {
        let symbol = |symbol: &CStr| {
            // SAFETY: the handle is of a library that stays loaded; the name ends with a zero.
            let found = unsafe { libc::dlsym(handle, symbol.as_ptr()) };
            let missing =
                || format!("{name} is no libpmix that is known here: it has no {}", symbol.to_string_lossy());
            if found.is_null() { Err(missing()) } else { Ok(found) }
        };
        let version = symbol(c"PMIx_Get_version")?;
        // SAFETY: `const char *PMIx_Get_version(void)` since version 1; the text is static.
        let version = unsafe {
            let version =
                std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> *const c_char>(version);
            CStr::from_ptr(version()).to_string_lossy().into_owned()
        };
        if major(&version).is_none_or(|major| major < MAJOR_MIN) {
            return Err(format!(
                "{name} is {version}, which is too old: programs of Open MPI need libpmix {MAJOR_MIN} or newer (Debian's package libpmix2 has it; TUTTI_LIBPMIX names another file)"
            ));
        }
        // SAFETY: each has the type that the PMIx standard gives it since version 4.
        unsafe {
            Ok(Library {
                init: std::mem::transmute::<
                    *mut c_void,
                    unsafe extern "C" fn(*mut Module, *mut Info, usize) -> c_int,
                >(symbol(c"PMIx_server_init")?),
                register_space: std::mem::transmute::<
                    *mut c_void,
                    unsafe extern "C" fn(
                        *const c_char,
                        c_int,
                        *mut Info,
                        usize,
                        OpCallback,
                        *mut c_void,
                    ) -> c_int,
                >(symbol(c"PMIx_server_register_nspace")?),
                register_client: std::mem::transmute::<
                    *mut c_void,
                    unsafe extern "C" fn(
                        *const Process,
                        libc::uid_t,
                        libc::gid_t,
                        *mut c_void,
                        OpCallback,
                        *mut c_void,
                    ) -> c_int,
                >(symbol(c"PMIx_server_register_client")?),
                deregister_client: std::mem::transmute::<
                    *mut c_void,
                    unsafe extern "C" fn(*const Process, OpCallback, *mut c_void),
                >(symbol(c"PMIx_server_deregister_client")?),
                setup_fork: std::mem::transmute::<
                    *mut c_void,
                    unsafe extern "C" fn(*const Process, *mut *mut *mut c_char) -> c_int,
                >(symbol(c"PMIx_server_setup_fork")?),
                generate_regex: std::mem::transmute::<
                    *mut c_void,
                    unsafe extern "C" fn(*const c_char, *mut *mut c_char) -> c_int,
                >(symbol(c"PMIx_generate_regex")?),
                generate_ppn: std::mem::transmute::<
                    *mut c_void,
                    unsafe extern "C" fn(*const c_char, *mut *mut c_char) -> c_int,
                >(symbol(c"PMIx_generate_ppn")?),
                error_string: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(c_int) -> *const c_char>(
                    symbol(c"PMIx_Error_string")?,
                ),
            })
        }
    }

    /// Begins to serve a job, once in the life of the process; gives the variables of each rank of this node.
    ///
    /// # Errors
    /// One line of what libpmix refuses.
    pub fn serve(self, job: &Description, upcalls: Box<dyn Upcalls>) -> Result<Vec<Vec<String>>, String> {
        UPCALLS.set(upcalls).map_err(|_| "this process serves a job already")?;
        let node = &job.nodes[job.node as usize];
        let module = Box::leak(Box::new(Module {
            client_connected: ptr::null(),
            client_finalized: Some(on_finalized),
            abort: Some(on_abort),
            fence: Some(on_fence),
            direct_modex: Some(on_direct_modex),
            publish_to_tool_connected: [ptr::null(); 12],
            log: Some(on_log),
            allocate_to_fabric: [ptr::null(); 9],
            client_connected2: Some(on_connected),
            newer: [ptr::null(); 36],
        }));
        let own = leak(vec![
            info("pmix.hname", text(node)),
            info("pmix.srvr.tmpdir", text(&job.folder)),
            info("pmix.sys.tmpdir", text(&job.folder)),
        ]);
        // SAFETY: table and list stay for ever.
        self.check("PMIx_server_init", unsafe { (self.init)(module, own.as_mut_ptr(), own.len()) })?;
        let all = leak(self.job_info(job)?);
        let space = terminated(&job.space);
        let local = job.local().len() as c_int;
        // SAFETY: name and list stay for ever; without a callback the call is over when it returns.
        let status = unsafe {
            (self.register_space)(space.as_ptr(), local, all.as_mut_ptr(), all.len(), None, ptr::null_mut())
        };
        self.check("PMIx_server_register_nspace", status)?;
        job.local().map(|rank| self.admit(&job.space, rank)).collect()
    }

    /// Waits until libpmix has read, and called up for, what dead ranks had sent: its thread looks at all
    /// sockets before it does what it is asked to do.
    pub fn settle(&self) {
        // A message is read, then handled, then answered.
        for _ in 0..SETTLE_ROUNDS {
            let stranger = Process { space: key("tutti-nobody"), rank: 0 };
            // SAFETY: without a callback the call is over when it returns; it copies the name, which is none
            // of its ranks', so that nothing else happens.
            unsafe { (self.deregister_client)(&raw const stranger, None, ptr::null_mut()) };
        }
    }

    /// Expects a rank, and gives its variables.
    fn admit(&self, space: &str, rank: u32) -> Result<Vec<String>, String> {
        let process = Box::leak(Box::new(Process { space: key(space), rank }));
        let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        // SAFETY: the process stays for ever; the object is given back in upcalls, which do not use it.
        let status =
            unsafe { (self.register_client)(process, user, group, ptr::null_mut(), None, ptr::null_mut()) };
        self.check("PMIx_server_register_client", status)?;
        let mut list: *mut *mut c_char = ptr::null_mut();
        // SAFETY: libpmix makes the list, which ends with a null pointer.
        self.check("PMIx_server_setup_fork", unsafe { (self.setup_fork)(process, &raw mut list) })?;
        let mut variables = Vec::new();
        while !list.is_null() {
            // SAFETY: until the null pointer each is a text that ends with a zero.
            unsafe {
                if (*list).is_null() {
                    break;
                }
                variables.push(CStr::from_ptr(*list).to_string_lossy().into_owned());
                list = list.add(1);
            }
        }
        Ok(variables)
    }

    fn job_info(&self, job: &Description) -> Result<Vec<Info>, String> {
        let list =
            |ranks: std::ops::Range<u32>| ranks.map(|rank| rank.to_string()).collect::<Vec<_>>().join(",");
        let per_node: Vec<String> = (0..job.nodes.len()).map(|node| list(job.ranks_of(node))).collect();
        let nodes = self.generated("PMIx_generate_regex", self.generate_regex, &job.nodes.join(","))?;
        let ranks = self.generated("PMIx_generate_ppn", self.generate_ppn, &per_node.join(";"))?;
        let mut all = vec![
            info("pmix.nmap", nodes),
            info("pmix.pmap", ranks),
            info("pmix.jobid", text(&job.space)),
            info("pmix.job.size", number(job.ranks())),
            info("pmix.max.size", number(job.ranks())),
            info("pmix.univ.size", number(job.universe)),
            info("pmix.job.napps", number(job.programs.len() as u32)),
            info("pmix.num.nodes", number(job.nodes.len() as u32)),
            info("pmix.local.size", number(job.local().len() as u32)),
            info("pmix.node.size", number(job.local().len() as u32)),
            info("pmix.lpeers", text(&list(job.local()))),
            info("pmix.lldr", rank_value(job.local().start)),
            info("pmix.tmpdir", text(&job.folder)),
            info("pmix.nsdir", text(&job.folder)),
        ];
        for (node, name) in job.nodes.iter().enumerate() {
            for (local, rank) in job.ranks_of(node).enumerate() {
                let mut of_rank = vec![
                    info("pmix.rank", rank_value(rank)),
                    info("pmix.lrank", short(local as u16)),
                    info("pmix.nrank", short(local as u16)),
                    info("pmix.grank", rank_value(rank)),
                    info("pmix.nodeid", number(node as u32)),
                    info("pmix.hname", text(name)),
                    info("pmix.appnum", number(job.program_of(rank))),
                ];
                if node == job.node as usize {
                    of_rank.push(info("pmix.pdir", text(&format!("{}/{rank}", job.folder))));
                }
                all.push(info("pmix.pdata", array(of_rank)));
            }
        }
        Ok(all)
    }

    fn generated(
        &self,
        name: &str,
        function: unsafe extern "C" fn(*const c_char, *mut *mut c_char) -> c_int,
        input: &str,
    ) -> Result<Value, String> {
        let mut out: *mut c_char = ptr::null_mut();
        // SAFETY: the text ends with a zero; libpmix stores one that it has allocated, or none.
        self.check(name, unsafe { function(terminated(input).as_ptr(), &raw mut out) })?;
        Ok(Value { kind: STRING, data: [out as usize as u64, 0, 0] })
    }

    fn check(&self, function: &str, status: c_int) -> Result<(), String> {
        if status == SUCCESS || status == OPERATION_SUCCEEDED {
            return Ok(());
        }
        // SAFETY: libpmix has a static text for any number.
        let why = unsafe { (self.error_string)(status).as_ref() }
            // SAFETY: as above; it ends with a zero.
            .map_or_else(String::new, |text| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned());
        Err(format!("libpmix refuses {function}: {why} ({status})"))
    }
}

fn load(name: &str) -> Result<*mut c_void, String> {
    // SAFETY: the text ends with a zero. The library is the user's choice, as the program itself is, and this
    // process has the user's identity.
    let handle = unsafe { libc::dlopen(terminated(name).as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
    if !handle.is_null() {
        return Ok(handle);
    }
    // SAFETY: there is a text after a failure, which stays until the next call of this thread.
    let why = unsafe { libc::dlerror().as_ref() }
        // SAFETY: as above; it ends with a zero.
        .map_or_else(
            || name.to_owned(),
            |text| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned(),
        );
    Err(why)
}

/// The first number in a version such as `OpenPMIx 4.2.2rc2 (PMIx Standard: 4.1 ...)`.
fn major(version: &str) -> Option<u32> {
    let begin = version.find(|letter: char| letter.is_ascii_digit())?;
    let rest = &version[begin..];
    let end = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// A text that stays for ever; what is behind a zero in it is cut.
fn terminated(text: &str) -> &'static CStr {
    let bytes = text.as_bytes().split(|byte| *byte == 0).next().unwrap_or_default();
    Box::leak(CString::new(bytes).unwrap_or_default().into_boxed_c_str())
}

fn leak(list: Vec<Info>) -> &'static mut [Info] {
    Box::leak(list.into_boxed_slice())
}

fn key<const N: usize>(name: &str) -> [c_char; N] {
    let mut key = [0; N];
    // One less: the last is zero.
    key.iter_mut().take(N - 1).zip(name.bytes()).for_each(|(to, from)| *to = from.cast_signed());
    key
}

fn info(name: &str, value: Value) -> Info {
    Info { key: key(name), flags: 0, value }
}

fn text(text: &str) -> Value {
    Value { kind: STRING, data: [terminated(text).as_ptr() as usize as u64, 0, 0] }
}

fn number(number: u32) -> Value {
    Value { kind: UINT32, data: [first_bytes(&number.to_ne_bytes()), 0, 0] }
}

fn rank_value(rank: u32) -> Value {
    Value { kind: PROC_RANK, ..number(rank) }
}

fn short(number: u16) -> Value {
    Value { kind: UINT16, data: [first_bytes(&number.to_ne_bytes()), 0, 0] }
}

/// A word whose memory begins with these bytes.
fn first_bytes(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_ne_bytes(word)
}

fn array(list: Vec<Info>) -> Value {
    let list = leak(list);
    let array = DataArray { kind: INFO, size: list.len(), array: list.as_mut_ptr().cast() };
    Value { kind: DATA_ARRAY, data: [ptr::from_mut(Box::leak(Box::new(array))) as usize as u64, 0, 0] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_text_gives_its_major_number() {
        assert_eq!(major("OpenPMIx 4.2.2rc2 (PMIx Standard: 4.1, Stable ABI: 4.1)"), Some(4));
        assert_eq!(major("OpenPMIx 5.0.11rc1 (PMIx Standard: 5.1, Stable ABI: 5.0)"), Some(5));
        assert_eq!(major("no version"), None);
    }

    #[test]
    fn library_that_is_missing_is_refused_with_its_package() {
        let refused = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).into()).collect();
            Library::open(&names).err().expect("there is no such library")
        };
        let text = refused(&["/nowhere/libpmix.so.2", "libtutti-test-missing.so.2"]);
        assert!(text.contains("libtutti-test-missing.so.2") && text.contains("package libpmix2"), "{text}");
        assert!(refused(&["/nowhere/libpmix.so.2"]).contains("none of /nowhere/libpmix.so.2 is there"));
        // Some library, but not that one.
        let text = refused(&["libc.so.6"]);
        assert!(text.contains("libc.so.6 is no libpmix") && text.contains("PMIx_Get_version"), "{text}");
    }
}
