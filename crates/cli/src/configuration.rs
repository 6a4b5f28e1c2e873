//! `tutti config check`, `tutti config show`, `tutti reload`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::json;
use tutti_os::stderr::print_line;
use tutti_protocol::config::schema::MEMORY_PER_NODE;
use tutti_protocol::config::settings::{Given, rows};
use tutti_protocol::config::{self, Config, Limits, Origin, Setting};
use tutti_protocol::settings::version_text;
use tutti_protocol::size;

use crate::cluster::{self, Answer, NodeRow, Request};
use crate::options::USAGE;
use crate::stdout;
use tutti_client::configured::Directory;

/// Nodes have this time to store what was reloaded.
const STORED: Duration = Duration::from_secs(2);
/// Between two looks.
const POLL: Duration = Duration::from_millis(50);

/// Subcommands of `tutti config`.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum Command {
    /// Name every mistake of a configuration, with its place
    Check {
        /// The file (default: the one that a daemon would read)
        file: Option<PathBuf>,
        /// For scripts
        #[arg(long)]
        json: bool,
    },
    /// What holds, and where each value comes from: of the running daemon, else of the file
    Show {
        /// What this file would give
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
        /// For scripts
        #[arg(long)]
        json: bool,
    },
}

/// Runs a command of `tutti config`.
///
/// # Errors
/// When a daemon does not answer; a text for the user.
pub fn run(command: Command) -> Result<ExitCode, String> {
    match command {
        Command::Check { file, json } => Ok(check(file, json)),
        Command::Show { file: None, json } => match cluster::request_if_running(&Request::Configuration)? {
            Some(Answer::Configuration(rows)) => show(&rows, json),
            Some(_) => Err("the daemon is of another version".into()),
            None => show_file(None, json),
        },
        Command::Show { file, json } => show_file(file, json),
    }
}

/// Reads a file as a daemon would; prints every mistake. None: there are some.
pub fn read(file: Option<PathBuf>) -> Option<(Config, Vec<String>)> {
    let origin = Origin::choose(file.as_deref());
    let parsed = config::load(&origin, &Directory);
    let path = origin.path().to_string_lossy();
    let most = config::parse::MISTAKES_MAX;
    for mistake in parsed.mistakes.iter().take(most) {
        print_line(format_args!("{}", mistake.at(&path)));
    }
    if parsed.mistakes.len() > most {
        print_line(format_args!("{path}: {} more mistakes", parsed.mistakes.len() - most));
    }
    let warnings: Vec<String> =
        parsed.warnings.iter().map(|mistake| format!("warning: {}", mistake.at(&path))).collect();
    for warning in &warnings {
        print_line(format_args!("{warning}"));
    }
    parsed.mistakes.is_empty().then_some((parsed.config, warnings))
}

fn check(file: Option<PathBuf>, json: bool) -> ExitCode {
    let origin = Origin::choose(file.as_deref());
    let Some((config, warnings)) = read(file) else { return ExitCode::from(USAGE) };
    let unheld = unheld(&config);
    unheld.iter().for_each(|line| print_line(format_args!("{line}")));
    let (path, is_there) = (origin.path().display(), !config.path.is_empty());
    let text = match (json, is_there) {
        (true, _) => format!(
            "{}\n",
            json!({ "file": path.to_string(), "exists": is_there, "warnings": warnings, "unheld": unheld })
        ),
        (false, true) => format!("{path}: no mistakes\n"),
        (false, false) => format!("{path} does not exist: defaults hold\n"),
    };
    stdout::print(Some(text), "")
}

/// Limits of memory that this node cannot hold jobs to, or that are more than a node has.
fn unheld(config: &Config) -> Vec<String> {
    let rules = &config.rules;
    let all = std::iter::once((String::from("[limits]"), &rules.limits));
    let users = rules.user_limits.iter().map(|(name, limits)| (format!("[limits.user.{name}]"), limits));
    let groups = rules.group_limits.iter().map(|(name, limits)| (format!("[limits.group.{name}]"), limits));
    let all: Vec<_> = all.chain(users).chain(groups).collect();
    let place = |title: &str, limits: &Limits, key: &str| {
        format!("{}:{}: {title} {key}", config.path, limits.0.line(key))
    };
    let mut lines = Vec::new();
    if !tutti_os::cgroup::ability().limits_memory {
        let text =
            "the kernel of this node cannot hold jobs to it (no memory controller): it is counted only";
        for key in ["memory", MEMORY_PER_NODE] {
            let given = all.iter().filter(|(_, limits)| limits.0.bytes(key).is_some());
            lines.extend(given.map(|(title, limits)| format!("{}: {text}", place(title, limits, key))));
        }
    }
    let here = config.node.bytes("memory").unwrap_or_else(tutti_os::memory::for_jobs);
    let here = std::iter::once(("this node", here)).filter(|(_, bytes)| *bytes > 0);
    let others = config.nodes.iter();
    let others = others.filter_map(|(name, node)| Some((name.as_str(), node.bytes("memory")?)));
    let nodes: Vec<_> = here.chain(others).collect();
    for (title, limits) in &all {
        let Some(bytes) = limits.0.bytes(MEMORY_PER_NODE) else { continue };
        for (node, there) in nodes.iter().filter(|(_, there)| bytes > *there) {
            let (place, bytes) = (place(title, limits, MEMORY_PER_NODE), size::text(bytes));
            let there = size::text(*there);
            lines.push(format!("{place}: {bytes} is more than the {there} that {node} has for jobs"));
        }
    }
    lines
}

fn show_file(file: Option<PathBuf>, json: bool) -> Result<ExitCode, String> {
    let Some((config, _)) = read(file) else { return Ok(ExitCode::from(USAGE)) };
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let name = config.node.text("name").map_or(host, str::to_owned);
    let (node, cluster) = rows(&config, &name, &Given::default());
    show(&[node, cluster].concat(), json)
}

fn show(rows: &[Setting], json: bool) -> Result<ExitCode, String> {
    if json {
        let text = serde_json::to_string_pretty(
            &rows
                .iter()
                .map(|row| json!({ "key": row.key, "value": row.value, "source": row.source.to_string() }))
                .collect::<Vec<_>>(),
        );
        return Ok(stdout::print(Some(text.expect("rows are serialisable") + "\n"), ""));
    }
    let mut table = vec![["KEY", "VALUE", "FROM"].map(str::to_owned).to_vec()];
    table.extend(rows.iter().map(|row| vec![row.key.clone(), row.value.clone(), row.source.to_string()]));
    Ok(stdout::print(Some(tutti_client::table::aligned(&table, &[false; 3])), ""))
}

/// `tutti reload`: the controller reads its file; says which nodes have it.
///
/// # Errors
/// When no daemon answers, or the user may not; a text for the user.
pub fn reload(json: bool) -> Result<ExitCode, String> {
    let (version, notes) = match cluster::request(&Request::Reload)?.0 {
        Answer::Reloaded(version, notes) => (version, notes),
        Answer::Mistakes(lines) => {
            lines.iter().for_each(|line| print_line(format_args!("{line}")));
            print_line(format_args!("tutti reload: nothing has changed"));
            return Ok(ExitCode::from(USAGE));
        }
        _ => return Err("the daemon is of another version".into()),
    };
    notes.iter().for_each(|note| print_line(format_args!("{note}")));
    let deadline = Instant::now() + STORED;
    let rows = loop {
        let rows = nodes()?;
        if rows.iter().all(|row| !row.alive || row.configuration == version) || Instant::now() >= deadline {
            break rows;
        }
        std::thread::sleep(POLL);
    };
    let names = |wanted: bool| {
        let rows = rows.iter().filter(|row| row.alive && (row.configuration == version) == wanted);
        rows.map(|row| row.name.clone()).collect::<Vec<_>>()
    };
    let (have, lack) = (names(true), names(false));
    let text = if json {
        format!(
            "{}\n",
            json!({ "version": version_text(version), "nodes": have, "without": lack, "notes": notes })
        )
    } else {
        let without =
            if lack.is_empty() { String::new() } else { format!("; not yet on {}", lack.join(", ")) };
        format!("version {} is on {}{without}\n", version_text(version), have.join(", "))
    };
    Ok(stdout::print(Some(text), ""))
}

fn nodes() -> Result<Vec<NodeRow>, String> {
    match cluster::request(&Request::Nodes)?.0 {
        Answer::Nodes(rows) => Ok(rows),
        _ => Err("the daemon is of another version".into()),
    }
}
