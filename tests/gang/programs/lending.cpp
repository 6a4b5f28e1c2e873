// tutti.hpp: a service whose process works, and a client that computes between its calls.
// "serve NAME PIPE": serves; when a byte has come from the pipe a thread of it computes for ever.
// "ask NAME FOLDER CALLS US": calls once, computes until FOLDER/call is there, calls so often with so much
// computing in between, and says how long the calls took; makes FOLDER/answered, computes until FOLDER/end is
// there, stops the service and makes FOLDER/ended.
// "ring NAME OTHER": serves a function that calls the same one of OTHER. "poke NAME": calls it.
// "work SECONDS": computes for so long, or until it is interrupted.
// All but those of the ring say at their end how much of the time they have had.
#include <tutti.hpp>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

static double seconds(clockid_t clock)
{
    timespec now;
    clock_gettime(clock, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Of this thread's own time, however often it is stopped.
static void compute(double some)
{
    const double end = seconds(CLOCK_THREAD_CPUTIME_ID) + some;
    while (seconds(CLOCK_THREAD_CPUTIME_ID) < end) {}
}

static void say(const std::string &line)
{
    std::puts(line.c_str());
    std::fflush(stdout);
}

static int serve(const std::string &name, const std::string &pipe)
{
    std::atomic<bool> ends = false;
    std::thread worker([&pipe, &ends] {
        std::ifstream(pipe).get();
        while (!ends) compute(0.001);
    });
    tutti::service service(name);
    service.add("add", [](long one, long other) { return one + other; });
    service.add("stop", [&service] { service.stop(); });
    say("lending: serving");
    service.serve();
    ends = true;
    worker.join();
    return 0;
}

static int ask(const std::string &name, const std::filesystem::path &folder, long calls, double between)
{
    const tutti::client service(name);
    service.call<long>("add", 1L, 1L);
    // Whoever looks for sleepers sees by then that this is none.
    compute(0.5);
    say("lending: computes");
    while (!std::filesystem::exists(folder / "call")) compute(0.001);
    std::vector<double> took;
    for (long call = 0; call < calls; ++call) {
        const double began = seconds(CLOCK_MONOTONIC);
        if (service.call<long>("add", call, 1L) != call + 1) return 1;
        took.push_back(1e6 * (seconds(CLOCK_MONOTONIC) - began));
        compute(between);
    }
    std::sort(took.begin(), took.end());
    const auto at = [&took](double part) { return took[static_cast<std::size_t>(part * static_cast<double>(took.size() - 1))]; };
    char line[200];
    std::snprintf(line, sizeof line, "lending: us of a call: p50 %.0f p90 %.0f p99 %.0f most %.0f", at(0.5), at(0.9), at(0.99), at(1));
    say(line);
    say("lending: answered");
    std::ofstream(folder / "answered").put('\n');
    while (!std::filesystem::exists(folder / "end")) compute(0.001);
    say("lending: stops it");
    service.call("stop");
    std::ofstream(folder / "ended").put('\n');
    return 0;
}

static volatile std::sig_atomic_t is_interrupted = 0;

static int work(double some)
{
    std::signal(SIGINT, [](int) { is_interrupted = 1; });
    for (const double end = seconds(CLOCK_MONOTONIC) + some; is_interrupted == 0 && seconds(CLOCK_MONOTONIC) < end;) compute(0.001);
    return 0;
}

// Nobody but a signal ends it.
static int ring(const std::string &name, const std::string &other)
{
    tutti::service service(name);
    service.add("poke", [&other] { tutti::client(other).call("poke"); });
    say("lending: serving");
    service.serve();
    return 0;
}

int main(int argc, char **argv)
{
    const std::string what = argc > 2 ? argv[1] : "";
    if (what == "poke") tutti::client(argv[2]).call("poke");
    const double began = seconds(CLOCK_MONOTONIC);
    const int status = what == "serve" && argc > 3 ? serve(argv[2], argv[3])
                       : what == "work"             ? work(std::atof(argv[2]))
                       : what == "ring" && argc > 3 ? ring(argv[2], argv[3])
                       : what == "ask" && argc > 5 ? ask(argv[2], argv[3], std::atol(argv[4]), 1e-6 * std::atof(argv[5]))
                                                   : 2;
    char line[100];
    std::snprintf(line, sizeof line, "lending: had %.2f s in %.2f s", seconds(CLOCK_PROCESS_CPUTIME_ID), seconds(CLOCK_MONOTONIC) - began);
    say(line);
    return status;
}
