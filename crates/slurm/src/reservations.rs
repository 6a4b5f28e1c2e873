//! Reservations, as `scontrol create`, `delete` and `show reservation` and `sinfo -T` have them.

use std::fmt::Write;

use tutti_client::node_list;
use tutti_client::requests::{Answer, NodeRow, Request};
use tutti_protocol::reservation::Reservation;

use crate::moments::{self, Day};
use crate::{forms, identity, query};

/// Fields in lines, as `scontrol` prints them without `-o`.
pub type Record = Vec<Vec<(&'static str, String)>>;

/// The line where there is none.
const NONE: &str = "No reservations in the system\n";

/// Reservations that are not over, in the order of their times.
fn all() -> Result<Vec<Reservation>, String> {
    match query::ask(&Request::Reservations)? {
        Answer::Reservations(all) => Ok(all),
        _ => Err(query::OTHER_VERSION.into()),
    }
}

/// `scontrol create reservation StartTime=... Duration=... Users=... Nodes=...`.
pub fn create(words: &[&str]) -> Result<String, String> {
    let Some(words) = words.split_first().and_then(|(what, rest)| match *what {
        // The entity may stand before a blank, or be a field.
        "reservation" | "res" => Some(rest.to_vec()),
        _ if is_named(what) => Some(words.to_vec()),
        _ => None,
    }) else {
        return Err("invalid entity for keyword:create: reservations alone are created".into());
    };
    let now_ms = query::now_ms();
    let mut new = read(&words, now_ms, &query::nodes()?)?;
    if new.name.is_empty() {
        let taken = all()?;
        let user = tutti_client::users::name(identity::own_uid());
        let mut names = (1..).map(|number| format!("{user}_{number}"));
        new.name = names.find(|name| taken.iter().all(|one| one.name != *name)).unwrap_or_default();
    }
    query::ask(&Request::Reserve(Box::new(new.clone())))
        .map_err(|text| format!("Error creating the reservation: {text}"))?;
    Ok(format!("Reservation created: {}\n", new.name))
}

fn is_named(word: &str) -> bool {
    let key = word.split('=').next().unwrap_or_default().to_ascii_lowercase();
    word.contains('=') && ["reservationname", "reservation"].contains(&key.as_str())
}

fn read(words: &[&str], now_ms: u64, nodes: &[NodeRow]) -> Result<Reservation, String> {
    let mut new = Reservation { from_ms: now_ms, ..Reservation::default() };
    let (mut end_ms, mut lasts_ms) = (None, None);
    for word in words {
        let (key, value) = word.split_once('=').ok_or_else(|| format!("Invalid input: {word}"))?;
        match key.to_ascii_lowercase().as_str() {
            "reservationname" | "reservation" => value.clone_into(&mut new.name),
            "starttime" => new.from_ms = moments::moment(value, Day::Next)?,
            "endtime" => end_ms = Some(moments::moment(value, Day::Next)?),
            "duration" => {
                let limit = forms::time_limit(value).ok_or_else(|| format!("Invalid duration={value}"))?;
                lasts_ms = Some(limit.ok_or("a reservation has an end: Duration=MINUTES or EndTime=TIME")?);
            }
            "nodes" if value.eq_ignore_ascii_case("all") => {
                new.nodes = nodes.iter().map(|node| node.name.clone()).collect();
            }
            "nodes" => {
                new.nodes = node_list::expand(value).ok_or_else(|| format!("Invalid node list: {value}"))?;
            }
            "users" | "user" => {
                for user in value.split(',') {
                    let uid = identity::uid_of(user).ok_or_else(|| format!("Invalid user name: {user}"))?;
                    new.users.push(uid);
                }
            }
            // Jobs that run go on in any case, and nodes are named.
            "flags" => {
                let known = ["ignore_jobs", "spec_nodes", "maint"];
                let is_known = |flag: &str| known.contains(&flag.to_ascii_lowercase().as_str());
                if let Some(flag) = value.split(',').find(|flag| !is_known(flag)) {
                    return Err(format!("Flags={flag} is not there"));
                }
            }
            _ => return Err(format!("Update of this parameter is not supported: {word}")),
        }
    }
    new.until_ms = match (end_ms, lasts_ms) {
        (Some(end_ms), _) => end_ms,
        (None, Some(lasts_ms)) => new.from_ms.saturating_add(lasts_ms),
        (None, None) => return Err("a reservation has an end: Duration=MINUTES or EndTime=TIME".into()),
    };
    if new.nodes.is_empty() {
        return Err("name the nodes of the reservation: Nodes=LIST or Nodes=ALL".into());
    }
    if new.users.is_empty() {
        return Err("name the users of the reservation: Users=USER,USER".into());
    }
    Ok(new)
}

/// `scontrol delete ReservationName=NAME`, or `delete reservation NAME`.
pub fn delete(words: &[&str]) -> Result<String, String> {
    let name = match words {
        [word] if is_named(word) => word.split_once('=').map(|(_, name)| name),
        ["reservation" | "res" | "reservationname", name] => Some(*name),
        _ => None,
    };
    let name = name.ok_or("name a reservation: delete ReservationName=NAME")?;
    query::ask(&Request::Unreserve(name.to_owned())).map(|_| String::new())
}

/// `scontrol show reservation`, as lines of fields.
pub fn show(name: Option<&str>) -> Result<Vec<Record>, String> {
    let found: Vec<_> = all()?.into_iter().filter(|one| name.is_none_or(|name| one.name == name)).collect();
    if let Some(name) = name.filter(|_| found.is_empty()) {
        return Err(format!("Reservation {name} not found"));
    }
    let nodes = query::nodes()?;
    let now_ms = query::now_ms();
    Ok(found.iter().map(|one| record(one, &nodes, now_ms)).collect())
}

/// The text where there is none to show.
#[must_use]
pub fn none() -> String {
    NONE.into()
}

fn state(one: &Reservation, now_ms: u64) -> &'static str {
    if one.is_open(now_ms) { "ACTIVE" } else { "INACTIVE" }
}

fn record(one: &Reservation, nodes: &[NodeRow], now_ms: u64) -> Record {
    let its = nodes.iter().filter(|node| one.nodes.contains(&node.name));
    let slots = its.map(|node| node.slots).fold(0, u32::saturating_add);
    let users: Vec<String> = one.users.iter().map(|uid| tutti_client::users::name(*uid)).collect();
    let null = || "(null)".to_owned();
    vec![
        vec![
            ("ReservationName", one.name.clone()),
            ("StartTime", forms::moment(one.from_ms, None)),
            ("EndTime", forms::moment(one.until_ms, None)),
            ("Duration", forms::long_time(one.until_ms.saturating_sub(one.from_ms) / 1000)),
        ],
        vec![
            ("Nodes", node_list::fold(&one.nodes)),
            ("NodeCnt", one.nodes.len().to_string()),
            ("CoreCnt", slots.to_string()),
            ("Features", null()),
            ("PartitionName", null()),
            ("Flags", "SPEC_NODES".into()),
        ],
        vec![("TRES", format!("cpu={slots}"))],
        vec![
            ("Users", users.join(",")),
            ("Groups", null()),
            ("Accounts", null()),
            ("Licenses", null()),
            ("State", state(one, now_ms).into()),
            ("BurstBuffer", null()),
            ("Watts", "n/a".into()),
        ],
        vec![("MaxStartDelay", null())],
    ]
}

/// `sinfo -T`.
pub fn table(no_header: bool) -> Result<String, String> {
    Ok(table_of(&all()?, query::now_ms(), no_header))
}

fn table_of(all: &[Reservation], now_ms: u64, no_header: bool) -> String {
    if all.is_empty() {
        return NONE.into();
    }
    let width = all.iter().map(|one| one.name.len()).max().unwrap_or(0).max(10);
    let mut text = String::new();
    let mut line = |words: [&str; 6]| {
        let [name, state, from, until, lasts, nodes] = words;
        let _ = writeln!(text, "{name:<width$}  {state:>8}  {from:>19}  {until:>19}  {lasts:>11}  {nodes}");
    };
    if !no_header {
        line(["RESV_NAME", "STATE", "START_TIME", "END_TIME", "DURATION", "NODELIST"]);
    }
    for one in all {
        line([
            &one.name,
            state(one, now_ms),
            &forms::moment(one.from_ms, None),
            &forms::moment(one.until_ms, None),
            &forms::long_time((one.until_ms - one.from_ms) / 1000),
            &node_list::fold(&one.nodes),
        ]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn create_reads_slurms_words() {
        let nodes = [crate::sinfo::tests::node(0, 0, true), crate::sinfo::tests::node(1, 0, true)];
        let of = |line: &str| read(&line.split(' ').collect::<Vec<_>>(), 1_000_000, &nodes);
        let found =
            of("StartTime=now Duration=10 user=root Nodes=ALL Flags=maint,ignore_jobs ReservationName=m");
        let found = found.unwrap();
        assert_eq!((found.name.as_str(), found.users.as_slice()), ("m", &[0][..]));
        assert_eq!(found.nodes, ["node0", "node1"]);
        assert_eq!(found.until_ms - found.from_ms, 600_000);
        let found = of("Duration=1:00:00 Users=0,7 Nodes=n[1-2]").unwrap();
        assert_eq!((found.from_ms, found.until_ms, found.name.as_str()), (1_000_000, 4_600_000, ""));
        assert_eq!((found.nodes, found.users), (vec!["n1".to_owned(), "n2".into()], vec![0, 7]));
        for wrong in [
            "Users=root Nodes=ALL",
            "Duration=10 Nodes=ALL",
            "Duration=10 Users=root",
            "Duration=x Users=root Nodes=ALL",
            "Duration=UNLIMITED Users=root Nodes=ALL",
            "Duration=10 Users=root Nodes=n[ Flags=maint",
            "Duration=10 Users=root Nodes=ALL Flags=daily",
            "Duration=10 Users=root Nodes=ALL NodeCnt=2",
        ] {
            assert!(of(wrong).is_err_and(|text| !text.contains('\n')), "{wrong}");
        }
    }

    #[test]
    fn reservations_are_shown_as_slurm_shows_them() {
        let one = Reservation {
            name: "maint".into(),
            nodes: vec!["node0".into(), "node1".into()],
            from_ms: 10_000,
            until_ms: 70_000,
            users: vec![0],
            ..Reservation::default()
        };
        let nodes = [crate::sinfo::tests::node(0, 0, true), crate::sinfo::tests::node(1, 0, true)];
        let fields: Vec<String> = record(&one, &nodes, 20_000)
            .into_iter()
            .flatten()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        for field in [
            "ReservationName=maint",
            "Duration=00:01:00",
            "NodeCnt=2",
            "CoreCnt=4",
            "State=ACTIVE",
            "Users=root",
        ] {
            assert!(fields.iter().any(|found| found == field), "{field}: {fields:?}");
        }
        assert_eq!(table_of(&[], 0, false), NONE);
        let text = table_of(std::slice::from_ref(&one), 0, false);
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[0], ["RESV_NAME", "STATE", "START_TIME", "END_TIME", "DURATION", "NODELIST"]);
        assert_eq!(
            (lines[1][0], lines[1][1], lines[1][4], lines[1][5]),
            ("maint", "INACTIVE", "00:01:00", "node[0-1]")
        );
        assert_eq!(table_of(&[one], 0, true).lines().count(), 1);
    }
}
