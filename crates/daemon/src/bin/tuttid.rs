//! `tuttid`: the daemon of a node. `tutti up` starts several on one machine; on real machines an
//! administrator starts one each.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, FromArgMatches};
use tutti_daemon::configuration::ConfigurationSource;
use tutti_daemon::engine::Guest;
use tutti_daemon::gang::GangSettings;
use tutti_daemon::key::KeySource;
use tutti_daemon::shell::{
    self, Configured, Delays, Folders, NetworkSettings, NodeSettings, ScriptSettings, Settings,
};
use tutti_daemon::{log, pids, script_runner};
use tutti_os::stderr::print_line;
use tutti_protocol::config::section::Section;
use tutti_protocol::config::settings::{self, Given};
use tutti_protocol::config::{Config, Origin, schema};
use tutti_protocol::daemon_options::{LogLevel, Options, complaint, parse_policy, print_asked};
use tutti_protocol::gpus::Gpus;
use tutti_protocol::{paths, variables};

fn main() -> ExitCode {
    if let Some(ended) = script_runner::try_run_blocking(std::env::args_os()) {
        return ended;
    }
    tutti_os::close_inherited_on_exec();
    tutti_os::settle_signals();
    // What users say may be long, and all of it stays in memory (`gang::switch_thread`).
    tutti_os::give_memory_back();
    let parsed = Options::command().try_get_matches_from(std::env::args_os());
    let parsed = parsed.and_then(|matches| Ok((Options::from_arg_matches(&matches)?, matches)));
    let (mut options, matches) = match parsed {
        Ok(parsed) => parsed,
        Err(error) if !error.use_stderr() => return print_asked(&error),
        Err(error) => {
            print_line(format_args!("tuttid: {}", complaint(&error)));
            return ExitCode::from(error.exit_code() as u8);
        }
    };
    let guest = match options.life.engine.map(|_| Guest::of_slurm(&options)).transpose() {
        Ok(guest) => guest,
        Err(text) => {
            print_line(format_args!("tuttid: {text}"));
            return ExitCode::FAILURE;
        }
    };
    guest.iter().for_each(|guest| guest.settle(&mut options));
    let (source, config, notes) = match configuration(&options, &matches) {
        Ok(found) => found,
        Err(lines) => {
            lines.iter().for_each(|line| print_line(format_args!("tuttid: {line}")));
            return ExitCode::from(WRONG_CONFIGURATION);
        }
    };
    // A log that gets too long is as a full disk: jobs go on.
    tutti_os::ignore_signal(rustix::process::Signal::XFSZ.as_raw());
    if options.life.on_demand {
        // Not what the terminal and the mpiexec that has started us happen to have.
        let _ = rustix::process::setsid();
        let _ = std::env::set_current_dir("/");
        let every = every_core_set();
        let _ = rustix::thread::sched_setaffinity(None, &every);
    }
    let of_file = settings::of_node(&config, &source.name);
    let level = options.log_level.map_or_else(|| level_of_environment(&of_file), Ok);
    log::begin(&source.name, level.clone().unwrap_or_default());
    notes.iter().for_each(|note| tracing::warn!("{note}"));
    guest.iter().filter_map(|guest| guest.note.as_ref()).for_each(|note| tracing::warn!("{note}"));
    let key = guest.as_ref().map(|guest| guest.key.clone());
    let settings = level.and_then(|_| daemon_settings(options, key, &matches, source, &config));
    let result = settings.and_then(|settings| {
        let is_controller = settings.is_controller();
        shell::run(settings, |address| {
            let role = if is_controller { "controller listens" } else { "listens" };
            // For who reads the log, whatever the level.
            tracing::info!(target: log::ALWAYS, "{role} on {address}");
        })
        .map_err(|error| error.to_string())
    });
    guest.iter().for_each(Guest::remove_files);
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            tracing::error!("{text}");
            ExitCode::FAILURE
        }
    }
}

/// Exit status where the file is wrong.
const WRONG_CONFIGURATION: u8 = 2;

/// Time that a script of the keeper has, if the file does not say so.
const SCRIPT_MS: u64 = 60_000;

/// The file, and what goes before it.
fn configuration(
    options: &Options,
    matches: &ArgMatches,
) -> Result<(ConfigurationSource, Config, Vec<String>), Vec<String>> {
    // Those that mpiexec starts for its user read none.
    let origin = (!options.life.on_demand && options.life.engine.is_none())
        .then(|| Origin::choose(options.config.as_deref()));
    let is_given = |flag: &str| matches.value_source(flag) == Some(ValueSource::CommandLine);
    let shown = |flag: &str| {
        let mut values = matches.get_raw(flag).into_iter().flatten();
        values.next().map(|value| value.to_string_lossy().into_owned())
    };
    let keys = schema::NODE.iter().chain(schema::CLUSTER).filter_map(|key| key.flag);
    let flags = keys.filter(|flag| is_given(flag)).filter_map(|flag| Some((flag.to_owned(), shown(flag)?)));
    let level = std::env::var(LogLevel::VARIABLE).ok().filter(|text| !text.is_empty());
    let environment = level.map(|level| ("log_level".into(), LogLevel::VARIABLE.into(), level));
    let given = Given { flags: flags.collect(), environment: environment.into_iter().collect() };
    let slice_ns = is_given("slice").then_some((options.gangs.slice * 1e6) as u64);
    let mut source = ConfigurationSource { origin, given, slice_ns, ..ConfigurationSource::default() };
    let (config, notes) = source.read()?;
    let of_file = config.node.text("name").map(str::to_owned);
    source.name = options.name.clone().or(of_file).unwrap_or_else(host_name);
    source.started = config.clone();
    Ok((source, config, notes))
}

/// The variable goes before the file.
fn level_of_environment(of_file: &Section) -> Result<LogLevel, String> {
    let text = std::env::var_os(LogLevel::VARIABLE).filter(|text| !text.is_empty());
    let text = text.map(|text| text.to_string_lossy().into_owned());
    match text.as_deref().or_else(|| of_file.text("log_level")) {
        Some(text) => LogLevel::of_variable(text),
        None => Ok(LogLevel::default()),
    }
}

fn daemon_settings(
    options: Options,
    handed_over: Option<KeySource>,
    matches: &ArgMatches,
    source: ConfigurationSource,
    config: &Config,
) -> Result<Settings, String> {
    let (node, cluster, name) =
        (settings::of_node(config, &source.name), &config.cluster, source.name.clone());
    let is_given = |flag: &str| matches.value_source(flag) == Some(ValueSource::CommandLine);
    let folder = options.places.dir.unwrap_or_else(paths::folder);
    let is_root = rustix::process::geteuid().is_root();
    let state = options.places.state.or_else(|| node.text("state").map(PathBuf::from));
    let state = state.unwrap_or_else(|| paths::state(&folder));
    for (folder, option) in [(&folder, "--dir"), (&state, "--state")] {
        paths::make_named(folder, is_root).map_err(|error| {
            format!("cannot use the folder {}: {error}; {option} names another one", folder.display())
        })?;
    }
    let join = options.join.as_deref().or_else(|| node.text("join"));
    let controller = join.map(resolve).transpose()?;
    let named = options.key.or_else(|| node.text("key").map(PathBuf::from));
    let of_variable = || std::env::var(variables::KEY).ok().filter(|_| named.is_none());
    let handed_over = handed_over.or_else(|| of_variable().map(|text| KeySource::Text(text.into_bytes())));
    let key = match handed_over {
        Some(key) => key,
        None => key_file(named, &folder, controller.is_none())?,
    };
    let lost_ms = cluster.ms("lost_after").filter(|_| !is_given("lost_after"));
    let lost_ms = lost_ms.map_or(options.lost_after * 1000.0, |ms| ms as f64);
    if !(200.0..=3_600_000.0).contains(&lost_ms) {
        return Err(format!("--lost-after {} is not between 0.2 and 3600 seconds", options.lost_after));
    }
    if !(5.0..=3_600_000.0).contains(&options.gangs.slice) {
        return Err(format!("--slice {} is not between 5 and 3600000 ms", options.gangs.slice));
    }
    if !(10..=60_000).contains(&options.board_refresh) {
        return Err(format!("--board-refresh {} is not between 10 and 60000 ms", options.board_refresh));
    }
    let loaded = source.loaded(config, Vec::new());
    let policy = cluster.text("policy").filter(|_| !is_given("policy"));
    let gangs = GangSettings {
        slice_ns: loaded.slice_ns,
        strict: options.gangs.strict || cluster.switch("strict").unwrap_or(false),
        force_switch: options.gangs.force_switch || cluster.switch("force_switch").unwrap_or(false),
        policy: policy.map_or(Ok(options.gangs.policy), parse_policy)?,
        first: 0,
    };
    if !(0.0..=86_400.0).contains(&options.keep_for) {
        return Err(format!("--keep-for {} is not between 0 and 86400 seconds", options.keep_for));
    }
    if options.life.leave_after.is_some_and(|seconds| !(0.1..=86_400.0).contains(&seconds)) {
        return Err("--leave-after is not between 0.1 and 86400 seconds".into());
    }
    let every_core = || std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
    let listen = node.text("listen").filter(|_| !is_given("listen")).and_then(|text| text.parse().ok());
    let listen = listen.unwrap_or(options.listen);
    let ports = options.reach.ports.or_else(|| node.text("ports")?.parse().ok());
    let data = options.reach.data.or_else(|| node.text("data")?.parse().ok());
    let slots = options.slots.or_else(|| node.count("slots").map(|slots| slots as u32));
    let machine = options.machine.or_else(|| node.text("machine").map(str::to_owned));
    let socket = options.places.socket.or_else(|| node.text("socket").map(PathBuf::from));
    let keep_ms = node.ms("keep_for").filter(|_| !is_given("keep_for"));
    let (shown, _) = settings::rows(config, &name, &source.given);
    let socket = socket.unwrap_or_else(|| folder.join(paths::SOCKET));
    let network = NetworkSettings {
        controller,
        listen,
        data: data.unwrap_or(listen.ip()),
        ports,
        arity: cluster
            .count("arity")
            .filter(|_| !is_given("arity"))
            .map_or(options.arity, |arity| arity as u32),
    };
    let folders = Folders::new(folder, state, socket, &name, options.life.on_demand);
    let (amounts, gpus) = (options.amounts, node.text("gpus").and_then(|text| text.parse().ok()));
    let node = NodeSettings {
        name,
        machine: machine.unwrap_or_else(boot_id),
        slots: slots.unwrap_or_else(every_core),
        memory_bytes: amounts.memory.or(node.bytes("memory")).unwrap_or_else(tutti_os::memory::for_jobs),
        gpus_for_jobs: amounts.gpus.or(gpus).unwrap_or_else(if is_root {
            Gpus::found
        } else {
            Gpus::default
        }),
        pids_max: options.pids_max.or(node.count("pids_max")).unwrap_or_else(pids::for_a_job),
        starter: paths::starter(),
        scripts: ScriptSettings {
            prolog: node.text("prolog").map(PathBuf::from),
            epilog: node.text("epilog").map(PathBuf::from),
            most: Duration::from_millis(node.ms("script_time").unwrap_or(SCRIPT_MS)),
        },
    };
    node.scripts.check()?;
    let delays = Delays {
        lost_ms: lost_ms as u64,
        keep_ms: keep_ms.unwrap_or((options.keep_for * 1000.0) as u64),
        leave_ms: options.life.leave_after.map(|seconds| (seconds * 1000.0) as u64),
        board_refresh_ms: options.board_refresh,
    };
    let mail = cluster.text("mail").map(PathBuf::from);
    shell::check_mail(mail.as_deref())?;
    let configured = Configured { source, loaded, shown, mail };
    Ok(Settings { network, node, folders, key, delays, gangs, configured })
}

/// The file of the cluster's key; a controller makes one if none is named.
fn key_file(named: Option<PathBuf>, folder: &Path, is_controller: bool) -> Result<KeySource, String> {
    let is_named = named.is_some();
    let file = named.unwrap_or_else(|| folder.join("cluster.key"));
    if is_named && !file.exists() {
        let path = file.display();
        return Err(format!("the cluster's key {path} is not there: `tutti keygen {path}` makes one"));
    }
    if is_controller && !file.exists() {
        tutti_protocol::key::make(&file).map_err(|error| error.to_string())?;
    }
    Ok(KeySource::File(file))
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
