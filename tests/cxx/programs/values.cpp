// tutti.hpp: strings, vectors and views that travel, quick functions, fifo, peek, reduce, broadcast. Prints "values: ok".
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "check.hpp"

struct point {
    int x;
    double y;
};
using strings = std::vector<std::string>;
using nested = std::tuple<int, std::string, std::optional<std::vector<std::pair<short, std::string>>>>;

static std::string text_of(std::size_t bytes)
{
    std::string text(bytes, ' ');
    for (std::size_t at = 0; at < bytes; ++at) text[at] = static_cast<char>('a' + (at * 7 + at / 26) % 26);
    return text;
}

static std::string joined(const strings &all, char between)
{
    std::string text;
    for (const std::string &one : all) text += one + between;
    return text;
}

static void values_come_as_they_were()
{
    for (int rank = 0; rank < tutti::ranks(); ++rank) {
        const auto same = [rank](auto value) {
            const auto mirror = [](const decltype(value) &v) { return v; };
            return tutti::invoke(rank, mirror, value) == value;
        };
        for (const std::size_t bytes : {0, 1, 191, 200, 2040, 2048, 2049, 5000, 300000}) CHECK(same(text_of(bytes)));
        CHECK(same(std::vector<double>{1, 2.5, -3}) && same(std::vector<double>(100000, 0.25)) && same(std::vector<int>()));
        CHECK(same(strings{"one", "", text_of(3000), "four"}) && same(strings(5000, "x")) && same(std::vector<bool>{true, false, true}));
        CHECK(same(std::optional<int>()) && same(std::optional<int>(7)) && same(std::optional<std::string>("seven")));
        CHECK(same(std::pair<char, long>('c', 9)) && same(std::tuple<>()) && same(std::u16string(u"wide")));
        CHECK(same(nested{1, "two", std::nullopt}) && same(nested{1, "two", {{{3, "four"}, {5, text_of(999)}}}}));
        CHECK(same(std::array<std::string, 3>{"a", text_of(2500), "c"}) && same(std::vector<std::vector<int>>{{1}, {}, {2, 3}}));
        CHECK(tutti::invoke(rank, tutti::fn<joined>{}, strings{"a", "b"}, '+') == "a+b+");
    }
}

// Views are of the message; they are aligned, also behind strings of any length, and live as long as a task.
static void views_see_the_message()
{
    const int last = tutti::ranks() - 1;
    std::vector<double> numbers(3000);
    for (std::size_t at = 0; at < numbers.size(); ++at) numbers[at] = static_cast<double>(at);
    const auto sum = [](std::string_view text, std::span<const double> all, char c) {
        CHECK(reinterpret_cast<std::uintptr_t>(all.data()) % alignof(double) == 0 && c == '!');
        double total = static_cast<double>(text.size());
        for (const double one : all) total += one;
        return total;
    };
    for (const std::size_t bytes : {0, 1, 5, 8, 1001}) {
        const std::string text = text_of(bytes);
        CHECK(tutti::invoke(last, sum, std::string_view(text), std::span(numbers), '!') == 2999.0 * 1500 + static_cast<double>(bytes));
        const std::span<const double> few = std::span(numbers).first(10);
        CHECK(tutti::invoke(last, sum, std::string_view(text), few, '!') == 45 + static_cast<double>(bytes));
    }
    const auto later = [](std::string_view text, const std::string &more, std::span<const double> all) -> tutti::task<std::string> {
        std::string result;
        for (int time = 0; time < 5; ++time) {
            co_await tutti::invoke_async(0, [] { return 1; });
            result = std::string(text) + more + std::to_string(all.size());
        }
        co_return result;
    };
    CHECK(tutti::spawn(last, later, std::string_view("view"), std::string("string"), std::span(numbers)).get() == "viewstring3000");
}

static void too_much_is_refused()
{
    const int last = tutti::ranks() - 1;
    CHECK(fault_of([last] { tutti::invoke(last, [](const std::string &) {}, std::string(TUTTI_CALL_LONG_MAX, 'x')); }) ==
          tutti::fault::too_long);
    CHECK(fault_of([last] { tutti::invoke(last, tutti::quick([](std::string_view) {}), text_of(2048)); }) == tutti::fault::too_long);
    try {
        tutti::invoke(last, tutti::quick([] { return text_of(2048); }));
        CHECK(false);
    } catch (const tutti::remote_error &thrown) {
        CHECK(thrown.type() == "std::length_error" && std::string(thrown.what()) == "the result has 2056 bytes, of 2048 that may travel");
    }
    CHECK(tutti::invoke(last, tutti::quick([] { return text_of(2040); })) == text_of(2040));
}

static std::atomic<int> marks;
static std::mutex guard;
static std::vector<int> guarded;
static tutti::sync_var<int> box;

// main makes no call of the library until quick functions of all ranks have run.
static void quick_functions_run_beside_main()
{
    constexpr int posts = 100;
    const int ranks = tutti::ranks();
    marks = 0;
    guarded.clear();
    tutti::meet();
    const auto mark = [](int number, int from) {
        CHECK(tutti::this_rank() < tutti::ranks() && number >= 0);
        const std::lock_guard<std::mutex> lock(guard);
        guarded.push_back(from);
        ++marks;
    };
    for (int rank = 0; rank < ranks; ++rank)
        for (int number = 0; number < posts; ++number) tutti::post(rank, tutti::quick(mark), number, tutti::this_rank());
    while (marks < ranks * posts) std::this_thread::yield();
    CHECK(static_cast<int>(guarded.size()) == ranks * posts);
    const auto refuse = [] {
        const auto is_refused = [](auto f) { return fault_of(f) == tutti::fault::wait_in_function; };
        return is_refused([] { tutti::invoke(0, [] {}); }) && is_refused([] { (void)tutti::invoke_async(0, [] {}); }) &&
               is_refused([] { tutti::meet(); }) && is_refused([] { box.put(1); }) &&
               is_refused([] { (void)tutti::reduce(1, std::plus<>{}); });
    };
    CHECK(tutti::invoke(ranks - 1, tutti::quick(refuse)));
    // What concerns tasks goes on as an ordinary function.
    tutti::post(tutti::this_rank(), tutti::quick([] { tutti::post(tutti::this_rank(), [] { box.put(5); }); }));
    CHECK(box.take().get() == 5);
    CHECK(fault_of([ranks] { tutti::invoke(ranks - 1, tutti::quick([] { throw std::logic_error("quick"); })); }) == tutti::fault::threw);
    tutti::meet();
}

static tutti::task<int> peeks()
{
    const int seen = co_await box.peek();
    co_return seen;
}

static void values_are_looked_at()
{
    auto one = peeks(), two = peeks();
    one.start();
    two.start();
    tutti::post(tutti::this_rank(), [] { CHECK(box.try_put(3) && !box.try_put(4)); });
    CHECK(one.get() == 3 && two.get() == 3 && box.size() == 1);
    CHECK(box.peek().get() == 3 && box.take().get() == 3 && box.size() == 0);
}

static tutti::task<> produces(tutti::fifo<std::string> &to, int count)
{
    for (int number = 0; number < count; ++number) {
        co_await to.put(std::to_string(number));
        CHECK(to.size() <= to.capacity());
    }
}

static tutti::task<long> consumes(tutti::fifo<std::string> &from, int count)
{
    long sum = 0;
    for (int number = 0; number < count; ++number) {
        const std::string found = co_await from.take();
        CHECK(found == std::to_string(number));
        sum += std::stol(found);
        if (number % 7 == 0) co_await tutti::yield();
    }
    co_return sum;
}

static void fifo_bounds_what_is_in_it()
{
    for (const std::size_t capacity : {1, 3, 1000}) {
        tutti::fifo<std::string> pipe(capacity);
        auto from = produces(pipe, 200);
        auto to = consumes(pipe, 200);
        if (capacity == 3) to.start();
        from.start();
        CHECK(to.get() == 199 * 100 && from.is_done() && pipe.size() == 0);
        CHECK(pipe.try_put("a") && pipe.try_take() == "a" && !pipe.try_take());
        pipe.put("b").get();
        CHECK(pipe.try_put("c") == (capacity > 1) && pipe.take().get() == "b");
        // What is dropped waits no longer.
        {
            auto never = produces(pipe, 2000);
            never.start();
            tutti::meet();
        }
        while (pipe.try_take()) {}
        CHECK(pipe.size() == 0);
    }
    try {
        tutti::fifo<int> none(0);
        CHECK(false);
    } catch (const std::invalid_argument &) {
    }
}

static tutti::task<long> reduces(long rounds)
{
    long sum = 0;
    for (long round = 0; round < rounds; ++round) sum += co_await tutti::reduce(round + tutti::this_rank(), std::plus<>{});
    co_return sum;
}

static void collectives_give_all_ranks_the_same()
{
    const int me = tutti::this_rank(), ranks = tutti::ranks();
    CHECK(tutti::reduce(me, std::plus<>{}).get() == ranks * (ranks - 1) / 2);
    CHECK(tutti::reduce(me, [](int a, int b) { return a > b ? a : b; }).get() == ranks - 1);
    CHECK(tutti::reduce(std::string(1, 'x'), std::plus<>{}).get() == std::string(static_cast<std::size_t>(ranks), 'x'));
    const auto both = [](std::vector<int> a, const std::vector<int> &b) {
        a.insert(a.end(), b.begin(), b.end());
        return a;
    };
    CHECK(tutti::reduce(std::vector<int>(1000, me), both).get().size() == 1000 * static_cast<std::size_t>(ranks));
    for (int root = 0; root < ranks; ++root) {
        const strings found = tutti::broadcast(me == root ? strings{"from", std::to_string(root)} : strings(), root).get();
        CHECK((found == strings{"from", std::to_string(root)}));
    }
    CHECK(fault_of([ranks] { (void)tutti::broadcast(1, ranks); }) == tutti::fault::no_rank);
    // Several at the same time, ended in another order than begun.
    const auto one = tutti::reduce(1, std::plus<>{}), two = tutti::reduce(2, std::plus<>{});
    const auto three = tutti::broadcast(me, 0);
    CHECK(three.get() == 0 && two.get() == 2 * ranks && one.get() == ranks);
    CHECK(reduces(50).get() == 50L * ranks * (ranks - 1) / 2 + ranks * 49L * 25);
    (void)tutti::reduce(1, std::plus<>{}).await_ready();
}

int main()
{
    tutti::init();
    values_come_as_they_were();
    views_see_the_message();
    too_much_is_refused();
    quick_functions_run_beside_main();
    values_are_looked_at();
    fifo_bounds_what_is_in_it();
    collectives_give_all_ranks_the_same();
    const int me = tutti::this_rank();
    tutti::quit();
    if (me == 0) std::printf("values: ok\n");
    return 0;
}
