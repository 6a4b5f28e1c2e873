// Work stealing: an unbalanced tree, whose nodes are counted by all ranks. A rank without work takes half of another one's by a
// quick function, which runs while that one computes.
//
//     tutticxx -O2 -o steal examples/steal.cpp
//     mpiexec -n 4 ./steal 12
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <mutex>
#include <vector>

#include <tutti.hpp>

struct node {
    unsigned long seed;
    int depth;
};

// Both are used by quick functions, too: they run beside main.
static std::mutex guard;
static std::deque<node> nodes;
static int idle; // of rank 0: how many ranks have no work

static unsigned long mix(unsigned long x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9UL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebUL;
    return x ^ (x >> 31);
}

// Counts a node and adds its children, none to five.
static bool count_one(long &counted)
{
    const std::lock_guard<std::mutex> lock(guard);
    if (nodes.empty()) return false;
    const node next = nodes.back();
    nodes.pop_back();
    ++counted;
    if (next.depth == 0) return true;
    const unsigned long children = next.seed % 6;
    for (unsigned long child = 1; child <= children; ++child) nodes.push_back({mix(next.seed + child), next.depth - 1});
    return true;
}

static std::vector<node> give_half()
{
    const std::lock_guard<std::mutex> lock(guard);
    const auto half = static_cast<std::ptrdiff_t>(std::min<std::size_t>((nodes.size() + 1) / 2, 100));
    std::vector<node> given(nodes.begin(), nodes.begin() + half);
    nodes.erase(nodes.begin(), nodes.begin() + half);
    return given;
}

static int change_idle(int by)
{
    const std::lock_guard<std::mutex> lock(guard);
    return idle += by;
}

// Nodes of the others; none when all ranks are idle. A rank that takes work is busy before the work has left its place.
static bool steal()
{
    const int me = tutti::this_rank(), ranks = tutti::ranks();
    int all_idle = tutti::invoke(0, tutti::quick(tutti::fn<change_idle>{}), 1);
    while (all_idle < ranks) {
        for (int step = 1; step < ranks; ++step) {
            const int victim = (me + step) % ranks;
            const auto size = [] {
                const std::lock_guard<std::mutex> lock(guard);
                return nodes.size();
            };
            if (tutti::invoke(victim, tutti::quick(size)) == 0) continue;
            tutti::invoke(0, tutti::quick(tutti::fn<change_idle>{}), -1);
            const std::vector<node> stolen = tutti::invoke(victim, tutti::quick(tutti::fn<give_half>{}));
            if (!stolen.empty()) {
                const std::lock_guard<std::mutex> lock(guard);
                nodes.insert(nodes.end(), stolen.begin(), stolen.end());
                return true;
            }
            tutti::invoke(0, tutti::quick(tutti::fn<change_idle>{}), 1);
        }
        all_idle = tutti::invoke(0, tutti::quick(tutti::fn<change_idle>{}), 0);
    }
    return false;
}

int main(int argc, char **argv)
{
    const int depth = argc > 1 ? std::atoi(argv[1]) : 12;
    tutti::init();
    if (tutti::this_rank() == 0) nodes.push_back({5, depth});
    tutti::meet();
    long counted = 0, thefts = 0;
    do
        while (count_one(counted)) {}
    while (steal() && ++thefts > 0);
    const long all = tutti::reduce(counted, std::plus<>{}).get();
    const long all_thefts = tutti::reduce(thefts, std::plus<>{}).get();
    if (tutti::this_rank() == 0) std::printf("%ld nodes, %ld thefts\n", all, all_thefts);
    tutti::quit();
}
