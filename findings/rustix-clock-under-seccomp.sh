#!/bin/bash
# rustix 1.1.6 (its own system calls, the default on x86-64 Linux) finds the kernel's code for clocks when a program
# first asks for the time, in whichever thread that is: by prctl(PR_GET_AUXV), before Linux 6.4 by opening
# /proc/self/auxv. A seccomp filter of a thread that only looks at a clock meets both, or neither if any thread has
# asked before: so a list of system calls that was found by watching may be right in one start and wrong in the next.
# Seen with rustix 1.1.6, seccompiler 0.5.0, libc 0.2.191. The filter here lets everything pass; prctl alone is handed
# to a handler, which writes its first argument down.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir src
cat >Cargo.toml <<'END'
[package]
name = "clock"
version = "0.0.0"
edition = "2021"

[dependencies]
libc = "=0.2.191"
rustix = { version = "=1.1.6", features = ["time"] }
seccompiler = "=0.5.0"
END
cat >src/main.rs <<'END'
use rustix::time::{clock_gettime, ClockId};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
use std::sync::atomic::{AtomicU64, Ordering};

static SEEN: AtomicU64 = AtomicU64::new(0);

extern "C" fn note(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    let registers = &mut context.uc_mcontext.gregs;
    SEEN.store(registers[libc::REG_RDI as usize] as u64, Ordering::SeqCst);
    registers[libc::REG_RAX as usize] = -(libc::EINVAL as i64);
}

fn main() {
    if std::env::args().count() > 1 {
        clock_gettime(ClockId::Monotonic);
    }
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = note as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO;
    unsafe { libc::sigaction(libc::SIGSYS, &action, std::ptr::null_mut()) };
    let rules = [(libc::SYS_prctl, vec![])].into();
    let arch = std::env::consts::ARCH.try_into().unwrap();
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Trap, arch).unwrap();
    let filter: BpfProgram = filter.try_into().unwrap();
    seccompiler::apply_filter(&filter).unwrap();
    clock_gettime(ClockId::Monotonic);
    println!("{:#x}", SEEN.load(Ordering::SeqCst));
}
END
cargo build --quiet 2>/dev/null || cargo build
first=$(target/debug/clock) later=$(target/debug/clock looked-before)
echo "rustix 1.1.6: prctl in the first look at the clock: $first; in a later one: $later"
# PR_GET_AUXV
[ "$first $later" = "0x41555856 0x0" ] || { echo "this has changed"; exit 1; }
