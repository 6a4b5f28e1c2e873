// EP and BAR of gang.c written as SCore-D's paper had them: threads and remote invocations, here those of tutti.hpp.
//
//   gang_invoke ep [--budget-ms 3000]   each rank computes alone: pieces of work in that time
//   gang_invoke bar [--budget-ms 3000]  nothing but barriers, each a binary shuffle of invocations: how long one takes
//   ... --at NS                         as of gang.c
#include <array>
#include <cerrno>

#include <tutti.hpp>

extern "C" {
#include "bench.h"
}

namespace {

enum { PIECE = 20000, ROUNDS_MAX = 20 };

// Arrivals of each round of the shuffle.
tutti::dist<std::array<tutti::sync_var<char>, ROUNDS_MAX>> arrived;

volatile std::uint64_t sink;

// A rank tells the one that stands 2^k behind it, and waits for the one that stands so far before it, for all k.
// Barriers of one pair come in order, so a round of the next one cannot be taken for one of this.
tutti::task<void> shuffle()
{
    const int me = tutti::this_rank(), ranks = tutti::ranks();
    for (int k = 0; 1 << k < ranks; ++k) {
        tutti::post((me + (1 << k)) % ranks, [](int round) { (*arrived)[static_cast<std::size_t>(round)].put(1); }, k);
        co_await (*arrived)[static_cast<std::size_t>(k)].take();
    }
}

// When to begin: all together, at this moment if it is one; 0: it is over for one of them.
double begin(double at_ns)
{
    tutti::meet();
    const double now = now_ns();
    if (at_ns <= 0) return now;
    const int late = tutti::reduce(static_cast<int>(now > at_ns), [](int one, int other) { return one | other; }).get();
    if (late != 0) return 0;
    const auto at = static_cast<std::uint64_t>(at_ns);
    const timespec then = {static_cast<time_t>(at / 1000000000), static_cast<long>(at % 1000000000)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &then, nullptr) == EINTR) {}
    return at_ns;
}

void ep(double start, double budget_ms, bool is_common)
{
    double pieces = 0, now = now_ns();
    for (; now - start < budget_ms * 1e6; now = now_ns()) {
        sink = work(PIECE);
        pieces += 1;
    }
    // Who is not on at the end of a common time looks at the clock later.
    pieces /= is_common ? budget_ms * 1e-3 : (now - start) * 1e-9;
    const double all = tutti::reduce(pieces, [](double one, double other) { return one + other; }).get();
    if (tutti::this_rank() == 0) std::printf("gang_invoke what=ep ranks=%d pieces_per_s=%.2f\n", tutti::ranks(), all);
}

void bar(double start, double budget_ms, bool is_common)
{
    int count = 0;
    for (int more = 1; more != 0;) {
        for (int i = 0; i < 50; ++i, ++count) shuffle().get();
        more = tutti::broadcast(static_cast<int>(now_ns() - start < budget_ms * 1e6), 0).get();
    }
    const double took = is_common ? budget_ms * 1e6 : now_ns() - start;
    if (tutti::this_rank() == 0) std::printf("gang_invoke what=bar ranks=%d mean_ns=%.1f n=%d\n", tutti::ranks(), took / count, count);
}

} // namespace

int main(int argc, char **argv)
{
    tutti::init();
    const double budget_ms = option_number(argc, argv, "--budget-ms", 3000), at_ns = option_number(argc, argv, "--at", 0);
    const double start = begin(at_ns);
    if (start <= 0) {
        if (tutti::this_rank() == 0) std::printf("gang_invoke late=1\n");
    } else if (option(argc, argv, "bar")) bar(start, budget_ms, at_ns > 0);
    else ep(start, budget_ms, at_ns > 0);
    // The end of everything that was sent, as the program is told it.
    tutti::quiet();
    tutti::quit();
    return 0;
}
