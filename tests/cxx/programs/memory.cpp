// tutti.hpp: objects of other ranks by global_ptr, atomics, write_signal, what is refused. Prints "memory: ok".
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <vector>

#include "check.hpp"

struct point {
    int x;
    double y;
};

// The pointers of all ranks, by rank.
template <class T> static std::vector<tutti::global_ptr<T>> all_of(const tutti::global_ptr<T> &own)
{
    std::vector<tutti::global_ptr<T>> all;
    for (int rank = 0; rank < tutti::ranks(); ++rank) all.push_back(tutti::broadcast(own, rank).get());
    return all;
}

static void objects_are_read_and_written()
{
    const int me = tutti::this_rank(), ranks = tutti::ranks();
    const auto own = tutti::make<point>(static_cast<std::size_t>(ranks));
    CHECK(own.where() == me && own.local()[0].x == 0);
    const auto all = all_of(own);
    for (int rank = 0; rank < ranks; ++rank) {
        CHECK(all[static_cast<std::size_t>(rank)].where() == rank);
        tutti::write(all[static_cast<std::size_t>(rank)] + me, point{me, 0.5 * rank});
    }
    tutti::meet();
    for (int from = 0; from < ranks; ++from) CHECK(own.local()[from].x == from && own.local()[from].y == 0.5 * me);
    const tutti::global_ptr<const point> next = all[static_cast<std::size_t>((me + 1) % ranks)];
    CHECK(tutti::read(next + me).x == me && (next + 3) - next == 3 && next + 1 - 1 == next);
    std::vector<point> several(static_cast<std::size_t>(ranks));
    tutti::read(next, std::span(several));
    for (int from = 0; from < ranks; ++from) CHECK(several[static_cast<std::size_t>(from)].x == from);
    // Functions and quick functions may, too.
    CHECK(tutti::invoke(ranks - 1, [](tutti::global_ptr<point> p) { return tutti::read(p).y; }, own) == 0.5 * me);
    CHECK(tutti::invoke(ranks - 1, tutti::quick([](tutti::global_ptr<point> p) { return tutti::read(p).y; }), own) == 0.5 * me);
    tutti::meet();
    tutti::destroy(own);
    tutti::meet();
    CHECK(fault_of([&next] { tutti::read(next); }) == tutti::fault::freed);
    tutti::meet();
}

static void numbers_are_changed_by_all()
{
    constexpr int times = 300;
    const int ranks = tutti::ranks();
    const auto counter = tutti::broadcast(tutti::make<std::int64_t>(2), 0).get();
    const tutti::global_atomic<std::int64_t> sum(counter), most(counter + 1);
    for (int time = 0; time < times; ++time) {
        sum.fetch_add(1);
        std::int64_t seen = most.load();
        while (seen < time + tutti::this_rank() && !most.compare_exchange(seen, time + tutti::this_rank())) {}
    }
    tutti::meet();
    CHECK(sum.load() == times * ranks && most.load() == times - 1 + ranks - 1);
    tutti::meet();
    if (tutti::this_rank() == 0) CHECK(sum.exchange(5) == times * ranks && sum.load() == 5);
    tutti::meet();
}

// A rank that sees the sum sees what was written before.
static void signals_come_behind_what_was_written()
{
    constexpr std::size_t longs = 2000;
    const int me = tutti::this_rank(), ranks = tutti::ranks();
    const auto places = all_of(tutti::make<long>(longs));
    const auto words = all_of(tutti::make<std::int64_t>());
    const auto next = static_cast<std::size_t>((me + 1) % ranks), own = static_cast<std::size_t>(me);
    std::vector<long> values(longs);
    for (long round = 1; round <= 20; ++round) {
        std::iota(values.begin(), values.end(), round * me);
        tutti::write_signal(places[next], values, words[next], 1);
        CHECK(tutti_wait_until(words[own].local(), TUTTI_GE, round, TUTTI_ANY) == TUTTI_OK);
        const long before = (me + ranks - 1) % ranks;
        for (std::size_t at = 0; at < longs; ++at) CHECK(places[own].local()[at] == round * before + static_cast<long>(at));
        tutti::fence();
        tutti::meet();
    }
}

static void wrong_pointers_throw()
{
    using tutti::fault;
    const int me = tutti::this_rank(), ranks = tutti::ranks();
    const auto own = tutti::make<int>(10);
    const auto all = all_of(own);
    const auto next = all[static_cast<std::size_t>((me + 1) % ranks)];
    CHECK(fault_of([&next] { tutti::read(next + 10); }) == fault::out_of_range);
    CHECK(fault_of([&next] { tutti::read(next - 1); }) == fault::out_of_range);
    /* Its distance in bytes would begin again at the object. */
    CHECK(fault_of([&next] { tutti::read(next + (std::ptrdiff_t{1} << 62)); }) == fault::out_of_range);
    std::vector<int> eleven(11);
    CHECK(fault_of([&] { tutti::write(next, eleven); }) == fault::out_of_range);
    CHECK(fault_of([] { tutti::read(tutti::global_ptr<int>()); }) == fault::freed);
    CHECK(fault_of([] { (void)tutti::make<int>(0); }) == fault::no_memory);
    CHECK(fault_of([&own] { tutti::destroy(own + 1); }) == fault::out_of_range);
    if (ranks > 1) {
        CHECK(fault_of([&next] { tutti::destroy(next); }) == fault::not_own);
        CHECK(fault_of([&next] { (void)next.local(); }) == fault::not_own);
    }
    tutti::meet();
    CHECK(tutti::read(next) == 0);
    tutti::meet();
    tutti::destroy(own);
    CHECK(fault_of([&own] { tutti::destroy(own); }) == fault::freed);
}

int main()
{
    CHECK(fault_of([] { (void)tutti::make<int>(); }) == tutti::fault::closed);
    tutti::init();
    objects_are_read_and_written();
    numbers_are_changed_by_all();
    signals_come_behind_what_was_written();
    wrong_pointers_throw();
    const int me = tutti::this_rank();
    tutti::quit();
    if (me == 0) std::printf("memory: ok\n");
    return 0;
}
