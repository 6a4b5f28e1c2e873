//! Lists of nodes as Slurm writes them, `n[1-3,07],m`, and of their counts, `2(x3),1`. The order is kept,
//! zeros are kept, and only the last number of a name is folded.

/// Nodes of one list, at most: a list that names more is none.
pub const NODES_MAX: usize = 100_000;

/// Names in one list.
#[must_use]
pub fn fold(names: &[String]) -> String {
    let mut words: Vec<String> = Vec::new();
    let mut rest = names;
    while let Some(first) = rest.first() {
        let (head, tail, digits) = parts(first);
        let same = |name: &&String| {
            let (other_head, other_tail, other_digits) = parts(name);
            !digits.is_empty() && !other_digits.is_empty() && (other_head, other_tail) == (head, tail)
        };
        let count = if digits.is_empty() { 1 } else { rest.iter().take_while(same).count() };
        let numbers: Vec<&str> = rest[..count].iter().map(|name| parts(name).2).collect();
        words.push(if count == 1 { first.clone() } else { format!("{head}[{}]{tail}", ranges(&numbers)) });
        rest = &rest[count..];
    }
    words.join(",")
}

/// Text before a name's last number, text behind it, and the number as it is written.
fn parts(name: &str) -> (&str, &str, &str) {
    let is_digit = |letter: char| letter.is_ascii_digit();
    let Some(last) = name.rfind(is_digit) else { return (name, "", "") };
    let first = name[..=last]
        .rfind(|letter| !is_digit(letter))
        .map_or(0, |at| at + name[at..].chars().next().map_or(1, char::len_utf8));
    (&name[..first], &name[last + 1..], &name[first..=last])
}

fn ranges(numbers: &[&str]) -> String {
    let mut words: Vec<String> = Vec::new();
    let mut rest = numbers;
    while let Some(first) = rest.first() {
        let follows = |pair: &[&str]| {
            let value = |text: &str| text.parse::<u64>().ok();
            let next = value(pair[0]).and_then(|value| value.checked_add(1));
            next.is_some() && value(pair[1]) == next && pair[0].len() == pair[1].len()
                // 9 and 10 are a range only without zeros in front.
                || next.is_some() && value(pair[1]) == next && !pair[0].starts_with('0') && !pair[1].starts_with('0')
        };
        let count = 1 + rest.windows(2).take_while(|pair| follows(pair)).count();
        words.push(match count {
            1 => (*first).to_owned(),
            _ => format!("{first}-{}", rest[count - 1]),
        });
        rest = &rest[count..];
    }
    words.join(",")
}

/// Names of a list; none: it is no list.
#[must_use]
pub fn expand(list: &str) -> Option<Vec<String>> {
    let mut names = Vec::new();
    let mut rest = list;
    while !rest.is_empty() {
        let mut depth = 0;
        let end = rest.bytes().position(|byte| {
            depth += i32::from(byte == b'[') - i32::from(byte == b']');
            byte == b',' && depth == 0
        });
        let (word, after) = end.map_or((rest, ""), |end| (&rest[..end], &rest[end + 1..]));
        rest = after;
        if !word.is_empty() {
            expand_word(word, &mut names)?;
        }
    }
    Some(names)
}

fn expand_word(word: &str, names: &mut Vec<String>) -> Option<()> {
    let Some((before, rest)) = word.split_once('[') else {
        names.push(word.to_owned());
        return (names.len() <= NODES_MAX && !word.contains(']')).then_some(());
    };
    let (inside, after) = rest.split_once(']')?;
    for range in inside.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (from, to): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
        if to < from || to - from >= NODES_MAX as u64 {
            return None;
        }
        for number in from..=to {
            expand_word(&format!("{before}{number:0width$}{after}", width = first.len()), names)?;
        }
    }
    Some(())
}

/// List of the counts of nodes in a row: `2(x3),1`.
#[must_use]
pub fn fold_counts(counts: &[u32]) -> String {
    let words = counts.chunk_by(|one, other| one == other).map(|run| match run.len() {
        1 => run[0].to_string(),
        times => format!("{}(x{times})", run[0]),
    });
    words.collect::<Vec<_>>().join(",")
}

/// Counts of a list.
#[must_use]
pub fn expand_counts(list: &str) -> Option<Vec<u32>> {
    let mut counts = Vec::new();
    for word in list.split(',') {
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
    fn node_list_keeps_order_and_zeros() {
        for (names, list) in [
            ("n1", "n1"),
            ("n9 n10 n8", "n[9-10,8]"),
            ("n09 n10 n11", "n[09-11]"),
            ("r1n1 r1n2 r2n1 r2n2", "r1n[1-2],r2n[1-2]"),
            ("node0 node1 node2", "node[0-2]"),
            ("login n3-ib n4-ib", "login,n[3-4]-ib"),
            ("a b", "a,b"),
            ("n1 n3 n5 n6", "n[1,3,5-6]"),
            ("n08 n09 n10 n11 n20 m", "n[08-11,20],m"),
        ] {
            let names: Vec<String> = names.split(' ').map(str::to_owned).collect();
            assert_eq!(fold(&names), list);
            assert_eq!(expand(list), Some(names), "{list}");
        }
        let crossed = expand("a[1-2]b[1-2]").map(|names| names.join(" "));
        assert_eq!(crossed.as_deref(), Some("a1b1 a1b2 a2b1 a2b2"));
        assert_eq!(expand(""), Some(Vec::new()));
        for wrong in ["n[1-", "n[2-1]", "n[1-99999999999]", "n[x]", "n1]"] {
            assert_eq!(expand(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn counts_of_nodes_are_folded() {
        for (counts, list) in [(&[2, 2, 2, 1][..], "2(x3),1"), (&[4], "4")] {
            assert_eq!(fold_counts(counts), list);
            assert_eq!(expand_counts(list).as_deref(), Some(counts));
        }
        for wrong in ["2(x3", "x", "2(xx)", ""] {
            assert_eq!(expand_counts(wrong), None, "{wrong}");
        }
    }
}
