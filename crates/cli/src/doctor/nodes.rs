//! All nodes of a cluster: a job with a rank on each of them probes the others ([`super::probe`]), as the
//! user; here it is started, and its reports are judged.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::net::IpAddr;
use std::process::{Command, Stdio};

use tutti_os::PriorityClass;
use tutti_os::random::fill_random;
use tutti_protocol::users::{Answer, NodeRow, Request};

use super::checks::{self, Check, Verdict, fix, may, ok};
use super::probe::{Peer, Report, Task};
use crate::cluster;

/// The job is ended then.
const LIMIT_SECONDS: &str = "30";
/// Of all ranks' reports.
const REPORT_BYTES_MAX: u64 = 64 << 20;
/// Clocks that differ by more make times of logs hard to compare.
const CLOCKS_US: i64 = 100_000;
/// Doubt that is counted, at most, in us.
const DOUBT_US_MAX: u64 = 1 << 40;
/// Subject, what was found, advice.
type Finding = (&'static str, String, Option<String>);

/// Lines about pairs of nodes.
const PAIRS_MAX: usize = 20;

/// Judges the nodes of the cluster; none: there is no daemon, or it has no other node.
///
/// # Errors
/// When the job cannot be started; a text for the user.
pub fn checks(program: Option<&OsStr>) -> Result<Vec<Check>, String> {
    let rows = match cluster::request_if_running(&Request::Nodes)? {
        Some(Answer::Nodes(rows)) => rows,
        _ => return Ok(Vec::new()),
    };
    let (alive, lost): (Vec<NodeRow>, Vec<NodeRow>) = rows.into_iter().partition(|row| row.alive);
    if alive.len() + lost.len() < 2 {
        return Ok(Vec::new());
    }
    let mut checks: Vec<Check> = lost
        .iter()
        .map(|row| {
            fix("nodes", format!("{} is lost", row.name), "look at its daemon's log, and start it again")
        })
        .collect();
    let (reports, output) = inspect(&alive, program)?;
    let names: Vec<String> = alive.iter().map(|row| row.name.clone()).collect();
    for (rank, name) in (0..).zip(&names) {
        if !reports.contains_key(&rank) {
            let why = output.lines().last().unwrap_or("its rank did not answer").to_owned();
            let advice = "install the same Tutti at the same place there, and see that jobs start on it";
            checks.push(fix("nodes", format!("{name} gave no report: {why}"), advice));
        }
    }
    checks.extend(judge(&names, &alive, &reports, program));
    Ok(checks)
}

/// Starts the job; gives the reports by rank, and its stderr.
fn inspect(alive: &[NodeRow], program: Option<&OsStr>) -> Result<(BTreeMap<u32, Report>, String), String> {
    let mut token = [0; 8];
    fill_random(&mut token).map_err(|error| format!("cannot draw random bytes: {error}"))?;
    let peers: Option<Vec<Peer>> = alive
        .iter()
        .map(|row| Some(Peer { data: row.address.parse::<IpAddr>().ok()?, control: row.control? }))
        .collect();
    let peers = peers.ok_or("the daemon is of another version")?;
    let program = program.map(OsStr::to_owned);
    let task = Task { peers, token: u64::from_le_bytes(token), program };
    let task = serde_json::to_string(&task).map_err(|error| error.to_string())?;
    let own = std::env::current_exe().map_err(|error| format!("cannot find its own program: {error}"))?;
    let hosts: Vec<String> = alive.iter().map(|row| format!("{}:1", row.name)).collect();
    let words = [
        "run",
        "--timeout",
        LIMIT_SECONDS,
        "--no-gang",
        "-host",
        &hosts.join(","),
        "-n",
        &alive.len().to_string(),
    ]
    .map(OsString::from);
    let mut command = Command::new(&own);
    command.args(words).arg(&own).args(["doctor", "--rank", &task]);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot start {}: {error}", own.display()))?;
    let errors = child.stderr.take();
    let reader = std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = errors.map(|errors| errors.take(1 << 20).read_to_end(&mut text));
        String::from_utf8_lossy(&text).into_owned()
    });
    let mut text = Vec::new();
    let _ = child.stdout.take().map(|out| out.take(REPORT_BYTES_MAX).read_to_end(&mut text));
    let _ = child.wait();
    let output = reader.join().unwrap_or_default();
    let reports =
        text.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice::<Report>(line).ok());
    Ok((reports.map(|report| (report.rank, report)).collect(), output))
}

/// Judges what the ranks have found; `names` and `rows` are by rank.
fn judge(
    names: &[String],
    rows: &[NodeRow],
    reports: &BTreeMap<u32, Report>,
    program: Option<&OsStr>,
) -> Vec<Check> {
    let name = |rank: u32| names.get(rank as usize).map_or("?", String::as_str);
    let mut found = vec![versions(reports, &name)];
    found.extend(machines(reports, &name));
    found.extend(real_time(rows));
    found.extend(network(reports, &name));
    found.push(clocks(reports, &name));
    found.extend(program.map(|program| same_program(program, reports, &name)));
    found
}

/// Groups nodes whose reports give the same text: each text, with the names of its nodes in one line.
fn grouped<'a>(
    reports: &'a BTreeMap<u32, Report>,
    name: &impl Fn(u32) -> &'a str,
    text: impl Fn(&Report) -> String,
) -> Vec<(String, String)> {
    let mut groups: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (rank, report) in reports {
        groups.entry(text(report)).or_default().push(name(*rank));
    }
    groups.into_iter().map(|(text, nodes)| (text, nodes.join(", "))).collect()
}

fn versions<'a>(reports: &'a BTreeMap<u32, Report>, name: &impl Fn(u32) -> &'a str) -> Check {
    let groups = grouped(reports, name, |report| format!("Tutti {}", report.facts.version));
    match &groups[..] {
        [] => fix("versions", "no node has answered", "see the lines about nodes"),
        [(version, _)] => ok("versions", format!("{version} on {} nodes", reports.len())),
        _ => {
            let all: Vec<String> =
                groups.iter().map(|(version, nodes)| format!("{version} on {nodes}")).collect();
            fix("versions", all.join("; "), "install one version on all nodes, and start their daemons again")
        }
    }
}

/// Checks of single nodes that do not pass: of each subject the nodes with the same finding.
fn machines<'a>(reports: &'a BTreeMap<u32, Report>, name: &impl Fn(u32) -> &'a str) -> Vec<Check> {
    let mut lines: BTreeMap<Finding, (Verdict, Vec<&str>)> = BTreeMap::new();
    for (rank, report) in reports {
        for check in checks::of_rank(&report.facts).into_iter().filter(|check| check.verdict != Verdict::Ok) {
            let key = (check.subject, check.found, check.advice);
            lines.entry(key).or_insert((check.verdict, Vec::new())).1.push(name(*rank));
        }
    }
    let lines = lines.into_iter().map(|((subject, found, advice), (verdict, nodes))| Check {
        subject,
        verdict,
        found: format!("{}: {found}", nodes.join(", ")),
        advice,
    });
    lines.collect()
}

/// As the daemons have it, which were started otherwise than the job.
fn real_time(rows: &[NodeRow]) -> Option<Check> {
    let without: Vec<String> = rows
        .iter()
        .filter(|row| !matches!(row.preferred, PriorityClass::Fifo | PriorityClass::Kit))
        .map(|row| format!("{} ({})", row.name, row.preferred.name()))
        .collect();
    let late = "on busy machines switches come some ms late";
    let advice = "start tuttid as root, or with LimitRTPRIO=50 as a service";
    Some(match without.is_empty() {
        true => ok("nodes' real time", "the daemons of all nodes have it"),
        false => may("nodes' real time", format!("not on {}: {late}", without.join(", ")), advice),
    })
}

/// Between all pairs.
fn network<'a>(reports: &'a BTreeMap<u32, Report>, name: &impl Fn(u32) -> &'a str) -> Vec<Check> {
    let pairs = reports.len() * reports.len().saturating_sub(1);
    let mut checks = Vec::new();
    let mut add = |subject: &'static str, well: String, wrong: Vec<Check>| {
        let more = wrong.len().saturating_sub(PAIRS_MAX);
        if wrong.is_empty() {
            checks.push(ok(subject, well));
        }
        checks.extend(wrong.into_iter().take(PAIRS_MAX));
        if more > 0 {
            checks.push(fix(subject, format!("and {more} more pairs"), "as above"));
        }
    };
    let each = |of: fn(&Report) -> Vec<(u32, String)>| {
        reports
            .iter()
            .flat_map(move |(from, report)| of(report).into_iter().map(move |(to, why)| (*from, to, why)))
    };
    let tcp = each(|report| report.tcp.clone()).map(|(from, to, why)| {
        let (from, to) = (name(from), name(to));
        fix(
            "TCP",
            format!("{from} does not reach the daemon of {to}: {why}"),
            format!("let {from} in at {to}'s port of --listen (7411), TCP"),
        )
    });
    add("TCP", format!("every node reaches the others' daemons ({pairs} pairs)"), tcp.collect());
    let refusals = each(|report| report.refused.iter().map(|rank| (*rank, String::new())).collect());
    let refusals = refusals.map(|(from, to, _)| {
        let (from, to) = (name(from), name(to));
        fix(
            "UDP of daemons",
            format!("{to} refuses datagrams of {from} at its daemon's port: switches are slower"),
            format!("let {from} in at {to}'s port of --listen (7411), UDP"),
        )
    });
    add(
        "UDP of daemons",
        "no node refuses the others' datagrams at its daemon's port".into(),
        refusals.collect(),
    );
    let ranks = each(|report| report.silent.iter().map(|rank| (*rank, String::new())).collect());
    let ranks = ranks.map(|(from, to, _)| {
        let (from, to) = (name(from), name(to));
        fix(
            "UDP of ranks",
            format!("datagrams from {from} to {to} and back do not arrive"),
            format!("let UDP through between {from} and {to}, all ports (ip_local_port_range)"),
        )
    });
    add("UDP of ranks", format!("datagrams arrive both ways ({pairs} pairs)"), ranks.collect());
    checks
}

fn clocks<'a>(reports: &'a BTreeMap<u32, Report>, name: &impl Fn(u32) -> &'a str) -> Check {
    let ahead = reports.iter().filter_map(|(rank, report)| {
        Some((report.ahead_us?, report.doubt_us.min(DOUBT_US_MAX) as i64, *rank))
    });
    let ahead: Vec<(i64, i64, u32)> = ahead.chain(reports.contains_key(&0).then_some((0, 0, 0))).collect();
    // On a busy machine an answer takes its time, which is no difference of clocks.
    let first = ahead.iter().map(|(us, doubt_us, rank)| (us + doubt_us, *rank)).min();
    let last = ahead.iter().map(|(us, doubt_us, rank)| (us - doubt_us, *rank)).max();
    let (Some(first), Some(last)) = (first, last) else {
        return may("clocks", "they could not be compared", "see the lines about UDP");
    };
    let apart_us = last.0 - first.0;
    if apart_us <= CLOCKS_US {
        let found = || ahead.iter().map(|(us, ..)| *us);
        let most_us = found().max().unwrap_or(0) - found().min().unwrap_or(0);
        return ok("clocks", format!("at most {:.1} ms apart", most_us as f64 / 1e3));
    }
    may(
        "clocks",
        format!(
            "that of {} is {:.1} s ahead of {}'s: times of logs do not fit",
            name(last.1),
            apart_us as f64 / 1e6,
            name(first.1)
        ),
        "let chrony or systemd-timesyncd set them",
    )
}

fn same_program<'a>(
    program: &OsStr,
    reports: &'a BTreeMap<u32, Report>,
    name: &impl Fn(u32) -> &'a str,
) -> Check {
    let groups = grouped(reports, name, |report| match &report.program {
        Some(Ok(found)) => {
            let hash =
                found.sha256.as_ref().map_or("unreadable".into(), |hash| format!("SHA-256 {}", &hash[..16]));
            format!("{}, {} bytes, {hash}", found.path.display(), found.bytes)
        }
        Some(Err(text)) => text.clone(),
        None => "was not looked for".into(),
    });
    let is_everywhere = reports.values().all(|report| matches!(report.program, Some(Ok(_))));
    match &groups[..] {
        [(found, _)] if is_everywhere => ok("nodes' program", format!("{found}, the same on all nodes")),
        _ => {
            let all: Vec<String> = groups.iter().map(|(found, nodes)| format!("{nodes}: {found}")).collect();
            let advice = format!("put one {} at the same place on all nodes", program.to_string_lossy());
            fix("nodes' program", all.join("; "), advice)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::checks::tests::well;
    use crate::doctor::file::Found;

    fn reports() -> BTreeMap<u32, Report> {
        let found = Found { path: "/a.out".into(), bytes: 5, sha256: Some("0123456789abcdef0".into()) };
        let report = |rank| Report {
            rank,
            facts: well(),
            program: Some(Ok(found.clone())),
            ahead_us: (rank > 0).then_some(40),
            ..Report::default()
        };
        (0..3).map(|rank| (rank, report(rank))).collect()
    }

    fn wrong(reports: &BTreeMap<u32, Report>) -> Vec<(&'static str, String)> {
        let names = ["a", "b", "c"].map(str::to_owned);
        let checks = judge(&names, &[], reports, Some(OsStr::new("./a.out")));
        checks
            .into_iter()
            .filter(|check| check.verdict != Verdict::Ok)
            .map(|check| (check.subject, check.found))
            .collect()
    }

    #[test]
    fn doctor_finds_nothing_on_nodes_that_are_well() {
        assert_eq!(wrong(&reports()), []);
    }

    #[test]
    fn doctor_names_the_nodes_that_something_is_wrong_with() {
        type Change = fn(&mut BTreeMap<u32, Report>);
        let changes: [(&str, &str, Change); 7] = [
            ("versions", "Tutti 1 on a, c; Tutti 2 on b", |all| {
                all.get_mut(&1).unwrap().facts.version = "2".into()
            }),
            ("TCP", "a does not reach the daemon of c: timed out", |all| {
                all.get_mut(&0).unwrap().tcp.push((2, "timed out".into()));
            }),
            ("UDP of daemons", "c refuses datagrams of b", |all| all.get_mut(&1).unwrap().refused.push(2)),
            ("UDP of ranks", "datagrams from c to a and back do not arrive", |all| {
                all.get_mut(&2).unwrap().silent.push(0)
            }),
            ("clocks", "that of b is 3.0 s ahead of a's", |all| {
                all.get_mut(&1).unwrap().ahead_us = Some(3_000_000)
            }),
            ("nodes' program", "c: no such file", |all| {
                all.get_mut(&2).unwrap().program = Some(Err("no such file".into()))
            }),
            ("single copies", "b: kernel.yama.ptrace_scope is 3", |all| {
                all.get_mut(&1).unwrap().facts.processes.ptrace_scope = Some(3)
            }),
        ];
        for (subject, text, change) in changes {
            let mut all = reports();
            change(&mut all);
            let found = wrong(&all);
            assert!(
                found.len() == 1 && found[0].0 == subject && found[0].1.contains(text),
                "{subject}: {found:?}"
            );
        }
    }

    #[test]
    fn doctor_takes_no_slow_answer_for_a_wrong_clock() {
        let mut all = reports();
        let slow = all.get_mut(&1).unwrap();
        (slow.ahead_us, slow.doubt_us) = (Some(-150_000), 160_000);
        assert_eq!(wrong(&all), []);
        all.get_mut(&1).unwrap().doubt_us = 20_000;
        assert_eq!(wrong(&all).len(), 1);
    }

    #[test]
    fn doctor_bounds_the_lines_about_pairs() {
        let mut all = reports();
        all.get_mut(&0).unwrap().silent = (0..500).collect();
        assert_eq!(wrong(&all).len(), PAIRS_MAX + 1);
    }
}
