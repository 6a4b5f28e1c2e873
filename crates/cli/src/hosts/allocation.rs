//! The nodes of a batch system's allocation, as its environment names them: Slurm, PBS, LSF, Grid Engine.

use std::path::Path;

use super::{Host, HostError, read_file, slurm};

/// An allocation that this process is in.
#[derive(Debug)]
pub struct Allocation {
    /// Origin of the allocation.
    pub system: System,
    /// Nodes of the allocation, with the tasks of each.
    pub hosts: Vec<Host>,
}

/// Origin of an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    Slurm,
    Pbs,
    Lsf,
    GridEngine,
    /// File that a launcher's variable names.
    HostFile,
}

impl System {
    /// Name for the user.
    pub fn name(self) -> &'static str {
        match self {
            System::Slurm => "Slurm",
            System::Pbs => "PBS",
            System::Lsf => "LSF",
            System::GridEngine => "Grid Engine",
            System::HostFile => "host file",
        }
    }
}

/// Variables of other launchers that name a file of hosts: Open MPI (those of two generations), MPICH, Intel
/// MPI. Operators of Kubernetes set them.
const LAUNCHERS: [&str; 4] = [
    "OMPI_MCA_orte_default_hostfile",
    "PRTE_MCA_prte_default_hostfile",
    "HYDRA_HOST_FILE",
    "I_MPI_HYDRA_HOST_FILE",
];

/// None: there is no allocation.
///
/// # Errors
/// When its list of nodes cannot be read.
pub fn of_environment() -> Result<Option<Allocation>, HostError> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    // An allocation of another batch system may be left over in the environment of a shell: its file is not.
    let file = |name: &str| variable(name).filter(|file| Path::new(file).is_file());
    let (system, hosts) = if let Some(hosts) = slurm::allocation(&variable) {
        (System::Slurm, hosts)
    } else if let Some(file) = file("PBS_NODEFILE") {
        // A line for each slot.
        (System::Pbs, slot_each(&file)?)
    } else if let Some(list) = variable("LSB_MCPU_HOSTS") {
        (System::Lsf, pairs(&list).unwrap_or_default())
    } else if let Some(file) = file("LSB_DJOB_HOSTFILE") {
        // A line for each slot.
        (System::Lsf, slot_each(&file)?)
    } else if let Some(file) = file("PE_HOSTFILE") {
        (System::GridEngine, grid_engine(&file)?)
    } else if let Some(file) = LAUNCHERS.iter().find_map(|name| file(name)) {
        (System::HostFile, read_file(&file)?.into_iter().map(|line| line.host).collect())
    } else {
        return Ok(None);
    };
    Ok((!hosts.is_empty()).then_some(Allocation { system, hosts }))
}

/// A file with a line for each slot.
fn slot_each(file: &str) -> Result<Vec<Host>, HostError> {
    let hosts = read_file(file)?.into_iter().map(|line| line.host);
    Ok(hosts.map(|host| Host { ranks: host.ranks.or(Some(1)), ..host }).collect())
}

/// LSF: `node1 4 node2 2`.
fn pairs(list: &str) -> Option<Vec<Host>> {
    let words: Vec<&str> = list.split_ascii_whitespace().collect();
    let host = |pair: &[&str]| {
        let [name, count] = pair else { return None };
        Some(Host { name: (*name).into(), ranks: Some(count.parse().ok()?) })
    };
    words.chunks(2).map(host).collect()
}

/// A line is `node1 4 all.q@node1 <NULL>`.
fn grid_engine(file: &str) -> Result<Vec<Host>, HostError> {
    let unreadable = |error: std::io::Error| HostError::Unreadable(file.into(), error.to_string());
    let text = std::fs::read_to_string(file).map_err(unreadable)?;
    let mut hosts = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split_ascii_whitespace().take(2).collect();
        let host = pairs(&words.join(" "));
        hosts.extend(host.ok_or_else(|| HostError::Line {
            file: file.into(),
            line: index + 1,
            text: line.into(),
        })?);
    }
    Ok(hosts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocation_of_lsf_is_pairs_of_names_and_slots() {
        let host = |name: &str, ranks| Host { name: name.into(), ranks: Some(ranks) };
        assert_eq!(pairs("a 4 b 2"), Some(vec![host("a", 4), host("b", 2)]));
        assert_eq!(pairs(""), Some(Vec::new()));
        for wrong in ["a", "a b", "a 4 b"] {
            assert_eq!(pairs(wrong), None, "{wrong}");
        }
    }
}
