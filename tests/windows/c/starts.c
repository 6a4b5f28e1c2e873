#define _DEFAULT_SOURCE
/* Operations with requests on a rank that is stopped: the calls return, the requests are not done, and when the
   rank goes on they end. Then requests on memory that is not there. */
#include "stopped.h"
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

enum { BYTES = 1 << 20, PART = 256 << 10 };

#define CHECK(CONDITION)                                                        \
    do {                                                                        \
        if (!(CONDITION)) {                                                     \
            printf("line %d: %s does not hold\n", __LINE__, #CONDITION);        \
            fflush(stdout);                                                     \
            MPI_Abort(MPI_COMM_WORLD, 1);                                       \
        }                                                                       \
    } while (0)

static pid_t other;

int main(int argc, char **argv)
{
    int me;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    unsigned char *memory;
    MPI_Win win;
    MPI_Win_allocate(BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    memset(memory, me + 1, BYTES);
    long mine = getpid(), theirs = 0;
    MPI_Sendrecv(&mine, 1, MPI_LONG, 1 - me, 0, &theirs, 1, MPI_LONG, 1 - me, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    other = (pid_t)theirs;
    MPI_Barrier(MPI_COMM_WORLD);
    if (me == 0) {
        MPI_Win_lock_all(0, win);
        unsigned char first = 0, *here = calloc(1, BYTES), *from = malloc(PART);
        memset(from, 9, PART);
        MPI_Get(&first, 1, MPI_BYTE, 1, 0, 1, MPI_BYTE, win);
        MPI_Win_flush(1, win);
        CHECK(first == 2 && kill(other, SIGSTOP) == 0);
        while (!is_stopped(other))
            usleep(1000);
        MPI_Request requests[4];
        long fetched = 0, one = 1;
        MPI_Rget(here, PART, MPI_BYTE, 1, 0, PART, MPI_BYTE, win, &requests[0]);
        MPI_Rget(here + PART, 8, MPI_BYTE, 1, PART, 8, MPI_BYTE, win, &requests[1]);
        MPI_Rget(here + 2 * PART, PART, MPI_BYTE, 1, 2 * PART, PART, MPI_BYTE, win, &requests[2]);
        int flag, some, which[4];
        MPI_Testsome(3, requests, &some, which, MPI_STATUSES_IGNORE);
        CHECK(some == 0);
        MPI_Request_get_status(requests[0], &flag, MPI_STATUS_IGNORE);
        CHECK(!flag);
        CHECK(kill(other, SIGCONT) == 0);
        MPI_Status status;
        MPI_Wait(&requests[0], &status);
        CHECK(here[0] == 2 && here[PART - 1] == 2 && requests[0] == MPI_REQUEST_NULL);
        MPI_Waitall(2, requests + 1, MPI_STATUSES_IGNORE);
        CHECK(here[PART] == 2 && here[PART + 7] == 2 && here[PART + 8] == 0 && here[3 * PART - 1] == 2);
        CHECK(kill(other, SIGSTOP) == 0);
        while (!is_stopped(other))
            usleep(1000);
        MPI_Rput(from, PART, MPI_BYTE, 1, PART, PART, MPI_BYTE, win, &requests[0]);
        MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE);
        CHECK(!flag && kill(other, SIGCONT) == 0);
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
        MPI_Rget_accumulate(&one, 1, MPI_LONG, &fetched, 1, MPI_LONG, 1, 3 * PART, 1, MPI_LONG, MPI_SUM, win,
                            &requests[0]);
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
        CHECK(fetched == 0x0202020202020202);
        MPI_Win_unlock_all(win);
        free(here), free(from);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (me == 1)
        CHECK(memory[PART] == 9 && memory[2 * PART - 1] == 9 && memory[2 * PART] == 2 && memory[PART - 1] == 2);
    MPI_Win_free(&win);
    /* Of memory that is not attached only its owner knows: its refusal ends the request. */
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (me == 0) {
        unsigned char *here = calloc(1, PART);
        MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, win);
        for (int is_long = 0; is_long < 2; is_long++) {
            for (int is_put = 0; is_put < 2; is_put++) {
                MPI_Request request;
                int bytes = is_long ? PART : 8, error, class = MPI_SUCCESS;
                if (is_put)
                    error = MPI_Rput(here, bytes, MPI_BYTE, 1, 4096, bytes, MPI_BYTE, win, &request);
                else
                    error = MPI_Rget(here, bytes, MPI_BYTE, 1, 4096, bytes, MPI_BYTE, win, &request);
                if (error == MPI_SUCCESS)
                    error = MPI_Wait(&request, MPI_STATUS_IGNORE);
                if (error == MPI_SUCCESS)
                    error = MPI_Win_flush(1, win);
                MPI_Error_class(error, &class);
                CHECK(class == MPI_ERR_RMA_RANGE);
            }
        }
        MPI_Win_unlock(1, win);
        free(here);
    }
    MPI_Win_free(&win);
    if (me == 0)
        printf("starts: all right\n");
    MPI_Finalize();
    return 0;
}
