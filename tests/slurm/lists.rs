//! Output of the listing commands: nodes, the partition, the configuration, and forms that tools rely on.

use crate::Slurm;

#[test]
fn lists_have_the_forms_that_tools_read() {
    let slurm = Slurm::up("slurm-lists", 2, &["--slots", "2"]);
    assert_eq!(slurm.ok("sinfo -o %P"), "PARTITION\ntutti*\n");
    let table = slurm.ok("sinfo");
    assert!(table.ends_with("tutti*       up   infinite      2   idle node[0-1]\n"), "{table}");
    assert_eq!(slurm.ok("sinfo -h -o '%P %D'; SINFO_FORMAT=%D sinfo -h"), "tutti* 2\n2\n");
    let refused = slurm.run("scontrol update NodeName=node1 State=DRAIN");
    assert!(!refused.status.success() && refused.stderr.contains("You must specify a reason"), "{refused}");
    slurm.ok("scontrol update NodeName=node[0-1] State=drain Reason='a disk'");
    assert_eq!(slurm.ok("sinfo -h -N -o '%N %t %E'"), "node0 drain a disk\nnode1 drain a disk\n");
    slurm.ok("scontrol update NodeName=node[0-1] State=RESUME");
    slurm.ok("tutti drain node1 --why disk");
    assert_eq!(slurm.ok("sinfo -h -o '%P %D'"), "tutti* 2\n", "states that are not shown are no rows");
    assert_eq!(slurm.ok("sinfo -h -N -o '%N %t %E'"), "node0 idle none\nnode1 drain disk\n");
    let config = slurm.ok("scontrol show config");
    assert!(config.contains("\nMinJobAge               = 300 sec\n"), "{config}");
    assert!(config.contains("\nMaxArraySize            = 1001\n"), "{config}");
    // What is asked before a job of an account: there are none, and any is taken.
    assert_eq!(
        slurm.ok(
            "sacctmgr -n -s list user \"root\" format=account%256; sshare -U --format Account%256 --noheader"
        ),
        ""
    );
    assert_eq!(slurm.ok("sacctmgr -nP show cluster format=cluster"), "tutti\n");
    assert_eq!(slurm.ok("scontrol show hostnames 'n[9-10],m'"), "n9\nn10\nm\n");
    let partitions = slurm.ok("scontrol -a show -o partitions");
    assert!(
        partitions.starts_with("PartitionName=tutti ") && partitions.contains(" TotalCPUs=4 TotalNodes=2 ")
    );
    let nodes = slurm.ok("scontrol -a show -o nodes");
    assert!(nodes.contains("NodeName=node1 ") && nodes.contains(" State=IDLE+DRAIN "), "{nodes}");
    // Listed from the answer on, by every way of asking, whatever its state is then.
    let job = slurm.submit("-J uuid --comment 'a b' -A acc --wrap='exec sleep 1000'");
    let asked = "sacct -X --parsable2 --clusters all --noheader --format=JobIdRaw,State -S 2026-11-26T04:00 -E now \
                 --name uuid";
    let row = slurm.ok(asked);
    let states = ["PENDING", "RUNNING"].map(|state| format!("{job}|{state}\n"));
    assert!(states.contains(&row), "{row}");
    assert_eq!(
        slurm.ok("squeue -h --name uuid -o '%i|%k|%a|%Z'"),
        format!("{job}|a b|acc|{}\n", slurm.cluster.folder.display())
    );
    slurm.await_state(&job.to_string(), "RUNNING");
    let named = slurm.ok("squeue -O JobArrayID,StateCompact,Reason -t all --me");
    let rows: Vec<Vec<&str>> = named.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[1], [job.to_string().as_str(), "R", "None"]);
    assert_eq!(slurm.ok("SQUEUE_FORMAT2=JobID:6,Name:.6 squeue -h"), format!("{job:<6}{:>6}\n", "uuid"));
    assert_eq!(slurm.ok("SQUEUE_STATES=PD squeue -h; SQUEUE_USERS=nobody squeue -h"), "");
    assert_eq!(slurm.ok("squeue -h -o '%i|%~|%J' 2>/dev/null"), format!("{job}|%~|*\n"), "as in Slurm");
    for name in ["job", "jobid", "jobs"] {
        let shown = slurm.ok(&format!("scontrol -o show {name}={job}; scontrol -o show {name} {job}"));
        assert_eq!(shown.matches(&format!("JobId={job} JobName=uuid ")).count(), 2, "{shown}");
    }
    let csv =
        slurm.ok("squeue --me -o '\"%i\",\"%j\",\"%t\",\"%M\",\"%L\",\"%D\",\"%C\",\"%m\",\"%b\",\"%R\"'");
    assert!(csv.starts_with("\"JOBID\",\"NAME\",\"ST\",\"TIME\",\"TIME_LEFT\",\"NODES\",\"CPUS\",\"MIN_MEMORY\",\"TRES_PER_NODE\",\"NODELIST(REASON)\"\n"), "{csv}");
    let end = slurm.ok(&format!("SLURM_TIME_FORMAT=%s sacct -X -P -n -j {job} -o end,start"));
    let (end, start) = end.trim().split_once('|').expect("two columns");
    assert!(end == "Unknown" && start.parse::<u64>().is_ok(), "{end} {start}");
    let names = slurm.ok("sacct --helpformat | xargs | tr ' ' ,");
    let all = slurm.ok(&format!("sacct --format={} --parsable --jobs={job} -X", names.trim()));
    assert_eq!(
        all.lines().map(|line| line.matches('|').count()).collect::<Vec<_>>(),
        [names.matches(',').count() + 1; 2]
    );
    slurm.ok("scancel --me");
}
