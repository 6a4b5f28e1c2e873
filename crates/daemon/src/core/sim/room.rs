//! Room in the messages between daemons for what starters and users say, whoever speaks in a starter's
//! place.

use tutti_protocol::wire::{DATA_BYTES_MAX, Kind, Report, Text};
use tutti_snapshot::VIEWS_BYTES_MAX;

use super::world::World;
use crate::core::Core;
use crate::core::action::Action;
use crate::core::event::Event;
use crate::message::{Fence, Hold, JobId, Message, State};

const JOBS: [JobId; 2] = [JobId(1), JobId(2)];

/// Two jobs hang on these nodes of three; their front ends.
fn two_jobs(nodes: &[usize]) -> (World, [usize; 2]) {
    let mut world = World::new(1, 3, 2);
    world.run_until(5_000);
    world.let_jobs_hang(1..3);
    let clients = [world.run_on(nodes), world.run_on(nodes)];
    while world.parts_alive(nodes[0]) != JOBS {
        world.run_until(world.now_ms + 1);
    }
    world.run_until(world.now_ms + 2_000);
    (world, clients)
}

/// Orders, by number, and states that go up now, by message.
fn messages(core: &mut Core) -> Vec<(usize, Vec<State>)> {
    core.subsystems.relay.resend_all();
    assert!(core.flush_states());
    let mut messages = Vec::new();
    while let Some(action) = core.poll_action() {
        if let Action::Send(_, Message::States { orders, states }) = action {
            messages.push((orders.len(), states));
        }
    }
    messages
}

fn report(report: &Report) -> (Kind, u32, Vec<u8>) {
    (Kind::Report, 0, serde_json::to_vec(report).unwrap())
}

/// Checks that what is said in place of the starter of the first job ends that job, with this line, and
/// nothing else. `World` holds that each message on the way has room.
#[track_caller]
fn assert_it_ends_its_job_alone(frames: &[(Kind, u32, Vec<u8>)], line: &str) {
    let (mut world, [first, second]) = two_jobs(&[1, 2]);
    for frame in frames {
        world.send_as_starter(1, JOBS[0], frame.clone());
    }
    while !world.has_ended(first) && world.now_ms < 60_000 {
        world.run_until(world.now_ms + 100);
    }
    let expected = format!("node node1: {line}; the job is ended");
    assert_eq!(world.lines(first).last(), Some(&expected));
    assert!(!world.has_ended(second) && world.lines(second).is_empty());
    assert_eq!(world.parts_alive(1), JOBS[1..]);
}

#[test]
fn starter_with_too_many_lines_ends_its_job() {
    let line = Report::Warning("x".repeat(60_000));
    let text = "the starter's report of its ranks takes 2162424 bytes, and there is room for 2114048";
    assert_it_ends_its_job_alone(&vec![report(&line); 40], text);
    let line = Report::Warning("x".repeat(70 << 20));
    let text = "the starter's report of its ranks takes 73400504 bytes, and there is room for 2114048";
    assert_it_ends_its_job_alone(&[report(&line)], text);
    let pids = Report::Started { pids: vec![7; 300_000], cores: Vec::new() };
    let text = "the starter's report of its ranks takes 2400048 bytes, and there is room for 2114048";
    assert_it_ends_its_job_alone(&[report(&pids)], text);
}

#[test]
fn starter_with_too_many_keys_ends_its_job() {
    // A rank has one MiB.
    let text = "what the ranks have put over PMI takes 1048577 bytes, and there is room for 1048576";
    assert_it_ends_its_job_alone(&[(Kind::Fence, 1, vec![0; (1 << 20) + 1])], text);
    let text = "what the ranks have put over PMI takes 73400320 bytes, and there is room for 1048576";
    assert_it_ends_its_job_alone(&[(Kind::Fence, 1, vec![0; 70 << 20])], text);
}

/// Two ranks of each job may put 2 MiB together; the user's jobs 3 MiB in a simulation.
#[test]
fn keys_of_a_users_jobs_over_pmi_are_bounded_by_user() {
    let (mut world, [first, second]) = two_jobs(&[1, 2]);
    // The controller's owner has no bound.
    world.core(0).subsystems.local.config.owner = 2;
    let puts = (Kind::Fence, 1, vec![0; 1 << 20]);
    for (job, node) in JOBS.into_iter().flat_map(|job| [1, 2].map(|node| (job, node))) {
        world.send_as_starter(node, job, puts.clone());
        world.run_until(world.now_ms + 2_000);
    }
    while !world.has_ended(second) && world.now_ms < 60_000 {
        world.run_until(world.now_ms + 100);
    }
    let text =
        "what the ranks have put over PMI takes 2097152 bytes, and your other jobs leave room for 1048576";
    assert_eq!(world.lines(second).last(), Some(&format!("{text}; the job is ended")));
    assert!(!world.has_ended(first) && world.lines(first).is_empty());
}

/// Over PMIx the ranks of a node may give up a fence that others have not come to.
#[test]
fn fence_that_a_node_has_given_up_delays_no_later_one() {
    let (mut world, _) = two_jobs(&[1, 2]);
    let mut come = |node: usize, number| {
        world.send_as_starter(node, JOBS[0], (Kind::Fence, number, vec![node as u8]));
        world.run_until(world.now_ms + 2_000);
        let order = world.core(1).subsystems.relay.order(JOBS[0]).expect("it runs there");
        (order.fence.number, order.fence.puts.clone())
    };
    assert_eq!(come(1, 1), (0, vec![]));
    assert_eq!(come(1, 2), (0, vec![]));
    assert_eq!(come(2, 2), (2, vec![1, 2]));
}

#[test]
fn starter_with_too_long_output_ends_its_job() {
    let bytes = DATA_BYTES_MAX + 1;
    let text = format!("a piece of output takes {bytes} bytes, and there is room for {DATA_BYTES_MAX}");
    assert_it_ends_its_job_alone(&[(Kind::Output, 0, vec![b'x'; bytes])], &text);
}

/// Views that go up of what the starters of both jobs see, by message, if they are asked for.
fn views(core: &mut Core, number: u64, data_bytes: u64, view: &str) -> Vec<Vec<String>> {
    for job in JOBS {
        let mut order = core.subsystems.relay.order(job).expect("it runs there").clone();
        (order.version, order.hold) = (order.version + 1, Some(Hold { number, data_bytes }));
        core.subsystems.relay.set_order(job, order);
    }
    core.flush_orders();
    for job in JOBS {
        let payload = [&number.to_le_bytes(), view.as_bytes()].concat();
        core.call(|it, out| it.handle_event(out, Event::Starter(job, vec![(Kind::Held, 0, payload)])));
    }
    let seen = |states: Vec<State>| -> Vec<String> {
        let held = states.into_iter().filter_map(|state| state.part.held);
        held.map(|held| held.seen.to_string()).collect()
    };
    messages(core).into_iter().map(|(_, states)| seen(states)).filter(|views| !views.is_empty()).collect()
}

#[test]
fn message_room_for_snapshot_views() {
    let (mut world, _) = two_jobs(&[1]);
    let core = world.core(1);
    assert_eq!(views(core, 7, 1, "{}"), [["{}", "{}"]]);
    let long = " ".repeat(VIEWS_BYTES_MAX);
    assert!(views(core, 8, 1, &long) == [[long.clone()], [long.clone()]]);
    for view in views(core, 9, 1, &(long.clone() + " ")).concat() {
        assert!(view.contains("and there is room for 50331648"), "{} bytes", view.len());
    }
    // For the search for deadlocks a node has 1 MiB and a rank 16 KiB.
    for view in views(core, 10, 0, &long).concat() {
        assert!(view.contains("and there is room for 1064960"), "{} bytes", view.len());
    }
    // What was not asked for is nothing.
    let payload = [&11_u64.to_le_bytes(), "{}".as_bytes()].concat();
    core.call(|it, out| it.handle_event(out, Event::Starter(JOBS[0], vec![(Kind::Held, 0, payload)])));
    assert_eq!(
        core.subsystems.relay.states(JOBS[0]).unwrap()[&core.subsystems.local.me.unwrap()]
            .held
            .as_ref()
            .unwrap()
            .number,
        10
    );
}

/// Bytes of environment and of keys from PMI in the orders of both jobs; how many orders go up in a message.
fn orders_in_messages(environment: usize, keys: usize) -> Vec<usize> {
    let (mut world, _) = two_jobs(&[1, 2]);
    let core = world.core(1);
    for job in JOBS {
        let mut order = core.subsystems.relay.order(job).expect("it runs there").clone();
        let mut launch = order.launch.as_deref().expect("it was told").clone();
        launch.environment = [("A".into(), Text::Utf8("x".repeat(environment)))].into_iter().collect();
        order.fence = Fence { number: 1, puts: vec![0; keys] }.into();
        (order.version, order.launch) = (order.version + 1, Some(launch.into()));
        core.subsystems.relay.set_order(job, order);
    }
    messages(core).into_iter().map(|(orders, _)| orders).filter(|orders| *orders > 0).collect()
}

/// Launches that users gave to their jobs, and keys that these have put over PMI: any of it has room in a
/// message, all of it together need not.
#[test]
fn message_room_for_launches_and_keys() {
    assert_eq!(orders_in_messages(1 << 20, 0), [2]);
    assert_eq!(orders_in_messages(3 << 20, 0), [1, 1]);
    assert_eq!(orders_in_messages(0, 32 << 20), [1, 1]);
}
