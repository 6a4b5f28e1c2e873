//! libpmix, loaded at run time: the functions that the server calls, and the upcalls that it gets. Only this
//! module and those below it have `unsafe`.
//!
//! | module | subject |
//! |---|---|
//! | [`abi`] | types of the PMIx standard, and values |
//! | [`upcalls`] | what libpmix calls: a [`Request`] each |
//! | [`reply`] | answers to it |
//! | [`accept`] | connections that libpmix accepts: those of other users never reach it |
//! | [`silent`] | those that have said nothing yet, for which it would wait |
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::Path;
use std::ptr;

use self::abi::{
    Info, KeysCallback, OpCallback, Own, RawProcess, RawValue, bytes_of, c_string, info, key, number,
    rank_value, raw_process, short, texts_of,
};
use self::upcalls::{Module, UPCALLS};
use crate::spaces::{Process, Space};
use crate::status;
use crate::wire::Description;

mod abi;
mod accept;
mod numbers;
mod reply;
mod silent;
mod upcalls;

pub(crate) use self::numbers::NUMBERS;
pub use self::reply::{Pending, Reply};
pub use self::upcalls::{Request, Upcalls};

/// Turns of libpmix's thread from the end of a rank to the last upcall about it, and some more.
const SETTLE_ROUNDS: usize = 16;
/// The first version that this server works with.
const MAJOR_MIN: u32 = 4;
/// The first version that leaves the time of an operation of a group on several nodes to its host.
const GROUP_MAJOR: u32 = 5;
/// The first version that leaves that of PMIx_Connect to it.
const CONNECT_MAJOR: u32 = 6;

type Init = unsafe extern "C" fn(*mut Module, *mut Info, usize) -> c_int;
type RegisterSpace =
    unsafe extern "C" fn(*const c_char, c_int, *mut Info, usize, OpCallback, *mut c_void) -> c_int;
type RegisterClient = unsafe extern "C" fn(
    *const RawProcess,
    libc::uid_t,
    libc::gid_t,
    *mut c_void,
    OpCallback,
    *mut c_void,
) -> c_int;
type Generate = unsafe extern "C" fn(*const c_char, *mut *mut c_char) -> c_int;

/// The functions of a libpmix that has been loaded.
#[derive(Clone, Copy)]
pub struct Library {
    major: u32,
    init: Init,
    register_space: RegisterSpace,
    deregister_space: unsafe extern "C" fn(*const c_char, OpCallback, *mut c_void),
    register_client: RegisterClient,
    deregister_client: unsafe extern "C" fn(*const RawProcess, OpCallback, *mut c_void),
    setup_fork: unsafe extern "C" fn(*const RawProcess, *mut *mut *mut c_char) -> c_int,
    ask_keys: unsafe extern "C" fn(*const RawProcess, KeysCallback, *mut c_void) -> c_int,
    generate_regex: Generate,
    generate_ppn: Generate,
    error_string: unsafe extern "C" fn(c_int) -> *const c_char,
}

impl Library {
    /// Loads the first of these that can be loaded.
    ///
    /// # Errors
    /// When none can, or its version does not do; a line that says why.
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
            "programs of Open MPI need libpmix, which cannot be loaded: {why} (Debian's package libpmix2 has it, with what it needs: libmunge2, libevent, libhwloc15; TUTTI_LIBPMIX names another file)"
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
        // The program's own is called instead of libc's.
        std::hint::black_box(accept::ACCEPT);
        let version = symbol(c"PMIx_Get_version")?;
        // SAFETY: `const char *PMIx_Get_version(void)` since version 1; the text is static.
        let version = unsafe {
            let version = function::<unsafe extern "C" fn() -> *const c_char>(version);
            bytes_of(version()).unwrap_or_default()
        };
        let version = String::from_utf8_lossy(&version).into_owned();
        let Some(major) = major(&version).filter(|major| *major >= MAJOR_MIN) else {
            return Err(format!(
                "{name} is {version}, which is too old: programs of Open MPI need libpmix {MAJOR_MIN} or newer (Debian's package libpmix2 has it; TUTTI_LIBPMIX names another file)"
            ));
        };
        // SAFETY: each has the type that the PMIx standard gives it since version 4.
        unsafe {
            Ok(Library {
                major,
                init: function(symbol(c"PMIx_server_init")?),
                register_space: function(symbol(c"PMIx_server_register_nspace")?),
                deregister_space: function(symbol(c"PMIx_server_deregister_nspace")?),
                register_client: function(symbol(c"PMIx_server_register_client")?),
                deregister_client: function(symbol(c"PMIx_server_deregister_client")?),
                setup_fork: function(symbol(c"PMIx_server_setup_fork")?),
                ask_keys: function(symbol(c"PMIx_server_dmodex_request")?),
                generate_regex: function(symbol(c"PMIx_generate_regex")?),
                generate_ppn: function(symbol(c"PMIx_generate_ppn")?),
                error_string: function(symbol(c"PMIx_Error_string")?),
            })
        }
    }

    /// Whether the host minds how long the processes of several nodes wait for an operation of a group.
    pub fn leaves_group_times(&self) -> bool {
        self.major >= GROUP_MAJOR
    }

    /// Whether the host minds how long the processes of several nodes wait for PMIx_Connect and
    /// PMIx_Disconnect; otherwise libpmix answers them itself when the time is over.
    pub fn leaves_connect_times(&self) -> bool {
        self.major >= CONNECT_MAJOR
    }

    /// Begins to serve a job, once in the life of the process.
    ///
    /// # Errors
    /// Line of what libpmix refuses.
    pub fn serve(&self, job: &Description, upcalls: Box<dyn Upcalls>) -> Result<(), String> {
        UPCALLS.set(upcalls).map_err(|_| "this process serves a job already")?;
        let node = &job.nodes[job.node as usize];
        let module = Box::leak(Box::new(Module::new()));
        // Both stay for ever: there is one of them in the life of the process.
        let own = Box::leak(Box::<Own>::default());
        let list = Box::leak(Box::new([
            info("pmix.hname", own.text(node)),
            info("pmix.srvr.tmpdir", own.text(&job.folder)),
            info("pmix.sys.tmpdir", own.text(&job.folder)),
        ]));
        // SAFETY: table and list stay for ever.
        self.check("PMIx_server_init", unsafe { (self.init)(module, list.as_mut_ptr(), list.len()) })
    }

    /// Has no more connections accepted than this: then [`Upcalls::handle_crowd`] is called.
    pub fn limit_connections(&self, limit: u32) {
        accept::limit(limit);
    }

    /// Expects the ranks of a namespace; gives the variables of each one of this node.
    ///
    /// # Errors
    /// Line of what libpmix refuses.
    pub fn admit(&self, job: &Description, space: &Space) -> Result<Vec<Vec<String>>, String> {
        let mut own = Own::default();
        let mut all = self.job_info(job, space, &mut own)?;
        let name = c_string(space.name.as_bytes());
        let local = space.ranks_on(job.node).count() as c_int;
        // SAFETY: without a callback the call is over when it returns, and libpmix has copied what it keeps.
        let status = unsafe {
            (self.register_space)(name.as_ptr(), local, all.as_mut_ptr(), all.len(), None, ptr::null_mut())
        };
        self.check("PMIx_server_register_nspace", status)?;
        space.ranks_on(job.node).map(|rank| self.admit_rank(&space.name, rank)).collect()
    }

    /// Removes a namespace: nothing of it is left.
    pub fn dismiss(&self, space: &str) {
        let name = c_string(space.as_bytes());
        // SAFETY: without a callback the call is over when it returns.
        unsafe { (self.deregister_space)(name.as_ptr(), None, ptr::null_mut()) };
    }

    /// Asks a rank of this node for its keys, for another node: [`Upcalls::handle_keys`] gives them when they
    /// are there.
    ///
    /// # Errors
    /// The number of why they will not be given.
    pub fn ask_rank(&self, process: &Process, node: u32, number: u64) -> Result<(), i32> {
        let raw = raw_process(process);
        let asked = Box::into_raw(Box::new((node, number)));
        // SAFETY: libpmix copies the process in the call; the pair is the callback's.
        match unsafe { (self.ask_keys)(&raw const raw, upcalls::on_keys, asked.cast()) } {
            status::SUCCESS => Ok(()),
            status => {
                // SAFETY: there is no callback after a refusal.
                drop(unsafe { Box::from_raw(asked) });
                Err(status)
            }
        }
    }

    /// Waits until libpmix has read, and called up for, what dead ranks had sent: its thread looks at all
    /// sockets before it does what it is asked to do.
    pub fn settle(&self) {
        // A message is read, then handled, then answered.
        for _ in 0..SETTLE_ROUNDS {
            let stranger = RawProcess { space: key("tutti-nobody"), rank: 0 };
            // SAFETY: without a callback the call is over when it returns; it copies the name, which is none
            // of its ranks', so that nothing else happens.
            unsafe { (self.deregister_client)(&raw const stranger, None, ptr::null_mut()) };
        }
    }

    /// Expects a rank, and gives its variables.
    fn admit_rank(&self, space: &str, rank: u32) -> Result<Vec<String>, String> {
        let process = &RawProcess { space: key(space), rank };
        let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        // SAFETY: without a callback the call is over when it returns, and libpmix has copied the process.
        // The object is given back in upcalls, which do not use it.
        let status =
            unsafe { (self.register_client)(process, user, group, ptr::null_mut(), None, ptr::null_mut()) };
        self.check("PMIx_server_register_client", status)?;
        let mut list: *mut *mut c_char = ptr::null_mut();
        // SAFETY: libpmix makes the list, which ends with a null pointer.
        self.check("PMIx_server_setup_fork", unsafe { (self.setup_fork)(process, &raw mut list) })?;
        // SAFETY: as above.
        let variables = unsafe { texts_of(list.cast_const().cast()) };
        // SAFETY: libpmix has made list and texts by malloc, for its caller to free.
        unsafe { free_list(list) };
        Ok(variables.iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect())
    }

    fn job_info(&self, job: &Description, space: &Space, own: &mut Own) -> Result<Vec<Info>, String> {
        let list = |ranks: &mut dyn Iterator<Item = u32>| {
            ranks.map(|rank| rank.to_string()).collect::<Vec<_>>().join(",")
        };
        let used = space.used_nodes();
        let name = |node: u32| job.nodes.get(node as usize).map_or("", String::as_str);
        let names: Vec<&str> = used.iter().map(|node| name(*node)).collect();
        let per_node: Vec<String> = used.iter().map(|node| list(&mut space.ranks_on(*node))).collect();
        let nodes = self.generated("PMIx_generate_regex", self.generate_regex, &names.join(","), own)?;
        let ranks = self.generated("PMIx_generate_ppn", self.generate_ppn, &per_node.join(";"), own)?;
        let local: Vec<u32> = space.ranks_on(job.node).collect();
        let count = space.numbers.len() as u32;
        let among_all = &space.among_all;
        let mut all = vec![
            info("pmix.nmap", nodes),
            info("pmix.pmap", ranks),
            info("pmix.jobid", own.text(&space.name)),
            info("pmix.job.size", number(count)),
            info("pmix.max.size", number(count)),
            info("pmix.univ.size", number(job.universe)),
            info("pmix.offset", number(among_all.offset)),
            info("pmix.job.napps", number(space.programs.len() as u32)),
            info("pmix.num.nodes", number(used.len() as u32)),
            info("pmix.tmpdir", own.text(&job.folder)),
            info("pmix.nsdir", own.text(&job.folder)),
        ];
        if let Some(first) = local.first() {
            all.extend([
                info("pmix.local.size", number(local.len() as u32)),
                info("pmix.node.size", number(among_all.node_sizes.get(&job.node).copied().unwrap_or(0))),
                info("pmix.lpeers", own.text(&list(&mut local.iter().copied()))),
                info("pmix.lldr", rank_value(*first)),
            ]);
        }
        let parent = space.parent.as_ref().map(|parent| info("pmix.parent", own.process(parent)));
        all.extend(parent);
        for node in &used {
            for (local, rank) in space.ranks_on(*node).enumerate() {
                let mut of_rank = vec![
                    info("pmix.rank", rank_value(rank)),
                    info("pmix.lrank", short(local as u16)),
                    info("pmix.nrank", short(among_all.node_ranks[rank as usize])),
                    info("pmix.grank", rank_value(among_all.offset.saturating_add(rank))),
                    info("pmix.nodeid", number(*node)),
                    info("pmix.hname", own.text(name(*node))),
                    info("pmix.appnum", number(space.program_of(rank))),
                ];
                of_rank.extend(parent);
                if *node == job.node {
                    let number = space.numbers[rank as usize];
                    of_rank.push(info("pmix.pdir", own.text(&format!("{}/{number}", job.folder))));
                }
                all.push(info("pmix.pdata", own.array(of_rank)));
            }
        }
        Ok(all)
    }

    fn generated(
        &self,
        name: &str,
        function: Generate,
        input: &str,
        own: &mut Own,
    ) -> Result<RawValue, String> {
        let mut out: *mut c_char = ptr::null_mut();
        // SAFETY: the text ends with a zero; libpmix stores one that it has allocated, or none.
        self.check(name, unsafe { function(c_string(input.as_bytes()).as_ptr(), &raw mut out) })?;
        Ok(own.made_text(out))
    }

    fn check(&self, function: &str, status: c_int) -> Result<(), String> {
        if status == status::SUCCESS || status == status::OPERATION_SUCCEEDED {
            return Ok(());
        }
        // SAFETY: libpmix has a static text for any number.
        let why = unsafe { bytes_of((self.error_string)(status)) }.unwrap_or_default();
        Err(format!("libpmix refuses {function}: {} ({status})", String::from_utf8_lossy(&why)))
    }
}

/// Frees a list that ends with a null pointer, or is one, with its texts.
///
/// # Safety
/// All have been made by malloc, and are not used any more.
unsafe fn free_list(list: *mut *mut c_char) {
    if list.is_null() {
        return;
    }
    let mut place = list;
    // SAFETY: the caller's promise: until the null pointer each is a text.
    unsafe {
        while !(*place).is_null() {
            libc::free((*place).cast());
            place = place.add(1);
        }
        libc::free(list.cast());
    }
}

/// A function at an address.
///
/// # Safety
/// It has that type, which is one of a function.
unsafe fn function<F>(address: *mut c_void) -> F {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: the caller's promise; a function pointer is as long as the address.
    unsafe { std::mem::transmute_copy(&address) }
}

fn load(name: &str) -> Result<*mut c_void, String> {
    // SAFETY: the text ends with a zero. The library is the user's choice, as the program itself is, and this
    // process has the user's identity.
    let handle =
        unsafe { libc::dlopen(c_string(name.as_bytes()).as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
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
