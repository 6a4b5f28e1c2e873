//! A rank of the job that `tutti trace-op` starts: rank 0 does operations on the memory of rank 1, through
//! the C interface of the library that programs use.
//!
//! ```text
//! tutti-trace-rank OPERATION BYTES ROUNDS OPERATIONS polls|computes [one|apart]
//!
//! a round: a block with all stamps, one with the two of the call alone, one without any
//! a block: barrier, start, barrier, operations (some first that do not count), barrier, stop
//! ```
//!
//! With the last word the operations are those of DSE (`tutti_dse.h`) on global memory, with kernel and
//! process of an element in one process or apart, and the stamps are those of both.
//!
//! Everything is kept in memory and printed when all rounds are over, a line each:
//!
//! | line | what |
//! |---|---|
//! | `stamp RANK BLOCK MARK BEGIN END ARRIVED COUNT` | a stamp |
//! | `bare NS` | how long [`GROUP`] operations of a block without stamps took, at rank 0 |
//! | `host RANK ID` | the boot of the machine that the rank runs on |
//! | `cost RANK NS` | what taking a stamp costs, in hundredths |
//! | `error RANK TEXT` | why there is nothing |

use std::ffi::{CStr, c_char, c_int, c_void};
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Of `mpi.h`, the binary interface of MPI 5.
const MPI_COMM_WORLD: usize = 0x101;
const MPI_BYTE: usize = 0x247;
/// Of `tutti.h`.
const RIGHTS: c_int = 1 | 2 | 4;
const CALL: u32 = 16;
const RETURN: u32 = 17;

/// Operations of a block that come first and do not count.
const WARM: u64 = 32;
/// Operations that are timed together where there are no stamps.
const GROUP: u64 = 10;
/// Where the word lies that ends the computing of the target, and where the data begin.
const DATA_AT: usize = 64;
/// Byte that is read.
const PATTERN: u8 = 0x5a;
/// Stamps of one rank for an operation without data, and for each KiB of it.
const STAMPS: usize = 24;
const STAMPS_PER_KIB: usize = 4;
/// Between two looks of a DSE process that computes.
const LOOK: Duration = Duration::from_millis(1);
/// Stamps that are measured for what one costs.
const COST_STAMPS: u64 = 1000;

#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct Stamped {
    begin_ns: u64,
    end_ns: u64,
    arrived_ns: u64,
    mark: u32,
    count: u32,
}

type Region = [u64; 6];

/// The functions of the library that are used.
struct Library {
    mpi_init: extern "C" fn(*mut c_int, *mut c_void) -> c_int,
    mpi_comm_rank: extern "C" fn(usize, *mut c_int) -> c_int,
    mpi_comm_size: extern "C" fn(usize, *mut c_int) -> c_int,
    mpi_barrier: extern "C" fn(usize) -> c_int,
    mpi_bcast: extern "C" fn(*mut c_void, c_int, usize, c_int, usize) -> c_int,
    mpi_finalize: extern "C" fn() -> c_int,
    alloc: extern "C" fn(usize) -> *mut c_void,
    open: extern "C" fn(*mut c_void, usize, c_int, *mut Region) -> c_int,
    close: extern "C" fn(*const Region) -> c_int,
    read: extern "C" fn(*const Region, u64, *mut c_void, usize, *mut c_void) -> c_int,
    write: extern "C" fn(*const Region, u64, *const c_void, usize, *mut c_void) -> c_int,
    fetch_add: extern "C" fn(*const Region, u64, i64, *mut i64, *mut c_void) -> c_int,
    dse_init: extern "C" fn(usize) -> c_int,
    dse_finish: extern "C" fn() -> c_int,
    dse_element: extern "C" fn() -> c_int,
    dse_elements: extern "C" fn() -> c_int,
    dse_barrier: extern "C" fn() -> c_int,
    dse_read: extern "C" fn(c_int, usize, *mut c_void, usize) -> c_int,
    dse_write_confirmed: extern "C" fn(c_int, usize, *const c_void, usize) -> c_int,
    start: extern "C" fn(usize, c_int) -> c_int,
    stop: extern "C" fn(*mut Stamped, usize) -> i64,
    stamp: extern "C" fn(u32) -> c_int,
}

/// The address of a function of the library.
fn find(library: *mut c_void, name: &CStr) -> Result<*mut c_void, String> {
    // SAFETY: the handle is that of a library that stays, the name has its end.
    let address = unsafe { libc::dlsym(library, name.as_ptr()) };
    if address.is_null() {
        Err(format!("the library has no {name:?}: it is of another version"))
    } else {
        Ok(address)
    }
}

impl Library {
    #[allow(clippy::missing_transmute_annotations, reason = "each field has the type of its function")]
    fn open() -> Result<Self, String> {
        // SAFETY: the name has its end; the library is made for being loaded, and stays (nodelete).
        let library = unsafe { libc::dlopen(c"libtutti.so.1".as_ptr(), libc::RTLD_NOW) };
        if library.is_null() {
            // SAFETY: the call before has failed, so there is a text.
            let why = unsafe { CStr::from_ptr(libc::dlerror().cast::<c_char>()) };
            return Err(why.to_string_lossy().into_owned());
        }
        macro_rules! function {
            ($name:literal) => {
                // SAFETY: the header declares the function so, in the C calling convention.
                unsafe { std::mem::transmute(find(library, $name)?) }
            };
        }
        Ok(Library {
            mpi_init: function!(c"MPI_Init"),
            mpi_comm_rank: function!(c"MPI_Comm_rank"),
            mpi_comm_size: function!(c"MPI_Comm_size"),
            mpi_barrier: function!(c"MPI_Barrier"),
            mpi_bcast: function!(c"MPI_Bcast"),
            mpi_finalize: function!(c"MPI_Finalize"),
            alloc: function!(c"tutti_alloc"),
            open: function!(c"tutti_open"),
            close: function!(c"tutti_close"),
            read: function!(c"tutti_read"),
            write: function!(c"tutti_write"),
            fetch_add: function!(c"tutti_fetch_add"),
            dse_init: function!(c"tutti_dse_init"),
            dse_finish: function!(c"tutti_dse_finish"),
            dse_element: function!(c"tutti_dse_element"),
            dse_elements: function!(c"tutti_dse_elements"),
            dse_barrier: function!(c"tutti_dse_barrier"),
            dse_read: function!(c"tutti_dse_read"),
            dse_write_confirmed: function!(c"tutti_dse_write_confirmed"),
            start: function!(c"tutti_stamps_start"),
            stop: function!(c"tutti_stamps_stop"),
            stamp: function!(c"tutti_stamp"),
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Read,
    Write,
    FetchAdd,
}

/// Task that the command has set.
#[derive(Clone, Copy, Debug)]
struct Task {
    operation: Operation,
    bytes: usize,
    rounds: u64,
    operations: u64,
    target_computes: bool,
    kernel: Option<Kernel>,
}

/// Operations are those of DSE; its kernel is in the process or apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kernel {
    One,
    Apart,
}

impl Task {
    fn of(words: &[String]) -> Option<Self> {
        let ([operation, bytes, rounds, operations, target], kernel) = words.split_first_chunk()?;
        Some(Task {
            operation: match &**operation {
                "read" => Operation::Read,
                "write" => Operation::Write,
                "fetch-add" => Operation::FetchAdd,
                _ => return None,
            },
            bytes: bytes.parse().ok()?,
            rounds: rounds.parse().ok()?,
            operations: operations.parse().ok()?,
            target_computes: match &**target {
                "polls" => false,
                "computes" => true,
                _ => return None,
            },
            kernel: match kernel {
                [] => None,
                [kernel] if kernel == "one" => Some(Kernel::One),
                [kernel] if kernel == "apart" => Some(Kernel::Apart),
                _ => return None,
            },
        })
    }

    /// Stamps that a block may have at one rank.
    fn room(&self) -> usize {
        (self.operations + WARM) as usize * (STAMPS + STAMPS_PER_KIB * (self.bytes / 1024 + 1))
    }
}

/// Which stamps a block has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Block {
    All,
    OfTheCall,
    None,
}

struct Rank<'a> {
    library: &'a Library,
    task: Task,
    me: c_int,
    region: Region,
    memory: *mut u8,
    own: Vec<u8>,
    stamps: Vec<Stamped>,
    lines: String,
}

impl Rank<'_> {
    fn operation(&mut self) -> c_int {
        let Rank { library, task, region, own, .. } = self;
        let at = DATA_AT as u64;
        let of_dse = task.kernel.is_some();
        match task.operation {
            Operation::Read if of_dse => (library.dse_read)(1, DATA_AT, own.as_mut_ptr().cast(), task.bytes),
            Operation::Write if of_dse => {
                (library.dse_write_confirmed)(1, DATA_AT, own.as_ptr().cast(), task.bytes)
            }
            Operation::Read => {
                (library.read)(region, at, own.as_mut_ptr().cast(), task.bytes, std::ptr::null_mut())
            }
            Operation::Write => {
                (library.write)(region, at, own.as_ptr().cast(), task.bytes, std::ptr::null_mut())
            }
            Operation::FetchAdd => {
                let mut found = 0;
                (library.fetch_add)(region, at, 1, &mut found, std::ptr::null_mut())
            }
        }
    }

    /// Rank 0's part of a block.
    fn operate(&mut self, block: Block) -> Result<(), String> {
        for _ in 0..WARM {
            self.operation();
        }
        match block {
            Block::None => self.operate_in_groups()?,
            Block::All | Block::OfTheCall => {
                for _ in 0..self.task.operations {
                    (self.library.stamp)(CALL);
                    let status = self.operation();
                    (self.library.stamp)(RETURN);
                    done(status)?;
                }
            }
        }
        if self.task.target_computes {
            let word = 1_u64;
            let from = (&raw const word).cast();
            if self.task.kernel.is_some() {
                done((self.library.dse_write_confirmed)(1, 0, from, 8))?;
            } else {
                (self.library.write)(&self.region, 0, from, 8, std::ptr::null_mut());
            }
        }
        Ok(())
    }

    fn operate_in_groups(&mut self) -> Result<(), String> {
        let mut left = self.task.operations;
        let mut took_ns = Vec::with_capacity((left / GROUP) as usize + 1);
        while left > 0 {
            let count = left.min(GROUP);
            let began = Instant::now();
            for _ in 0..count {
                done(self.operation())?;
            }
            took_ns.push(began.elapsed().as_nanos() as u64 * GROUP / count);
            left -= count;
        }
        for took_ns in took_ns {
            _ = writeln!(self.lines, "bare {took_ns}");
        }
        Ok(())
    }

    /// Rank 1's: it computes until its word is set, or waits in a barrier.
    fn serve(&self) {
        if !self.task.target_computes {
            return;
        }
        if self.task.kernel.is_some() {
            return self.compute_between_looks();
        }
        // SAFETY: the word lies at the beginning of our region, aligned, and others write it whole.
        let word = unsafe { AtomicU64::from_ptr(self.memory.cast()) };
        while word.load(Ordering::Acquire) == 0 {
            std::hint::spin_loop();
        }
        word.store(0, Ordering::Release);
    }

    /// Computes, and looks now and then at its word, which the kernel has.
    fn compute_between_looks(&self) {
        let mut word = 0_u64;
        while word == 0 {
            let began = Instant::now();
            while began.elapsed() < LOOK {
                std::hint::spin_loop();
            }
            let to = (&raw mut word).cast();
            if (self.library.dse_read)(1, 0, to, 8) != 0 {
                return;
            }
        }
        let zero = 0_u64;
        (self.library.dse_write_confirmed)(1, 0, (&raw const zero).cast(), 8);
    }

    fn barrier(&self) {
        if self.task.kernel.is_some() {
            (self.library.dse_barrier)();
        } else {
            (self.library.mpi_barrier)(MPI_COMM_WORLD);
        }
    }

    fn block(&mut self, number: u64, block: Block) -> Result<(), String> {
        self.barrier();
        let is_stamped = block != Block::None;
        if is_stamped && (self.library.start)(self.task.room(), (block == Block::All).into()) != 0 {
            return Err(format!("there is no room for {} stamps", self.task.room()));
        }
        self.barrier();
        if self.me == 0 {
            self.operate(block)?;
        } else {
            self.serve();
        }
        self.barrier();
        if !is_stamped {
            return Ok(());
        }
        let count = (self.library.stop)(self.stamps.as_mut_ptr(), self.stamps.len());
        let count = usize::try_from(count).map_err(|_| format!("no stamps: {count}"))?;
        let Some(stamps) = self.stamps.get(..count) else {
            return Err(format!("{count} stamps, and room for {}", self.stamps.len()));
        };
        for Stamped { begin_ns, end_ns, arrived_ns, mark, count } in stamps {
            let line = format_args!("{number} {mark} {begin_ns} {end_ns} {arrived_ns} {count}");
            _ = writeln!(self.lines, "stamp {} {line}", self.me);
        }
        Ok(())
    }

    /// Nanoseconds that a stamp costs, in hundredths.
    fn cost(&mut self) -> Result<u64, String> {
        if (self.library.start)(COST_STAMPS as usize, 0) != 0 {
            return Err("there is no room for stamps".into());
        }
        let began = Instant::now();
        for _ in 0..COST_STAMPS {
            (self.library.stamp)(CALL);
        }
        let took_ns = began.elapsed().as_nanos() as u64;
        (self.library.stop)(self.stamps.as_mut_ptr(), self.stamps.len());
        Ok(100 * took_ns / COST_STAMPS)
    }

    fn blocks(&mut self) -> Result<(), String> {
        let cost = self.cost()?;
        _ = writeln!(self.lines, "cost {} {cost}", self.me);
        for round in 0..self.task.rounds {
            for (number, block) in (3 * round..).zip([Block::All, Block::OfTheCall, Block::None]) {
                self.block(number, block)?;
            }
        }
        Ok(())
    }

    /// Checks that what was to be done has been done, as far as this rank can see.
    fn check(&self) -> Result<(), String> {
        let mut global = vec![0; self.task.bytes];
        let own = if self.task.kernel.is_some() {
            done((self.library.dse_read)(self.me, DATA_AT, global.as_mut_ptr().cast(), global.len()))?;
            &global[..]
        } else {
            // SAFETY: the data lie in our own memory, which no rank writes any more.
            unsafe { std::slice::from_raw_parts(self.memory.add(DATA_AT), self.task.bytes) }
        };
        let is_right = match (self.me, self.task.operation) {
            (0, Operation::Read) => self.own.iter().all(|byte| *byte == PATTERN),
            (1, Operation::Write) => own.iter().all(|byte| *byte == PATTERN),
            (1, Operation::FetchAdd) => {
                let sum = 3 * self.task.rounds * (self.task.operations + WARM);
                own == sum.to_ne_bytes()
            }
            _ => true,
        };
        if is_right { Ok(()) } else { Err("the memory does not hold what the operations leave".into()) }
    }
}

fn done(status: c_int) -> Result<(), String> {
    if status == 0 { Ok(()) } else { Err(format!("an operation was refused with {status}")) }
}

fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// Memory of rank 1 that rank 0 works on.
struct Opened {
    me: c_int,
    /// The region of this rank, and that of rank 1; nothing where it is DSE's.
    own: Region,
    named: Region,
    memory: *mut u8,
}

fn open_region(library: &Library, task: Task, bytes: usize) -> Result<Opened, String> {
    (library.mpi_init)(std::ptr::null_mut(), std::ptr::null_mut());
    let (mut me, mut size) = (0, 0);
    (library.mpi_comm_rank)(MPI_COMM_WORLD, &mut me);
    (library.mpi_comm_size)(MPI_COMM_WORLD, &mut size);
    if size != 2 {
        return Err(format!("{size} ranks, expected 2"));
    }
    let memory = (library.alloc)(bytes).cast::<u8>();
    let mut own = Region::default();
    if memory.is_null() || (library.open)(memory.cast(), bytes, RIGHTS, &mut own) != 0 {
        return Err(format!("no region of {bytes} bytes can be opened"));
    }
    if task.operation == Operation::Read {
        // SAFETY: the memory has so many bytes, and no other rank has its name yet.
        unsafe { memory.add(DATA_AT).write_bytes(PATTERN, task.bytes) };
    }
    let mut named = own;
    (library.mpi_bcast)((&raw mut named).cast(), size_of::<Region>() as c_int, MPI_BYTE, 1, MPI_COMM_WORLD);
    Ok(Opened { me, own, named, memory })
}

fn open_global(library: &Library, task: Task, kernel: Kernel, bytes: usize) -> Result<Opened, String> {
    let value = if kernel == Kernel::Apart { "apart" } else { "one" };
    // SAFETY: no other thread runs yet.
    unsafe { std::env::set_var("TUTTI_DSE_KERNEL", value) };
    let status = (library.dse_init)(bytes);
    if status != 0 {
        return Err(format!("tutti_dse_init has failed with {status}"));
    }
    let (me, size) = ((library.dse_element)(), (library.dse_elements)());
    if size != 2 {
        return Err(format!("{size} elements, expected 2"));
    }
    if task.operation == Operation::Read && me == 1 {
        let pattern = vec![PATTERN; task.bytes];
        done((library.dse_write_confirmed)(me, DATA_AT, pattern.as_ptr().cast(), pattern.len()))?;
    }
    (library.dse_barrier)();
    Ok(Opened { me, own: Region::default(), named: Region::default(), memory: std::ptr::null_mut() })
}

fn run(task: Task) -> Result<(), String> {
    if task.kernel.is_some() && task.operation == Operation::FetchAdd {
        return Err("DSE has no fetch-add".into());
    }
    let library = Library::open()?;
    let bytes = DATA_AT + task.bytes.next_multiple_of(8);
    let opened = match task.kernel {
        None => open_region(&library, task, bytes)?,
        Some(kernel) => open_global(&library, task, kernel, bytes)?,
    };
    let me = opened.me;
    let own = vec![if task.operation == Operation::Write { PATTERN } else { 0 }; task.bytes];
    let stamps = vec![Stamped::default(); 2 * task.room().max(COST_STAMPS as usize)];
    let mut rank = Rank {
        library: &library,
        task,
        me,
        region: opened.named,
        memory: opened.memory,
        own,
        stamps,
        lines: String::new(),
    };
    _ = writeln!(rank.lines, "host {me} {}", boot_id());
    let done = rank.blocks().and_then(|()| rank.check());
    if let Err(why) = done {
        // The other rank may wait for this one: the job ends with this process.
        print(&format!("error {me} {why}\n"));
        std::process::exit(1);
    }
    let lines = std::mem::take(&mut rank.lines);
    rank.barrier();
    if task.kernel.is_some() {
        (library.dse_finish)();
    } else {
        (library.close)(&opened.own);
        (library.mpi_finalize)();
    }
    print(&lines);
    Ok(())
}

fn print(text: &str) {
    // A reader that has gone wants no more of it.
    _ = std::io::stdout().lock().write_all(text.as_bytes());
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let Some(task) = Task::of(&words) else {
        print("error - this program is for `tutti trace-op`\n");
        return ExitCode::FAILURE;
    };
    match run(task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            print(&format!("error - {why}\n"));
            ExitCode::FAILURE
        }
    }
}
