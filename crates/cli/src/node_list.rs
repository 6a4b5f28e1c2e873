//! Slurm's lists of nodes, `n[1-3,07],m`, and that of the allocation around this process.

/// Nodes, at most: a list that names more is none.
pub const NODES_MAX: usize = 100_000;

/// Names of the nodes of the allocation.
pub fn names(variable: &impl Fn(&str) -> Option<String>) -> Option<Vec<String>> {
    nodes(&variable("SLURM_JOB_NODELIST").or_else(|| variable("SLURM_NODELIST"))?)
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
    }
}
