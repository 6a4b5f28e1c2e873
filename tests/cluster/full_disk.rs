//! A disk without room under the daemons' files: what is said, what goes on. The disk is a small one in a
//! mount namespace of its own.

use std::process::{Command, Stdio};
use std::time::Duration;

use tutti_testkit::{Need, skip};
use tutti_tests::{Ran, Scratch, program};

/// Limit of a script of some forty jobs, one after another, on a crowded machine.
const LIMIT: Duration = Duration::from_secs(100);

/// Runs a script with a disk of 1 MiB at `$disk`, `$tutti`, and `fill`, which leaves no room on it; none
/// where there are no such disks for us.
#[track_caller]
fn on_a_small_disk(name: &str, script: &str) -> Option<Ran> {
    let scratch = Scratch::new(name);
    let disk = scratch.path().join("disk");
    std::fs::create_dir(&disk).expect("a folder");
    let alone = |script: &str| {
        let mut command = Command::new("unshare");
        let prepare = "mount -t tmpfs -o size=1m tutti-test \"$disk\" || exit 99
            fill() { dd if=/dev/zero of=\"$disk/full\" bs=4096 2>/dev/null; ! dd if=/dev/zero of=\"$disk/fuller\" bs=1 count=1 2>/dev/null; }";
        command.args([
            "--mount",
            "--pid",
            "--mount-proc",
            "--kill-child",
            "bash",
            "-c",
            &format!("{prepare}\n{script}"),
        ]);
        command.env("disk", &disk).env("tutti", program("tutti").get_program());
        let cluster = disk.join("cluster");
        command.env("TUTTI_DAEMON", cluster.join("tuttid.sock")).env("TUTTI_DIR", cluster);
        command
    };
    let works = alone("true").stderr(Stdio::null()).status().is_ok_and(|status| status.success());
    if !works {
        skip(Need::MountNamespace, "no small disk can be mounted here");
    }
    works.then(|| tutti_tests::run(&mut alone(script), LIMIT))
}

#[test]
fn full_disk_daemons_continue_and_report_once() {
    // The other daemon's log is on the disk.
    let script = "mkdir -m 700 \"$TUTTI_DIR\" && ln -s \"$disk.log\" \"$TUTTI_DIR/node0.log\"
        \"$tutti\" up --nodes 2 >/dev/null || exit 1
        \"$tutti\" run -n 1 echo before
        fill || exit 1
        for job in {2..40}; do \"$tutti\" run -N 2 -n 2 true || exit 1; done
        \"$tutti\" run -n 1 echo meanwhile
        fill || exit 1
        \"$tutti\" submit -n 1 sleep 1000 && echo it is submitted all the same
        \"$tutti\" timeline --all -o \"$disk/page.html\"
        ls -A \"$disk\" | grep page
        \"$tutti\" nodes | grep -c ' up '
        rm \"$disk/full\"
        \"$tutti\" run -n 1 echo after || exit 1
        cat \"$TUTTI_DIR/events.jsonl\"
        grep events.jsonl \"$TUTTI_DIR/node0.log\" >&2";
    let Some(ran) = on_a_small_disk("cluster-full-disk", script) else { return };
    let ran = ran.expect_success();
    let (events, said): (Vec<&str>, Vec<&str>) = ran.stdout.lines().partition(|line| line.starts_with('{'));
    assert_eq!(said, ["before", "meanwhile", "2", "after"], "{ran}");
    // What is cut off spoils no other line, and no number is given twice.
    let job =
        |line: &&str| serde_json::from_str::<serde_json::Value>(line).expect("a whole line")["job"].as_u64();
    let jobs: Vec<u64> = events.iter().filter_map(job).collect();
    assert!(jobs.is_sorted() && jobs.last() == Some(&43), "{ran}");
    let mut lines = ran.stderr.lines();
    for start in
        ["tutti submit: the controller cannot keep the job: cannot write ", "tutti timeline: cannot write "]
    {
        let line = lines.next().filter(|line| line.starts_with(start));
        assert!(line.is_some_and(|line| line.contains("No space left")), "{ran}");
    }
    // Once, however many are lost; where all this takes long, the end of it too, and then the next one.
    let is_begin =
        |line: &str| line.contains(" ERROR node0: cannot write ") && line.ends_with("; entries are lost");
    let is_end = |line: &str| line.contains(" INFO node0: ") && line.contains(" has room again; ");
    let of_log: Vec<&str> = lines.collect();
    let alternate = |(at, line): (usize, &&str)| if at % 2 == 0 { is_begin(line) } else { is_end(line) };
    assert!(!of_log.is_empty() && of_log.iter().enumerate().all(alternate), "{ran}");
}

#[test]
fn full_disk_cluster_starts_when_there_is_room() {
    let script = "fill || exit 1
        \"$tutti\" keygen \"$disk/key\"
        \"$tutti\" up --nodes 2
        rm \"$disk/full\"
        \"$tutti\" keygen \"$disk/key\" && \"$tutti\" up --nodes 2 >/dev/null && \"$tutti\" run -n 1 echo runs";
    let Some(ran) = on_a_small_disk("cluster-full-up", script) else { return };
    let ran = ran.expect_success();
    assert_eq!(ran.stdout, "runs\n", "{ran}");
    let lines: Vec<&str> = ran.stderr.lines().collect();
    assert!(lines.len() == 2 && lines[0].contains("No space left on device"), "{ran}");
    assert!(lines[1].starts_with("tutti up: the daemon of node0 has ended"), "{ran}");
    assert!(lines[1].ends_with("/node0.log; is that disk full?"), "{ran}");
}

#[test]
fn full_disk_submit_output_is_lost_in_one_line_and_the_job_continues() {
    let script = "mkdir \"$disk.away\" && TUTTI_DIR=\"$disk.away\" TUTTI_DAEMON=\"$disk.away/tuttid.sock\"
        export TUTTI_DIR TUTTI_DAEMON go=\"$disk.go\"
        \"$tutti\" up --nodes 2 >/dev/null || exit 1
        cd \"$disk\" || exit 1
        \"$tutti\" submit -N 2 -n 2 sh -c \"echo before; until [ -e $go.1 ]; do sleep 0.05; done
            head -c 300000 /dev/zero | tr '\\\\0' x; echo; until [ -e $go.2 ]; do sleep 0.05; done; echo after\" >/dev/null || exit 1
        until [ \"$(cat tutti-1.out 2>/dev/null | wc -l)\" = 2 ]; do sleep 0.05; done
        fill || exit 1
        touch \"$go.1\"
        lost() { \"$tutti\" status 1 --json | sed -n 's/.*\"lost_bytes\": \\([0-9]*\\).*/\\1/p'; }
        until [ \"$(( $(lost) + $(wc -c <tutti-1.out) ))\" = 600016 ]; do sleep 0.05; done
        rm full fuller
        touch \"$go.2\"
        until \"$tutti\" status 1 | grep -q '^state *over'; do sleep 0.05; done
        tr -d x <tutti-1.out | sort | uniq -c
        echo \"$(( $(lost) + $(wc -c <tutti-1.out) ))\"
        \"$tutti\" status 1 | grep -E '^(status|lost|cause)'
        \"$tutti\" down";
    let Some(ran) = on_a_small_disk("cluster-full-output", script) else { return };
    let ran = ran.expect_success();
    let lines: Vec<&str> = ran.stdout.lines().map(str::trim).collect();
    let has = |line: &str| lines.contains(&line);
    assert!(has("2 before") && has("2 after") && has("600028") && has("status   0"), "{ran}");
    let lost: Vec<&&str> = lines.iter().filter(|line| line.starts_with("lost ")).collect();
    assert!(lost.len() == 1 && lost[0].contains("No space left on device"), "{ran}");
    assert!(lost[0].contains(" bytes of the output are in no file: cannot write "), "{ran}");
    assert!(ran.stderr.is_empty(), "{ran}");
}
