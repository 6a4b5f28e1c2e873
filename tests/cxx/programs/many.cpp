// A million tasks that wait for values: their memory, and what is allocated by waiting and going on. Prints "many: ok".
#include <cstdio>
#include <cstdlib>
#include <new>
#include <vector>

#include <tutti.hpp>

namespace {

constexpr long TASKS = 1000000;
// Bytes of a task that waits, with what the compiler puts into it.
constexpr long BYTES_MAX = 200;

long allocations = 0, bytes = 0;

void expect(bool holds, const char *what, long found)
{
    if (holds) return;
    std::fprintf(stderr, "%s: %ld\n", what, found);
    std::exit(1);
}

} // namespace

void *operator new(std::size_t size)
{
    ++allocations;
    bytes += static_cast<long>(size);
    if (void *memory = std::malloc(size)) return memory;
    throw std::bad_alloc();
}
void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, std::size_t) noexcept { std::free(memory); }

namespace {

tutti::dist<tutti::sync_var<long>> box;
tutti::dist<tutti::fifo<long>> line(1);

tutti::task<long> takes()
{
    const long value = co_await box->take();
    co_return value;
}

tutti::task<long> takes_in_line()
{
    const long value = co_await line->take();
    co_return value;
}

// Runs behind all that is ready.
tutti::task<int> last()
{
    int value = 1;
    co_return value;
}

// Makes them wait, gives each its value, and looks at what each step has allocated.
template <class Make, class Put> void wait_and_go_on(const char *what, Make make, Put put)
{
    std::vector<tutti::task<long>> all;
    all.reserve(TASKS);
    allocations = bytes = 0;
    for (long number = 0; number < TASKS; ++number) all.push_back(make());
    expect(allocations == TASKS, what, allocations);
    expect(bytes <= TASKS * BYTES_MAX, what, bytes);
    allocations = 0;
    for (auto &one : all) one.start();
    last().get();
    expect(allocations < 10, "allocations of tasks that begin to wait", allocations);
    allocations = 0;
    // The first half gets values, in the order in which they have begun; the others are dropped while they wait.
    for (long number = 0; number < TASKS / 2; ++number) put(number);
    for (long number = 0; number < TASKS / 2; ++number) {
        const long found = all[static_cast<std::size_t>(number)].get();
        expect(found == number, "a value in another order", found);
    }
    expect(allocations < 10, "allocations of tasks that go on", allocations);
    if (tutti::this_rank() == 0) std::printf("%s: %ld bytes, %ld allocations\n", what, bytes / TASKS, allocations);
}

} // namespace

int main()
{
    tutti::init();
    wait_and_go_on("sync_var", takes, [](long value) { box->put(value); });
    wait_and_go_on("fifo", takes_in_line, [](long value) { expect(line->try_put(value), "no room", value); });
    expect(box->size() == 0 && line->size() == 0, "values are left", 0);
    const int me = tutti::this_rank();
    tutti::quit();
    if (me == 0) std::printf("many: ok\n");
}
