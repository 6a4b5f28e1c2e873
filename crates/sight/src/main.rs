//! `tutti-sight`: history, metrics and the page of a cluster, beside its daemons. `tutti up` and the service
//! manager start it; it may crash, be flooded or be stopped, and no daemon notices.
//!
//! ```text
//! daemons --answers--> collect --+--> history (SQLite) <--+
//! events.jsonl, turns.jsonl --+  +--> live (frames)    <--+-- server: page, /api, /metrics
//!                                +--> metrics          <--+
//! ```
//!
//! One thread collects. The other one answers requests; only its questions to the history run in further
//! threads. Started by root it first becomes a user without rights ([`account`]).
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]
#![allow(unreachable_pub, reason = "a program: no other crate uses it")]

mod access;
mod account;
mod collect;
mod history;
mod live;
mod log;
mod metrics;
mod output;
mod server;
mod tail;

use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use tokio::net::TcpListener;
use tutti_os::stderr::print_line;
use tutti_protocol::config::parse::AllKnown;
use tutti_protocol::config::section::Section;
use tutti_protocol::config::{self, Origin};
use tutti_protocol::daemon_options::{complaint, print_asked};
use tutti_protocol::{paths, sight};

use access::Access;
use collect::Collector;
use history::{Bounds, History};
use server::Site;

#[cfg(test)]
use tutti_client::report::Answers;

#[cfg(test)]
mod hostile;
#[cfg(test)]
#[path = "../fuzz/targets/readers.rs"]
mod readers;
#[cfg(test)]
#[path = "../../client/src/report/samples.rs"]
#[allow(dead_code, reason = "the other half is for tests of the reports")]
mod samples;
#[cfg(test)]
#[path = "../fuzz/targets/seeds.rs"]
mod seeds;

/// Exit status where the configuration or the command line is wrong.
const WRONG_CONFIGURATION: u8 = 2;

#[derive(Debug, Parser)]
#[command(name = "tutti-sight", version, about = "History, metrics and the page of a cluster")]
struct Options {
    /// The configuration, of which [sight] counts (default: as for tuttid)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address and port of the page (default: that of [sight], else 127.0.0.1:7480)
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    /// Folder of the history (default: sight in the state folder of the daemon)
    #[arg(long, value_name = "FOLDER")]
    history: Option<PathBuf>,
    /// End when the daemon is ended by `tutti down`
    #[arg(long)]
    until_down: bool,
}

fn main() -> ExitCode {
    tutti_os::close_inherited_on_exec();
    tutti_os::settle_signals();
    tutti_os::ignore_signal(rustix::process::Signal::XFSZ.as_raw());
    let options = match Options::try_parse() {
        Ok(options) => options,
        Err(error) if !error.use_stderr() => return print_asked(&error),
        Err(error) => {
            print_line(format_args!("tutti-sight: {}", complaint(&error)));
            return ExitCode::from(error.exit_code() as u8);
        }
    };
    let section = match section(options.config.as_deref()) {
        Ok(section) => section,
        Err(lines) => {
            lines.iter().for_each(|line| print_line(format_args!("tutti-sight: {line}")));
            return ExitCode::from(WRONG_CONFIGURATION);
        }
    };
    match run(&options, &section) {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            print_line(format_args!("tutti-sight: {text}"));
            ExitCode::FAILURE
        }
    }
}

/// Section of the configuration for this program.
fn section(file: Option<&Path>) -> Result<Section, Vec<String>> {
    let origin = Origin::choose(file);
    let parsed = config::load(&origin, &AllKnown);
    let path = origin.path().to_string_lossy();
    if parsed.mistakes.is_empty() {
        return Ok(parsed.config.sight);
    }
    Err(parsed.mistakes.iter().map(|mistake| mistake.at(&path)).collect())
}

fn run(options: &Options, section: &Section) -> Result<(), String> {
    let socket = paths::socket();
    let run = socket.parent().unwrap_or(Path::new("/"));
    let state = paths::state_of(run);
    let folder = options.history.clone().unwrap_or_else(|| sight::folder(&state));
    if rustix::process::geteuid().is_root() {
        // Does not come back, unless it fails.
        return Err(account::leave_root(section.text("user"), &folder));
    }
    let _ = rustix::thread::set_no_new_privs(true);
    // In lists of processes, where the kernel would show the link by which it was started anew.
    let _ = rustix::thread::set_name(c"tutti-sight");
    // What root's daemon shows to all, all may read.
    let is_roots = state.metadata().is_ok_and(|found| found.uid() == 0);
    paths::make(&folder, is_roots)
        .map_err(|error| format!("cannot use the folder {}: {error}", folder.display()))?;
    let bounds = Bounds {
        keep_ms: section.ms("history").unwrap_or(sight::HISTORY_MS) as i64,
        day_bytes: section.bytes("bytes_a_day").unwrap_or(sight::DAY_BYTES) as i64,
    };
    let listen = options.listen.or_else(|| section.text("listen")?.parse().ok()).unwrap_or(sight::LISTEN);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(8).build();
    let runtime = runtime.map_err(|error| format!("cannot begin: {error}"))?;
    let listener = runtime.block_on(TcpListener::bind(listen)).map_err(|error| {
        format!("cannot listen on {listen}: {error}: [sight] listen names another address")
    })?;
    let address = listener.local_addr().map_err(|error| format!("cannot listen on {listen}: {error}"))?;
    let access = access(is_roots, &folder)?;
    let history = History::open(&folder, bounds);
    let site = Arc::new(Site {
        frames: Default::default(),
        now: Default::default(),
        folder,
        hosts: section.names("hosts").to_vec(),
        access,
        limits: Default::default(),
    });
    let collector = Collector::new(Arc::clone(&site), history, &state);
    // Whoever has the address finds all counted that happens from now on.
    sight::write_address(&site.folder, address)
        .map_err(|error| format!("cannot write in {}: {error}", site.folder.display()))?;
    print_line(format_args!("tutti-sight: the page is at http://{address}"));
    let until_gone = options.until_down.then_some(socket);
    let (ends, ended) = tokio::sync::oneshot::channel();
    std::thread::Builder::new()
        .name("collect".into())
        .spawn(move || {
            collector.run(until_gone);
            let _ = ends.send(());
        })
        .map_err(|error| format!("cannot begin: {error}"))?;
    runtime.block_on(async {
        tokio::select! {
            () = server::serve(listener, site) => {}
            // A thread that panicked ends the process, too: the service manager starts another one.
            ended = ended => drop(ended),
        }
    });
    // Connections that are open end with us.
    runtime.shutdown_background();
    Ok(())
}

/// Root's daemon shows all jobs to all users; that of a user shows them to the user.
fn access(is_roots: bool, folder: &Path) -> Result<Access, String> {
    if is_roots {
        return Ok(Access::Open);
    }
    let made = sight::make_token(folder);
    made.map(Access::Token).map_err(|error| format!("cannot make the token in {}: {error}", folder.display()))
}
