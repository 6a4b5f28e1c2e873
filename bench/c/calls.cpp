// Calls of functions at other ranks (tutti.hpp), beside MPI in the same run; two ranks, ours only.
//
//   calls [--budget-ms 100]
//
// what=quick: an empty quick function there and back, both ranks wait; `times`: of a message of 8 bytes there and back.
// what=ordinary: the same of an ordinary function. what=computing: of a quick one, while its rank computes.
// what=inserts: into a hash map of both ranks by posts; `times`: the rate of the same by MPI_Isend and MPI_Recv.
// what=task: co_await of a task that returns at once.
#include <array>
#include <atomic>
#include <unordered_map>

#include <mpi.h>
#include <tutti.hpp>

extern "C" {
#include "bench.h"
}

namespace {

tutti::dist<std::unordered_map<long, long>> table;
int rank = 0;

template <class F> samples measure(double budget_ms, F once)
{
    samples all = samples_new();
    const double trial = now_ns();
    for (int i = 0; i < 100; ++i) once();
    const plan cut = plan_for((now_ns() - trial) / 100, budget_ms);
    const double start = now_ns();
    for (int batch = 0; batch < cut.batches && now_ns() - start < 4 * budget_ms * 1e6; ++batch) {
        const double from = now_ns();
        for (int i = 0; i < cut.per_batch; ++i) once();
        samples_add(&all, (now_ns() - from) / cut.per_batch);
    }
    return all;
}

void print(const char *what, samples all, double beside_ns)
{
    const double median = samples_quantile(&all, 0.5);
    std::printf("calls what=%s median_ns=%.1f p99_ns=%.1f n=%zu", what, median, samples_quantile(&all, 0.99), all.count);
    if (beside_ns > 0) std::printf(" times=%.3f", median / beside_ns);
    std::printf("\n");
    std::free(all.ns);
}

// Rank 1 answers what rank 0 measures, until a message says that it is over.
double message_ns(double budget_ms)
{
    std::int64_t word = 0;
    const auto receive = [&word](int from) { MPI_Recv(&word, 1, MPI_INT64_T, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE); };
    if (rank == 1) {
        for (;;) {
            receive(0);
            if (word != 0) return 0;
            MPI_Send(&word, 1, MPI_INT64_T, 0, 0, MPI_COMM_WORLD);
        }
    }
    samples all = measure(budget_ms, [&] {
        MPI_Send(&word, 1, MPI_INT64_T, 1, 0, MPI_COMM_WORLD);
        receive(1);
    });
    word = 1;
    MPI_Send(&word, 1, MPI_INT64_T, 1, 0, MPI_COMM_WORLD);
    const double median = samples_quantile(&all, 0.5);
    std::free(all.ns);
    return median;
}

void round_trips(double budget_ms)
{
    const double beside_ns = message_ns(budget_ms);
    if (rank == 0) {
        print("quick", measure(budget_ms, [] { tutti::invoke(1, tutti::quick([] {})); }), beside_ns);
        print("ordinary", measure(budget_ms, [] { tutti::invoke(1, [] {}); }), beside_ns);
    }
    tutti::meet();
}

std::atomic<int> stops;

void computing(double budget_ms)
{
    if (rank == 0) {
        print("computing", measure(budget_ms, [] { tutti::invoke(1, tutti::quick([] {})); }), 0);
        tutti::invoke(1, tutti::quick([] { stops = 1; }));
    } else {
        while (stops == 0) work(1000);
    }
    tutti::meet();
}

constexpr long INSERTS = 200000;

long key_of(long i) { return static_cast<long>((static_cast<unsigned long>(i) * 0x9e3779b97f4a7c15UL) >> 20); }

double inserts_by_posts()
{
    table->clear();
    table->reserve(static_cast<std::size_t>(INSERTS) * 2);
    tutti::meet();
    const double start = now_ns();
    for (long i = rank; i < INSERTS; i += 2) {
        const long key = key_of(i);
        tutti::post(static_cast<int>(key & 1), [](long k, long v) { (*table)[k] += v; }, key, i);
    }
    tutti::quiet();
    return now_ns() - start;
}

struct insert {
    long key, value;
};

// The other rank's messages that are here; whether its last one is.
bool take_inserts()
{
    MPI_Status status;
    for (int is_here = 1;;) {
        MPI_Iprobe(1 - rank, MPI_ANY_TAG, MPI_COMM_WORLD, &is_here, &status);
        if (is_here == 0) return false;
        insert one;
        MPI_Recv(&one, 2, MPI_LONG, 1 - rank, status.MPI_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (status.MPI_TAG == 1) return true;
        (*table)[one.key] += one.value;
    }
}

double inserts_by_messages()
{
    constexpr int WINDOW = 64;
    std::array<insert, WINDOW> leaving;
    std::array<MPI_Request, WINDOW> requests;
    int under_way = 0;
    bool is_over = false;
    const auto finish = [&] {
        for (int is_done = 0; is_done == 0;) {
            MPI_Testall(under_way, requests.data(), &is_done, MPI_STATUSES_IGNORE);
            is_over |= take_inserts();
        }
        under_way = 0;
    };
    const auto send = [&](insert one, int tag) {
        leaving[static_cast<std::size_t>(under_way)] = one;
        insert &kept = leaving[static_cast<std::size_t>(under_way)];
        MPI_Isend(&kept, 2, MPI_LONG, 1 - rank, tag, MPI_COMM_WORLD, &requests[static_cast<std::size_t>(under_way++)]);
        if (under_way == WINDOW || tag == 1) finish();
    };
    table->clear();
    table->reserve(static_cast<std::size_t>(INSERTS) * 2);
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = now_ns();
    for (long i = rank; i < INSERTS; i += 2) {
        const long key = key_of(i);
        if ((key & 1) == rank) (*table)[key] += i;
        else send({key, i}, 0);
    }
    send({0, 0}, 1);
    while (!is_over) is_over = take_inserts();
    MPI_Barrier(MPI_COMM_WORLD);
    return now_ns() - start;
}

long sum()
{
    long total = 0;
    for (const auto &[key, value] : *table) total += key ^ value;
    return total;
}

bool inserts()
{
    double posts_ns = 1e18, messages_ns = 1e18;
    bool is_right = true;
    for (int round = 0; round < 3; ++round) {
        posts_ns = std::min(posts_ns, inserts_by_posts());
        const long expected = sum();
        messages_ns = std::min(messages_ns, inserts_by_messages());
        is_right &= sum() == expected;
    }
    if (rank == 0) std::printf("calls what=inserts rate_mps=%.3f times=%.3f\n", INSERTS / posts_ns * 1e3, messages_ns / posts_ns);
    return is_right;
}

tutti::task<int> ready() { co_return 1; }

tutti::task<long> many(int count)
{
    long total = 0;
    for (int i = 0; i < count; ++i) total += co_await ready();
    co_return total;
}

} // namespace

int main(int argc, char **argv)
{
    const double budget_ms = option_number(argc, argv, "--budget-ms", 100);
    tutti::init();
    rank = tutti::this_rank();
    if (tutti::ranks() != 2) {
        std::fprintf(stderr, "calls: %d ranks, expected 2\n", tutti::ranks());
        return 2;
    }
    round_trips(budget_ms);
    computing(budget_ms);
    const bool is_right = inserts();
    if (!is_right) std::fprintf(stderr, "calls: rank %d: the tables of posts and of messages differ\n", rank);
    if (rank == 0) {
        samples all = samples_new();
        for (int batch = 0; batch < 100; ++batch) {
            const double from = now_ns();
            many(1000).get();
            samples_add(&all, (now_ns() - from) / 1000);
        }
        print("task", all, 0);
    }
    tutti::quit();
    return is_right ? 0 : 1;
}
