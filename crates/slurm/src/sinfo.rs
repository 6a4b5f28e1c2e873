//! `sinfo`: the one partition and its nodes.

use std::process::ExitCode;

use tutti_client::node_list;
use tutti_client::requests::NodeRow;
use tutti_os::stderr::print_line;

use crate::getopt::{Spec, Takes};
use crate::names::{CLUSTER, no_cluster};
use crate::output::{self, complain, print, refuse};
use crate::table::{self, Piece};
use crate::{forms, query, reservations};

use Takes::{Nothing, Value};

const NAME: &str = "sinfo";

pub const SPECS: &[Spec] = &[
    ("all", 'a', Nothing),
    ("clusters", 'M', Value),
    ("dead", 'd', Nothing),
    ("exact", 'e', Nothing),
    ("federation", '\0', Nothing),
    ("format", 'o', Value),
    ("Format", 'O', Value),
    ("future", 'F', Nothing),
    ("help", '\0', Nothing),
    ("hide", '\0', Nothing),
    ("json", '\0', Nothing),
    ("list-reasons", 'R', Nothing),
    ("local", '\0', Nothing),
    ("long", 'l', Nothing),
    ("Node", 'N', Nothing),
    ("noconvert", '\0', Nothing),
    ("nodes", 'n', Value),
    ("noheader", 'h', Nothing),
    ("partition", 'p', Value),
    ("reservation", 'T', Nothing),
    ("responding", 'r', Nothing),
    ("sort", 'S', Value),
    ("states", 't', Value),
    ("summarize", 's', Nothing),
    ("usage", '\0', Nothing),
    ("verbose", 'v', Nothing),
    ("version", 'V', Nothing),
];

const DEFAULT: &str = "%9P %.5a %.10l %.6D %.6t %N";
const BY_NODE: &str = "%#N %.6D %.9P %6t";
const LONG: &str = "%9P %.5a %.10l %.10s %.4r %.8h %.10g %.6D %.11T %N";
const LONG_BY_NODE: &str = "%#N %.6D %.9P %.11T %4c %.8z %.6m %.8d %.6w %.8f %20E";
const REASONS: &str = "%20E %9u %19H %N";
const LONG_REASONS: &str = "%20E %12U %19H %6t %N";
const SUMMARY: &str = "%9P %.5a %.10l %.16F %N";

/// States that may be asked for: Slurm's, of which nodes here have a few.
const STATES: [&str; 26] = [
    "all",
    "alloc",
    "allocated",
    "cloud",
    "comp",
    "completing",
    "down",
    "drain",
    "drained",
    "draining",
    "drng",
    "fail",
    "failing",
    "future",
    "idle",
    "maint",
    "mix",
    "mixed",
    "no_respond",
    "npc",
    "perfctrs",
    "power_down",
    "power_up",
    "resv",
    "reserved",
    "unknown",
];
/// Variables that stand for options, behind those of the command line.
const VARIABLES: [(&str, &str); 2] = [("SINFO_FORMAT", "format"), ("SINFO_PARTITION", "partition")];

/// State of a node, by Slurm's word. Time is shared, so a node with jobs takes more of them: it is `mixed`,
/// never `allocated`.
#[must_use]
pub fn state(node: &NodeRow) -> &'static str {
    match node.state() {
        "lost" => "down",
        "drained" => "drained",
        "draining" => "draining",
        _ if node.ranks > 0 => "mixed",
        _ => "idle",
    }
}

fn short_state(state: &str) -> &str {
    match state {
        "drained" => "drain",
        "draining" => "drng",
        "mixed" => "mix",
        other => other,
    }
}

/// Runs the command.
pub fn run(words: &[String]) -> ExitCode {
    let usage =
        "Usage: sinfo [-h] [-N] [-n nodes] [-o format] [-O fields] [-p partition] [-s] [-t states] [-T]";
    let line = match output::read(NAME, SPECS, usage, words) {
        Ok(line) => line,
        Err(status) => return status,
    };
    if line.has("reservation") {
        return match reservations::table(line.has("noheader")) {
            Ok(text) => print(&text),
            Err(text) => refuse(NAME, &text, 1),
        };
    }
    let set = VARIABLES.into_iter().filter_map(|(variable, option)| {
        let value = std::env::var(variable).ok().filter(|value| !value.is_empty())?;
        (!line.has(option)).then_some((option, value))
    });
    let options: Vec<_> = set.chain(line.options.iter().cloned()).collect();
    let listed = query::nodes().and_then(|nodes| list(&options, &nodes));
    match listed {
        Ok(text) => print(&text),
        Err(text) => refuse(NAME, &text, 1),
    }
}

pub fn list(options: &[(&'static str, String)], nodes: &[NodeRow]) -> Result<String, String> {
    let mut nodes: Vec<&NodeRow> = nodes.iter().collect();
    let (mut format, mut columns) = (DEFAULT.to_owned(), None);
    // Whether a line is of the partition.
    let mut has_partition = true;
    let (mut by_node, mut summary, mut no_header, mut is_long) = (false, false, false, false);
    for (name, value) in options {
        match *name {
            "Node" => {
                by_node = true;
                format = if format == LONG { LONG_BY_NODE.into() } else { BY_NODE.into() };
            }
            "long" => {
                is_long = true;
                if has_partition {
                    format = if by_node { LONG_BY_NODE.into() } else { LONG.into() };
                }
            }
            "list-reasons" => {
                format = if options.iter().any(|(name, _)| *name == "long") { LONG_REASONS } else { REASONS }
                    .into();
                has_partition = false;
                nodes.retain(|node| node.drain().is_some() || !node.alive);
            }
            // Nodes are in their own order: there is one partition.
            "sort" => {}
            "summarize" => (summary, format) = (true, SUMMARY.into()),
            "noheader" => no_header = true,
            "nodes" => {
                let names = node_list::expand(value).ok_or_else(|| format!("invalid node name: {value}"))?;
                nodes.retain(|node| names.contains(&node.name));
            }
            "states" => {
                let words: Vec<String> =
                    value.split(',').map(|word| word.trim().to_ascii_lowercase()).collect();
                if let Some(word) = words.iter().find(|word| !STATES.contains(&word.trim_end_matches('*'))) {
                    return Err(format!(
                        "Bad state string: \"{word}\"\nvalid states: {}",
                        STATES[1..].join(",")
                    ));
                }
                let is_in = |node: &NodeRow| {
                    let state = state(node);
                    words.iter().any(|word| *word == state || word == short_state(state) || word == "all")
                };
                nodes.retain(|node| is_in(node));
            }
            "dead" => nodes.retain(|node| !node.alive),
            "responding" => nodes.retain(|node| node.alive),
            "partition" if !value.split(',').any(|name| name == CLUSTER) => {
                nodes.clear();
                has_partition = false;
            }
            "clusters" if value != CLUSTER && value != "all" => {
                return Err(no_cluster(value));
            }
            "json" => return Err("--json is not there: `tutti nodes --json` has all of them".into()),
            _ => {}
        }
    }
    for (name, value) in options {
        match *name {
            "format" => format = value.clone(),
            "Format" => columns = Some(value.clone()),
            _ => {}
        }
    }
    // As wide as the longest name, and than 9 characters.
    let widest = nodes.iter().map(|node| node.name.chars().count()).max().unwrap_or(0).max(9);
    let format = format.replace("%#N", &format!("%{widest}N"));
    let pieces = match columns {
        Some(columns) if columns.eq_ignore_ascii_case("all") => {
            table::pieces_or_all("%all", |letter| title(letter).is_some())
        }
        Some(columns) => named(&columns),
        None => table::pieces_or_all(&format, |letter| title(letter).is_some()),
    };
    let has = |letters: &[char]| {
        pieces.iter().any(|piece| matches!(piece, Piece::Field { letter, .. } if letters.contains(letter)))
    };
    let by_state = has(&['t', 'T']) && !summary;
    let groups: Vec<Vec<&NodeRow>> = if by_node || has(&['n']) {
        nodes.iter().map(|node| vec![*node]).collect()
    } else {
        grouped(&nodes, |node| {
            (
                by_state.then(|| state(node)),
                has(&['c', 'C']).then_some(node.slots),
                has(&['m']).then_some(node.memory_bytes >> 20),
                has(&['E']).then(|| node.drain().cloned()),
                has(&['G']).then_some(node.gpus().count()),
            )
        })
    };
    for letter in table::unknown(&pieces, |letter| title_of_name(letter).is_some()) {
        print_line(format_args!("Invalid node format specification: {letter}"));
    }
    let mut text = String::new();
    if !no_header {
        if is_long {
            text = forms::moment(query::now_ms(), Some(forms::ABOVE_LISTS)) + "\n";
        }
        text.push_str(&table::line(&pieces, |letter| title_of_name(letter).map(str::to_owned)));
    }
    for group in &groups {
        text.push_str(&table::line(&pieces, |letter| field(group, letter)));
    }
    // The partition is there also where no node of it is meant.
    if groups.is_empty() && has_partition && !by_node {
        text.push_str(&table::line(&pieces, field_of_none));
    }
    Ok(text)
}

/// Generic resources of a node: its GPUs.
pub fn gres(node: &NodeRow) -> String {
    match node.gpus().count() {
        0 => "(null)".into(),
        count => format!("gpu:{count}"),
    }
}

fn grouped<'a, K: PartialEq>(nodes: &[&'a NodeRow], key: impl Fn(&NodeRow) -> K) -> Vec<Vec<&'a NodeRow>> {
    let mut groups: Vec<Vec<&NodeRow>> = Vec::new();
    for &node in nodes {
        match groups.iter_mut().find(|group| key(group[0]) == key(node)) {
            Some(group) => group.push(node),
            None => groups.push(vec![node]),
        }
    }
    groups
}

fn named(list: &str) -> Vec<Piece> {
    const NAMES: [(&str, char); 48] = [
        ("allocmem", '('),
        ("comment", ')'),
        ("extra", '<'),
        ("gresused", '>'),
        ("statecomplete", '='),
        ("timestamp", 'H'),
        ("user", 'u'),
        ("userlong", 'U'),
        ("available", 'a'),
        ("cpus", 'c'),
        ("cpusstate", 'C'),
        ("features", 'f'),
        ("features_act", 'b'),
        ("gres", 'G'),
        ("memory", 'm'),
        ("nodeaddr", 'o'),
        ("nodehost", 'n'),
        ("nodelist", 'N'),
        ("nodes", 'D'),
        ("partition", 'P'),
        ("partitionname", 'R'),
        ("reason", 'E'),
        ("state", 'T'),
        ("statecompact", 't'),
        ("time", 'l'),
        ("allocnodes", 'S'),
        ("cluster", 'V'),
        ("cores", 'Y'),
        ("cpusload", 'O'),
        ("defaulttime", 'L'),
        ("disk", 'd'),
        ("freemem", 'e'),
        ("groups", 'g'),
        ("maxcpuspernode", 'B'),
        ("nodeai", 'A'),
        ("nodeaiot", 'F'),
        ("oversubscribe", 'h'),
        ("preemptmode", 'M'),
        ("priorityjobfactor", 'I'),
        ("prioritytier", 'p'),
        ("root", 'r'),
        ("size", 's'),
        ("socketcorethread", 'z'),
        ("sockets", 'X'),
        ("statelong", 'T'),
        ("threads", 'Z'),
        ("version", 'v'),
        ("weight", 'w'),
    ];
    let mut pieces = Vec::new();
    for column in table::named(list) {
        let found = NAMES.iter().find(|(known, _)| *known == column.name);
        match found {
            Some((_, letter)) => {
                pieces.push(Piece::Field { letter: *letter, width: column.width, right: column.right });
                pieces.push(Piece::Text(column.suffix));
            }
            // As in Slurm the others are shown.
            None => complain(NAME, &format!("error: Invalid job format specification: {}", column.name)),
        }
    }
    pieces
}

/// Titles of `-O` that no letter has.
fn title_of_name(letter: char) -> Option<&'static str> {
    match letter {
        '(' => Some("ALLOCMEM"),
        ')' => Some("COMMENT"),
        '<' => Some("EXTRA"),
        '>' => Some("GRES_USED"),
        '=' => Some("STATECOMPLETE"),
        letter => title(letter),
    }
}

pub fn title(letter: char) -> Option<&'static str> {
    Some(match letter {
        'P' | 'R' => "PARTITION",
        'a' => "AVAIL",
        'l' => "TIMELIMIT",
        'L' => "DEFAULTTIME",
        'D' => "NODES",
        't' | 'T' => "STATE",
        'N' => "NODELIST",
        'n' => "HOSTNAMES",
        'o' => "NODE_ADDR",
        'c' => "CPUS",
        'C' => "CPUS(A/I/O/T)",
        'F' => "NODES(A/I/O/T)",
        'A' => "NODES(A/I)",
        'm' => "MEMORY",
        'G' => "GRES",
        'f' => "AVAIL_FEATURES",
        'b' => "ACTIVE_FEATURES",
        'E' => "REASON",
        'u' => "USER",
        'H' => "TIMESTAMP",
        'r' => "ROOT",
        's' => "JOB_SIZE",
        'g' => "GROUPS",
        'h' => "OVERSUBSCRIBE",
        'X' => "SOCKETS",
        'Y' => "CORES",
        'Z' => "THREADS",
        'z' => "S:C:T",
        'd' => "TMP_DISK",
        'w' => "WEIGHT",
        'O' => "CPU_LOAD",
        'e' => "FREE_MEM",
        'v' => "VERSION",
        'p' => "PRIO_TIER",
        'B' => "MAX_CPUS_PER_NODE",
        'I' => "PRIO_JOB_FACTOR",
        'M' => "PREEMPT_MODE",
        'S' => "ALLOCNODES",
        'U' => "USER",
        'V' => "CLUSTER",
        _ => return None,
    })
}

/// Field of the partition without nodes.
fn field_of_none(letter: char) -> Option<String> {
    Some(match letter {
        'P' => format!("{CLUSTER}*"),
        'R' => CLUSTER.into(),
        'a' => "up".into(),
        'l' => "infinite".into(),
        'D' | 'c' | 'm' | 'X' | 'Y' | 'Z' | 'w' | 'd' => "0".into(),
        'F' | 'C' => "0/0/0/0".into(),
        'A' => "0/0".into(),
        'z' => "0:0:0".into(),
        'r' => "no".into(),
        's' => "1-infinite".into(),
        'g' | 'S' => "all".into(),
        'h' => "FORCE".into(),
        'B' => "UNLIMITED".into(),
        'M' => "OFF".into(),
        'p' | 'I' => "1".into(),
        'L' | 't' | 'T' | '=' => "n/a".into(),
        'N' | 'n' | 'o' => String::new(),
        'E' => "none".into(),
        'u' | 'U' | 'H' => "Unknown".into(),
        'V' => "N/A".into(),
        letter => title_of_name(letter).map(|_| "(null)".into())?,
    })
}

fn field(nodes: &[&NodeRow], letter: char) -> Option<String> {
    let first = nodes.first()?;
    let count = |is: fn(&NodeRow) -> bool| nodes.iter().filter(|node| is(node)).count();
    let other = count(|node| ["down", "drained"].contains(&state(node)));
    let busy = count(|node| ["mixed", "draining"].contains(&state(node)));
    let idle = nodes.len() - other - busy;
    let slots = nodes.iter().map(|node| node.slots).fold(0, u32::saturating_add);
    let used: u64 = nodes.iter().map(|node| node.ranks.min(u64::from(node.slots))).sum();
    let lost = nodes.iter().filter(|node| ["down", "drained"].contains(&state(node)));
    let lost = lost.map(|node| node.slots).fold(0, u32::saturating_add);
    Some(match letter {
        'P' => format!("{CLUSTER}*"),
        'R' => CLUSTER.into(),
        'a' => "up".into(),
        'l' => "infinite".into(),
        'L' | 'e' | 'O' => "n/a".into(),
        'D' => nodes.len().to_string(),
        't' => short_state(state(first)).into(),
        'T' => state(first).into(),
        'N' | 'n' => node_list::fold(&nodes.iter().map(|node| node.name.clone()).collect::<Vec<_>>()),
        'o' => first.address.clone(),
        '(' => (first.declared_bytes >> 20).to_string(),
        ')' | '<' => "(null)".into(),
        '>' if first.gpus().count() > 0 => format!("gpu:{}", first.taken_gpus().count()),
        '>' => "(null)".into(),
        '=' => state(first).into(),
        'c' | 'Y' => first.slots.to_string(),
        'C' => {
            let used = used.min(u64::from(slots - lost));
            format!("{used}/{}/{lost}/{slots}", u64::from(slots - lost) - used)
        }
        'F' => format!("{busy}/{idle}/{other}/{}", nodes.len()),
        'A' => format!("{busy}/{idle}"),
        'm' => (first.memory_bytes >> 20).to_string(),
        'G' => gres(first),
        'f' | 'b' => "(null)".into(),
        'E' => first.drain().map_or_else(|| "none".into(), |drained| drained.why.clone()),
        'u' => {
            first.drain().map_or_else(|| "Unknown".into(), |drained| tutti_client::users::name(drained.uid))
        }
        'H' => first.drain().map_or_else(
            || "Unknown".into(),
            |drained| forms::moment(drained.since_ms, std::env::var("SLURM_TIME_FORMAT").ok().as_deref()),
        ),
        'r' => "no".into(),
        's' => "1-infinite".into(),
        'g' | 'S' => "all".into(),
        'B' => "UNLIMITED".into(),
        'M' => "OFF".into(),
        'V' => "N/A".into(),
        'U' => first.drain().map_or_else(
            || "Unknown".into(),
            |drained| format!("{}({})", tutti_client::users::name(drained.uid), drained.uid),
        ),
        'h' => "FORCE".into(),
        'X' | 'Z' | 'w' | 'p' | 'I' => "1".into(),
        'z' => format!("1:{}:1", first.slots),
        'd' => "0".into(),
        'v' => first.release.clone(),
        _ => return None,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;

    use super::*;
    use crate::getopt::{self, Ends};

    pub(crate) fn node(number: u32, ranks: u32, alive: bool) -> NodeRow {
        let row = json!({
            "node": number, "name": format!("node{number}"), "alive": alive, "slots": 2, "ranks": ranks,
            "memory_bytes": 4_u64 << 30, "parent": null, "address": "127.0.0.1"
        });
        serde_json::from_value(row).expect("a row")
    }

    fn shown(text: &str) -> Result<String, String> {
        let words = shlex::split(text).unwrap();
        let line = getopt::parse(SPECS, &words, Ends::AtDashes).unwrap();
        list(&line.options, &[node(0, 0, true), node(1, 2, true), node(2, 0, true), node(3, 0, false)])
    }

    #[test]
    fn nodes_are_grouped_by_state() {
        let expected = "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\n\
                        tutti*       up   infinite      2   idle node[0,2]\n\
                        tutti*       up   infinite      1    mix node1\n\
                        tutti*       up   infinite      1   down node3\n";
        assert_eq!(shown("").as_deref(), Ok(expected));
        assert_eq!(shown("-h -o %P").as_deref(), Ok("tutti*\n"));
        assert_eq!(shown("-h -a -o '%P %G %l %p %c %m'").as_deref(), Ok("tutti* (null) infinite 1 2 4096\n"));
        assert_eq!(shown("-h -o %q").as_deref(), Ok("%q\n"), "as in Slurm, beside a line on stderr");
        assert_eq!(
            shown("-h -o '%P %D'").as_deref(),
            Ok("tutti* 4\n"),
            "states that are not shown are no rows"
        );
        let error = shown("-t frob").unwrap_err();
        assert!(error.starts_with("Bad state string: \"frob\"\nvalid states: alloc,"), "{error}");
        // The partition is there without nodes too.
        assert_eq!(shown("-h -t maint -o '%P %D %t %N|'").unwrap(), "tutti* 0 n/a |\n");
        assert_eq!(shown("-h -p other").unwrap(), "");
        assert_eq!(shown("-h -n node0 -O 'NodeList:|,Nodes:.3;'").unwrap(), "node0|  1;\n");
        let expected = "NODELIST   NODES PARTITION STATE \nnode0          1    tutti* idle  \n";
        assert_eq!(shown("-N -n node0").as_deref(), Ok(expected));
        assert_eq!(shown("-h -s -o '%F %C'").as_deref(), Ok("1/2/1/4 2/4/2/8\n"));
        assert_eq!(
            shown("--noheader -O CPUs,Memory,Partition").as_deref(),
            Ok("2                   4096                tutti*              \n")
        );
        assert_eq!(shown("-h -N -t idle -o %N").as_deref(), Ok("node0\nnode2\n"));
    }

    #[test]
    fn every_field_of_a_letter_has_a_title_and_a_value() {
        let one = node(0, 0, true);
        for letter in ('A'..='z').filter(char::is_ascii_alphabetic) {
            assert_eq!(title(letter).is_some(), field(&[&one], letter).is_some(), "{letter}");
        }
    }
}
