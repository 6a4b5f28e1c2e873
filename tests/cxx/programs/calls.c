/* The C interface of remote invocation: answers, order, credit, sums of meetings, quick functions, packed posts, long arguments, what is
 * refused. Prints "calls: ok". */
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti_call.h>

#define CHECK(condition)                                                                        \
    do {                                                                                        \
        if (!(condition)) {                                                                     \
            fprintf(stderr, "rank %d: %s:%d: %s\n", me, __FILE__, __LINE__, #condition);        \
            exit(1);                                                                            \
        }                                                                                       \
    } while (0)

enum { ROUNDS = 200, POSTS = 1500, RANKS_MAX = 64 };

static int me, ranks;
static int64_t next_from[RANKS_MAX];
static int64_t taken, echoed;
static int inside;

static const tutti_descriptor sum_function, note_function, spread_function, echo_function, probe_function, rude_function;
static const tutti_descriptor mirror_function, mark_function, return_function;
static atomic_int marks;

static void sum(const void *arguments, size_t bytes, tutti_reply reply)
{
    int64_t numbers[2], result;
    CHECK(bytes == sizeof numbers);
    memcpy(numbers, arguments, sizeof numbers);
    result = numbers[0] + numbers[1];
    CHECK(tutti_call_answer(reply, TUTTI_OK, &result, sizeof result) == TUTTI_OK);
}

/* Posts of each rank come in their order. */
static void note(const void *arguments, size_t bytes, tutti_reply reply)
{
    int64_t from[2];
    CHECK(bytes >= sizeof from && reply.to == -1);
    memcpy(from, arguments, sizeof from);
    CHECK(next_from[from[0]] == from[1]);
    next_from[from[0]]++;
    taken++;
    CHECK(tutti_call_answer(reply, TUTTI_OK, NULL, 0) == TUTTI_OK);
}

static void echo(const void *arguments, size_t bytes, tutti_reply reply)
{
    (void)arguments;
    CHECK(bytes == 0);
    echoed++;
    CHECK(tutti_call_answer(reply, TUTTI_OK, NULL, 0) == TUTTI_OK);
}

/* A function posts far more than it has credit for. */
static void spread(const void *arguments, size_t bytes, tutti_reply reply)
{
    (void)arguments;
    (void)bytes;
    for (int post = 0; post < POSTS; post++)
        for (int rank = 0; rank < ranks; rank++) CHECK(tutti_call_send(rank, &echo_function, 0, NULL, 0, 0, NULL) == TUTTI_OK);
    CHECK(tutti_call_answer(reply, TUTTI_OK, NULL, 0) == TUTTI_OK);
}

/* What a function may not do, and an answer without room, is refused and changes nothing. */
static void probe(const void *arguments, size_t bytes, tutti_reply reply)
{
    static const char long_text[TUTTI_CALL_BYTES_MAX + 1];
    inside = 1;
    CHECK(bytes == TUTTI_CALL_BYTES_MAX && reply.room == TUTTI_CALL_BYTES_MAX);
    CHECK(tutti_call_progress(0) == TUTTI_ERR_BUSY && tutti_call_quit() == TUTTI_ERR_BUSY);
    CHECK(tutti_call_answer(reply, TUTTI_OK, long_text, sizeof long_text) == TUTTI_ERR_LONG);
    CHECK(tutti_call_answer(reply, TUTTI_OK, arguments, bytes) == TUTTI_OK);
}

static void rude(const void *arguments, size_t bytes, tutti_reply reply)
{
    (void)arguments;
    (void)bytes;
    CHECK(tutti_call_answer(reply, TUTTI_THREW, "no", 2) == TUTTI_OK);
}

/* Gives back what it has got. */
static void mirror(const void *arguments, size_t bytes, tutti_reply reply)
{
    CHECK((uintptr_t)arguments % 8 == 0 || bytes == 0);
    CHECK(tutti_call_answer(reply, TUTTI_OK, arguments, bytes) == TUTTI_OK);
}

/* Quick: counts; what waits is refused, and what is sent leaves. */
static void mark(const void *arguments, size_t bytes, tutti_reply reply)
{
    int64_t none[2] = {0, 0};
    (void)arguments;
    CHECK(bytes == 8 && tutti_call_rank() == me && tutti_call_ranks() == ranks);
    CHECK(tutti_call_progress(0) == TUTTI_ERR_BUSY && tutti_call_arrive() == TUTTI_ERR_BUSY && tutti_call_quit() == TUTTI_ERR_BUSY);
    CHECK(tutti_call_send(me, &echo_function, 0, none, 0, 0, NULL) == TUTTI_OK);
    CHECK(tutti_call_answer(reply, TUTTI_OK, NULL, 0) == TUTTI_OK);
    atomic_fetch_add(&marks, 1);
}

/* Ordinary: sets a mark at the rank that it names, which computes. */
static void give_back(const void *arguments, size_t bytes, tutti_reply reply)
{
    int64_t to;
    CHECK(bytes == sizeof to);
    memcpy(&to, arguments, sizeof to);
    CHECK(tutti_call_send((int)to, &mark_function, TUTTI_CALL_QUICK, &to, sizeof to, 0, NULL) == TUTTI_OK);
    CHECK(tutti_call_answer(reply, TUTTI_OK, NULL, 0) == TUTTI_OK);
}

static const tutti_descriptor sum_function = {TUTTI_CALL_MAGIC, 1, sum, "sum"};
static const tutti_descriptor note_function = {TUTTI_CALL_MAGIC, 2, note, "note"};
static const tutti_descriptor spread_function = {TUTTI_CALL_MAGIC, 3, spread, "spread"};
static const tutti_descriptor echo_function = {TUTTI_CALL_MAGIC, 4, echo, "echo"};
static const tutti_descriptor probe_function = {TUTTI_CALL_MAGIC, 5, probe, "probe"};
static const tutti_descriptor rude_function = {TUTTI_CALL_MAGIC, 6, rude, "rude"};
static const tutti_descriptor mirror_function = {TUTTI_CALL_MAGIC, 7, mirror, "mirror"};
static const tutti_descriptor mark_function = {TUTTI_CALL_MAGIC, 8, mark, "mark"};
static const tutti_descriptor return_function = {TUTTI_CALL_MAGIC, 9, give_back, "return"};

typedef struct waiting {
    tutti_answer answer;
    int ended, status;
    size_t bytes;
    char data[TUTTI_CALL_BYTES_MAX];
} waiting;

static void ended(tutti_answer *answer, int status, const void *data, size_t bytes)
{
    waiting *one = (waiting *)answer;
    CHECK(!one->ended && bytes <= sizeof one->data);
    one->ended = 1;
    one->status = status;
    one->bytes = bytes;
    memcpy(one->data, data, bytes);
}

typedef struct long_waiting {
    tutti_answer answer;
    char *into;
    size_t bytes;
    int ended;
} long_waiting;

static void long_ended(tutti_answer *answer, int status, const void *data, size_t bytes)
{
    long_waiting *one = (long_waiting *)answer;
    CHECK(status == TUTTI_OK && !one->ended);
    memcpy(one->into, data, bytes);
    one->bytes = bytes;
    one->ended = 1;
}

static void await(waiting *one)
{
    while (!one->ended) CHECK(tutti_call_progress(1) >= 0);
}

static void meet(uint64_t sums[2])
{
    CHECK(tutti_call_progress(0) >= 0 && tutti_call_arrive() == TUTTI_OK);
    while (tutti_call_arrived(sums) == TUTTI_PENDING) CHECK(tutti_call_progress(1) >= 0);
}

/* Until two meetings, with a look at what has come between them, find that as many functions have ended as were sent. */
static void quiet(void)
{
    uint64_t before[2] = {1, 0}, sums[2] = {2, 0};
    while (sums[0] != sums[1] || before[0] != sums[0] || before[1] != sums[1]) {
        memcpy(before, sums, sizeof sums);
        meet(sums);
    }
}

static void answers_come(void)
{
    static waiting all[ROUNDS];
    for (int rank = 0; rank < ranks; rank++) {
        for (int round = 0; round < ROUNDS; round++) {
            int64_t numbers[2] = {round, 1000 * rank};
            memset(&all[round], 0, sizeof all[round]);
            all[round].answer.ended = ended;
            CHECK(tutti_call_send(rank, &sum_function, 0, numbers, sizeof numbers, 8, &all[round].answer) == TUTTI_OK);
        }
        CHECK(tutti_call_open_calls() == ROUNDS);
        for (int round = 0; round < ROUNDS; round++) {
            int64_t result;
            await(&all[round]);
            memcpy(&result, all[round].data, sizeof result);
            CHECK(all[round].status == TUTTI_OK && all[round].bytes == 8 && result == round + 1000 * rank);
        }
        CHECK(tutti_call_open_calls() == 0);
    }
}

/* Packed ones and those that leave alone, mixed. */
static void posts_keep_their_order(void)
{
    static char message[TUTTI_CALL_BYTES_MAX];
    for (int64_t post = 0; post < POSTS; post++) {
        int64_t from[2] = {me, post};
        size_t bytes = sizeof from + (size_t)(post * 7919 % (int64_t)(sizeof message - sizeof from + 1));
        memcpy(message, from, sizeof from);
        for (int rank = 0; rank < ranks; rank++)
            CHECK(tutti_call_send(rank, &note_function, post % 5 < 3 ? TUTTI_CALL_PACKED : 0, message, post % 7 == 0 ? bytes : 16 + (size_t)(post % 40),
                                  0, NULL) == TUTTI_OK);
        CHECK(tutti_call_progress(TUTTI_CALL_KEEP) >= 0);
        while (tutti_call_backlog_bytes() > 0) CHECK(tutti_call_progress(1) >= 0);
    }
    quiet();
    CHECK(taken == (int64_t)ranks * POSTS);
}

static void functions_post_more_than_their_credit(void)
{
    for (int rank = 0; rank < ranks; rank++) CHECK(tutti_call_send(rank, &spread_function, 0, NULL, 0, 0, NULL) == TUTTI_OK);
    quiet();
    CHECK(echoed == (int64_t)ranks * ranks * POSTS);
}

/* A rank makes no call until quick functions of all ranks have run there. */
static void quick_functions_run_while_a_rank_computes(void)
{
    int64_t round = 0;
    int before = (int)echoed;
    atomic_store(&marks, 0);
    quiet();
    for (int rank = 0; rank < ranks; rank++)
        for (int post = 0; post < ROUNDS; post++)
            CHECK(tutti_call_send(rank, &mark_function, TUTTI_CALL_QUICK, &round, sizeof round, 0, NULL) == TUTTI_OK);
    while (tutti_call_backlog_bytes() > 0) CHECK(tutti_call_progress(1) >= 0);
    while (atomic_load(&marks) < ranks * ROUNDS) sched_yield();
    quiet();
    CHECK(atomic_load(&marks) == ranks * ROUNDS && echoed == before + ranks * ROUNDS);
    quiet();
    {
        waiting one = {.answer.ended = ended};
        CHECK(tutti_call_send(ranks - 1, &mark_function, TUTTI_CALL_QUICK, &round, sizeof round, 0, &one.answer) == TUTTI_OK);
        await(&one);
        CHECK(one.status == TUTTI_OK && one.bytes == 0);
    }
    quiet();
}

/* Rank 0 makes no call behind its posts, of which the first alone leaves by itself. */
static void packed_posts_leave_while_a_rank_computes(void)
{
    enum { PACKED = 5 };
    int64_t to = 0;
    atomic_store(&marks, 0);
    quiet();
    if (me == 0 && ranks > 1) {
        for (int post = 0; post < PACKED; post++)
            CHECK(tutti_call_send(1, &return_function, TUTTI_CALL_PACKED, &to, sizeof to, 0, NULL) == TUTTI_OK);
        while (atomic_load(&marks) < PACKED) sched_yield();
    }
    quiet();
}

/* Arguments and results of any length, the longest two of them at the same time. */
static void long_ones_come_whole(void)
{
    static const size_t lengths[] = {0, 1, 199, 200, 201, 2048, 2049, 4096, 100000, 1 << 20};
    static char all[2][1 << 20], back[2][1 << 20];
    static long_waiting open[2];
    for (size_t at = 0; at < sizeof all[0]; at++) {
        all[0][at] = (char)(at * 31 + at / 255);
        all[1][at] = (char)(at * 17 + at / 251);
    }
    for (int rank = 0; rank < ranks; rank++)
        for (size_t number = 0; number < sizeof lengths / sizeof lengths[0]; number++) {
            for (int one = 0; one < 2; one++) {
                open[one].answer.ended = long_ended;
                open[one].into = back[one];
                open[one].ended = 0;
                CHECK(tutti_call_send(rank, &mirror_function, TUTTI_CALL_LONG, all[one], lengths[number], 0, &open[one].answer) == TUTTI_OK);
            }
            for (int one = 0; one < 2; one++) {
                while (!open[one].ended) CHECK(tutti_call_progress(1) >= 0);
                CHECK(open[one].bytes == lengths[number] && memcmp(back[one], all[one], lengths[number]) == 0);
            }
        }
}

static void wrong_calls_are_refused(void)
{
    static char bytes[TUTTI_CALL_BYTES_MAX + 1];
    tutti_descriptor writable = sum_function;
    const tutti_reply nobody = {ranks, 0, 8, 0};
    waiting one = {.answer.ended = ended};
    int last = ranks - 1;
    CHECK(tutti_call_send(ranks, &sum_function, 0, bytes, 16, 8, NULL) == TUTTI_ERR_RANK);
    CHECK(tutti_call_send(-1, &sum_function, 0, bytes, 16, 8, NULL) == TUTTI_ERR_RANK);
    CHECK(tutti_call_send(last, &sum_function, TUTTI_CALL_QUICK, bytes, sizeof bytes, 8, NULL) == TUTTI_ERR_LONG);
    CHECK(tutti_call_send(last, &sum_function, 0, bytes, TUTTI_CALL_LONG_MAX + 1, 8, NULL) == TUTTI_ERR_LONG);
    CHECK(tutti_call_send(last, &sum_function, 8, bytes, 16, 8, NULL) == TUTTI_ERR_ARG);
    CHECK(tutti_call_send(last, &sum_function, TUTTI_CALL_QUICK | TUTTI_CALL_LONG, bytes, 16, 8, &one.answer) == TUTTI_ERR_ARG);
    CHECK(tutti_call_send(last, &sum_function, TUTTI_CALL_PACKED, bytes, 16, 8, &one.answer) == TUTTI_ERR_ARG);
    CHECK(tutti_call_send(last, &sum_function, TUTTI_CALL_QUICK | TUTTI_CALL_PACKED, bytes, 16, 8, NULL) == TUTTI_ERR_ARG);
    CHECK(tutti_call_progress(2) == TUTTI_ERR_ARG);
    CHECK(tutti_call_send(last, &sum_function, 0, bytes, 16, sizeof bytes, NULL) == TUTTI_ERR_LONG);
    CHECK(tutti_call_send(last, &sum_function, 0, NULL, 16, 8, NULL) == TUTTI_ERR_ARG);
    CHECK(tutti_call_send(last, &writable, 0, bytes, 16, 8, NULL) == TUTTI_ERR_FUNCTION);
    CHECK(tutti_call_send(last, NULL, 0, bytes, 16, 8, NULL) == TUTTI_ERR_FUNCTION);
    CHECK(tutti_call_answer(nobody, TUTTI_OK, NULL, 0) == TUTTI_ERR_ARG);
    CHECK(tutti_call_init(&sum_function) == TUTTI_ERR_BUSY);
    for (size_t at = 0; at < sizeof bytes; at++) bytes[at] = (char)(at * 31);
    CHECK(tutti_call_send(last, &probe_function, 0, bytes, sizeof bytes - 1, sizeof bytes - 1, &one.answer) == TUTTI_OK);
    CHECK(tutti_call_quit() == TUTTI_ERR_BUSY);
    await(&one);
    CHECK(one.status == TUTTI_OK && one.bytes == sizeof bytes - 1 && memcmp(one.data, bytes, one.bytes) == 0);
    CHECK(tutti_call_redirect(&one.answer, NULL) == TUTTI_ERR_ARG);
    memset(&one, 0, sizeof one);
    one.answer.ended = ended;
    CHECK(tutti_call_send(last, &rude_function, 0, NULL, 0, 0, &one.answer) == TUTTI_OK);
    await(&one);
    CHECK(one.status == TUTTI_THREW && one.bytes == 2 && memcmp(one.data, "no", 2) == 0);
}

/* The answer goes to another place, or to nobody. */
static void answers_are_redirected(void)
{
    waiting one = {.answer.ended = ended}, other = one, dropped = one;
    int64_t numbers[2] = {20, 22}, result;
    CHECK(tutti_call_send(0, &sum_function, 0, numbers, sizeof numbers, 8, &dropped.answer) == TUTTI_OK);
    CHECK(tutti_call_redirect(&dropped.answer, NULL) == TUTTI_OK);
    CHECK(tutti_call_send(0, &sum_function, 0, numbers, sizeof numbers, 8, &one.answer) == TUTTI_OK);
    CHECK(tutti_call_redirect(&one.answer, &other.answer) == TUTTI_OK);
    await(&other);
    memcpy(&result, other.data, sizeof result);
    CHECK(result == 42 && !one.ended && !dropped.ended && tutti_call_open_calls() == 0);
}

int main(void)
{
    CHECK(tutti_call_rank() == TUTTI_ERR_RUNNING && tutti_call_progress(0) == TUTTI_ERR_RUNNING);
    {
        tutti_descriptor writable = sum_function;
        CHECK(tutti_call_init(&writable) == TUTTI_ERR_FUNCTION);
    }
    CHECK(tutti_call_init(&sum_function) == TUTTI_OK);
    me = tutti_call_rank();
    ranks = tutti_call_ranks();
    CHECK(ranks <= RANKS_MAX);
    answers_come();
    posts_keep_their_order();
    functions_post_more_than_their_credit();
    wrong_calls_are_refused();
    quick_functions_run_while_a_rank_computes();
    packed_posts_leave_while_a_rank_computes();
    long_ones_come_whole();
    quiet();
    CHECK(inside == (me == ranks - 1));
    answers_are_redirected();
    quiet();
    CHECK(tutti_call_quit() == TUTTI_OK);
    if (me == 0) printf("calls: ok\n");
    return 0;
}
