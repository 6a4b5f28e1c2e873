//! The nodes of a Slurm allocation, as its environment names them.

use tutti_protocol::variables;

use crate::cluster::Host;

/// Nodes, at most: a list that names more is none.
const NODES_MAX: usize = 100_000;

/// The nodes of the allocation that this process is in, with the tasks of each; none: there is no allocation.
pub fn allocation(variable: &impl Fn(&str) -> Option<String>) -> Option<Vec<Host>> {
    // The stand-ins for Slurm's commands set the same variables.
    if variable(variables::SLURM).is_some() {
        return None;
    }
    let names = nodes(&variable("SLURM_JOB_NODELIST").or_else(|| variable("SLURM_NODELIST"))?)?;
    let all = || variable("SLURM_NTASKS").or_else(|| variable("SLURM_NPROCS"));
    let tasks = match &names[..] {
        [_] => variable("SLURM_TASKS_PER_NODE").or_else(all),
        _ => variable("SLURM_TASKS_PER_NODE"),
    };
    let tasks = tasks.and_then(|text| counts(&text)).unwrap_or_default();
    let ranks = |index: usize| tasks.get(index).copied();
    Some(names.into_iter().enumerate().map(|(index, name)| Host { name, ranks: ranks(index) }).collect())
}

/// `n[1-3,07],m,k[01-02]-ib`: the names of the list.
fn nodes(list: &str) -> Option<Vec<String>> {
    let mut found = Vec::new();
    let mut rest = list;
    while !rest.is_empty() {
        // A comma inside brackets does not end the word.
        let mut depth = 0;
        let end = rest.bytes().position(|byte| {
            depth += i32::from(byte == b'[') - i32::from(byte == b']');
            byte == b',' && depth == 0
        });
        let (word, after) = end.map_or((rest, ""), |end| (&rest[..end], &rest[end + 1..]));
        rest = after;
        expand(word, &mut found)?;
    }
    Some(found)
}

fn expand(word: &str, found: &mut Vec<String>) -> Option<()> {
    let Some((before, rest)) = word.split_once('[') else {
        found.push(word.to_owned());
        return (found.len() <= NODES_MAX && !word.is_empty()).then_some(());
    };
    let (inside, after) = rest.split_once(']')?;
    for range in inside.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (from, to): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
        if to < from || (to - from) as usize >= NODES_MAX {
            return None;
        }
        for number in from..=to {
            expand(&format!("{before}{number:0width$}{after}", width = first.len()), found)?;
        }
    }
    Some(())
}

/// `2(x3),1`: the tasks of each node.
fn counts(text: &str) -> Option<Vec<u32>> {
    let mut counts = Vec::new();
    for word in text.split(',') {
        let (count, times): (&str, usize) = match word.split_once("(x") {
            Some((count, times)) => (count, times.strip_suffix(')')?.parse().ok()?),
            None => (word, 1),
        };
        let count: u32 = count.parse().ok()?;
        counts.extend(std::iter::repeat_n(count, NODES_MAX.min(times)));
    }
    Some(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slurm_node_list_is_parsed() {
        let joined = |list: &str| nodes(list).map(|names| names.join(" "));
        for (list, expected) in [
            ("n1", Some("n1")),
            ("n[1-3]", Some("n1 n2 n3")),
            ("n[08-11,20],m", Some("n08 n09 n10 n11 n20 m")),
            ("a[1-2]b[1-2]", Some("a1b1 a1b2 a2b1 a2b2")),
            ("login,n[3]-ib", Some("login n3-ib")),
            ("n[1-", None),
            ("n[2-1]", None),
            ("n[1-99999999999]", None),
            ("n[x]", None),
        ] {
            assert_eq!(joined(list).as_deref(), expected, "{list}");
        }
        assert_eq!(counts("2(x3),1"), Some(vec![2, 2, 2, 1]));
        assert_eq!(counts("4"), Some(vec![4]));
        assert_eq!(counts("many"), None);
    }

    #[test]
    fn slurm_allocation_of_one_node_has_its_tasks() {
        let of = |variables: &[(&str, &str)]| {
            let value = |name: &str| {
                variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).into())
            };
            allocation(&value).map(|hosts| hosts.into_iter().map(|host| host.ranks).collect::<Vec<_>>())
        };
        assert_eq!(of(&[("SLURM_JOB_NODELIST", "n1"), ("SLURM_TASKS_PER_NODE", "3")]), Some(vec![Some(3)]));
        assert_eq!(of(&[("SLURM_JOB_NODELIST", "n1"), ("SLURM_NTASKS", "3")]), Some(vec![Some(3)]));
        assert_eq!(of(&[("SLURM_NODELIST", "n[1-2]"), ("SLURM_NTASKS", "3")]), Some(vec![None, None]));
        assert_eq!(of(&[("SLURM_NTASKS", "3")]), None);
        assert_eq!(of(&[("SLURM_JOB_NODELIST", "n1"), (variables::SLURM, "{}")]), None);
    }
}
