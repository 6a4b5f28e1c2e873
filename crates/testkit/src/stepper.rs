//! For tests only: a child process that is forked, watched with a deadline, stepped by ptrace, and gone when
//! the test is; and memory that it shares with its parent.
//!
//! ```text
//! parent                                    child
//! Child::fork_traced(body) ---------------> body ... stop_here()
//! wait_stopped()
//! loop { look at shared memory; step() }    one instruction at a time, a system call being one
//! go_on(); expect_success() --------------> runs to its end
//! ```

use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// How long an awaited event may take before the test says that it did not come.
pub const DEADLINE: Duration = Duration::from_secs(25);

/// Memory that processes may share.
///
/// # Safety
/// Zeroes are a valid value, and what several processes touch at a time are atomics.
pub unsafe trait Shareable {}

/// A zeroed value that forked children share with their parent.
#[derive(Debug)]
pub struct Shared<T>(*mut T);

// SAFETY: contract of `Shareable`.
unsafe impl<T: Shareable> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Shareable> Sync for Shared<T> {}

impl<T: Shareable> Shared<T> {
    /// A fresh one.
    ///
    /// # Panics
    /// When there is no memory.
    #[expect(clippy::new_without_default, reason = "it is a mapping, not a plain value")]
    pub fn new() -> Self {
        const { assert!(align_of::<T>() <= 4096) };
        // SAFETY: a fresh mapping disturbs nothing.
        let page = unsafe {
            let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
            libc::mmap(std::ptr::null_mut(), size_of::<T>(), access, kind, -1, 0)
        };
        assert!(page != libc::MAP_FAILED, "mmap: {}", std::io::Error::last_os_error());
        Shared(page.cast())
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the mapping lives as long as the value; zeroes are a valid one.
        unsafe { &*self.0 }
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        // SAFETY: ours, and no reference outlives the value.
        unsafe { libc::munmap(self.0.cast(), size_of::<T>()) };
    }
}

/// A forked child. Killed and reaped when dropped.
#[derive(Debug)]
pub struct Child {
    pid: libc::pid_t,
    reaped: bool,
}

/// Where a child is after it was told to do one instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The child stands still behind the instruction.
    Done,
    /// The instruction was a system call in which it now sleeps.
    Sleeps,
}

impl Child {
    /// Runs `body` in a forked child, which exits with 0 or, after a panic, with 1.
    pub fn fork(body: impl FnOnce()) -> Self {
        // SAFETY: the child runs our code only, ends by _exit, and glibc keeps its allocator usable over a
        // fork.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0, "fork: {}", std::io::Error::last_os_error());
        if pid == 0 {
            // SAFETY: plain system call.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            let status = match catch_unwind(AssertUnwindSafe(body)) {
                Ok(()) => 0,
                Err(panic) => {
                    // The test runner's capture of our output dies with us, so the reason goes to the
                    // descriptor.
                    let text = panic.downcast::<String>().map_or("a panic".to_owned(), |text| *text);
                    let line = format!("child: {text}\n");
                    // SAFETY: the buffer is alive.
                    unsafe { libc::write(2, line.as_ptr().cast(), line.len()) };
                    1
                }
            };
            // SAFETY: ends the child without running what belongs to the parent.
            unsafe { libc::_exit(status) };
        }
        Child { pid, reaped: false }
    }

    /// The same, traced from its first [`stop_here`] on.
    pub fn fork_traced(body: impl FnOnce()) -> Self {
        Child::fork(|| {
            // SAFETY: the parent wants to trace us.
            let traced = unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) };
            assert_eq!(traced, 0, "PTRACE_TRACEME: {}", std::io::Error::last_os_error());
            body();
        })
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: libc::c_int) {
        // SAFETY: the child is not reaped, so the pid is its own.
        assert_eq!(unsafe { libc::kill(self.pid, signal) }, 0);
    }

    /// Process id of the child.
    pub fn pid(&self) -> libc::pid_t {
        self.pid
    }

    /// Waits until a traced child stands still, by its own wish or after a step.
    pub fn wait_stopped(&mut self) {
        let status = self.wait(0).expect("a blocking wait");
        assert!(libc::WIFSTOPPED(status), "the child ended with status {status:#x}");
        let signal = libc::WSTOPSIG(status);
        assert!(matches!(signal, libc::SIGSTOP | libc::SIGTRAP), "the child got signal {signal}");
    }

    /// Whether a traced child that ran has come to stand still.
    pub fn has_stopped(&mut self) -> bool {
        self.wait(libc::WNOHANG).is_some_and(|status| {
            assert!(libc::WIFSTOPPED(status), "the child ended with status {status:#x}");
            true
        })
    }

    /// Lets a traced child that stands still do one instruction, which must not block.
    pub fn step(&mut self) {
        self.trace(libc::PTRACE_SINGLESTEP);
        self.wait_stopped();
    }

    /// The same for an instruction that may be a system call which sleeps.
    pub fn step_or_sleep(&mut self) -> Step {
        self.trace(libc::PTRACE_SINGLESTEP);
        self.wait_until("the step's end or sleep", |child| {
            if child.has_stopped() { Some(Step::Done) } else { child.sleeps().then_some(Step::Sleeps) }
        })
    }

    /// Lets a traced child that stands still run freely.
    pub fn go_on(&mut self) {
        self.trace(libc::PTRACE_CONT);
    }

    fn trace(&self, request: libc::c_uint) {
        // SAFETY: the child is ours and stands still.
        let result = unsafe { libc::ptrace(request, self.pid, 0, 0) };
        assert_eq!(result, 0, "ptrace: {}", std::io::Error::last_os_error());
    }

    /// Whether the child sleeps in a system call.
    pub fn sleeps(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid)).expect("our child");
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('S'))
    }

    /// Waits until `event` gives something.
    #[track_caller]
    pub fn wait_until<T>(&mut self, what: &str, mut event: impl FnMut(&mut Self) -> Option<T>) -> T {
        let began = Instant::now();
        loop {
            if let Some(found) = event(self) {
                return found;
            }
            assert!(began.elapsed() < DEADLINE, "{what} did not come within {DEADLINE:?}");
            std::thread::yield_now();
        }
    }

    /// Waits for the child's end, which must be a good one.
    #[track_caller]
    pub fn expect_success(mut self) {
        self.wait_until("the child's end", |child| child.has_succeeded().then_some(()));
    }

    /// Whether the child has ended, which must have been a good end.
    pub fn has_succeeded(&mut self) -> bool {
        if !self.reaped
            && let Some(status) = self.wait(libc::WNOHANG)
        {
            assert_eq!(status, 0, "the child ended with status {status:#x}");
        }
        self.reaped
    }

    /// Kills the child at whatever it does, and waits until it is gone.
    pub fn kill(self) {}

    fn wait(&mut self, options: libc::c_int) -> Option<libc::c_int> {
        let mut status = 0;
        // SAFETY: the child is ours and not reaped; status is valid.
        let pid = unsafe { libc::waitpid(self.pid, &mut status, options) };
        assert!(pid >= 0, "waitpid: {}", std::io::Error::last_os_error());
        self.reaped |= pid > 0 && (libc::WIFEXITED(status) || libc::WIFSIGNALED(status));
        (pid > 0).then_some(status)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.reaped {
            // SAFETY: the child is ours; SIGKILL ends it in every state, so the wait ends too.
            unsafe {
                libc::kill(self.pid, libc::SIGKILL);
                let mut status = 0;
                while libc::waitpid(self.pid, &mut status, 0) > 0 && libc::WIFSTOPPED(status) {}
            }
        }
    }
}

/// Binds the calling thread, and the children that it forks from now on, to the core that it is on. A parent
/// and the child that it steps take turns; each turn across cores costs a wake-up, ten times what the step
/// does.
///
/// # Panics
/// When the kernel refuses.
pub fn stay_on_this_core() {
    // SAFETY: the set is plain data, valid for reading; the core's number is one that the set has room for.
    let result = unsafe {
        let mut cores: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(libc::sched_getcpu() as usize, &mut cores);
        libc::sched_setaffinity(0, size_of_val(&cores), &cores)
    };
    assert_eq!(result, 0, "sched_setaffinity: {}", std::io::Error::last_os_error());
}

/// In a traced child: stands still until the parent steps it or lets it go on.
pub fn stop_here() {
    // SAFETY: stops this process only.
    unsafe { libc::raise(libc::SIGSTOP) };
}
