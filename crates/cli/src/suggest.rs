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
    ("prun", "tutti run"),
    ("prterun", "mpiexec or tutti run"),
    ("orterun", "mpiexec or tutti run"),
    ("mpiexec.hydra", "mpiexec or tutti run"),
    ("oshrun", "oshrun, a command of its own"),
    ("jsrun", "tutti run"),
    ("aprun", "tutti run"),
    ("ibrun", "tutti run"),
    ("flux", "tutti run and tutti submit"),
    ("scrun", "tutti run"),
    ("mpicc", "mpicc, a command of its own"),
    ("prte", "tutti up"),
    ("orted", "tuttid, which tutti up starts"),
    ("mpdboot", "tutti up"),
    ("mpdallexit", "tutti down"),
    ("lamboot", "tutti up"),
    ("lamhalt", "tutti down"),
    ("pterm", "tutti down"),
    ("shutdown", "tutti down"),
    ("restart", "tutti requeue for a job, or systemctl restart tuttid"),
    ("reboot", "systemctl restart tuttid, which hurts no job"),
    ("start", "tutti run, or tutti up for the daemons"),
    ("mpirun", "mpiexec or tutti run"),
    ("mpiexec", "mpiexec or tutti run"),
    ("salloc", "tutti alloc"),
    ("qrsh", "tutti alloc"),
    ("qlogin", "tutti alloc"),
    ("interactive", "tutti alloc"),
    ("squeue", "tutti ps"),
    ("qstat", "tutti ps"),
    ("bjobs", "tutti ps"),
    ("jobs", "tutti ps"),
    ("queue", "tutti ps"),
    ("ompi-ps", "tutti ps"),
    ("orte-ps", "tutti ps"),
    ("sview", "tutti top"),
    ("smap", "tutti top"),
    ("monitor", "tutti top"),
    ("ompi-top", "tutti top"),
    ("orte-top", "tutti top"),
    ("list", "tutti ps"),
    ("ls", "tutti ps"),
    ("sacct", "tutti account"),
    ("history", "tutti ps --all"),
    ("bhist", "tutti ps --all"),
    ("bacct", "tutti account"),
    ("qacct", "tutti account"),
    ("seff", "tutti account"),
    ("reportseff", "tutti account"),
    ("sreport", "tutti account"),
    ("tracejob", "tutti status and tutti logs"),
    ("sinfo", "tutti nodes"),
    ("pbsnodes", "tutti nodes"),
    ("bhosts", "tutti nodes"),
    ("qhost", "tutti nodes"),
    ("lshosts", "tutti nodes"),
    ("bqueues", "tutti config, whose queues jobs name by --queue"),
    ("sacctmgr", "tutti config: shares are by user and group"),
    ("qconf", "tutti config"),
    ("qmgr", "tutti config"),
    ("sdiag", "tutti doctor"),
    ("hosts", "tutti nodes"),
    ("scancel", "tutti kill"),
    ("qdel", "tutti kill"),
    ("bkill", "tutti kill"),
    ("cancel", "tutti kill"),
    ("rm", "tutti kill"),
    ("remove", "tutti kill"),
    ("delete", "tutti kill"),
    ("terminate", "tutti kill"),
    ("end", "tutti kill"),
    ("qsig", "tutti signal"),
    ("qhold", "tutti hold"),
    ("qrls", "tutti release"),
    ("qalter", "tutti change"),
    ("bmod", "tutti change"),
    ("qrerun", "tutti requeue"),
    ("brequeue", "tutti requeue"),
    ("bstop", "tutti suspend"),
    ("bresume", "tutti resume"),
    ("freeze", "tutti suspend"),
    ("unfreeze", "tutti resume"),
    ("thaw", "tutti resume"),
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
    ("bpeek", "tutti logs -f"),
    ("output", "tutti logs"),
    ("qpeek", "tutti logs -f"),
    ("sbcast", "--files of tutti run: the working directory is there on every node"),
    ("strigger", "--mail-type of tutti submit, or tutti wait in a script"),
    ("trace", "tutti timeline, or tutti trace-op for one operation"),
    ("profile", "tutti timeline, or tutti trace-op for one operation"),
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
    ("walltime", "--time LIMIT ends the job after so long"),
    ("mpi", "ranks find each other without it"),
    ("pmi", "ranks find each other without it"),
    ("pmix", "ranks find each other without it"),
    ("cpu-bind", "--bind-to core, share or none binds ranks"),
    ("cpu_bind", "--bind-to core, share or none binds ranks"),
    ("mem-bind", "--bind-to binds ranks to cores; their memory is near them"),
    ("distribution", "-ppn N and --map-by deal ranks out to nodes"),
    ("m", "-ppn N and --map-by deal ranks out to nodes"),
    ("kill-on-bad-exit", "a rank that fails ends the job in any case"),
    ("K", "a rank that fails ends the job in any case"),
    ("no-kill", "a rank that dies ends the job in any case"),
    ("k", "a rank that dies ends the job in any case"),
    ("unbuffered", "output comes line by line in any case; Python's with `python -u`"),
    ("u", "output comes line by line in any case; Python's with `python -u`"),
    ("wait", "`tutti wait JOB` waits for a submitted job"),
    ("W", "`tutti wait JOB` waits for a submitted job"),
    ("hint", "-c N is the number of cores of a rank"),
    ("ntasks-per-core", "-c N is the number of cores of a rank"),
    ("threads-per-core", "-c N is the number of cores of a rank"),
    ("multi-prog", "--configfile FILE has a program and its options in each line"),
    ("propagate", "the limits of the caller hold"),
    ("licenses", "there are no licences to count"),
    ("L", "there are no licences to count"),
    ("clusters", "--at HOST asks the cluster of another host"),
    ("M", "--at HOST asks the cluster of another host"),
    ("comment", "--name NAME names the job"),
    ("gdb", "`mpiexec -n 1 gdb --args PROGRAM`, or gdb -p with a pid that -v prints, debugs a rank"),
    ("gtool", "`mpiexec -n 1 TOOL PROGRAM : -n N PROGRAM` runs a tool on rank 0"),
    ("check_mpi", "-x TUTTI_CHECK=1 has the calls checked"),
    ("trace", "tutti timeline shows the time of jobs; -x LD_PRELOAD=TOOL.so puts a tool before MPI"),
    ("print-rank-map", "-v prints what is started where"),
    ("rr", "-ppn 1 deals ranks out to nodes one by one"),
    ("grr", "-ppn N is the number of ranks on each node"),
    ("genvuser", "all variables are passed on in any case"),
    ("envuser", "all variables are passed on in any case"),
    ("cuda", "programs find their GPUs by themselves; --gpus N gives a job so many of each node"),
    ("rdma", "the way between nodes is chosen by itself"),
    ("no-local", "--host names the nodes that the job is to have"),
];

/// Behind the line about an unknown command: what to type instead.
pub fn command<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    let lower = word.to_ascii_lowercase();
    let elsewhere = COMMANDS.iter().find(|(name, _)| *name == lower);
    elsewhere
        .map(|(_, ours)| format!("it is {ours} here"))
        .or_else(|| near(&lower, known).map(|near| format!("did you mean tutti {near}?")))
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
    let meant = if word.len() < 3 { short() } else { near(&word.to_ascii_lowercase(), known) };
    meant.map(|near| format!("did you mean {}?", dashed(near)))
}

/// A near word. Of a short one half the letters may differ, so it begins alike, or one is in the other.
fn near<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    const SHORT: usize = 5;
    let is_alike = |near: &&str| {
        word.len() > SHORT
            || near.chars().next() == word.chars().next()
            || word.contains(near)
            || near.contains(word)
    };
    nearest(word, known).filter(is_alike)
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

    /// Names that users of other systems type, by system. What a near name of ours would say is no answer.
    #[test]
    fn suggestions_know_the_commands_of_other_systems() {
        let commands = "sbatch srun salloc squeue sacct sinfo scancel scontrol sattach sstat sshare sprio sbcast sreport sacctmgr \
             sdiag sview strigger seff qsub qstat qdel qhold qrls qalter qrerun qsig pbsnodes tracejob qmgr qhost qconf qrsh \
             qlogin qacct bsub bjobs bkill bstop bresume bmod bpeek bhist bhosts bqueues brequeue prun prterun orterun prte \
             pterm orted mpdboot mpdallexit lamboot lamhalt mpirun mpiexec ompi_info ompi-ps ompi-top mpichversion jsrun \
             aprun flux";
        for word in commands.split_whitespace() {
            let said = command(word, ["run", "top", "man", "trace-op", "hold", "resume"].into_iter());
            assert!(said.as_deref().is_some_and(|text| text.contains("here")), "{word}: {said:?}");
        }
        for word in ["smpa", "bell", "quit"] {
            assert_eq!(command(word, ["man", "fill", "wait", "kill"].into_iter()), None, "{word}");
        }
    }

    #[test]
    fn suggestions_know_the_options_of_other_launchers() {
        let options = "--mpi=pmix --cpu-bind=cores --cpu_bind --mem-bind --distribution -m --kill-on-bad-exit -K --no-kill \
             --unbuffered -u --wait --hint=nomultithread --ntasks-per-core --threads-per-core --multi-prog --propagate --licenses \
             --clusters --comment --ntasks --nodelist --chdir --export --dependency --account --qos --constraint --gres \
             --input --nice --walltime -gtool -check_mpi -trace -print-rank-map -rr -grr -genvuser -gdb -cuda --no-local";
        for word in options.split_whitespace() {
            let said = option(word, options::names());
            assert!(said.as_deref().is_some_and(|text| !text.contains("did you mean")), "{word}: {said:?}");
        }
        assert_eq!(option("--bell", options::names()), None, "--fill is no near word");
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
