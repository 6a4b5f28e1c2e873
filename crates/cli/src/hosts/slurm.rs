//! The nodes of a Slurm allocation with their tasks, as its environment names them.

use tutti_client::node_list;

use crate::cluster::Host;
use crate::engine::slurm::nodes;

/// The nodes of the allocation that this process is in, with the tasks of each; none: there is no allocation.
pub fn allocation(variable: &impl Fn(&str) -> Option<String>) -> Option<Vec<Host>> {
    // The stand-ins for Slurm's commands set the same variables.
    let variable = |name: &str| tutti_os::slurm::variable_of(variable, name);
    let names = nodes(&variable)?;
    let all = || variable("SLURM_NTASKS").or_else(|| variable("SLURM_NPROCS"));
    let tasks = match &names[..] {
        [_] => variable("SLURM_TASKS_PER_NODE").or_else(all),
        _ => variable("SLURM_TASKS_PER_NODE"),
    };
    let tasks = tasks.and_then(|text| node_list::expand_counts(&text)).unwrap_or_default();
    let ranks = |index: usize| tasks.get(index).copied();
    Some(names.into_iter().enumerate().map(|(index, name)| Host { name, ranks: ranks(index) }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tutti_os::slurm::STAND_IN;

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
        assert_eq!(of(&[("SLURM_JOB_NODELIST", "n1"), (STAND_IN, "{}")]), None);
    }
}
