//! One user under several uids that its keeper has given it: it has one share and one set of limits.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tutti_tests::users::Users;
use tutti_tests::{LIMIT, Ran, Scratch, await_that, run};

use crate::Machine;

/// A namespace of users that a user has made, and in which it has the uids of others, as `newuidmap` gives
/// them.
struct Space(Child);

impl Space {
    /// Uid 0 in it is the user's own, and from 1 on are those of the users behind it.
    fn new(machine: &Machine, user: usize) -> Option<Self> {
        let mut command = machine.users.foreign(machine.uid(user), "unshare");
        command.args(["--user", "sh", "-c", "echo made && exec sleep 1000"]);
        let mut space = Space(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()?);
        let mut line = String::new();
        BufReader::new(space.0.stdout.take()?).read_line(&mut line).ok()?;
        if line != "made\n" {
            tutti_testkit::skip(tutti_testkit::Need::Kernel, "no namespace of users can be made here");
            return None;
        }
        let uids = machine.users.uids();
        let map = format!("0 {} {}\n", uids[user], uids.len() - user);
        for name in ["uid_map", "gid_map"] {
            std::fs::write(format!("/proc/{}/{name}", space.0.id()), &map).expect("root may");
        }
        Some(space)
    }

    /// A command of the user `number` of this namespace.
    fn command(&self, number: u32, of: &Command) -> Command {
        let mut inside = Command::new("nsenter");
        inside.arg(format!("--user=/proc/{}/ns/user", self.0.id()));
        inside.args(["--setuid", &number.to_string(), "--setgid", &number.to_string()]);
        inside.arg(of.get_program()).args(of.get_args());
        inside.current_dir(of.get_current_dir().expect("its folder"));
        for (name, value) in of.get_envs() {
            match value {
                Some(value) => inside.env(name, value),
                None => inside.env_remove(name),
            };
        }
        inside
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `tutti` with these words, by the user `number` of a namespace, who is the user `user` of the machine.
fn tutti(machine: &Machine, space: &Space, number: u32, user: usize, words: &[&str]) -> Ran {
    let mut command = Command::new(machine.users.programs().join("bin/tutti"));
    command.args(words).current_dir(machine.users.folder(machine.uid(user)));
    command.env("TUTTI_DAEMON", machine.socket()).env_remove("XDG_RUNTIME_DIR");
    run(&mut space.command(number, &command), LIMIT)
}

/// Limits and shares of the namespaces' maker hold for all of its uids: the others' part is what one user
/// leaves.
#[test]
fn subordinate_uids_have_the_shares_and_limits_of_their_owner() {
    let scratch = Scratch::new("hostile-accounts");
    let file = scratch.path().join("tutti.toml");
    std::fs::write(&file, "[limits]\njobs = 2\n").expect("a file");
    let more = ["--config", file.to_str().expect("a path"), "--slice", "10"];
    // The first one is honest, the others are one user's.
    let Some(machine) = Machine::up("hostile-accounts", 1, 5, &more) else { return };
    let Some(space) = Space::new(&machine, 1) else { return };
    let spins = ["submit", "--output", "none", "-n", "2", "sh", "-c", "while :; do :; done"];
    let honest = machine.submit(0, &spins[1..]);
    let mut numbers = Vec::new();
    for number in 0..4 {
        let ran = tutti(&machine, &space, number, 1 + number as usize, &spins).expect_success();
        let job: u32 =
            ran.stdout.split_whitespace().nth(1).and_then(|word| word.parse().ok()).expect("a number");
        numbers.push(job);
    }
    machine.await_state(honest, "running");
    machine.await_state(numbers[0], "running");
    machine.await_state(numbers[1], "running");
    for job in &numbers[2..] {
        let row = machine.row(*job);
        assert_eq!(row["state"], "waiting", "two jobs of that account run: {row}");
        let why = row["reason"].to_string() + &row["waits"].to_string() + &row["cause"].to_string();
        assert!(why.contains("2 of 2 jobs"), "{row}");
    }
    // What each account has had of the processors: one honest user beside one other.
    let served =
        |uid: u32| -> u64 {
            let text = machine.cluster.tutti(&["prices", "--json"]).expect_success().stdout;
            let all: Value = serde_json::from_str(&text).expect("JSON");
            let users = all["users"].as_array().cloned().unwrap_or_default();
            assert!(
                users.iter().all(|row| [machine.uid(0), machine.uid(1)]
                    .contains(&(row["uid"].as_u64().unwrap_or(0) as u32))),
                "{all}"
            );
            users.iter().filter(|row| row["uid"] == uid).count() as u64
        };
    await_that("both accounts have had turns", || served(machine.uid(0)) == 1 && served(machine.uid(1)) == 1);
}

/// Two users have the same number for a daemon whose namespace of users has neither: they are not one user,
/// nor the one whose account has that number.
#[test]
fn users_without_a_number_in_the_daemons_namespace_are_taken_for_nobody() {
    let Some(users) = Users::new("hostile-unmapped", 3) else { return };
    let [owner, strangers @ ..] = users.uids() else { unreachable!("three") };
    let folder = users.folder(*owner).join("daemons");
    let mut up = users.foreign(*owner, "unshare");
    up.args(["--user", "--map-root-user"]).arg(users.programs().join("bin/tutti"));
    up.args(["up", "--nodes", "1"]).env("TUTTI_DIR", &folder);
    let ran = run(&mut up, LIMIT);
    if ran.stderr.contains("unshare") {
        return tutti_testkit::skip(tutti_testkit::Need::Kernel, "no namespace of users can be made here");
    }
    ran.expect_success();
    std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o711)).expect("root may");
    let socket = folder.join("tuttid.sock");
    for stranger in strangers {
        for words in [&["ps"][..], &["submit", "-n", "1", "true"], &["down"]] {
            let mut command = users.command(*stranger, "tutti", words);
            users.refused(command.env("TUTTI_DAEMON", &socket), "in this daemon's namespace of users");
        }
    }
    // Its own user is asked for, from inside.
    let mut inside = users.foreign(*owner, "unshare");
    inside.args(["--user", "--map-root-user"]).arg(users.programs().join("bin/tutti"));
    run(inside.args(["nodes"]).env("TUTTI_DAEMON", &socket), LIMIT).expect_success();
}
