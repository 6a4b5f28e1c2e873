//! `tutti prices` and `tutti ps -l`: who has how much of the time, and why.

use std::process::ExitCode;

use serde_json::json;
use tutti_protocol::size;
use tutti_protocol::users::Prices;
use tutti_sched::NodeId;
use tutti_sched::market::{NodePrices, PRICE_UNIT};
use tutti_sched::shares::Standing;

use super::answer::OTHER_VERSION;
use crate::cluster::{self, Answer, JobRow, NodeRow, Request};
use crate::stdout;
use tutti_client::filter::Filter;
use tutti_client::table::aligned;
use tutti_client::{others, states, users};

/// Reason for which jobs of other users' daemons run at the same time.
const WITHOUT_OTHERS: &str = "no turns with other users, whose processes /proc hides here (hidepid)";
/// Users without root's daemon divide the machine evenly, by its clock; of so many each has at least a share.
const SHARERS_MAX: usize = 8;

/// Users with daemons of their own with whom the scheduler shares this machine, with the number of their jobs
/// that run here.
fn sharers(prices: &Prices) -> Vec<(u32, usize)> {
    if prices.sharers.is_empty() {
        return Vec::new();
    }
    let runs = |state| [cluster::JobState::Running, cluster::JobState::Starting].contains(&state);
    let running: Vec<u32> = others::jobs().iter().filter(|job| runs(job.state)).map(|job| job.uid).collect();
    let jobs_of = |uid: u32| running.iter().filter(|one| **one == uid).count();
    prices.sharers.iter().map(|uid| (*uid, jobs_of(*uid))).collect()
}

/// Rest of a share beside so many other users.
fn beside(ppm: u32, others: usize) -> u32 {
    ppm / (others + 1).min(SHARERS_MAX) as u32
}

fn ask() -> Result<Prices, String> {
    match cluster::request(&Request::Prices)?.0 {
        Answer::Prices(prices) => Ok(*prices),
        _ => Err(OTHER_VERSION.into()),
    }
}

fn nodes() -> Result<Vec<NodeRow>, String> {
    match cluster::request(&Request::Nodes)?.0 {
        Answer::Nodes(rows) => Ok(rows.into_iter().filter(|row| row.alive).collect()),
        _ => Err(OTHER_VERSION.into()),
    }
}

/// Thousandths with one digit behind the point.
fn tenths(milli: u64) -> String {
    format!("{}.{}", milli / 1000, milli % 1000 / 100)
}

fn percent(ppm: u32) -> String {
    format!("{}.{}%", ppm / 10_000, ppm % 10_000 / 1000)
}

/// Demand over supply, in thousandths.
fn price_milli(wanted: u64, there: u64) -> u64 {
    u64::try_from(u128::from(wanted) * 1000 / u128::from(there.max(1))).unwrap_or(u64::MAX)
}

/// Parts of all that was used, in millionths.
fn used_ppm(users: &[Standing], user: &Standing) -> u32 {
    let all: u128 = users.iter().map(|one| u128::from(one.used_ns)).sum();
    (u128::from(user.used_ns) * 1_000_000 / all.max(1)) as u32
}

/// Bytes in a second.
fn rate(bytes: u64) -> String {
    format!("{}/s", size::text(bytes))
}

fn name_of(nodes: &[NodeRow], node: NodeId) -> String {
    let found = nodes.iter().find(|row| row.node == node);
    found.map_or_else(|| format!("node {node}"), |row| row.name.clone())
}

fn node_json(nodes: &[NodeRow], one: &NodePrices) -> serde_json::Value {
    json!({
        "node": name_of(nodes, one.node),
        "network_wanted_bytes_s": one.network.demand,
        "network_bytes_s": one.network.supply,
        "network_price_milli": one.network_price,
        "network_counted": one.is_counted,
        "unclaimed_bytes_s": one.unclaimed,
        "memory_used_bytes": one.memory.demand,
        "memory_enough_bytes": one.memory.supply,
        "memory_price_milli": one.memory_price,
        "unclaimed_memory_bytes": one.unclaimed_memory,
    })
}

/// `tutti prices`.
///
/// # Errors
/// When no daemon answers; a text for the user.
pub(super) fn prices(in_json: bool) -> Result<ExitCode, String> {
    let (prices, nodes) = (ask()?, nodes()?);
    let Prices { processor, half_life_ms, users: standings, nodes: found, left_out, .. } = &prices;
    let processor_price = price_milli(processor.wanted_milli, processor.slots * 1000);
    if in_json {
        let memory = |node: &NodeRow| {
            json!({ "node": node.name, "declared_bytes": node.declared_bytes, "bytes": node.memory_bytes,
                    "price_milli": price_milli(node.declared_bytes, node.memory_bytes) })
        };
        let user = |one: &Standing| {
            json!({ "user": users::name(one.user), "uid": one.user, "jobs": one.jobs, "share_ppm": one.share_ppm,
                    "used_ns": one.used_ns, "used_ppm": used_ppm(standings, one), "effective_ppm": one.effective_ppm })
        };
        let value = json!({
            "processor": { "wanted_milli": processor.wanted_milli, "slots": processor.slots, "price_milli": processor_price },
            "memory": nodes.iter().map(memory).collect::<Vec<_>>(),
            "nodes": found.iter().map(|one| node_json(&nodes, one)).collect::<Vec<_>>(),
            "left_out": left_out.iter().map(|job| job.0).collect::<Vec<_>>(),
            "half_life_ms": half_life_ms,
            "users": standings.iter().map(user).collect::<Vec<_>>(),
            "hides_others": prices.hides_others,
            "sharers": prices.sharers.iter().map(|uid| json!({ "user": users::name(*uid), "uid": uid })).collect::<Vec<_>>(),
        });
        return Ok(stdout::print(Some(format!("{value:#}\n")), ""));
    }
    let mut table = vec![["RESOURCE", "WANTED", "THERE", "PRICE"].map(str::to_owned).to_vec()];
    table.push(vec![
        "processor".into(),
        tenths(processor.wanted_milli),
        processor.slots.to_string(),
        tenths(processor_price),
    ]);
    for node in nodes.iter().filter(|node| node.memory_bytes > 0) {
        table.push(vec![
            format!("memory of {}", node.name),
            size::text(node.declared_bytes),
            size::text(node.memory_bytes),
            tenths(price_milli(node.declared_bytes, node.memory_bytes)),
        ]);
    }
    for one in found {
        let name = name_of(&nodes, one.node);
        if one.memory_price > PRICE_UNIT {
            table.push(vec![
                format!("used memory of {name}"),
                size::text(one.memory.demand),
                size::text(one.memory.supply),
                tenths(one.memory_price),
            ]);
        }
        let (there, price) = match one.network.supply {
            0 => ("-".to_owned(), if one.network_price > 0 { tenths(one.network_price) } else { "-".into() }),
            supply => (rate(supply), tenths(one.network_price)),
        };
        table.push(vec![format!("network of {name}"), rate(one.network.demand), there, price]);
    }
    let mut text = aligned(&table, &[false, true, true, true]);
    for one in found {
        let name = name_of(&nodes, one.node);
        let network = if one.is_counted { rate(one.unclaimed) } else { "its network".into() };
        let memory = size::text(one.unclaimed_memory);
        text.push_str(&format!("unclaimed on {name}: {network}, {memory} of memory\n"));
    }
    for job in left_out {
        text.push_str(&format!("job {job} has flooded the network and is left out of its row\n"));
    }
    let mut table = vec![["USER", "JOBS", "SHARE", "USED", "GETS"].map(str::to_owned).to_vec()];
    let sharers = sharers(&prices);
    table.extend(standings.iter().map(|one| {
        vec![
            users::name(one.user),
            one.jobs.to_string(),
            percent(beside(one.share_ppm, sharers.len())),
            percent(used_ppm(standings, one)),
            percent(beside(one.effective_ppm, sharers.len())),
        ]
    }));
    table.extend(sharers.iter().map(|(uid, jobs)| {
        let share = percent(beside(1_000_000, sharers.len()));
        let jobs = if *jobs == 0 { "-".to_owned() } else { jobs.to_string() };
        vec![users::name(*uid), jobs, share.clone(), "-".into(), share]
    }));
    text.push('\n');
    text.push_str(&aligned(&table, &[false, true, true, true, true]));
    if prices.hides_others {
        text.push_str(&format!("{WITHOUT_OTHERS}\n"));
    }
    Ok(stdout::print(Some(text), ""))
}

/// `tutti ps -l`.
///
/// # Errors
/// When no daemon answers; a text for the user.
pub(super) fn list(all: bool, filter: &Filter) -> Result<ExitCode, String> {
    let rows = match cluster::request(&Request::Jobs { all })?.0 {
        Answer::Jobs(rows) => rows,
        _ => return Err(OTHER_VERSION.into()),
    };
    let prices = ask()?;
    let sharers = sharers(&prices);
    let Prices { users: standings, places, hides_others, .. } = prices;
    let names: Vec<String> = sharers.iter().map(|(uid, _)| users::name(*uid)).collect();
    let head = ["JOB", "STATE", "USER", "WEIGHT", "EFFECTIVE", "MESSAGES", "LIBRARY", "WHY"];
    let mut table = vec![head.map(str::to_owned).to_vec()];
    for row in rows.iter().filter(|row| filter.takes(states::of(row), &row.name, row.uid)) {
        let standing = standings.iter().find(|one| one.user == row.uid);
        let why = match standing {
            _ if !row.gang => "it takes no turns".to_owned(),
            _ if !row.put_out.is_empty() => row.put_out[0].1.to_string(),
            _ if row.effective_milli == 0 => "-".to_owned(),
            one if !sharers.is_empty() => format!(
                "{} of the time: {} and you take turns, each by a daemon of their own",
                percent(beside(one.map_or(1_000_000, |one| one.effective_ppm), sharers.len())),
                names.join(", ")
            ),
            Some(one) if standings.len() > 1 => format!(
                "{} of the time for {} jobs: share {}, used {}",
                percent(one.effective_ppm),
                one.jobs,
                percent(one.share_ppm),
                percent(used_ppm(&standings, one))
            ),
            _ if hides_others => WITHOUT_OTHERS.to_owned(),
            _ => "no other user wants the slots".to_owned(),
        };
        let messages = places.iter().find(|place| place.job == row.job).map_or(0, |place| place.messages);
        let effective = if row.effective_milli == 0 { "-".to_owned() } else { tenths(row.effective_milli) };
        table.push(vec![
            row.job.to_string(),
            states::of(row).to_owned(),
            users::name(row.uid),
            row.weight.to_string(),
            effective,
            if messages == 0 { "-".to_owned() } else { messages.to_string() },
            libraries(row),
            why,
        ]);
    }
    let mut text = aligned(&table, &[true, false, false, true, true, true, false, false]);
    let is_shown = |row: &&JobRow| filter.takes(states::of(row), &row.name, row.uid);
    for row in rows.iter().filter(is_shown).filter(|row| !row.connected.is_empty()) {
        text.push_str(&format!("job {} is connected to {}\n", row.job, super::status::connected_jobs(row)));
    }
    Ok(stdout::print(Some(text), ""))
}

/// Libraries on which ranks of a job have begun with MPI.
fn libraries(row: &JobRow) -> String {
    match row.libraries() {
        [] => "-".to_owned(),
        seen => seen.iter().map(|library| library.word()).collect::<Vec<_>>().join(","),
    }
}
