//! Debian packages (mk/deb.sh) in a root of their own: installed, used, upgraded while jobs run, purged.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use tutti_testkit::{Need, has_command, has_command_for_part};
use tutti_tests::{await_that, root, run};

use crate::root::{Root, SHARED};

/// Copying and compressing a tree on a crowded machine.
const BUILD: Duration = Duration::from_secs(110);

/// Makes the packages in a folder, and the first one once more as a later version.
#[track_caller]
fn build(folder: &Path) {
    let mut made = Command::new(root().join("mk/deb.sh"));
    made.arg(folder).env("DEB_VERSION", "1.0").env("DEB_COMPRESS", "-Znone");
    run(&mut made, BUILD).expect_success();
    // The second version differs by its number alone.
    let script = r#"
        set -e
        for package in tutti tutti-dev; do
            rm -rf next && dpkg-deb -R "$(ls ${package}_1.0_*.deb)" next
            sed -i -e 's/^Version: .*/Version: 1.1/' -e 's/tutti (= 1.0)/tutti (= 1.1)/' next/DEBIAN/control
            dpkg-deb --root-owner-group -Znone -b next .
        done
        rm -rf next"#;
    run(Command::new("bash").args(["-c", script]).current_dir(folder), BUILD).expect_success();
}

/// Installs a version inside.
#[track_caller]
fn install(inside: &Root, version: &str) -> String {
    // Triggers of other packages are not ours.
    let line = format!(
        "dpkg -i --no-triggers {SHARED}/tutti_{version}_*.deb {SHARED}/tutti-dev_{version}_*.deb 2>&1"
    );
    inside.sh(&line)
}

fn daemon(inside: &Root) -> String {
    inside.sh("cat /run/manager.pid")
}

#[track_caller]
fn await_daemon(inside: &Root) {
    await_that("the daemon answers", || inside.run(&["tutti", "nodes"]).stdout.contains(" up "));
}

#[track_caller]
fn await_state(inside: &Root, job: &str, state: &str) {
    let wanted = format!("\"state\": \"{state}\"");
    await_that(&format!("job {job} is {state}"), || {
        inside.run(&["tutti", "status", "--json", job]).stdout.contains(&wanted)
    });
}

/// Checks that what is installed is whole, and has its places.
fn check_installed(inside: &Root) {
    let checked = inside.sh("tutti config check");
    assert!(checked.contains("/etc/tutti/tutti.toml: no mistakes"), "{checked}");
    // Each key that is commented out may stand there.
    let example = "sed 's/^#\\([a-z\\[]\\)/\\1/' /etc/tutti/tutti.toml >/tmp/all.toml && tutti config check /tmp/all.toml";
    assert!(inside.sh(example).contains("/tmp/all.toml: no mistakes"));
    assert_eq!(
        inside.sh("readlink -f /etc/systemd/system/multi-user.target.wants/tuttid.service").trim(),
        "/usr/lib/systemd/system/tuttid.service"
    );
    assert!(inside.sh("update-alternatives --query mpirun").contains("Alternative: /usr/bin/mpirun.tutti\n"));
    assert!(inside.sh("update-alternatives --query mpi").contains("Alternative: /usr/bin/mpicc.tutti\n"));
    for name in [
        "bin/tutti",
        "bin/tuttid",
        "lib/libtutti.so.1",
        "libexec/tutti/tutti-starter",
        "libexec/tutti/tutti-sight",
    ] {
        let sections = inside.sh(&format!("readelf -SW /usr/lib/tutti/{name}"));
        assert!(!sections.contains(" .symtab ") && !sections.contains(" .debug_"), "{name} is stripped");
    }
    let id = "$(readelf -n /usr/lib/tutti/lib/libtutti.so.1 | sed -n 's/^ *Build ID: //p')";
    let debug = format!(
        "id={id}; dpkg-deb -c {SHARED}/tutti-dbgsym_*.deb | grep -q \"/.build-id/${{id:0:2}}/${{id:2}}.debug$\""
    );
    inside.sh(&debug);
    // What a unit executes is the package's own, or of a package that every system has.
    let owners = "for program in $(sed -n 's/^Exec[A-Za-z]*=\\([^ ]*\\).*/\\1/p' /usr/lib/systemd/system/tutti*.service); do \
                  owner=$(dpkg -S $program | sed -n '$s/:.*//p'); echo $owner $(dpkg-query -W -f '${Essential}' $owner); done";
    let owners = inside.sh(owners);
    assert!(owners.lines().count() >= 3, "{owners}");
    assert!(owners.lines().all(|owner| owner.starts_with("tutti ") || owner.ends_with(" yes")), "{owners}");
    if has_command_for_part(Need::Setup, "systemd-analyze") {
        for unit in ["tuttid", "tutti-sight"] {
            let path = format!("/usr/lib/systemd/system/{unit}.service");
            let verified = inside.run(&["systemd-analyze", "verify", "--man=no", &path]);
            assert!(!verified.stderr.contains(unit), "{verified}");
        }
    }
}

#[test]
fn deb_installs_runs_upgrades_beside_jobs_and_leaves_nothing() {
    if !["dpkg-deb", "objcopy", "readelf"].into_iter().all(|command| has_command(Need::Dpkg, command)) {
        return;
    }
    let Some(inside) = Root::new("package-deb") else { return };
    let shared = inside.shared();
    build(shared);
    let compile = format!("mpicc.tutti -o {SHARED}/hello {SHARED}/hello.c");
    std::fs::copy(root().join("examples/hello.c"), shared.join("hello.c")).expect("an example");
    let is_alone = !inside.run(&["test", "-e", "/etc/alternatives/mpirun"]).status.success();
    let before = inside.changes();

    install(&inside, "1.0");
    await_daemon(&inside);
    check_installed(&inside);
    inside.sh(&compile);
    for launcher in ["mpiexec.tutti", if is_alone { "mpirun" } else { "mpirun.tutti" }] {
        let said = inside.sh(&format!("{launcher} -n 2 {SHARED}/hello"));
        assert!(said.contains("rank 0 of 2") && said.contains("rank 1 of 2"), "{said}");
    }

    // A job without a front end, and one with: as long as that runs the old daemon stays.
    inside.sh("echo '# of the keeper' >>/etc/tutti/tutti.toml");
    let script = "while [ ! -e /tmp/end ]; do sleep 0.05; done; echo done";
    let job = inside.sh(&format!("tutti submit -n 2 -o /tmp/out sh -c '{script}'"));
    let job: String = job.chars().filter(char::is_ascii_digit).collect();
    await_state(&inside, &job, "running");
    let mut front = inside.command(&["tutti", "run", "-n", "1", "sh", "-c", "read -r line; echo got $line"]);
    let mut front = front.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a front end");
    let next = (job.parse::<u32>().expect("a number") + 1).to_string();
    await_state(&inside, &next, "running");
    let first = daemon(&inside);
    let said = install(&inside, "1.1");
    assert!(said.contains("the daemon of the last version stays: front ends run (pids "), "{said}");
    assert_eq!(daemon(&inside), first);
    std::io::Write::write_all(&mut front.stdin.take().expect("piped"), b"input\n").expect("a pipe");
    let output = front.wait_with_output().expect("our child");
    assert!(output.status.success() && output.stdout == b"got input\n", "{output:?}");

    // Without a front end it is changed, and the job goes on.
    await_state(&inside, &next, "over");
    let said = install(&inside, "1.1");
    assert!(!said.contains("stays"), "{said}");
    await_daemon(&inside);
    assert_ne!(daemon(&inside), first);
    await_state(&inside, &job, "running");
    inside.sh("touch /tmp/end");
    await_state(&inside, &job, "over");
    assert_eq!(inside.sh("cat /tmp/out"), "done\ndone\n");
    assert!(inside.sh("tail -n 1 /etc/tutti/tutti.toml").contains("of the keeper"));

    // A removal ends what runs; a purge leaves nothing.
    inside.sh("tutti submit -n 1 -o /tmp/last sh -c 'echo $$; exec sleep 1000'");
    await_that("it runs", || inside.run(&["grep", "-q", ".", "/tmp/last"]).status.success());
    let pid = inside.sh("cat /tmp/last");
    inside.sh("dpkg --no-triggers --purge tutti-dev tutti 2>&1");
    let program = format!("/proc/{}/exe", pid.trim());
    await_that("the job has ended", || !inside.run(&["test", "-e", &program]).status.success());
    let after = inside.changes();
    let more: Vec<_> = after.difference(&before).collect();
    assert!(more.is_empty() && before.is_subset(&after), "{more:#?}");
}
