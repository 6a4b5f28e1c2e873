//! `tutti up --hosts a,b,c`: a cluster on other machines, which `ssh` reaches, or another program (`--rsh`,
//! TUTTI_RSH). On each of them `tutti member` starts the daemon ([`super::member`]).
//!
//! ```text
//! tutti up --ssh--> tutti member     {name, key, join, ...}  on its stdin: the key is on no command line
//!          <------- {address} or {error}, when the daemon is in the cluster
//! ```

use std::io::Write;
use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant};

use tutti_os::stderr::print_line;
use tutti_protocol::{key, paths};

use super::member::{Answer, MARK, Order};
use crate::rsh::{self, Host};
use crate::stdout;

/// A host that cannot be reached is tried for so long: it may have no name yet.
const REACH_MAX: Duration = Duration::from_secs(60);
/// Between two tries, at first and at most.
const AGAIN: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(8));
/// Status of ssh that has not come to the command.
const NOT_REACHED: i32 = 255;

/// Daemons that were started on hosts.
#[derive(Debug)]
pub struct Started {
    /// The hosts, in order; the first one has the controller.
    pub hosts: Vec<Host>,
}

impl Started {
    /// The first host as `--at` names it.
    pub fn target(&self) -> String {
        self.hosts[0].target()
    }

    /// Ends the daemons.
    pub fn end(&self) {
        let mut command = self.hosts[0].command(&["down"], true);
        let _ = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
}

/// Starts a cluster that stays.
///
/// # Errors
/// When a daemon does not start: then none is left. A text for the user.
pub(super) fn up(names: &[String], flags: &[String], in_json: bool) -> Result<ExitCode, String> {
    let started = start(names, &[], flags)?;
    let (count, target) = (started.hosts.len(), started.target());
    let text = if in_json {
        format!("{}\n", serde_json::json!({ "nodes": count, "at": target }))
    } else {
        format!("{count} nodes; commands on them find it, and elsewhere tutti --at {target}\n")
    };
    Ok(stdout::print(Some(text), ""))
}

/// Starts a daemon on each host, the controller on the first one; `slots`: of each, if given.
///
/// # Errors
/// As [`up`].
pub fn start(names: &[String], slots: &[Option<u32>], flags: &[String]) -> Result<Started, String> {
    let key = key::text().map_err(|error| error.to_string())?;
    let hosts: Vec<Host> = names.iter().map(|name| Host::parse(name)).collect::<Result<_, _>>()?;
    let order = |index: usize, join: Option<String>| Order {
        name: hosts[index].name().to_owned(),
        key: key.clone(),
        join,
        slots: slots.get(index).copied().flatten(),
        flags: flags.to_vec(),
    };
    let [first, others @ ..] = &hosts[..] else { return Err("--hosts names no host".into()) };
    let controller = start_on(first, &order(0, None))?;
    let started = std::thread::scope(|scope| {
        let tasks: Vec<_> = others
            .iter()
            .enumerate()
            .map(|(index, host)| {
                let order = order(index + 1, Some(controller.clone()));
                scope.spawn(move || start_on(host, &order))
            })
            .collect();
        let ended = tasks.into_iter().map(|task| task.join().unwrap_or_else(|_| Err("no answer".into())));
        // All of them are waited for.
        ended.collect::<Vec<_>>().into_iter().collect::<Result<Vec<_>, _>>()
    });
    let all = Started { hosts: hosts.clone() };
    started.inspect_err(|_| all.end())?;
    Ok(all)
}

/// Starts the daemon of a host; its address.
fn start_on(host: &Host, order: &Order) -> Result<String, String> {
    let began = Instant::now();
    let mut between = AGAIN.0;
    loop {
        let mut command = host.command(&["member"], true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| rsh::cannot_start(&command, &error))?;
        let mut words = serde_json::to_vec(order).expect("orders are serialisable");
        words.push(b'\n');
        // One that ends without reading says why.
        let _ = child.stdin.take().map(|mut stdin| stdin.write_all(&words));
        let ended = child.wait_with_output().map_err(|error| format!("{}: {error}", host.name()))?;
        let output = String::from_utf8_lossy(&ended.stdout).into_owned();
        let answer = output.lines().find_map(|line| line.split_once(MARK).map(|(_, json)| json.to_owned()));
        match answer.map(|json| serde_json::from_str(&json)) {
            Some(Ok(Answer::Up { address, notes })) => {
                notes.iter().for_each(|note| print_line(format_args!("tutti: {}: {note}", host.name())));
                return Ok(address);
            }
            Some(Ok(Answer::Refused(text))) => return Err(format!("{}: {text}", host.name())),
            _ if ended.status.code() == Some(NOT_REACHED) && began.elapsed() < REACH_MAX => {
                if between == AGAIN.0 {
                    let (name, seconds) = (host.name(), REACH_MAX.as_secs());
                    print_line(format_args!(
                        "tutti: {name} cannot be reached yet; it is tried for {seconds} s"
                    ));
                }
                std::thread::sleep(between);
                between = (between * 2).min(AGAIN.1);
            }
            _ => {
                let (name, status, program) = (host.name(), ended.status, paths::tutti());
                let program = program.display();
                return Err(format!("{name}: {program} does not start a daemon there ({status})"));
            }
        }
    }
}
