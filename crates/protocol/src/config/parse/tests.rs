use super::*;

struct Few;

impl Accounts for Few {
    fn has_user(&self, name: &str) -> bool {
        name == "alice"
    }
    fn has_group(&self, name: &str) -> bool {
        name == "physics"
    }
}

fn lines(text: &str) -> Vec<String> {
    parse("t", text, &Few).mistakes.iter().map(|mistake| mistake.at("t")).collect()
}

const WHOLE: &str = r#"
[node]
slots = 4
memory = "16G"
[nodes.n1]
slots = 8
[cluster]
slice = "50ms"
policy = "dqt"
strict = true
[queue.long]
weight = 50
nodes = ["n1", "n2"]
time = "2d"
[limits]
jobs = 10
[limits.user.alice]
slots = 16
memory = "8G"
exclusive = false
[limits.group.physics]
ranks = 64
[shares]
half_life = "20m"
[shares.user]
alice = 200
[shares.group]
physics = 60
"#;

#[test]
fn configuration_is_read_and_its_text_says_the_same() {
    let parsed = parse("t", WHOLE, &Few);
    assert_eq!((&parsed.mistakes, &parsed.warnings), (&vec![], &vec![]));
    let config = parsed.config;
    assert_eq!(config.cluster.ms("slice"), Some(50));
    assert_eq!(super::super::settings::of_node(&config, "n1").count("slots"), Some(8));
    assert_eq!(super::super::settings::of_node(&config, "n2").count("slots"), Some(4));
    let of_alice = config.rules.limits_of(Some("alice"), Some("physics"), "slots");
    assert_eq!(of_alice[0].2, "[limits.user.alice] in t:18");
    assert_eq!(config.rules.limits_of(Some("alice"), None, "jobs")[0].1, Value::Count(10));
    let text = config.cluster_text();
    let again = parse("t", &text, &Few);
    assert_eq!(again.mistakes, []);
    assert_eq!(again.config.cluster_text(), text);
    assert!(!text.contains("16G") && text.contains("8G"), "[node] is not the cluster's: {text}");
}

#[test]
fn configuration_mistakes_have_their_place_and_what_is_allowed() {
    for (text, expected) in [
        ("[cluster]\nslcie = \"1s\"", "t:2:1: slcie is not a key of [cluster]; did you mean slice?"),
        (
            "[cluster]\n  slice = \"10\"",
            "t:2:11: slice: \"10\" is not a time in quotes from 5ms to 1h, with ms, s, m, h or d, such as \"10s\"",
        ),
        ("[cluster]\narity = 65", "t:2:9: arity: 65 is not a whole number from 1 to 64"),
        ("[cluster]\narity = -1", "t:2:9: arity: -1 is not a whole number from 1 to 64"),
        ("[cluster]\narity = 1.5", "t:2:9: arity: 1.5 is not a whole number from 1 to 64"),
        ("[cluster]\nstrict = 1", "t:2:10: strict: 1 is not true or false"),
        ("[cluster]\npolicy = \"x\"", "t:2:10: policy: \"x\" is not one of \"matrix\", \"dqt\""),
        ("[clutser]\n", "t:1:2: there is no section [clutser]; did you mean cluster?"),
        ("cluster = 3\n", "t:1:11: [cluster] is a section, not 3"),
        ("[queue.a]\nnodes = [\"x\", \"x\"]", "t:2:9: nodes: \"x\" is in the list twice"),
        ("[queue.a]\nnodes = []", "t:2:9: nodes: the list is empty; without the key all nodes are meant"),
        ("[nodes.a]\nname = \"b\"", "t:2:1: name is not a key of [nodes.NAME]: the section has the name"),
        (
            "[limits.user.alice]\nmemory = \"8 apples\"",
            "t:2:10: memory: \"8 apples\" is not an amount of memory in quotes, with K, M, G or T, such as \"512M\"",
        ),
        (
            "[limits.user.alice]\nmemory_per_node = 200",
            "t:2:19: memory_per_node: 200 is not an amount of memory in quotes from 32 MiB, with K, M, G or T, \
             such as \"512M\"",
        ),
        (
            "[limits.user.alice]\nmemory_per_node = \"1K\"",
            "t:2:19: memory_per_node: \"1K\" is not an amount of memory in quotes from 32 MiB, with K, M, G or T, \
             such as \"512M\"",
        ),
        (
            "[limits.user.alice]\nmemory_per_nod = \"1G\"",
            "t:2:1: memory_per_nod is not a key of [limits.user.alice]; did you mean memory_per_node?",
        ),
        (
            "[limits.group.physics]\nmemory_per_node = \"1G\"",
            "t:2:1: memory_per_node is not a key of [limits.group.physics]: nodes hold each user to a limit of \
             his own; [limits] has that of each",
        ),
        ("[shares.user]\nalice = 0", "t:2:9: alice: 0 is not a whole number from 1 to 10000"),
        (
            "[node]\nlisten = \"here\"",
            "t:2:10: listen: \"here\" is not an address and a port in quotes, such as \"10.0.0.1:7411\"",
        ),
    ] {
        assert_eq!(lines(text), [expected], "{text}");
    }
    let twice = lines("[nodes.a]\nslots = 1\n[nodes.a]\nslots = 2\n");
    assert!(twice[0].starts_with("t:3:") && twice[0].contains("duplicate"), "{twice:?}");
    let several = lines("[cluster]\nx = 1\narity = 0\n[queue.q]\nweight = 0\n");
    assert_eq!(several.len(), 3, "{several:?}");
    let broken = lines("[cluster\nslice = \"1s\"\nfoo = = 3\n");
    assert!(broken.iter().any(|line| line.starts_with("t:1:")), "{broken:?}");
}

#[test]
fn memory_per_node_is_what_nodes_hold_a_user_to() {
    let text = "[limits]\nmemory_per_node = \"2G\"\njobs = 1\n[limits.user.alice]\nmemory_per_node = \"1G\"\n\
                [limits.user.bob]\njobs = 3\n";
    let mut rules = parse("t", text, &AllKnown).config.rules;
    rules.path = "t".into();
    let of_nodes = rules.of_nodes();
    for rules in [&rules, &of_nodes] {
        assert_eq!(rules.memory_per_node("alice"), Some((1 << 30, "[limits.user.alice] in t:5".into())));
        assert_eq!(rules.memory_per_node("bob"), Some((2 << 30, "[limits] in t:2".into())));
    }
    assert!(of_nodes.limits_of(Some("bob"), None, "jobs").is_empty(), "that is the controller's");
    assert_eq!(Rules { limits: Limits::default(), ..rules }.memory_per_node("bob"), None);
    assert_eq!(parse("t", "[limits]\njobs = 1\n", &AllKnown).config.rules.of_nodes(), Rules::default());
}

#[test]
fn unknown_users_are_a_warning() {
    let parsed = parse("t", "[limits.user.bob]\njobs = 1\n[shares.group]\nchemistry = 3\n", &Few);
    assert_eq!(parsed.mistakes, []);
    assert_eq!(parsed.warnings.len(), 2);
    assert_eq!(parsed.config.rules.group_shares["chemistry"], 3, "it holds all the same");
}

/// Seeded changes of a right file: no panic, every mistake is one line in the file.
#[test]
fn configuration_parser_takes_any_text() {
    let mut seed = 7_u64;
    let mut random = move |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed % below as u64) as usize
    };
    let pieces =
        ["[", "]", "=", "\"", "'''", "\n", ".", "{", "}", "é", "\u{0}", "9999999999999999999999", "#", "nan"];
    for _ in 0..5_000 {
        let mut text = WHOLE.to_owned();
        for _ in 0..1 + random(6) {
            let at = (0..=random(text.len() + 1)).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
            match random(3) {
                0 => text.insert_str(at, pieces[random(pieces.len())]),
                1 => text.truncate(at),
                _ => {
                    let end = (at + random(20)).min(text.len());
                    let end = (end..=text.len()).find(|end| text.is_char_boundary(*end)).unwrap_or(at);
                    text.replace_range(at..end.max(at), "");
                }
            }
        }
        let count = text.matches('\n').count() + 1;
        for mistake in parse("t", &text, &AllKnown).mistakes {
            assert!((1..=count).contains(&mistake.line) && !mistake.at("t").contains('\n'), "{mistake:?}");
        }
    }
    assert!(!lines(&"[".repeat(100_000)).is_empty());
    assert!(!lines(&format!("a = {}", "[".repeat(100_000))).is_empty());
}
