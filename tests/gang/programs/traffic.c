/* traffic STAMP FILE [first]: messages that know themselves, until FILE is there.
 *
 * In each round every rank sends some numbered messages of random length to every other one, and takes what comes, from whomever it
 * comes. Every word of a message follows from the job's stamp, its sender, its receiver and its number: so one that is lost, repeated,
 * out of order, damaged or of another job is found by who receives it, and said.
 *
 * "first": the receives of a round come before its messages, each from its sender and as long as its message; long ones have a tag of
 * their own, and one more that nothing matches is cancelled. */
#include <mpi.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PER_ROUND = 8, WORDS_MAX = 40000, HEAD = 4, LONG_BYTES = 65536, LONG_TAG = 2000, NEVER_TAG = 9999 };

static uint64_t stamp;
static int me, ranks;

static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static uint64_t seed_of(int from, int to, uint64_t number)
{
    return mix(stamp ^ mix((uint64_t)from << 40 ^ (uint64_t)to << 20 ^ mix(number)));
}

/* Mostly short ones; some that need every way that messages can go. */
static int words_of(uint64_t seed)
{
    static const int limits[8] = {1, 8, 24, 24, 200, 1500, 6000, WORDS_MAX};
    return HEAD + (int)(mix(seed + 1) % (uint64_t)limits[seed % 8]);
}

static int compose(uint64_t *words, int from, int to, uint64_t number)
{
    uint64_t seed = seed_of(from, to, number);
    int count = words_of(seed);
    words[0] = stamp;
    words[1] = (uint64_t)from << 32 | (uint64_t)to;
    words[2] = number;
    words[3] = seed;
    for (int i = HEAD; i < count; i++)
        words[i] = mix(seed + (uint64_t)i);
    return count;
}

static void wrong(const char *what, const uint64_t *words, int from, uint64_t due)
{
    fprintf(stderr, "traffic %llx: rank %d: %s: from %d, due %llu, stamp %llx, number %llu\n",
            (unsigned long long)stamp, me, what, from, (unsigned long long)due, (unsigned long long)words[0],
            (unsigned long long)words[2]);
    MPI_Abort(MPI_COMM_WORLD, 3);
}

static void check(uint64_t *words, uint64_t *right, int count, int from, uint64_t due)
{
    if (count < HEAD || words[0] != stamp)
        wrong("a message of another job", words, from, due);
    if (words[2] != due)
        wrong(words[2] > due ? "a message is lost or overtaken" : "a message came twice", words, from, due);
    if (count != compose(right, from, me, due) || memcmp(words, right, (size_t)count * 8) != 0)
        wrong("a message is damaged", words, from, due);
}

/* Starts the messages of a round, one after the other to each rank; "kinds": by both modes, long ones with a tag of their own. How many. */
static int start_sends(uint64_t sent, int tag, int kinds, uint64_t *out, MPI_Request *sends)
{
    int count = 0;
    for (int piece = 0; piece < PER_ROUND; piece++) {
        for (int to = 0; to < ranks; to++) {
            if (to == me)
                continue;
            uint64_t *words = out + (size_t)count * WORDS_MAX * 2;
            int length = compose(words, me, to, sent + (uint64_t)piece);
            int own = kinds && length * 8 > LONG_BYTES ? tag + LONG_TAG : tag;
            if (kinds && piece % 2 != 0)
                MPI_Issend(words, length, MPI_UINT64_T, to, own, MPI_COMM_WORLD, &sends[count++]);
            else
                MPI_Isend(words, length, MPI_UINT64_T, to, own, MPI_COMM_WORLD, &sends[count++]);
        }
    }
    return count;
}

/* Receives, then messages: what has come to each receive is right, and nothing came to the one that nobody sends to. */
static void round_first(uint64_t sent, uint64_t *out, uint64_t *into, uint64_t *right, MPI_Request *requests)
{
    int tag = (int)(sent / PER_ROUND % 1000), count = 0, cancelled, next = (me + 1) % ranks;
    MPI_Request *sends = requests + (size_t)ranks * PER_ROUND, never;
    MPI_Status status;
    uint64_t *nothing = into + (size_t)ranks * PER_ROUND * WORDS_MAX * 2;
    for (int piece = 0; piece < PER_ROUND; piece++) {
        for (int from = 0; from < ranks; from++) {
            if (from == me)
                continue;
            int length = words_of(seed_of(from, me, sent + (uint64_t)piece));
            int kind = length * 8 > LONG_BYTES ? LONG_TAG : 0;
            MPI_Irecv(into + (size_t)count * WORDS_MAX * 2, length, MPI_UINT64_T, from, tag + kind, MPI_COMM_WORLD, &requests[count]);
            count++;
        }
    }
    nothing[0] = ~stamp;
    MPI_Irecv(nothing, WORDS_MAX, MPI_UINT64_T, next, NEVER_TAG, MPI_COMM_WORLD, &never);
    MPI_Barrier(MPI_COMM_WORLD);
    start_sends(sent, tag, 1, out, sends);
    MPI_Cancel(&never);
    count = 0;
    for (int piece = 0; piece < PER_ROUND; piece++) {
        for (int from = 0; from < ranks; from++) {
            if (from == me)
                continue;
            int length;
            MPI_Wait(&requests[count], &status);
            MPI_Get_count(&status, MPI_UINT64_T, &length);
            check(into + (size_t)count * WORDS_MAX * 2, right, length, from, sent + (uint64_t)piece);
            count++;
        }
    }
    MPI_Wait(&never, &status);
    MPI_Test_cancelled(&status, &cancelled);
    if (!cancelled || nothing[0] != ~stamp)
        wrong("a message that nobody has sent", nothing, next, 0);
    MPI_Waitall(count, sends, MPI_STATUSES_IGNORE);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int first = argc == 4 && strcmp(argv[3], "first") == 0;
    if (argc != 3 && !first)
        MPI_Abort(MPI_COMM_WORLD, 2);
    stamp = mix(strtoull(argv[1], NULL, 10));
    size_t pieces = (size_t)ranks * PER_ROUND;
    uint64_t *out = malloc(pieces * WORDS_MAX * 2 * 8), *in = malloc((first ? pieces + 1 : 1) * WORDS_MAX * 2 * 8);
    uint64_t *right = malloc(WORDS_MAX * 2 * 8), *due = calloc((size_t)ranks, 8), sent = 0, taken = 0;
    MPI_Request *requests = malloc(2 * pieces * sizeof *requests);
    if (out == NULL || in == NULL || right == NULL || due == NULL || requests == NULL)
        MPI_Abort(MPI_COMM_WORLD, 2);
    if (me == 0) {
        puts("traffic: up");
        fflush(stdout);
    }
    for (int last = 0; !last;) {
        last = me == 0 && access(argv[2], F_OK) == 0;
        MPI_Bcast(&last, 1, MPI_INT, 0, MPI_COMM_WORLD);
        if (first) {
            round_first(sent, out, in, right, requests);
            sent += PER_ROUND;
            taken += (uint64_t)(ranks - 1) * PER_ROUND;
            continue;
        }
        /* Those of a rank that is ahead are not taken in place of what others wait for. */
        int tag = (int)(sent / PER_ROUND % 1000), count = start_sends(sent, tag, 0, out, requests);
        for (int i = 0; i < count; i++) {
            MPI_Status status;
            int length;
            MPI_Recv(in, WORDS_MAX * 2, MPI_UINT64_T, MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &status);
            MPI_Get_count(&status, MPI_UINT64_T, &length);
            check(in, right, length, status.MPI_SOURCE, due[status.MPI_SOURCE]++);
            taken++;
        }
        MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
        sent += PER_ROUND;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int look = 0; look < 1000; look++) {
        int more;
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &more, MPI_STATUS_IGNORE);
        if (more)
            wrong("a message too many", due, -1, 0);
    }
    uint64_t all = 0;
    MPI_Reduce(&taken, &all, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    if (me == 0)
        printf("traffic: %llu messages, each once, in order, whole\n", (unsigned long long)all);
    MPI_Finalize();
    return 0;
}
