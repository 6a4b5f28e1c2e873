//! `sacctmgr` and `sshare`, as far as tools ask them: there are no accounts, and no shares of them, so they
//! list the cluster, its QOS, and nothing else. Nothing is changed by them.

use std::process::ExitCode;

use crate::getopt::{self, Spec, Takes};
use crate::names::CLUSTER;
use crate::output::{self, print, refuse};
use crate::selection::QOS;
use crate::table;

use Takes::{Nothing, Value};

pub const MANAGER_SPECS: &[Spec] = &[
    ("associations", 's', Nothing),
    ("help", 'h', Nothing),
    ("immediate", 'i', Nothing),
    ("noheader", 'n', Nothing),
    ("oneliner", 'o', Nothing),
    ("parsable", 'p', Nothing),
    ("parsable2", 'P', Nothing),
    ("quiet", 'Q', Nothing),
    ("readonly", 'r', Nothing),
    ("usage", '\0', Nothing),
    ("verbose", 'v', Nothing),
    ("version", 'V', Nothing),
];

pub const SHARE_SPECS: &[Spec] = &[
    ("accounts", 'A', Value),
    ("all", 'a', Nothing),
    ("clusters", 'M', Value),
    ("format", 'o', Value),
    ("help", '\0', Nothing),
    ("helpformat", 'e', Nothing),
    ("long", 'l', Nothing),
    ("noheader", 'h', Nothing),
    ("parsable", 'p', Nothing),
    ("parsable2", 'P', Nothing),
    ("partition", 'm', Nothing),
    ("usage", '\0', Nothing),
    ("user", 'u', Value),
    ("users", 'U', Nothing),
    ("verbose", 'v', Nothing),
    ("version", 'V', Nothing),
];

/// Entities that `sacctmgr show` lists: name, the columns without a format, and the names of its rows.
const ENTITIES: [(&str, &str, &[&str]); 5] = [
    ("cluster", "Cluster,ControlHost,ControlPort,RPC,Share,QOS", &[CLUSTER]),
    ("qos", "Name,Priority,GraceTime,Preempt,MaxWall", &[QOS]),
    ("user", "User,Def Acct,Admin", &[]),
    ("account", "Account,Descr,Org", &[]),
    ("association", "Cluster,Account,User,Partition,Share,QOS", &[]),
];
const SHARES: &str = "Account%20,User,RawShares,NormShares%11,RawUsage%11,EffectvUsage%13,FairShare";
/// Width of a column without one of its own.
const WIDTH: i64 = 10;

/// Runs `sacctmgr`.
pub fn manager(words: &[String]) -> ExitCode {
    const NAME: &str = "sacctmgr";
    let usage = "Usage: sacctmgr [-n] [-P|-p] {show|list} {cluster|qos|user|account|association}";
    let line = match output::read(NAME, MANAGER_SPECS, usage, words) {
        Ok(line) => line,
        Err(status) => return status,
    };
    match managed(&line) {
        Ok(text) => print(&text),
        Err(text) => refuse(NAME, &text, 1),
    }
}

fn managed(line: &getopt::Line) -> Result<String, String> {
    let mut words = line.operands.iter();
    match words.next().map(String::as_str) {
        Some("show" | "list") => {}
        Some(other) => {
            return Err(format!(
                "{other} is not there: users need no accounts, and `tutti.toml` limits them"
            ));
        }
        None => return Err("name what is to be listed: it asks no questions".into()),
    }
    let what = words.next().ok_or("No valid entity in list command")?.to_ascii_lowercase();
    let is_meant = |known: &str| known.starts_with(what.trim_end_matches('s')) || known == what;
    let found = ENTITIES.iter().find(|(known, _, _)| !what.is_empty() && is_meant(known));
    let (_, usual, rows) = found.ok_or_else(|| format!("No valid entity in list command: {what}"))?;
    let format = words.find_map(|word| {
        let (name, format) = word.split_once('=')?;
        name.to_ascii_lowercase().starts_with("form").then(|| format.to_owned())
    });
    let columns = table::columns(format.as_deref().unwrap_or(usual), '%');
    let rows = rows.iter().map(|name| {
        let is_name = |column: &str| ["cluster", "name"].contains(&column.to_ascii_lowercase().as_str());
        columns.iter().map(|(column, _)| if is_name(column) { *name } else { "" }.to_owned()).collect()
    });
    Ok(lines(&line.options, &columns, &rows.collect::<Vec<_>>()))
}

/// Runs `sshare`.
pub fn shares(words: &[String]) -> ExitCode {
    let usage = "Usage: sshare [-h] [-P|-p] [-U] [-o columns] [-u users] [-A accounts]";
    let line = match output::read("sshare", SHARE_SPECS, usage, words) {
        Ok(line) => line,
        Err(status) => return status,
    };
    let format = line.options.iter().rev().find(|(name, _)| *name == "format").map(|(_, value)| &**value);
    print(&lines(&line.options, &table::columns(format.unwrap_or(SHARES), '%'), &[]))
}

/// The table: its head, unless it is not wanted, and its rows.
fn lines(options: &[(&'static str, String)], columns: &[table::Column], rows: &[Vec<String>]) -> String {
    let given = |name: &str| options.iter().any(|(known, _)| *known == name);
    let is_parsable = given("parsable") || given("parsable2");
    let widths = columns.iter().map(|(_, width)| width.unwrap_or(WIDTH));
    let widths: Vec<i64> = widths.collect();
    let joined = |row: &[String]| match is_parsable {
        true => format!("{}{}\n", row.join("|"), if given("parsable") { "|" } else { "" }),
        false => {
            let fields = row.iter().zip(&widths);
            let fit = |(value, width): (&String, &i64)| {
                table::fit(value, Some(width.unsigned_abs() as usize), *width > 0) + " "
            };
            fields.map(fit).collect::<String>() + "\n"
        }
    };
    let mut text = String::new();
    if !given("noheader") {
        let names: Vec<String> = columns.iter().map(|(name, _)| name.clone()).collect();
        text.push_str(&joined(&names));
        if !is_parsable {
            let dashes = widths.iter().map(|width| "-".repeat(width.unsigned_abs() as usize));
            text.push_str(&joined(&dashes.collect::<Vec<_>>()));
        }
    }
    rows.iter().for_each(|row| text.push_str(&joined(row)));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::getopt::Ends;

    fn listed(text: &str) -> Result<String, String> {
        managed(&getopt::parse(MANAGER_SPECS, &shlex::split(text).unwrap(), Ends::AtDashes).unwrap())
    }

    #[test]
    fn accounts_are_none_and_the_cluster_is_listed() {
        assert_eq!(listed("-n -s list user \"root\" format=account%256").as_deref(), Ok(""));
        assert_eq!(listed("list -n user root withassoc format=maxsubmitjobsperuser").as_deref(), Ok(""));
        assert_eq!(listed("-nP show clusters format=cluster").as_deref(), Ok("tutti\n"));
        assert_eq!(listed("-P show qos format=name").as_deref(), Ok("name\nnormal\n"));
        for wrong in ["", "add user x", "show", "show frob"] {
            assert!(listed(wrong).is_err_and(|text| !text.contains('\n')), "{wrong}");
        }
    }
}
