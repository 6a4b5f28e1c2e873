// tutti.hpp: services between processes.
// "serve NAME WHOM": serves until it is asked to stop; "stop NAME": asks it to.
// "ask NAME": all that a client may do, the end of the service included; "use NAME": some of it.
// "until-end NAME": calls until the service ends. "fault NAME": the number of what opening throws.
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <thread>
#include <vector>

#include <tutti.hpp>

#define CHECK(condition)                                                                               \
    do {                                                                                               \
        if (!(condition)) {                                                                            \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                       \
            std::exit(1);                                                                              \
        }                                                                                              \
    } while (0)

using namespace std::chrono_literals;

template <class F> static tutti::error error_of(F f)
{
    try {
        f();
    } catch (const tutti::error &found) {
        return found;
    }
    std::fprintf(stderr, "nothing was thrown\n");
    std::exit(1);
}

using row = std::tuple<int, std::string, std::optional<double>, bool>;

static void serve(const std::string &name, const std::string &whom)
{
    std::map<long, std::string> values;
    tutti::service kv(name, whom);
    kv.add("put", [&values](long key, const std::string &value) { values[key] = value; });
    kv.add("get", [&values](long key) {
        const auto found = values.find(key);
        return found == values.end() ? std::optional<std::string>() : found->second;
    });
    kv.add("mirror", [](const std::vector<row> &rows) { return rows; });
    kv.add("flag", [](bool flag) { return !flag; });
    kv.add("throws", [](int number) { throw std::out_of_range("no\033 " + std::to_string(number)); });
    kv.add("text", [](int bytes) { return std::string(static_cast<std::size_t>(bytes), 'x'); });
    kv.add("stop", [&kv] { kv.stop(); });
    CHECK(error_of([&kv] { kv.add("get", [](int x) { return x; }); }).code() == tutti::fault::bad_name);
    CHECK(error_of([&name] { tutti::service again(name); }).code() == tutti::fault::bad_name);
    kv.add("again", [&kv] { return error_of([&kv] { kv.serve_for(1s); }).code() == tutti::fault::busy; });
    kv.add("pid", [] { return static_cast<long>(getpid()); });
    std::puts("serving");
    std::fflush(stdout);
    kv.serve();
}

static void ask(const std::string &name)
{
    using tutti::fault;
    const tutti::client kv(name);
    CHECK(kv.signatures().size() == 9 && kv.signatures()[1] == "get(i64)->opt(str)");
    kv.call("put", 17L, "seventeen");
    CHECK(kv.call<std::optional<std::string>>("get", 17L) == "seventeen" && !kv.call<std::optional<std::string>>("get", 18L));
    const std::vector<row> rows = {{1, "one", 1.5, true}, {2, "", std::nullopt, false}};
    CHECK(kv.call<std::vector<row>>("mirror", rows) == rows && !kv.call<bool>("flag", true) && kv.call<bool>("again"));
    try {
        kv.call("throws", 5);
        CHECK(false);
    } catch (const tutti::remote_error &thrown) {
        CHECK(thrown.type() == "std::out_of_range" && std::string(thrown.what()) == "no? 5"); // no escapes of another user's
    }
    CHECK(kv.call<std::string>("text", 32000).size() == 32000);
    CHECK(error_of([&kv] { kv.call<std::string>("text", 32768); }).code() == fault::threw);
    CHECK(error_of([&kv] { kv.call("put", 1L, std::string(32768, 'x')); }).code() == fault::too_long);
    const tutti::error other = error_of([&kv] { kv.call<int>("get", 17); });
    CHECK(other.code() == fault::version);
    const std::string says = "tutti: service " + name + " has get(i64)->opt(str), and is asked for get(i32)->i32";
    CHECK(other.what() == says);
    CHECK(error_of([&kv] { kv.call("none"); }).code() == fault::version);
    // Bytes that are no arguments: what is read of them is refused, and the connection stays.
    std::int64_t raw = 0;
    CHECK(tutti_client_open(name.c_str(), 60000000000, &raw) == TUTTI_OK);
    char result[256];
    const auto send = [&](const char *signature, const void *data, std::size_t bytes) {
        std::size_t room = sizeof result;
        return tutti_client_call(raw, signature, data, bytes, 60000000000, result, &room);
    };
    const unsigned char seven = 7;
    CHECK(send("flag(bool)->bool", &seven, 1) == TUTTI_THREW && send("flag(bool)->bool", nullptr, 0) == TUTTI_THREW);
    const std::uint64_t count = UINT64_MAX;
    CHECK(send("mirror(vec(tuple(i32,str,opt(f64),bool)))->vec(tuple(i32,str,opt(f64),bool))", &count, 8) == TUTTI_THREW);
    std::size_t no_room = 0;
    CHECK(tutti_client_call(raw, "flag(bool)->bool", "", 1, 60000000000, nullptr, &no_room) == TUTTI_ERR_LONG && no_room == 1);
    CHECK(tutti_client_close(raw) == TUTTI_OK && tutti_client_close(raw) == TUTTI_ERR_ARG);
    // Names that are none, or of none.
    const auto fault_of_name = [](const char *wrong) { return error_of([wrong] { tutti::client none(wrong, 1s); }).code(); };
    CHECK(fault_of_name("no-such-service") == fault::no_service && fault_of_name("a b") == fault::bad_name);
    CHECK(fault_of_name("kv@elsewhere") == fault::no_service);
    // Several clients at the same time, each with its own.
    std::atomic<int> right = 0;
    std::vector<std::thread> threads;
    for (long thread = 0; thread < 4; ++thread)
        threads.emplace_back([&right, &name, thread] {
            const tutti::client own(name);
            for (long round = 0; round < 200; ++round) {
                own.call("put", 1000 + thread, std::to_string(round));
                right += own.call<std::optional<std::string>>("get", 1000 + thread) == std::to_string(round);
            }
        });
    for (std::thread &thread : threads) thread.join();
    CHECK(right == 800);
    // A service that stands still is waited for until the time is over; then it goes on, and old answers are dropped.
    const auto pid = static_cast<pid_t>(kv.call<long>("pid"));
    CHECK(kill(pid, SIGSTOP) == 0);
    const tutti::error over = error_of([&kv] { kv.within(100ms).call<bool>("flag", true); });
    CHECK(over.code() == fault::deadline && kv.waiting() == 1);
    CHECK(over.what() == "tutti: service " + name + ": the time of 100 ms is over: 1 call of this client waits there");
    CHECK(kill(pid, SIGCONT) == 0);
    CHECK(kv.call<bool>("flag", false) && !kv.call<bool>("flag", true) && kv.waiting() == 0);
    // Its queue stays full while it stands still: a call that has not been sent has not run.
    CHECK(kill(pid, SIGSTOP) == 0);
    fault last = fault::deadline;
    std::string says_full;
    std::size_t given_up = 0;
    for (; given_up < 100000 && last == fault::deadline; ++given_up) {
        const tutti::error full = error_of([&kv] { kv.within(0ns).call("put", 2L, std::string(30000, 'y')); });
        last = full.code();
        says_full = full.what();
    }
    // The last one was not sent.
    CHECK(last == fault::busy && kv.waiting() == --given_up && given_up > 1);
    CHECK(says_full.find("within 0 ms: " + std::to_string(given_up) + " calls of this client wait there") != std::string::npos);
    CHECK(kill(pid, SIGCONT) == 0);
    CHECK(!kv.call<bool>("flag", true) && kv.waiting() == 0);
    // It ends in the middle of a call.
    CHECK(kill(pid, SIGSTOP) == 0);
    std::atomic<bool> is_lost = false;
    std::thread waits([&kv, &is_lost] { is_lost = error_of([&kv] { kv.call<bool>("flag", true); }).code() == fault::lost; });
    CHECK(kill(pid, SIGKILL) == 0);
    waits.join();
    const fault gone = error_of([&kv] { kv.call<bool>("flag", true); }).code();
    CHECK((is_lost || gone == fault::gone) && (gone == fault::gone || gone == fault::lost));
    std::puts("ask: ok");
}

int main(int argc, char **argv)
{
    CHECK(argc >= 3);
    const std::string what = argv[1], name = argv[2];
    if (what == "serve") serve(name, argc > 3 ? argv[3] : "user");
    else if (what == "ask") ask(name);
    else if (what == "use") {
        const tutti::client kv(name);
        for (long key = getpid() * 1000L, round = 0; round < 300; ++round) {
            kv.call("put", key + round, std::to_string(round));
            CHECK(kv.call<std::optional<std::string>>("get", key + round) == std::to_string(round));
        }
        std::puts("use: ok");
    } else if (what == "until-end") {
        // Answers come in order, each once, until the service ends.
        const tutti::client kv(name);
        long calls = 0;
        const tutti::error end = error_of([&kv, &calls] {
            for (;; ++calls) {
                CHECK(kv.call<bool>("flag", calls % 2 == 0) == (calls % 2 != 0));
                if (calls == 100) {
                    std::puts("calling");
                    std::fflush(stdout);
                }
            }
        });
        CHECK(end.code() == tutti::fault::lost || end.code() == tutti::fault::gone);
        CHECK(error_of([&kv] { kv.call<bool>("flag", true); }).code() != tutti::fault::deadline);
        std::puts(end.code() == tutti::fault::lost ? "lost" : "gone");
    } else if (what == "stop") tutti::client(name).call("stop");
    else if (what == "fault") std::printf("fault %d\n", static_cast<int>(error_of([&name] { tutti::client none(name, 10s); }).code()));
    return 0;
}
