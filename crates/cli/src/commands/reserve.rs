//! `tutti reserve` and `tutti unreserve`: nodes that only jobs of some users get for a time.

use std::process::ExitCode;

use tutti_client::moments::{self, instant};
use tutti_client::table::aligned;
use tutti_client::{node_list, users};
use tutti_os::stderr::print_line;
use tutti_protocol::reservation::Reservation;
use tutti_protocol::time_limit;

use super::answer::{OTHER_VERSION, show};
use crate::cluster::{self, Answer, Request};
use crate::stdout;

/// Options of `tutti reserve`.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Options {
    /// Nodes to reserve: names, with commas between them or as n[1-3]; without any, reservations are listed
    #[arg(value_name = "NODES")]
    nodes: Vec<String>,
    /// Name of the reservation, for `--reservation` of jobs (default: r1, r2, ...)
    #[arg(long, value_name = "NAME", requires = "nodes")]
    name: Option<String>,
    /// When it begins: now, +2h, 17:30, 2026-12-24T17:30
    #[arg(long, value_name = "TIME", value_parser = moment_ms, requires = "nodes")]
    from: Option<u64>,
    /// When it ends
    #[arg(long, value_name = "TIME", value_parser = moment_ms, requires = "nodes", conflicts_with = "lasting")]
    until: Option<u64>,
    /// How long it lasts: 90m, 2h, 3d
    #[arg(long = "for", id = "lasting", value_name = "TIME", value_parser = time_ms, requires = "nodes")]
    lasting: Option<u64>,
    /// Users whose jobs may run in it, with commas between them
    #[arg(long, value_name = "USER", value_delimiter = ',', requires = "nodes")]
    user: Vec<String>,
    /// For scripts
    #[arg(long, conflicts_with = "nodes")]
    json: bool,
}

fn moment_ms(text: &str) -> Result<u64, String> {
    moments::moment(text).ok_or_else(|| format!("expected {}", moments::BEGIN_EXPECTED))
}

fn time_ms(text: &str) -> Result<u64, String> {
    let limit = time_limit::parse(text).ok_or_else(|| format!("expected {}", time_limit::EXPECTED))?;
    Ok(limit.as_millis() as u64)
}

/// Reserves nodes, or lists what is reserved.
pub(super) fn run(options: &Options) -> Result<ExitCode, String> {
    if options.nodes.is_empty() {
        return show(&all()?, options.json, table);
    }
    let mut new = Reservation::default();
    for list in &options.nodes {
        new.nodes.extend(node_list::expand(list).ok_or_else(|| format!("{list} is no list of nodes"))?);
    }
    if options.user.is_empty() {
        return Err("say for whom: --user USER".into());
    }
    for user in &options.user {
        new.users.push(users::number(user).ok_or_else(|| format!("there is no user {user}"))?);
    }
    new.from_ms = options.from.or_else(|| moments::moment("now")).unwrap_or_default();
    let end_ms = options.until.or_else(|| new.from_ms.checked_add(options.lasting?));
    new.until_ms = end_ms.ok_or("say how long: --for TIME, or --until TIME")?;
    new.name = match &options.name {
        Some(name) => name.clone(),
        None => free_name(&all()?),
    };
    cluster::request(&Request::Reserve(Box::new(new.clone())))?;
    Ok(stdout::print(Some(format!("reservation {}\n", new.name)), ""))
}

/// Removes reservations; a line for each refusal.
pub(super) fn remove(names: &[String]) -> ExitCode {
    let mut status = ExitCode::SUCCESS;
    for name in names {
        if let Err(why) = cluster::request(&Request::Unreserve(name.clone())) {
            print_line(format_args!("tutti unreserve: {why}"));
            status = ExitCode::FAILURE;
        }
    }
    status
}

fn all() -> Result<Vec<Reservation>, String> {
    match cluster::request(&Request::Reservations)?.0 {
        Answer::Reservations(all) => Ok(all),
        _ => Err(OTHER_VERSION.into()),
    }
}

fn free_name(taken: &[Reservation]) -> String {
    let mut names = (1..).map(|number: u32| format!("r{number}"));
    names.find(|name| taken.iter().all(|one| one.name != *name)).unwrap_or_default()
}

fn table(all: &[Reservation]) -> String {
    let now_ms = moments::moment("now").unwrap_or_default();
    let head = ["NAME", "STATE", "NODES", "FROM", "UNTIL", "USERS"].map(str::to_owned).to_vec();
    let row = |one: &Reservation| {
        let users: Vec<String> = one.users.iter().map(|uid| users::name(*uid)).collect();
        vec![
            one.name.clone(),
            if one.is_open(now_ms) { "open" } else { "waits" }.to_owned(),
            node_list::fold(&one.nodes),
            instant(one.from_ms),
            instant(one.until_ms),
            users.join(","),
        ]
    };
    aligned(&std::iter::once(head).chain(all.iter().map(row)).collect::<Vec<_>>(), &[false; 6])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reservations_are_listed_in_columns_and_named_by_number() {
        let one = Reservation {
            name: "r1".into(),
            nodes: vec!["n1".into(), "n2".into()],
            from_ms: 0,
            until_ms: u64::MAX,
            users: vec![0],
            ..Reservation::default()
        };
        let text = table(std::slice::from_ref(&one));
        let words: Vec<&str> = text.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!((words[0], words[1], words[2]), ("r1", "open", "n[1-2]"));
        assert!(text.lines().nth(1).unwrap().ends_with("root"), "{text}");
        assert_eq!((free_name(&[]), free_name(&[one])), ("r1".into(), "r2".into()));
    }
}
