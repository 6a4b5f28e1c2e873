/* Stamps: none before the start, all of an operation in order, those without room counted. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <tutti.h>

static int failures;

#define EXPECT(condition)                                                         \
    do {                                                                          \
        if (!(condition)) {                                                       \
            fprintf(stderr, "stamps.c:%d: not so: %s\n", __LINE__, #condition);   \
            failures++;                                                           \
        }                                                                         \
    } while (0)

static tutti_stamped stamps[4096];

static int count(uint32_t mark, int64_t all)
{
    int found = 0;
    for (int64_t i = 0; i < all; i++)
        found += stamps[i].mark == mark;
    return found;
}

int main(void)
{
    int rank;
    EXPECT(tutti_stamps_start(10, 1) == TUTTI_ERR_RUNNING);
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    char *memory = tutti_alloc(4096);
    tutti_region region;
    memset(&region, 0, sizeof region);
    if (rank == 1)
        EXPECT(tutti_open(memory, 4096, TUTTI_READ | TUTTI_WRITE, &region) == TUTTI_OK);
    MPI_Bcast(&region, sizeof region, MPI_BYTE, 1, MPI_COMM_WORLD);

    EXPECT(tutti_stamps_stop(stamps, 4096) == TUTTI_ERR_ARG);
    EXPECT(tutti_stamps_start(0, 1) == TUTTI_ERR_ARG);
    EXPECT(tutti_stamp(15) == TUTTI_ERR_ARG);
    EXPECT(tutti_stamp(TUTTI_STAMP_OWN) == TUTTI_OK);

    /* The program's own alone. */
    EXPECT(tutti_stamps_start(4096, 0) == TUTTI_OK);
    EXPECT(tutti_stamps_start(4096, 0) == TUTTI_ERR_ARG);
    char byte = 0;
    if (rank == 0)
        EXPECT(tutti_read(&region, 0, &byte, 1, TUTTI_WAIT) == TUTTI_OK);
    tutti_stamp(TUTTI_STAMP_OWN);
    EXPECT(tutti_stamps_stop(stamps, 4096) == 1);
    EXPECT(stamps[0].mark == TUTTI_STAMP_OWN && stamps[0].begin_ns == stamps[0].end_ns);
    MPI_Barrier(MPI_COMM_WORLD);

    /* Those of the library, between two of the program. */
    EXPECT(tutti_stamps_start(4096, 1) == TUTTI_OK);
    MPI_Barrier(MPI_COMM_WORLD);
    tutti_stamp(TUTTI_STAMP_OWN);
    if (rank == 0)
        EXPECT(tutti_write(&region, 0, "ten bytes", 10, TUTTI_WAIT) == TUTTI_OK);
    tutti_stamp(TUTTI_STAMP_OWN + 1);
    MPI_Barrier(MPI_COMM_WORLD);
    int64_t all = tutti_stamps_stop(stamps, 4096);
    EXPECT(all >= 2 && all <= 4096);
    EXPECT(count(TUTTI_STAMP_OWN, all) == 1 && count(TUTTI_STAMP_OWN + 1, all) == 1);
    int inside = count(TUTTI_STAMP_MAPPED, all);
    int handed = count(TUTTI_STAMP_HANDED, all), applied = count(TUTTI_STAMP_APPLIED, all);
    if (inside > 0)
        EXPECT(rank == 0 && inside == 1 && handed == 0 && applied == 0);
    for (int64_t i = 0; i < all; i++) {
        EXPECT(stamps[i].begin_ns > 0 && stamps[i].begin_ns <= stamps[i].end_ns);
        EXPECT(stamps[i].mark != TUTTI_STAMP_MAPPED || stamps[i].count == 10);
    }
    /* A request and its answer, if the two are on different nodes. */
    if (rank == 0 && inside == 0)
        EXPECT(handed == 1 && applied == 1 && count(TUTTI_STAMP_SENT, all) > 0 && count(TUTTI_STAMP_RECEIVED, all) > 0);

    /* More than there is room for: the table has 1024 places at least. */
    EXPECT(tutti_stamps_start(1, 0) == TUTTI_OK);
    for (int i = 0; i < 2000; i++)
        tutti_stamp(TUTTI_STAMP_OWN + 2);
    EXPECT(tutti_stamps_stop(stamps, 10) == 2000);
    EXPECT(count(TUTTI_STAMP_OWN + 2, 10) == 10);

    int sum = failures;
    MPI_Allreduce(&failures, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 1)
        tutti_close(&region);
    MPI_Finalize();
    if (rank == 0 && sum == 0)
        printf("stamps: ok\n");
    return sum > 0;
}
