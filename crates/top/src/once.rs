//! `tutti top --once` and `--json`: the same report as text, without a terminal.

use serde_json::{Value, json};
use tutti_client::moments::elapsed;
use tutti_client::{states, table::aligned, users};
use tutti_os::stderr::escape_control;
use tutti_protocol::size;

use tutti_client::report::{Answers, Job, Key, Node, Report, User, limits_of};

/// Characters of a command that are printed.
const COMMAND_CHARS: usize = 60;

/// Tables of nodes, jobs and users, and a line for each remark.
pub(crate) fn text(report: &Report) -> String {
    let mut text = if report.daemon { nodes(report) } else { "no daemon of one's own\n".to_owned() };
    text.push('\n');
    text.push_str(&jobs(report));
    text.push('\n');
    text.push_str(&all_users(&report.users));
    text
}

/// A part of the whole, in thousandths, as per cent.
pub(crate) fn percent(permille: Option<u32>) -> String {
    permille.map_or_else(|| "-".into(), |permille| format!("{}%", permille.saturating_add(5) / 10))
}

/// The same of millionths.
pub(crate) fn percent_ppm(ppm: Option<u32>) -> String {
    percent(ppm.map(|ppm| ppm / 1000))
}

/// A number of messages in five letters or less.
pub(crate) fn rate(number: Option<u64>) -> String {
    match number {
        None => "-".into(),
        Some(number @ 0..10_000) => number.to_string(),
        Some(number @ 0..10_000_000) => format!("{}k", number / 1000),
        Some(number @ 0..10_000_000_000) => format!("{}M", number / 1_000_000),
        Some(number) => format!("{}G", number / 1_000_000_000),
    }
}

/// The rows that a job is in.
pub(crate) fn rows_of(job: &Job) -> String {
    let rows: Vec<String> = job.place.rows.iter().map(ToString::to_string).collect();
    if rows.is_empty() { "-".into() } else { rows.join(",") }
}

/// How long a job runs, or has waited in parentheses.
pub(crate) fn time_of(job: &Job, now_ms: u64) -> String {
    let time = elapsed(job.time.since_ms, Some(now_ms.max(job.time.since_ms)));
    if job.time.runs { time } else { format!("({time})") }
}

/// Memory that jobs have declared, of all that there is.
pub(crate) fn memory_of(node: &Node) -> String {
    match node.memory_bytes {
        0 => "-".into(),
        bytes => format!("{}/{}", size::text(node.declared_bytes), size::text(bytes)),
    }
}

fn nodes(report: &Report) -> String {
    let mut table = vec![["NODE", "STATE", "SLOTS", "RANKS", "MEMORY", "ROWS"].map(str::to_owned).to_vec()];
    for node in &report.nodes {
        table.push(vec![
            escape_control(&node.name),
            node.state.to_owned(),
            node.slots.to_string(),
            node.ranks.to_string(),
            memory_of(node),
            rows_text(report, node),
        ]);
    }
    aligned(&table, &[false, false, true, true, true, false])
}

/// Rows as lists of job and slots: `0: 1 on 0-1; 1: 2 on 0, 3 on 1`.
fn rows_text(report: &Report, node: &Node) -> String {
    let row = |row: u32| {
        let mut of_job: Vec<(Key, Vec<usize>)> = Vec::new();
        for ((_, slot), key) in node.cells.range((row, 0)..=(row, u32::MAX)) {
            match of_job.iter_mut().find(|(other, _)| other == key) {
                Some((_, slots)) => slots.push(*slot as usize),
                None => of_job.push((*key, vec![*slot as usize])),
            }
        }
        let jobs: Vec<String> = of_job
            .iter()
            .map(|(key, slots)| format!("{} on {}", report.number(*key), tutti_os::cpu_list::format(slots)))
            .collect();
        format!("{row}: {}", jobs.join(", "))
    };
    let mut numbers: Vec<u32> = node.cells.keys().map(|(row, _)| *row).collect();
    numbers.dedup();
    let mut rows: Vec<String> = numbers.into_iter().map(row).collect();
    let beside = node.beside.iter();
    rows.extend(beside.map(|(key, ranks)| format!("{} with {ranks} ranks", report.number(*key))));
    if rows.is_empty() { "-".into() } else { rows.join("; ") }
}

fn jobs(report: &Report) -> String {
    let head = [
        "JOB", "STATE", "USER", "RANKS", "NODES", "ROW", "ASKED", "HAD", "BUSY", "MESSAGES", "TIME", "NAME",
        "COMMAND",
    ];
    let mut table = vec![head.map(str::to_owned).to_vec()];
    for job in &report.jobs {
        table.push(vec![
            escape_control(&job.id.number),
            job.state.to_owned(),
            escape_control(&job.id.user),
            job.size.ranks.to_string(),
            job.size.node_count.to_string(),
            rows_of(job),
            percent(job.share.asked_permille),
            percent(job.share.had_permille),
            percent(job.share.busy_permille),
            rate(Some(job.place.sent.messages).filter(|messages| *messages > 0)),
            time_of(job, report.at_ms),
            if job.label.name.is_empty() { "-".into() } else { escape_control(&job.label.name) },
            escape_control(&job.label.command).chars().take(COMMAND_CHARS).collect(),
        ]);
    }
    let right = [true, false, false, true, true, true, true, true, true, true, true, false, false];
    let mut text = aligned(&table, &right);
    for job in report.jobs.iter().filter(|job| job.id.key.other.is_none()) {
        for remark in &job.label.remarks {
            text.push_str(&format!("job {}: {}\n", job.id.number, escape_control(remark)));
        }
    }
    text
}

fn all_users(users: &[User]) -> String {
    let head = ["USER", "JOBS", "WAITING", "RANKS", "SHARE", "USED", "GETS", "LIMITS"];
    let mut table = vec![head.map(str::to_owned).to_vec()];
    for user in users {
        table.push(vec![
            escape_control(&user.name),
            user.count.running.to_string(),
            user.count.waiting.to_string(),
            user.count.ranks.to_string(),
            percent_ppm(user.standing.map(|one| one.share_ppm)),
            percent_ppm(user.used_ppm),
            percent_ppm(user.standing.map(|one| one.effective_ppm)),
            escape_control(&limits_of(user)),
        ]);
    }
    aligned(&table, &[false, true, true, true, true, true, true, false])
}

/// The report as one object. Jobs and nodes have what `tutti ps --json` and `tutti nodes --json` say of them.
pub(crate) fn json(answers: &Answers, report: &Report) -> Value {
    let jobs = report.by_key();
    let own = answers.jobs.iter().filter_map(|row| {
        let job = jobs.get(&Key { other: None, job: row.job.0 })?;
        let mut value = serde_json::to_value(row).expect("rows are serialisable");
        value["user"] = json!(job.id.user);
        value["shown_state"] = json!(states::of(row));
        value["asked_permille"] = json!(job.share.asked_permille);
        value["served_ms"] = json!(job.place.served_ms);
        value["rows"] = json!(job.place.rows);
        value["slots"] = json!(job.place.slots);
        value["had_permille"] = json!(job.share.had_permille);
        value["messages"] = json!(job.place.sent.messages);
        value["messages_s"] = json!(job.place.sent.per_s);
        Some(value)
    });
    let others = answers.others.iter().filter_map(|row| {
        let job = jobs.get(&Key { other: Some(row.uid), job: row.job })?;
        let mut value = serde_json::to_value(row).expect("rows are serialisable");
        value["user"] = json!(job.id.user);
        Some(value)
    });
    let user = |user: &User| {
        let limits: serde_json::Map<String, Value> =
            user.limits.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        json!({
            "uid": user.uid,
            "user": users::name(user.uid),
            "jobs": user.count.running,
            "waiting": user.count.waiting,
            "ranks": user.count.ranks,
            "slots": user.count.slots,
            "share_ppm": user.standing.map(|one| one.share_ppm),
            "used_ppm": user.used_ppm,
            "effective_ppm": user.standing.map(|one| one.effective_ppm),
            "limits": limits,
        })
    };
    json!({
        "at_ms": report.at_ms,
        "daemon": report.daemon,
        "rows": report.row_count,
        "nodes": answers.nodes,
        "jobs": own.collect::<Vec<_>>(),
        "others": others.collect::<Vec<_>>(),
        "users": report.users.iter().map(user).collect::<Vec<_>>(),
    })
}
