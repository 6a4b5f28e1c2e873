//! Ranks whose ticket something between them and their starter has taken out of the environment (`sudo`,
//! `su -`, `env -i`): each is a world of size 1, and nothing else says so. Found by /proc, since nothing is
//! left of the variables. Asked by [`crate::attach`] of a process without a ticket, once.

use std::process;

/// Name of a starter, by its program.
const STARTER_NAME: &str = "tutti-starter";

/// Processes below a starter that are none of the program begin their names with this.
const OWN_PREFIX: &str = "tutti";

/// Processes between a starter and this one that are looked at, at most.
const DEPTH_MAX: usize = 64;

/// The line for the user, where a starter is above this process. Of ranks that were started with the same
/// words, the oldest that still runs has it.
pub(crate) fn line() -> Option<String> {
    let mut below = process::id();
    for _ in 0..DEPTH_MAX {
        let parent = Process::of(below)?.parent;
        let starter = Process::of(parent).filter(|_| parent > 1)?;
        if starter.name == STARTER_NAME {
            return is_oldest(parent, below).then(|| text(parent));
        }
        below = parent;
    }
    None
}

fn text(starter: u32) -> String {
    format!(
        "this process was started below mpiexec (its starter is pid {starter}), but TUTTI_TICKET is not in its environment: sudo, su, \
         env -i and the like take it out; so it runs alone, as a world of size 1: put them in front of mpiexec \
         (sudo -u USER mpiexec ...), or set TUTTI_SINGLETON=1 if that is what you want"
    )
}

/// Whether no child of the starter that was started before this one has the same command line.
fn is_oldest(starter: u32, child: u32) -> bool {
    let read = |pid: u32, file: &str| std::fs::read(format!("/proc/{pid}/{file}")).ok();
    let Some(children) = read(starter, &format!("task/{starter}/children")) else { return true };
    let words = read(child, "cmdline");
    let text = String::from_utf8_lossy(&children).into_owned();
    let mut older = text.split(' ').map_while(|pid| pid.parse::<u32>().ok()).take_while(|pid| *pid != child);
    !older.any(|pid| {
        let is_rank = Process::of(pid).is_some_and(|found| !found.name.starts_with(OWN_PREFIX));
        is_rank && read(pid, "cmdline") == words
    })
}

/// A process, as the kernel tells of it.
#[derive(Debug, PartialEq, Eq)]
struct Process {
    name: String,
    /// Pid of its parent; 0: none that is seen from here.
    parent: u32,
}

impl Process {
    fn of(pid: u32) -> Option<Self> {
        Self::parse(&String::from_utf8_lossy(&std::fs::read(format!("/proc/{pid}/stat")).ok()?))
    }

    /// Of a line of /proc/PID/stat. A name may have blanks and parentheses.
    fn parse(line: &str) -> Option<Self> {
        let (begin, end) = (line.find('(')?, line.rfind(')')?);
        let parent = line[end + 1..].split_whitespace().nth(1)?.parse().ok()?;
        Some(Process { name: line.get(begin + 1..end)?.to_owned(), parent })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_line_gives_name_and_parent_whatever_the_name_is() {
        let of = |name: &str| Process::parse(&format!("17 ({name}) S 12 17 17 0 -1 4194560 100"));
        for name in ["a.out", "a b", ") R 1 (", ""] {
            assert_eq!(of(name), Some(Process { name: name.into(), parent: 12 }));
        }
        for wrong in ["", "17", "17 (a", "17 (a) S", ")(", "17 (a) S x"] {
            assert_eq!(Process::parse(wrong), None, "{wrong}");
        }
        assert_eq!(
            Process::of(process::id()).map(|own| own.parent),
            Some(std::os::unix::process::parent_id())
        );
    }
}
