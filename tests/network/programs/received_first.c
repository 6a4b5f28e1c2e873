/* Receives that come first, two of them at any time: each rank gets messages from the rank half way round and
   sends as many to the one whose messages it is half way from. A word behind each receive says that it is
   posted: records come in order, so the sender knows of the receive when it has the word. At the end receives
   that nobody sends to are cancelled. The arguments: how many messages of each size; then "synchronous" for
   sizes that go eagerly otherwise, one receive at a time. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIZES = 4, KEPT_MAX = 2, LONGEST = 1 << 20, POSTED = 7, DATA = 8 };
static int sizes[SIZES] = {65537, 100000, 300001, LONGEST};
static const int synchronous_sizes[SIZES] = {16385, 20000, 40001, 65536};
static unsigned char *into[KEPT_MAX], *from;
static MPI_Datatype gaps;
static MPI_Comm words;
static MPI_Request pending[KEPT_MAX];
static int me, ranks, source, target, each, kept = KEPT_MAX, synchronous;

static void fail(const char *what, int number)
{
    fprintf(stderr, "rank %d: message %d: %s\n", me, number, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static unsigned char byte_of(int rank, int number, int at)
{
    return (unsigned char)(rank * 91 + number * 31 + at * 7 + at / 251);
}

static int bytes_of(int number)
{
    return sizes[number / each];
}

/* The third size comes to memory with gaps: every second byte. */
static int has_gaps(int number)
{
    return number / each == 2;
}

static void post(int number)
{
    unsigned char *buffer = into[number % kept];
    memset(buffer, 0xee, 2 * LONGEST);
    int count = has_gaps(number) ? 1 : bytes_of(number);
    int tag = number % 3 == 0 ? MPI_ANY_TAG : DATA;
    MPI_Irecv(buffer, count, has_gaps(number) ? gaps : MPI_BYTE, source, tag, MPI_COMM_WORLD,
              &pending[number % kept]);
    MPI_Send(&number, 1, MPI_INT, source, POSTED, words);
}

static void send(int number)
{
    int posted, bytes = bytes_of(number);
    MPI_Recv(&posted, 1, MPI_INT, target, POSTED, words, MPI_STATUS_IGNORE);
    if (posted != number)
        fail("another receive is posted", number);
    for (int at = 0; at < bytes; at++)
        from[at] = byte_of(me, number, at);
    if (number % 2 == 0 && !synchronous)
        MPI_Send(from, bytes, MPI_BYTE, target, DATA, MPI_COMM_WORLD);
    else
        MPI_Ssend(from, bytes, MPI_BYTE, target, DATA, MPI_COMM_WORLD);
}

static void take(int number)
{
    MPI_Status status;
    int count, stride = has_gaps(number) ? 2 : 1, bytes = bytes_of(number);
    MPI_Wait(&pending[number % kept], &status);
    MPI_Get_count(&status, MPI_BYTE, &count);
    if (count != bytes || status.MPI_TAG != DATA || status.MPI_SOURCE != source)
        fail("another message came", number);
    const unsigned char *buffer = into[number % kept];
    for (int at = 0; at < bytes; at++)
        if (buffer[at * stride] != byte_of(source, number, at) || (stride == 2 && buffer[2 * at + 1] != 0xee))
            fail("it came changed", number);
    if (buffer[bytes * stride] != 0xee)
        fail("it is longer than its receive", number);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    each = argc > 1 ? atoi(argv[1]) : 3;
    synchronous = argc > 2 && strcmp(argv[2], "synchronous") == 0;
    if (synchronous) {
        memcpy(sizes, synchronous_sizes, sizeof sizes);
        kept = 1;
    }
    source = (me + ranks / 2) % ranks;
    target = (me + ranks - ranks / 2) % ranks;
    MPI_Type_vector(sizes[2], 1, 2, MPI_BYTE, &gaps);
    MPI_Type_commit(&gaps);
    MPI_Comm_dup(MPI_COMM_WORLD, &words);
    from = malloc(LONGEST);
    for (int i = 0; i < kept; i++)
        into[i] = malloc(2 * LONGEST + 1), into[i][2 * LONGEST] = 0xee;
    int all = SIZES * each;
    for (int number = 0; number < kept && number < all; number++)
        post(number);
    for (int number = 0; number < all; number++) {
        send(number);
        take(number);
        if (number + kept < all)
            post(number + kept);
    }
    for (int i = 0; i < kept; i++)
        MPI_Irecv(into[i], LONGEST, MPI_BYTE, source, DATA + 1 + i, MPI_COMM_WORLD, &pending[i]);
    for (int i = 0; i < kept; i++) {
        MPI_Status status;
        int cancelled;
        MPI_Cancel(&pending[i]);
        MPI_Wait(&pending[i], &status);
        MPI_Test_cancelled(&status, &cancelled);
        if (!cancelled)
            fail("a receive was not cancelled, and nobody sends to it", all + i);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (me == 0)
        printf("received first: %d messages on %d ranks\n", all * ranks, ranks);
    free(from);
    for (int i = 0; i < kept; i++)
        free(into[i]);
    MPI_Comm_free(&words);
    MPI_Type_free(&gaps);
    MPI_Finalize();
    return 0;
}
