//! Reservations by Slurm's commands, and mail.

use std::os::unix::fs::PermissionsExt;

use tutti_tests::keeper_folder::KeeperFolder;

use crate::Slurm;
use crate::harness::await_that;

#[test]
fn reservation_is_made_shown_used_and_removed() {
    let slurm = Slurm::up("slurm-reservation", 2, &["--slots", "1", "--lost-after", "12"]);
    assert_eq!(slurm.ok("scontrol show reservation"), "No reservations in the system\n");
    assert_eq!(slurm.ok("sinfo -T"), "No reservations in the system\n");
    let words = "StartTime=now+60minutes Duration=30 Users=$(id -un) Nodes=node1 ReservationName=maint";
    assert_eq!(slurm.ok(&format!("scontrol create reservation {words}")), "Reservation created: maint\n");
    let shown = slurm.ok("scontrol -o show reservation maint");
    for field in
        ["ReservationName=maint ", " Duration=00:30:00 ", " Nodes=node1 NodeCnt=1 ", " State=INACTIVE "]
    {
        assert!(shown.contains(field) || shown.starts_with(field), "{field}: {shown}");
    }
    let table = slurm.ok("sinfo -hT");
    let words: Vec<&str> = table.split_whitespace().collect();
    assert_eq!((words[0], words[1], words[4], words[5]), ("maint", "INACTIVE", "00:30:00", "node1"));
    let reason = |job: u64| slurm.ok(&format!("squeue -h -j {job} -o '%T %r'")).trim().to_owned();
    let long = slurm.submit("-w node1 --wrap='sleep 1000'");
    await_that("it waits for the reservation of others", || {
        reason(long) == "PENDING ReqNodeNotAvail,_Reserved_for_maintenance"
    });
    let own = slurm.submit("--reservation=maint --wrap='sleep 1000'");
    await_that("it waits for its reservation", || reason(own) == "PENDING Reservation");
    assert_eq!(slurm.ok("squeue -h -R maint -o '%i %v'"), format!("{own} maint\n"));
    let short = slurm.submit("-w node1 -t 5 --wrap=true").to_string();
    slurm.await_state(&short, "COMPLETED");
    let ran =
        slurm.run("scontrol create reservation Duration=5 Users=root Nodes=node1 StartTime=now+61minutes");
    assert!(
        ran.code() == 1 && ran.stderr.contains("node1 is reserved at that time: reservation maint"),
        "{ran}"
    );
    assert_eq!(slurm.ok("scontrol delete ReservationName=maint"), "");
    slurm.await_state(&long.to_string(), "RUNNING");
    let ran = slurm.run("scontrol delete ReservationName=maint; sbatch --reservation=x --wrap=true");
    assert!(ran.code() == 1 && ran.stderr.lines().count() == 2, "{ran}");
    // One without a name is named after its user.
    let made =
        slurm.ok("scontrol create reservation Duration=60 Users=$(id -un) Nodes=ALL Flags=IGNORE_JOBS");
    let name = made.trim_end().strip_prefix("Reservation created: ").expect("its name").to_owned();
    assert!(name.ends_with("_1"), "{name}");
    let job = slurm.submit(&format!("--reservation={name} --wrap=true")).to_string();
    slurm.await_state(&job, "COMPLETED");
}

#[test]
fn mail_of_sbatch_is_sent() {
    let folder = KeeperFolder::new("slurm-mail");
    let set_mode = |path: &std::path::Path| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("our file");
    };
    let (mail, letter) = (folder.path().join("mail"), folder.path().join("letter"));
    let text = format!("#!/bin/sh\necho \"$2|$3\" >{0}.new; mv {0}.new {0}\n", letter.display());
    std::fs::write(&mail, text).expect("our folder");
    set_mode(&mail);
    let file = folder.path().join("tutti.toml");
    std::fs::write(&file, format!("[cluster]\nmail = \"{}\"\n", mail.display())).expect("our folder");
    let slurm = Slurm::up("slurm-mail", 1, &["--config", file.to_str().expect("a path of text")]);
    let words = "--mail-type=FAIL,TIME_LIMIT_90 --mail-user=a@b.c -J mesh --wrap='exit 3'";
    let ran = slurm.run(&format!("sbatch {words}"));
    assert_eq!((ran.code(), ran.stderr.as_str()), (0, ""));
    await_that("it is sent", || letter.exists());
    let job = Slurm::number_in(&ran.stdout);
    let text = std::fs::read_to_string(&letter).expect("it is there");
    assert_eq!(text, format!("Tutti: job {job} (mesh) has failed with status 3|a@b.c\n"));
}
