// A hash map over all ranks: each key has a rank, and functions run where their data are.
//
//     tutticxx -O2 -o hashmap examples/hashmap.cpp
//     mpiexec -n 4 ./hashmap 100000
#include <cstdio>
#include <cstdlib>
#include <unordered_map>

#include <tutti.hpp>

static tutti::dist<std::unordered_map<long, long>> table;

static int home(long key) { return static_cast<int>(key % tutti::ranks()); }

static void add(long key, long value)
{
    tutti::post(home(key), [](long k, long v) { (*table)[k] += v; }, key, value);
}

static tutti::task<long> sum(long keys)
{
    long total = 0;
    for (long key = 0; key < keys; ++key)
        total += co_await tutti::invoke_async(home(key), [](long k) { return (*table)[k]; }, key);
    co_return total;
}

int main(int argc, char **argv)
{
    const long keys = argc > 1 ? std::atol(argv[1]) : 100000;
    tutti::init();
    for (long key = 0; key < keys; ++key) add(key, key); // every rank adds to every key
    tutti::quiet();
    const long total = sum(keys).get();
    const bool is_right = total == tutti::ranks() * (keys * (keys - 1) / 2);
    if (tutti::this_rank() == 0) std::printf("%ld keys on %d ranks: %s\n", keys, tutti::ranks(), is_right ? "right" : "wrong");
    tutti::quit();
    return is_right ? 0 : 1;
}
