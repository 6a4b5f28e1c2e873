//! Suggestions for a word that is no command, option or variable here: a near one of ours, or
//! what ours is called that another system has under this name.

use tutti_protocol::config::schema::nearest;

/// Commands of batch systems and of other tools, without what is the same there.
const COMMANDS: &[(&str, &str)] = &[
    ("sbatch", "tutti submit"),
    ("qsub", "tutti submit"),
    ("bsub", "tutti submit"),
    ("batch", "tutti submit"),
    ("srun", "tutti run"),
    ("exec", "tutti run"),
    ("start", "tutti run, or tutti up for the daemons"),
    ("mpirun", "mpiexec or tutti run"),
    ("mpiexec", "mpiexec or tutti run"),
    ("salloc", "tutti alloc"),
    ("squeue", "tutti ps"),
    ("qstat", "tutti ps"),
    ("bjobs", "tutti ps"),
    ("jobs", "tutti ps"),
    ("queue", "tutti ps"),
    ("list", "tutti ps"),
    ("ls", "tutti ps"),
    ("sacct", "tutti account"),
    ("history", "tutti ps --all"),
    ("sinfo", "tutti nodes"),
    ("pbsnodes", "tutti nodes"),
    ("bhosts", "tutti nodes"),
    ("hosts", "tutti nodes"),
    ("scancel", "tutti kill"),
    ("qdel", "tutti kill"),
    ("bkill", "tutti kill"),
    ("cancel", "tutti kill"),
    ("rm", "tutti kill"),
    ("stop", "tutti suspend, or tutti down for the daemons"),
    ("pause", "tutti suspend"),
    ("cont", "tutti resume"),
    ("continue", "tutti resume"),
    ("scontrol", "tutti status, suspend, resume, hold, release and change"),
    ("show", "tutti status"),
    ("info", "tutti status"),
    ("sattach", "tutti attach"),
    ("sstat", "tutti why and tutti status"),
    ("stat", "tutti status"),
    ("sshare", "tutti prices"),
    ("sprio", "tutti prices"),
    ("log", "tutti logs"),
    ("tail", "tutti logs -f"),
    ("ompi_info", "tutti doctor and tutti version"),
    ("mpichversion", "tutti version"),
    ("check", "tutti doctor and tutti config check"),
];

/// Options of launchers and batch systems that have another name here, or are missing.
const OPTIONS: &[(&str, &str)] = &[
    ("ntasks", "-n N is the number of ranks"),
    ("ntasks-per-node", "-ppn N is the number of ranks on each node"),
    ("tasks-per-node", "-ppn N is the number of ranks on each node"),
    ("nodelist", "--host names nodes"),
    ("w", "--host names nodes"),
    ("chdir", "--wdir DIR"),
    ("D", "--wdir DIR"),
    ("wrap", "sh -c 'COMMAND' is such a program"),
    ("export", "-x NAME=VALUE sets a variable; all are passed on"),
    ("set-env", "-x NAME=VALUE sets a variable"),
    ("append-env", "-x NAME=VALUE sets a variable"),
    ("prepend-env", "-x NAME=VALUE sets a variable"),
    ("unset-env", "`env -u NAME PROGRAM` takes a variable away"),
    ("parsable", "--json prints the job's number for scripts"),
    ("dependency", "--after, --after-ok and --after-not-ok name jobs that are to be over"),
    ("d", "--after, --after-ok and --after-not-ok name jobs that are to be over"),
    ("a", "--array 1-100 submits a task for each number"),
    ("H", "--hold: the job waits until it is released"),
    ("no-requeue", "a job begins anew with --requeue alone, or by `tutti requeue`"),
    ("account", "there are no accounts; shares are by user and group"),
    ("A", "there are no accounts; shares are by user and group"),
    ("qos", "--queue names a queue of the configuration"),
    ("constraint", "--host names nodes"),
    ("gres", "--gpus N is the number of GPUs of each node"),
    ("gpus-per-task", "--gpus N is for each node"),
    ("mem-per-cpu", "--memory SIZE is for each node"),
    ("test-only", "tutti simulate tries jobs on paper"),
    ("input", "--stdin names the rank that gets stdin"),
    ("i", "--stdin names the rank that gets stdin"),
    ("nice", "--weight N is the share of the time"),
    ("priority", "--weight N is the share of the time"),
    ("cores", "-c N is the number of cores of a rank"),
    ("ranks", "-n N is the number of ranks"),
    ("processes", "-n N is the number of ranks"),
    ("procs", "-n N is the number of ranks"),
    ("cpus", "-c N is the number of cores of a rank"),
    ("threads", "-c N is the number of cores of a rank"),
    ("workdir", "--wdir DIR"),
    ("umask", "the umask of the caller holds"),
];

/// Behind the line about an unknown command: what to type instead.
pub fn command<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    let lower = word.to_ascii_lowercase();
    let elsewhere = COMMANDS.iter().find(|(name, _)| *name == lower);
    elsewhere
        .map(|(_, ours)| format!("it is {ours} here"))
        .or_else(|| nearest(&lower, known).map(|near| format!("did you mean tutti {near}?")))
}

/// The same about an option, as it was written; `known` are ours without dashes.
pub fn option<'a>(written: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    let word = written.trim_start_matches('-');
    let word = word.split('=').next().unwrap_or(word);
    if let Some((_, ours)) = OPTIONS.iter().find(|(name, _)| *name == word) {
        return Some((*ours).into());
    }
    let dashed = |name: &str| if name.len() <= 2 { format!("-{name}") } else { format!("--{name}") };
    // -nn, -nx: one letter too many.
    let short = || (word.len() == 2 && word.starts_with('n')).then_some("n");
    let near = if word.len() < 3 { short() } else { nearest(&word.to_ascii_lowercase(), known) };
    near.map(|near| format!("did you mean {}?", dashed(near)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options;

    #[test]
    fn suggestion_is_a_near_word_or_our_name_of_a_foreign_one() {
        let command = |word| command(word, ["submit", "ps", "kill"].into_iter());
        assert_eq!(command("sumbit").as_deref(), Some("did you mean tutti submit?"));
        assert_eq!(command("pss").as_deref(), Some("did you mean tutti ps?"));
        assert_eq!(command("squeue").as_deref(), Some("it is tutti ps here"));
        assert_eq!(command("Cancel").as_deref(), Some("it is tutti kill here"));
        assert_eq!(command("bogus"), None);
        let option = |written| option(written, options::names());
        assert_eq!(option("--bindto").as_deref(), Some("did you mean --bind-to?"));
        assert_eq!(option("-nn").as_deref(), Some("did you mean -n?"));
        assert_eq!(option("--hosfile=x").as_deref(), Some("did you mean --hostfile?"));
        assert_eq!(option("--ntasks=4").as_deref(), Some("-n N is the number of ranks"));
        assert_eq!(option("--frob"), None);
    }

    #[test]
    fn suggestions_for_foreign_names_are_no_names_of_ours() {
        for (name, _) in OPTIONS.iter().filter(|(name, _)| name.len() > 1) {
            assert!(options::names().all(|own| own != *name), "{name} is an option");
        }
        for (name, _) in COMMANDS {
            assert!(!crate::commands::is_known(name) || *name == "run", "{name} is a command");
        }
    }
}
