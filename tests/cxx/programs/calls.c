/* The C interface of remote invocation: answers, order, credit, sums of meetings, what is refused. Prints "calls: ok". */
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
        for (int rank = 0; rank < ranks; rank++) CHECK(tutti_call_send(rank, &echo_function, NULL, 0, 0, NULL) == TUTTI_OK);
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

static const tutti_descriptor sum_function = {TUTTI_CALL_MAGIC, 1, sum, "sum"};
static const tutti_descriptor note_function = {TUTTI_CALL_MAGIC, 2, note, "note"};
static const tutti_descriptor spread_function = {TUTTI_CALL_MAGIC, 3, spread, "spread"};
static const tutti_descriptor echo_function = {TUTTI_CALL_MAGIC, 4, echo, "echo"};
static const tutti_descriptor probe_function = {TUTTI_CALL_MAGIC, 5, probe, "probe"};
static const tutti_descriptor rude_function = {TUTTI_CALL_MAGIC, 6, rude, "rude"};

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
            CHECK(tutti_call_send(rank, &sum_function, numbers, sizeof numbers, 8, &all[round].answer) == TUTTI_OK);
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

static void posts_keep_their_order(void)
{
    static char message[TUTTI_CALL_BYTES_MAX];
    for (int64_t post = 0; post < POSTS; post++) {
        int64_t from[2] = {me, post};
        size_t bytes = sizeof from + (size_t)(post * 7919 % (int64_t)(sizeof message - sizeof from + 1));
        memcpy(message, from, sizeof from);
        for (int rank = 0; rank < ranks; rank++)
            CHECK(tutti_call_send(rank, &note_function, message, bytes, 0, NULL) == TUTTI_OK);
        while (tutti_call_backlog_bytes() > 0) CHECK(tutti_call_progress(1) >= 0);
    }
    quiet();
    CHECK(taken == (int64_t)ranks * POSTS);
}

static void functions_post_more_than_their_credit(void)
{
    for (int rank = 0; rank < ranks; rank++) CHECK(tutti_call_send(rank, &spread_function, NULL, 0, 0, NULL) == TUTTI_OK);
    quiet();
    CHECK(echoed == (int64_t)ranks * ranks * POSTS);
}

static void wrong_calls_are_refused(void)
{
    static char bytes[TUTTI_CALL_BYTES_MAX + 1];
    tutti_descriptor writable = sum_function;
    const tutti_reply nobody = {ranks, 0, 8, 0};
    waiting one = {.answer.ended = ended};
    int last = ranks - 1;
    CHECK(tutti_call_send(ranks, &sum_function, bytes, 16, 8, NULL) == TUTTI_ERR_RANK);
    CHECK(tutti_call_send(-1, &sum_function, bytes, 16, 8, NULL) == TUTTI_ERR_RANK);
    CHECK(tutti_call_send(last, &sum_function, bytes, sizeof bytes, 8, NULL) == TUTTI_ERR_LONG);
    CHECK(tutti_call_send(last, &sum_function, bytes, 16, sizeof bytes, NULL) == TUTTI_ERR_LONG);
    CHECK(tutti_call_send(last, &sum_function, NULL, 16, 8, NULL) == TUTTI_ERR_ARG);
    CHECK(tutti_call_send(last, &writable, bytes, 16, 8, NULL) == TUTTI_ERR_FUNCTION);
    CHECK(tutti_call_send(last, NULL, bytes, 16, 8, NULL) == TUTTI_ERR_FUNCTION);
    CHECK(tutti_call_answer(nobody, TUTTI_OK, NULL, 0) == TUTTI_ERR_ARG);
    CHECK(tutti_call_init(&sum_function) == TUTTI_ERR_BUSY);
    for (size_t at = 0; at < sizeof bytes; at++) bytes[at] = (char)(at * 31);
    CHECK(tutti_call_send(last, &probe_function, bytes, sizeof bytes - 1, sizeof bytes - 1, &one.answer) == TUTTI_OK);
    CHECK(tutti_call_quit() == TUTTI_ERR_BUSY);
    await(&one);
    CHECK(one.status == TUTTI_OK && one.bytes == sizeof bytes - 1 && memcmp(one.data, bytes, one.bytes) == 0);
    CHECK(tutti_call_redirect(&one.answer, NULL) == TUTTI_ERR_ARG);
    memset(&one, 0, sizeof one);
    one.answer.ended = ended;
    CHECK(tutti_call_send(last, &rude_function, NULL, 0, 0, &one.answer) == TUTTI_OK);
    await(&one);
    CHECK(one.status == TUTTI_THREW && one.bytes == 2 && memcmp(one.data, "no", 2) == 0);
}

/* The answer goes to another place, or to nobody. */
static void answers_are_redirected(void)
{
    waiting one = {.answer.ended = ended}, other = one, dropped = one;
    int64_t numbers[2] = {20, 22}, result;
    CHECK(tutti_call_send(0, &sum_function, numbers, sizeof numbers, 8, &dropped.answer) == TUTTI_OK);
    CHECK(tutti_call_redirect(&dropped.answer, NULL) == TUTTI_OK);
    CHECK(tutti_call_send(0, &sum_function, numbers, sizeof numbers, 8, &one.answer) == TUTTI_OK);
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
    quiet();
    CHECK(inside == (me == ranks - 1));
    answers_are_redirected();
    quiet();
    CHECK(tutti_call_quit() == TUTTI_OK);
    if (me == 0) printf("calls: ok\n");
    return 0;
}
