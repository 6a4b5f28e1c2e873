//! Programs that must not compile, each with the sentence that the compiler has to say first.

use std::path::Path;
use std::process::Command;

use tutti_testkit::{Need, has_command, has_command_for_part};
use tutti_tests::{Scratch, program, run};

use super::LIMIT;

/// Text in front of `main`, text in it, and the sentence.
const WRONG: [(&str, &str, &str); 62] = [
    ("", "int x = 1; invoke(0, [](int *) {}, &x);", "a pointer means nothing at another rank"),
    ("", "invoke(0, [](const char *) {}, \"text\");", "a pointer means nothing at another rank"),
    ("", "invoke(0, [](std::nullptr_t) {}, nullptr);", "a pointer means nothing at another rank"),
    ("static int x;", "invoke(0, [] { return &x; });", "a pointer means nothing at another rank"),
    ("struct in { int *p; };", "invoke(0, [](in) {}, in{});", "a pointer means nothing at another rank"),
    (
        "struct in { int a; struct { char b[3]; std::array<void *, 2> c; } d; };",
        "post(0, [](in) {}, in{});",
        "a pointer means nothing at another rank",
    ),
    ("", "invoke(0, [](void (*)()) {}, +[] {});", "a pointer means nothing at another rank"),
    ("struct in { int a; };", "invoke(0, [](int in::*) {}, &in::a);", "a pointer to a member cannot travel"),
    ("static int x;", "invoke(0, []() -> int & { return x; });", "a reference means nothing at another rank"),
    (
        "struct in { int &r; };",
        "int x = 1; invoke(0, [](in) {}, in{x});",
        "a class with a reference or a const member cannot travel",
    ),
    (
        "struct in { const int c; };",
        "post(0, [](in) {}, in{1});",
        "a class with a reference or a const member cannot travel",
    ),
    (
        "struct in { virtual void f() {} };",
        "invoke(0, [](in) {}, in{});",
        "a class with virtual functions cannot travel",
    ),
    ("union in { int a; void *b; };", "invoke(0, [](in) {}, in{});", "a union can hide a pointer"),
    (
        "",
        "invoke(0, [](std::map<int, int>) {}, std::map<int, int>());",
        "a type that is not trivially copyable cannot travel: send its elements",
    ),
    (
        "",
        "invoke(0, [](std::list<int>) {}, std::list<int>());",
        "a type that is not trivially copyable cannot travel",
    ),
    (
        "",
        "invoke(0, [] { return std::make_unique<int>(1); });",
        "a type that is not trivially copyable cannot travel",
    ),
    (
        "struct in { std::string name; };",
        "post(0, [](const in &) {}, in{});",
        "a type that is not trivially copyable cannot travel",
    ),
    (
        "",
        "post(0, quick([](std::shared_ptr<int>) {}), std::shared_ptr<int>());",
        "a type that is not trivially copyable cannot travel",
    ),
    (
        "",
        "invoke(0, [](std::vector<int *>) {}, std::vector<int *>());",
        "a pointer means nothing at another rank",
    ),
    (
        "",
        "invoke(0, [] { return std::optional<const char *>(); });",
        "a pointer means nothing at another rank",
    ),
    (
        "",
        "int x = 1; invoke(0, [](std::pair<int, int *>) {}, std::pair(1, &x));",
        "a pointer means nothing at another rank",
    ),
    (
        "",
        "int x = 1; invoke(0, [](std::tuple<int &>) {}, std::tie(x));",
        "a reference means nothing at another rank",
    ),
    (
        "",
        "invoke(0, [](std::span<int *const>) {}, std::span<int *>());",
        "a pointer means nothing at another rank",
    ),
    (
        "struct in { virtual void f() {} };",
        "invoke(0, [](std::vector<in>) {}, std::vector<in>());",
        "a class with virtual functions cannot travel",
    ),
    (
        "union in { int a; void *b; };",
        "invoke(0, [](std::array<in, 2>) {}, std::array<in, 2>());",
        "a union can hide a pointer",
    ),
    ("", "invoke(0, [] { return std::string_view(); });", "a view can be an argument, and nothing else"),
    ("", "invoke(0, [] { return std::span<const int>(); });", "a view can be an argument, and nothing else"),
    (
        "",
        "post(0, [](std::vector<std::string_view>) {}, std::vector<std::string_view>());",
        "a view can be an argument, and nothing else",
    ),
    ("", "spawn(0, []() -> task<std::string_view> { co_return \"\"; });", "a view can be an argument"),
    (
        "",
        "int x[1]; invoke(0, [](std::span<int> s) { s[0] = 1; }, std::span<int>(x));",
        "the function cannot be called with copies of these arguments",
    ),
    (
        "",
        "invoke(0, [](std::span<const std::string>) {}, std::span<const std::string>());",
        "elements of a span are seen in the message: send a std::vector",
    ),
    (
        "struct alignas(16) in { int a[4]; };",
        "invoke(0, [](std::span<const in>) {}, std::span<const in>());",
        "elements of a span are aligned to 8 bytes at most: send a std::vector",
    ),
    ("", "invoke(0, quick([]() -> task<int> { co_return 1; }));", "a quick function does not wait"),
    ("", "int x = 1; invoke(0, quick([x] { return x; }));", "the function has captures or members"),
    ("static int f(int x) { return x; }", "post(0, quick(f), 1);", "a pointer to a function means nothing"),
    (
        "",
        "int x = 1; reduce(1, [&x](int a, int b) { return a + b + x; }).get();",
        "the operation has captures",
    ),
    ("", "reduce(1, [](int a) { return a; }).get();", "the operation takes two values of the type"),
    ("", "broadcast(\"text\", 0).get();", "a pointer means nothing at another rank"),
    ("", "client c(\"a\"); c.call<std::map<int, int>>(\"f\");", "between jobs numbers, bool, std::string"),
    (
        "struct in { int a; };",
        "service s(\"a\"); s.add(\"f\", [](in) {});",
        "between jobs numbers, bool, std::string",
    ),
    ("", "make<std::string>();", "other ranks see the bytes of an object: no strings"),
    ("", "make<int *>();", "a pointer means nothing at another rank"),
    ("", "make<std::map<int, int>>();", "a type that is not trivially copyable cannot travel"),
    ("", "global_atomic<int> a{global_ptr<int>()}; a.load();", "ranks change numbers of 8 bytes"),
    (
        "class in { int a = 0; public: int f() { return a; } };",
        "invoke(0, [](in) {}, in{});",
        "the class has private members or constructors",
    ),
    (
        "struct base { int a; }; struct in : base { int b; };",
        "post(0, [](in) {}, in{});",
        "the class has a base",
    ),
    (
        "struct in { int a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q; };",
        "invoke(0, [](in) {}, in{});",
        "the class has more than 16 members",
    ),
    (
        "struct in { char a[65]; };",
        "invoke(0, [](in) {}, in{});",
        "arrays of the class have more than 64 elements",
    ),
    ("", "int x = 1; invoke(0, [x] { return x; });", "the function has captures or members"),
    ("", "int x = 1; invoke(0, [&x] { x = 2; });", "the function has captures or members"),
    ("", "invoke(0, std::function<void()>());", "the function has captures or members"),
    (
        "static int f(int x) { return x; }",
        "invoke(0, f, 1);",
        "a pointer to a function means nothing at another rank",
    ),
    ("", "invoke(0, [](int) {}, 1, 2);", "the function cannot be called with copies of these arguments"),
    ("", "int x = 1; invoke(0, [](int &y) { y = 2; }, x);", "the function cannot be called with copies"),
    (
        "using in = std::array<char, 2049>;",
        "post(0, [](const in &) {}, in());",
        "the arguments are longer than 2048 bytes",
    ),
    (
        "using in = std::array<char, 2049>;",
        "invoke(0, [] { return in(); });",
        "the result is longer than 2048 bytes",
    ),
    ("", "invoke_async(0, []() -> task<int> { co_return 1; }).get();", "start it by tutti::spawn"),
    (
        "",
        "spawn(0, [](int x) { return x; }, 1);",
        "the function gives no tutti::task: start it by tutti::invoke_async",
    ),
    (
        "static int x; static task<int &> f() { co_return x; }",
        "f().get() = 2;",
        "a task gives a value, no reference",
    ),
    ("static int x; static dist<int &> d(x);", "", "each rank has an object of its own, no reference"),
    (
        "struct alignas(128) in { int a[32]; };",
        "make<in>();",
        "objects of make are aligned to 64 bytes at most",
    ),
    ("", "global_atomic<double> a{global_ptr<double>()}; a.load();", "ranks change numbers of 8 bytes"),
];

/// Programs much like the wrong ones that compile.
const RIGHT: [(&str, &str); 19] = [
    ("", "invoke(0, [](int) {}, 1);"),
    (
        "enum class e { a }; struct in { int a; e b; double c[2][3]; };",
        "invoke(0, [](const in &i) { return i.b; }, in{});",
    ),
    (
        "struct in { struct { int a, b; } c[2]; std::array<char, 2000> d; bool e; };",
        "post(0, [](in) {}, in{});",
    ),
    (
        "class in { int a = 0; public: int f() { return a; } }; template <> constexpr bool tutti::wire_as_bytes<in> = true;",
        "invoke(0, [](in i) { return i.f(); }, in{});",
    ),
    ("static int f(int x) { return x; }", "invoke(0, fn<f>{}, 1);"),
    ("struct in {};", "invoke(0, [](in) {}, in{});"),
    ("", "invoke(0, [](auto x) { return x; }, 2.5);"),
    ("", "invoke(0, [](long x) { return x; }, 1);"),
    ("", "spawn(0, [](int x) -> task<int> { co_return x; }, 1).get();"),
    ("", "invoke(0, [](std::string) {}, std::string());"),
    ("", "invoke(0, [](std::string_view) {}, std::string());"),
    ("", "invoke(0, [](std::string_view) {}, std::string_view(\"text\"));"),
    ("", "int x[1]; invoke(0, [](std::span<const int>) {}, std::span<int>(x));"),
    ("", "invoke(0, [] { return std::vector<std::tuple<int, std::optional<std::string>>>(); });"),
    ("", "invoke(0, quick([](std::string_view s) { return s.size(); }), std::string());"),
    ("static int f(int x) { return x; }", "post(0, quick(fn<f>{}), 1);"),
    (
        "",
        "return reduce(1, std::plus<>{}).get() + static_cast<int>(broadcast(std::string(), 0).get().size());",
    ),
    ("", "auto p = make<int>(3); write(p + 1, read(p)); post(0, [](global_ptr<int> q) { read(q); }, p);"),
    ("", "fifo<std::string> f(2); f.put(\"a\").get(); f.take().get();"),
];

/// A compiler of C++, and a folder with a header that all programs read, `all.hpp`.
struct Compiler<'a> {
    name: &'static str,
    folder: &'a Path,
}

/// Compilers that the header is for, as far as they are here.
fn compilers() -> Vec<&'static str> {
    ["c++", "clang++-19"].into_iter().filter(|name| has_command_for_part(Need::Cxx, name)).collect()
}

impl Compiler<'_> {
    fn wrapper(&self) -> Command {
        let mut wrapper = program("tutticxx");
        wrapper.env("TUTTI_CXX", self.name).args(["-Wall", "-Wextra", "-Wpedantic"]);
        wrapper
    }

    /// The header is read once for all programs.
    fn read_once(&self) {
        // Each compiler looks for a name of its own.
        let read = if self.name == "c++" { "all.hpp.gch" } else { "all.hpp.pch" };
        let mut compiler = self.wrapper();
        compiler.args(["-c", "-x", "c++-header", "-o"]).arg(self.folder.join(read));
        run(compiler.arg(self.folder.join("all.hpp")), LIMIT).expect_success();
    }

    /// The first error of a program that opens both namespaces; none if it compiles.
    fn first_error(&self, before: &str, inside: &str) -> Option<String> {
        let text =
            format!("using namespace std;\nusing namespace tutti;\n{before}\nint main() {{ {inside} }}\n");
        let source = self.folder.join("program.cpp");
        std::fs::write(&source, text).expect("a scratch file");
        let mut compiler = self.wrapper();
        compiler.arg("-include").arg(self.folder.join("all.hpp"));
        let ran = run(compiler.arg("-fsyntax-only").arg(&source), LIMIT);
        if ran.status.success() {
            assert_eq!(ran.stderr, "", "{before} {inside}");
            return None;
        }
        let error = ran.stderr.lines().find(|line| line.contains("error: "));
        Some(error.unwrap_or_else(|| panic!("{before} {inside}: {ran}")).to_owned())
    }
}

/// No name of the header is ambiguous beside those of the C++ library and of the system.
#[test]
fn names_of_the_header_do_not_clash() {
    if !has_command(Need::Cxx, "c++") {
        return;
    }
    let scratch = Scratch::new("cxx-names");
    let folder = scratch.path();
    let all = "#include <bits/stdc++.h>\n#include <mpi.h>\n#include <shmem.h>\n#include <unistd.h>\n#include <tutti.hpp>\n";
    std::fs::write(folder.join("all.hpp"), all).expect("a scratch file");
    let before = "static dist<int> d(1); static sync_var<int> s; static fifo<int> q(4); static int f(int x) { return x; }\n\
        task<int> t() { co_await yield(); int a = co_await s.take(); co_return a + *d; }";
    let inside = "try { init(); post(this_rank(), [] {}); awaiter<int> a = invoke_async(0, fn<f>{}, 1); quiet(); meet(); t().get(); \
        auto p = make<long>(2); global_atomic(p).fetch_add(1); write(p, read(p + 1)); fence(); destroy(p); q.put(1).get(); q.take().get(); post(0, quick(fn<f>{}), reduce(1, std::plus<>{}).get() + broadcast(1, 0).get()); \
        invoke(ranks() - 1, [] {}); quit(); return a.get(); } \
        catch (const remote_error &e) { return e.type().empty(); } \
        catch (const tutti::error &e) { return e.code() == fault::gone; }";
    for name in compilers() {
        assert_eq!(Compiler { name, folder }.first_error(before, inside), None, "{name}");
    }
}

#[test]
fn wrong_programs_do_not_compile_and_say_why_first() {
    if has_command(Need::Cxx, "c++") {
        expect_sentences("c++");
    }
}

#[test]
fn wrong_programs_do_not_compile_with_clang_and_say_why_first() {
    if has_command(Need::Cxx, "clang++-19") {
        expect_sentences("clang++-19");
    }
}

/// Wrong programs give their sentences, right ones compile.
#[track_caller]
fn expect_sentences(name: &'static str) {
    let scratch = Scratch::new(&format!("cxx-wrong-{name}"));
    let folder = scratch.path();
    let all =
        "#include <functional>\n#include <list>\n#include <map>\n#include <vector>\n#include <tutti.hpp>\n";
    std::fs::write(folder.join("all.hpp"), all).expect("a scratch file");
    let compiler = Compiler { name, folder };
    compiler.read_once();
    let mut wrong = Vec::new();
    for (before, inside) in RIGHT {
        if let Some(error) = compiler.first_error(before, inside) {
            wrong.push(format!("{before} {inside}\n    is right, and refused: {error}"));
        }
    }
    for (before, inside, sentence) in WRONG {
        match compiler.first_error(before, inside) {
            Some(error) if error.contains(sentence) => {}
            other => wrong.push(format!("{before} {inside}\n    expected `{sentence}`, found {other:?}")),
        }
    }
    assert!(wrong.is_empty(), "{name}: {}", wrong.join("\n"));
}

#[test]
fn wrapper_names_the_standard_and_the_header_what_it_needs() {
    let shows = |options: &[&str]| {
        let ran = run(program("tutticxx").args(options).args(["-show", "a.cpp"]), LIMIT).expect_success();
        (ran.stdout.contains(" -std=c++20 "), ran.stdout.contains(" -ltutti"))
    };
    assert_eq!(shows(&[]), (true, true));
    assert_eq!(shows(&["-std=c++23"]), (false, true));
    if !has_command(Need::Cxx, "c++") {
        return;
    }
    let scratch = Scratch::new("cxx-wrapper");
    let source = scratch.path().join("a.cpp");
    std::fs::write(&source, "#include <tutti.hpp>\n").expect("a scratch file");
    for (option, sentence) in [
        ("-std=c++17", "tutti.hpp needs C++20: compile with tutticxx, or with -std=c++20"),
        ("-fno-exceptions", "tutti.hpp needs exceptions: compile without -fno-exceptions"),
    ] {
        let ran = run(program("tutticxx").args([option, "-fsyntax-only"]).arg(&source), LIMIT);
        let first = ran.stderr.lines().find(|line| line.contains("error: "));
        assert!(first.is_some_and(|line| line.contains(sentence)), "{option}: {ran}");
    }
}
