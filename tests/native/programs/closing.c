/* Closing: tutti_close while others write and read the region for long. Ranks of the first half own one each,
 * those of the second half work on it. What has begun ends, what comes later is refused, and nothing touches the
 * memory behind the close. */
#include "check.h"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti.h>

enum { BYTES = 4 << 20, READS = 4, ROUNDS = 24, GO = 1, OVER = 2 };
static int n;

static int all_are(const unsigned char *bytes, int value)
{
    return bytes[0] == value && memcmp(bytes, bytes + 1, BYTES - 1) == 0;
}

static void own(int round, int worker)
{
    tutti_region region;
    unsigned char *memory = tutti_alloc(BYTES);
    CHECK(memory && all_are(memory, 0));
    if (round % 2)
        memset(memory, round, BYTES);
    CHECK(tutti_open(memory, BYTES, TUTTI_READ | TUTTI_WRITE, &region) == TUTTI_OK);
    MPI_Send(&region, sizeof region, MPI_BYTE, worker, GO, MPI_COMM_WORLD);
    if (round % 2) {
        MPI_Recv(NULL, 0, MPI_BYTE, worker, GO, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        /* Its beginning is there: the write is under way. */
        while (*(volatile unsigned char *)memory == 0)
            ;
    }
    CHECK(tutti_close(&region) == TUTTI_OK);
    memset(memory, 0xee, BYTES);
    MPI_Recv(NULL, 0, MPI_BYTE, worker, OVER, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(all_are(memory, 0xee));
    CHECK(tutti_close(&region) == TUTTI_ERR_REGION);
    CHECK(tutti_free(memory) == TUTTI_OK);
}

/* How many of its operations were done. */
static int work(int round, int owner)
{
    static unsigned char data[READS][BYTES];
    tutti_done done[READS] = {{0}};
    tutti_region region;
    int status, were_done = 0;
    MPI_Recv(&region, sizeof region, MPI_BYTE, owner, GO, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (round % 2) {
        for (int i = 0; i < READS; i++)
            CHECK(tutti_read(&region, 0, data[i], BYTES, &done[i]) == TUTTI_OK || done[i].count == 1);
        MPI_Send(NULL, 0, MPI_BYTE, owner, GO, MPI_COMM_WORLD);
        for (int i = 0; i < READS; i++) {
            CHECK(tutti_wait_until(&done[i].count, TUTTI_EQ, 1, TUTTI_ANY) == TUTTI_OK);
            CHECK(done[i].status == TUTTI_ERR_REGION || (done[i].status == TUTTI_OK && all_are(data[i], round)));
            were_done += done[i].status == TUTTI_OK;
        }
    } else {
        memset(data, round + 1, sizeof data);
        do {
            status = tutti_write(&region, 0, data, BYTES, TUTTI_WAIT);
            were_done += status == TUTTI_OK;
        } while (status == TUTTI_OK);
        CHECK(status == TUTTI_ERR_REGION);
    }
    /* Its owner may still be about to close it. */
    do
        status = tutti_read(&region, 0, data, BYTES, TUTTI_WAIT);
    while (status == TUTTI_OK);
    CHECK(status == TUTTI_ERR_REGION);
    MPI_Send(NULL, 0, MPI_BYTE, owner, OVER, MPI_COMM_WORLD);
    return were_done;
}

int main(int argc, char **argv)
{
    int were_done = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    for (int round = 0; round < ROUNDS; round++) {
        if (me < n / 2)
            own(round, me + n / 2);
        else if (me < n / 2 * 2)
            were_done += work(round, me - n / 2);
    }
    int sum = failures;
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, &were_done, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (me == 0 && sum == 0)
        printf("closing: ok\n%d long operations were done\n", were_done);
    MPI_Finalize();
    return sum != 0;
}
