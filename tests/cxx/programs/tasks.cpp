// tutti.hpp: invocations, tasks, sync_var, what is refused at run time. Prints "tasks: ok".
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include <mpi.h>
#include "check.hpp"

struct point {
    int x;
    double y[2];
    std::array<char, 100> name;
    struct {
        short a;
        bool b;
    } more;
};

static int twice(int x) { return 2 * x; }
static tutti::dist<std::vector<int>> seen;
static tutti::dist<long> count;
static tutti::dist<tutti::sync_var<long>> box;

static void functions_run_at_their_rank()
{
    const int ranks = tutti::ranks();
    for (int rank = 0; rank < ranks; ++rank) {
        CHECK(tutti::invoke(rank, [] { return tutti::this_rank(); }) == rank);
        CHECK(tutti::invoke(rank, tutti::fn<twice>{}, 21) == 42);
        point p{1, {2, 3}, {}, {4, true}};
        p.name[99] = 'z';
        const point q = tutti::invoke(rank, [](const point &p) { return p; }, p);
        CHECK(q.x == 1 && q.y[1] == 3 && q.name[99] == 'z' && q.more.a == 4 && q.more.b);
        tutti::invoke(rank, [](char, double d, long, bool b) { CHECK(d == 0.5 && b); }, 'c', 0.5, 7L, true);
        CHECK(tutti::invoke(rank, [] { return std::array<char, 2048>{'a'}; })[0] == 'a');
    }
}

// More than 65535 calls cannot be open: main waits, a function is refused.
static void open_calls_are_bounded()
{
    const int last = tutti::ranks() - 1;
    long sum = 0;
    {
        std::vector<tutti::awaiter<int>> all;
        for (int call = 0; call < 66000; ++call) all.push_back(tutti::invoke_async(last, [](int x) { return x; }, call % 10));
        for (auto &one : all) sum += one.get();
    }
    CHECK(sum == 66000L / 10 * 45);
    tutti::meet();
    if (tutti::this_rank() == 0) {
        const bool is_refused = tutti::invoke(last, [] {
            std::vector<tutti::awaiter<void>> all;
            return fault_of([&all] {
                       for (;;) all.push_back(tutti::invoke_async(0, [] {}));
                   }) == tutti::fault::busy;
        });
        CHECK(is_refused);
    }
}

static void wrong_calls_throw()
{
    using tutti::fault;
    const int last = tutti::ranks() - 1;
    CHECK(fault_of([] { tutti::init(); }) == fault::closed);
    CHECK(fault_of([] { tutti::invoke(tutti::ranks(), [] {}); }) == fault::no_rank);
    CHECK(fault_of([] { tutti::post(-1, [] {}); }) == fault::no_rank);
    try {
        tutti::invoke(last, [](int x) { throw std::out_of_range("no element " + std::to_string(x)); }, 5);
        CHECK(false);
    } catch (const tutti::remote_error &thrown) {
        CHECK(thrown.rank() == last && thrown.type() == "std::out_of_range" && thrown.code() == fault::threw);
        CHECK(std::string(thrown.what()) == "no element 5");
    }
    try {
        tutti::invoke(last, [] { throw std::runtime_error(std::string(1000, 'x')); });
        CHECK(false);
    } catch (const tutti::remote_error &thrown) {
        CHECK(std::string(thrown.what()).find("xxx") == 0);
    }
    CHECK(fault_of([last] { tutti::invoke(last, [] { throw 5; }); }) == fault::threw);
    // What waits only main may.
    const auto waits = [] {
        const bool invokes = fault_of([] { tutti::invoke(0, [] {}); }) == fault::wait_in_function;
        const bool meets = fault_of([] { tutti::meet(); }) == fault::wait_in_function;
        const bool ends = fault_of([] { tutti::quit(); }) == fault::wait_in_function;
        return invokes && meets && ends;
    };
    CHECK(tutti::invoke(last, waits));
    std::thread([] { CHECK(fault_of([] { tutti::post(0, [] {}); }) == fault::wrong_thread); }).join();
}

// Around all ranks; each hop is a task at the next one.
static tutti::task<int> hop(int left)
{
    const int next = (tutti::this_rank() + 1) % tutti::ranks();
    if (left == 0) co_return 0;
    const int rest = co_await tutti::spawn(next, tutti::fn<hop>{}, left - 1);
    co_return rest + 1;
}

static tutti::task<long> sum_of(int rank, int calls)
{
    long sum = 0;
    for (int call = 0; call < calls; ++call) sum += co_await tutti::invoke_async(rank, [](int x) { return x; }, call);
    co_return sum;
}

static tutti::task<> nested(long &sum)
{
    for (int rank = 0; rank < tutti::ranks(); ++rank) sum += co_await sum_of(rank, 10);
}

static tutti::task<int> throws(int depth)
{
    const int here = depth;
    if (here == 0) co_await tutti::invoke_async(0, [] { throw std::domain_error("deep"); });
    else co_await throws(here - 1);
    co_return here;
}

static tutti::task<int> at_once()
{
    int value = 1;
    co_return value;
}

// As long as you like, and no stack upon a stack.
static tutti::task<long> many_at_once(long times)
{
    long sum = 0;
    for (long time = 0; time < times; ++time) sum += co_await at_once();
    co_return sum;
}

static void tasks_go_on()
{
    CHECK(hop(20).get() == 20);
    std::vector<tutti::task<long>> all;
    for (int number = 0; number < 100; ++number) {
        all.push_back(sum_of(number % tutti::ranks(), 5));
        all.back().start();
    }
    for (auto &one : all) CHECK(one.get() == 10);
    long sum = 0;
    nested(sum).get();
    CHECK(sum == 45L * tutti::ranks());
    try {
        throws(100).get();
        CHECK(false);
    } catch (const tutti::remote_error &thrown) {
        CHECK(thrown.type() == "std::domain_error" && std::string(thrown.what()) == "deep");
    }
    CHECK(fault_of([] { tutti::spawn(0, [](int d) { return throws(d); }, 3).get(); }) == tutti::fault::threw);
    CHECK(many_at_once(200000).get() == 200000);
}

static tutti::task<> notes(int number)
{
    for (int time = 0; time < 3; ++time) {
        seen->push_back(number);
        co_await tutti::yield();
    }
}

static void tasks_take_turns()
{
    auto one = notes(1), two = notes(2);
    seen->clear();
    one.start();
    two.start();
    one.get();
    two.get();
    CHECK((*seen == std::vector<int>{1, 2, 1, 2, 1, 2}));
}

static tutti::task<long> waits_for_value()
{
    const long value = co_await box->take();
    co_return value;
}

// Thousands of tasks wait for values that all ranks post.
static void values_wake_tasks()
{
    constexpr int tasks = 2000;
    const int ranks = tutti::ranks(), next = (tutti::this_rank() + 1) % ranks;
    std::vector<tutti::task<long>> all;
    for (int number = 0; number < tasks; ++number) {
        all.push_back(waits_for_value());
        all.back().start();
    }
    for (long number = 0; number < tasks; ++number) tutti::post(next, [](long v) { box->put(v); }, number);
    long sum = 0;
    for (auto &one : all) sum += one.get();
    CHECK(sum == tasks * (tasks - 1L) / 2 && box->size() == 0);
    // Values that nobody waits for are kept in their order.
    box->put(1);
    box->put(2);
    CHECK(box->take().get() == 1 && box->take().get() == 2);
    tutti::meet();
}

// What is destroyed while it is under way leaves nothing behind.
static void what_is_dropped_is_forgotten()
{
    const int last = tutti::ranks() - 1;
    for (int number = 0; number < 200; ++number) {
        (void)tutti::invoke_async(last, [](int x) { return x; }, number);
        auto never = waits_for_value();
        auto started = sum_of(last, 3);
        started.start();
        auto moved = std::make_unique<tutti::awaiter<int>>(tutti::invoke_async(last, [](int x) { return x; }, 4));
        tutti::awaiter<int> to(std::move(*moved));
        moved.reset();
        if (number % 100 == 0) CHECK(to.get() == 4);
    }
    {
        auto taken = waits_for_value();
        taken.start();
        tutti::meet();
    }
    tutti::post(tutti::this_rank(), [] { box->put(9); });
    tutti::quiet();
    CHECK(box->size() == 1 && box->take().get() == 9);
}

// Functions post on: a tree of posts from each rank. quiet returns when its last leaf has run.
static void grow(int depth)
{
    ++*count;
    if (depth == 0) return;
    for (int child = 1; child <= 2; ++child)
        tutti::post((tutti::this_rank() + child) % tutti::ranks(), tutti::fn<grow>{}, depth - 1);
}

static void quiet_sees_the_last_post()
{
    constexpr int depth = 7;
    *count = 0;
    tutti::meet();
    tutti::post(tutti::this_rank(), tutti::fn<grow>{}, int{depth});
    tutti::quiet();
    long all = 0;
    MPI_Allreduce(&*count, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    CHECK(all == tutti::ranks() * ((2L << depth) - 1));
}

int main()
{
    CHECK(fault_of([] { tutti::ranks(); }) == tutti::fault::closed);
    CHECK(fault_of([] { tutti::post(0, [] {}); }) == tutti::fault::closed);
    MPI_Init(nullptr, nullptr);
    for (int time = 0; time < 2; ++time) {
        tutti::init();
        const int me = tutti::this_rank();
        functions_run_at_their_rank();
        if (time == 0) {
            wrong_calls_throw();
            if (tutti::ranks() == 2) open_calls_are_bounded();
            tasks_go_on();
            tasks_take_turns();
            values_wake_tasks();
            what_is_dropped_is_forgotten();
            quiet_sees_the_last_post();
        }
        tutti::quit();
        if (me == 0 && time == 1) std::printf("tasks: ok\n");
    }
    MPI_Finalize();
}
