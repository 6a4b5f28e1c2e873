//! `tuttid`: the daemon of a node. `tutti up` starts several on one machine; on real machines an
//! administrator starts one each.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

use std::net::{SocketAddr, ToSocketAddrs};
use std::process::ExitCode;

use clap::Parser;
use tutti_daemon::gang::GangSettings;
use tutti_daemon::shell::{self, Settings};
use tutti_daemon::{log, pids};
use tutti_os::stderr::print_line;
use tutti_protocol::daemon_options::{LogLevel, Options, complaint};
use tutti_protocol::paths;

fn main() -> ExitCode {
    tutti_os::close_inherited_on_exec();
    // What users say may be long, and all of it stays in memory (`gang::switch_thread`).
    tutti_os::give_memory_back();
    let options = match Options::try_parse() {
        Ok(options) => options,
        Err(error) if !error.use_stderr() => error.exit(),
        Err(error) => {
            print_line(format_args!("tuttid: {}", complaint(&error)));
            return ExitCode::from(error.exit_code() as u8);
        }
    };
    // A log that gets too long is as a full disk: jobs go on.
    tutti_os::ignore_signal(rustix::process::Signal::XFSZ.as_raw());
    if options.on_demand {
        // Not what the terminal and the mpiexec that has started us happen to have.
        let _ = rustix::process::setsid();
        tutti_os::unblock_signals();
        let _ = std::env::set_current_dir("/");
        let every = every_core_set();
        let _ = rustix::thread::sched_setaffinity(None, &every);
    }
    let name = options.name.clone().unwrap_or_else(host_name);
    let level = options.log_level.map_or_else(level_of_environment, Ok);
    log::begin(&name, level.clone().unwrap_or_default());
    let settings = level.and_then(|_| settings(options, name));
    let result = settings.and_then(|settings| {
        let is_controller = settings.controller.is_none();
        shell::run(settings, |address| {
            let role = if is_controller { "controller listens" } else { "listens" };
            // `tutti up` waits for it, whatever the level.
            tracing::info!(target: log::ALWAYS, "{role} on {address}");
        })
        .map_err(|error| error.to_string())
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            tracing::error!("{text}");
            ExitCode::FAILURE
        }
    }
}

fn level_of_environment() -> Result<LogLevel, String> {
    let text = std::env::var_os(LogLevel::VARIABLE).filter(|text| !text.is_empty());
    text.map_or(Ok(LogLevel::default()), |text| LogLevel::of_variable(&text.to_string_lossy()))
}

fn settings(options: Options, name: String) -> Result<Settings, String> {
    let folder = options.dir.unwrap_or_else(paths::folder);
    let is_root = rustix::process::geteuid().is_root();
    paths::make(&folder, is_root)
        .map_err(|error| format!("cannot use the folder {}: {error}", folder.display()))?;
    let controller = options.join.as_deref().map(resolve).transpose()?;
    let key_file = options.key.unwrap_or_else(|| folder.join("cluster.key"));
    if controller.is_none() && !key_file.exists() {
        tutti_protocol::key::make(&key_file).map_err(|error| error.to_string())?;
    }
    let lost_ms = options.lost_after * 1000.0;
    if !(200.0..=3_600_000.0).contains(&lost_ms) {
        return Err(format!("--lost-after {} is not between 0.2 and 3600 seconds", options.lost_after));
    }
    if !(5.0..=3_600_000.0).contains(&options.slice) {
        return Err(format!("--slice {} is not between 5 and 3600000 ms", options.slice));
    }
    let gangs = GangSettings {
        slice_ns: (options.slice * 1e6) as u64,
        strict: options.strict,
        force_switch: options.force_switch,
        policy: options.policy,
    };
    if !(0.0..=86_400.0).contains(&options.keep_for) {
        return Err(format!("--keep-for {} is not between 0 and 86400 seconds", options.keep_for));
    }
    if options.leave_after.is_some_and(|seconds| !(0.1..=86_400.0).contains(&seconds)) {
        return Err("--leave-after is not between 0.1 and 86400 seconds".into());
    }
    let every_core = || std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
    Ok(Settings {
        controller,
        listen: options.listen,
        data: options.data.unwrap_or(options.listen.ip()),
        parts: folder.join(format!("{}.parts", name.replace('/', "_"))),
        address: folder.join(paths::address(&name)),
        queue: folder.join(format!("{}.queue", name.replace('/', "_"))),
        keep_ms: (options.keep_for * 1000.0) as u64,
        leave_ms: options.leave_after.map(|seconds| (seconds * 1000.0) as u64),
        name,
        slots: options.slots.unwrap_or_else(every_core),
        memory_bytes: options.memory.unwrap_or_else(tutti_os::memory::for_jobs),
        pids_max: options.pids_max.unwrap_or_else(pids::for_a_job),
        machine: options.machine.unwrap_or_else(boot_id),
        socket: options.socket.unwrap_or_else(|| folder.join(paths::SOCKET)),
        events: folder.join(paths::EVENTS),
        turns: folder.join(paths::TURNS),
        key: key_file,
        arity: options.arity,
        lost_ms: lost_ms as u64,
        gangs,
        starter: paths::starter(),
    })
}

/// Every core there may be; the kernel leaves out those that are not ours.
fn every_core_set() -> rustix::thread::CpuSet {
    let mut set = rustix::thread::CpuSet::new();
    (0..rustix::thread::CpuSet::MAX_CPU).for_each(|core| set.set(core));
    set
}

fn resolve(text: &str) -> Result<SocketAddr, String> {
    let found = text.to_socket_addrs().map_err(|error| format!("--join {text}: {error}"))?.next();
    found.ok_or_else(|| format!("--join {text}: no such host"))
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map_or_else(|_| host_name(), |id| id.trim().to_owned())
}
