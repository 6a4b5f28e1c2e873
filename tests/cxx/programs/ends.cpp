// tutti.hpp: how calls of a service end when anybody is killed. Server and client kill themselves (SIGKILL) from
// a thread of theirs, so at any instruction, after so many calls as follow from a seed.
// "serve NAME LOG SEED": writes a line "CLIENT NUMBER" into the log for each call that runs.
// "call NAME LOG SEED CLIENT CALLS": writes a line "NUMBER OUTCOME" for each call that ends. SEED 0: nobody kills
// itself. LOG-longest has the ms of its longest call from then on. "stop NAME": ends the server.
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>

#include <tutti.hpp>

using namespace std::chrono_literals;

// Kills this process a little after so many calls.
class fate {
  public:
    explicit fate(unsigned long seed) : random_(seed), calls_(seed == 0 ? -1 : 20 + static_cast<long>(random_() % 60)) {}
    void one_more()
    {
        if (calls_ < 0 || calls_-- > 0) return;
        calls_ = -1;
        std::thread([turns = random_() % 200000] {
            for (volatile unsigned long turn = 0; turn < turns;) turn = turn + 1;
            kill(getpid(), SIGKILL);
        }).detach();
    }

  private:
    std::mt19937_64 random_;
    long calls_;
};

static int log_at(const char *path)
{
    const int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (file < 0) {
        std::perror(path);
        std::exit(1);
    }
    return file;
}

static void note(int file, const std::string &line)
{
    // One write: whole, or not at all.
    if (write(file, line.data(), line.size()) != static_cast<ssize_t>(line.size())) std::abort();
}

static void serve(const std::string &name, const char *log, unsigned long seed)
{
    const int file = log_at(log);
    fate fate(seed);
    tutti::service numbers(name);
    numbers.add("note", [&](const std::string &client, long number) {
        fate.one_more();
        note(file, client + " " + std::to_string(number) + "\n");
        return number;
    });
    numbers.add("stop", [&numbers] { numbers.stop(); });
    numbers.serve();
}

// What has come of a call; "again": nobody was there to be asked.
static const char *outcome_of(std::unique_ptr<tutti::client> &connection, const std::string &name, const std::string &client, long number)
{
    try {
        if (!connection) connection = std::make_unique<tutti::client>(name, 5s);
    } catch (const tutti::error &) {
        std::this_thread::sleep_for(2ms);
        return "again";
    }
    try {
        const long got = connection->within(60s).call<long>("note", client, number);
        return got == number ? "answered" : "wrong";
    } catch (const tutti::error &end) {
        connection.reset();
        if (end.code() == tutti::fault::lost) return "lost";
        if (end.code() == tutti::fault::gone || end.code() == tutti::fault::busy) return "refused";
        std::fprintf(stderr, "call %ld of %s: %s\n", number, client.c_str(), end.what());
        return "wrong";
    }
}

int main(int argc, char **argv)
{
    if (argc < 3) return 2;
    const std::string what = argv[1], name = argv[2];
    if (what == "serve" && argc == 5) serve(name, argv[3], std::strtoul(argv[4], nullptr, 10));
    else if (what == "stop") tutti::client(name).call("stop");
    else if (what == "call" && argc == 7) {
        const int file = log_at(argv[3]);
        fate fate(std::strtoul(argv[4], nullptr, 10));
        const std::string client = argv[5];
        const int times = log_at((std::string(argv[3]) + "-longest").c_str());
        auto longest = 0ms;
        const auto until = std::chrono::steady_clock::now() + 120s;
        std::unique_ptr<tutti::client> connection;
        for (long number = 0, calls = std::atol(argv[6]); number < calls;) {
            const auto begin = std::chrono::steady_clock::now();
            const std::string outcome = outcome_of(connection, name, client, number);
            const auto took = std::chrono::ceil<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin);
            if (outcome == "again") {
                if (std::chrono::steady_clock::now() < until) continue;
                std::fprintf(stderr, "call %ld of %s: no service for so long\n", number, client.c_str());
                return 1;
            }
            note(file, std::to_string(number) + " " + outcome + "\n");
            if (took > longest) {
                longest = took;
                note(times, std::to_string(took.count()) + " " + outcome + "\n");
            }
            ++number;
            fate.one_more();
        }
    } else return 2;
    return 0;
}
