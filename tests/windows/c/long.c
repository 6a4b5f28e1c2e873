/* Operations of up to a megabyte between short ones, on one rank each, with and without requests: all are done
   in the order of the calls, whichever way they take. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 3 << 20, LONGEST = 1 << 20, STEPS = 14, PLACES = 8 };

static unsigned long state;

static unsigned below(unsigned most)
{
    state = state * 6364136223846793005ul + 1442695040888963407ul;
    return (unsigned)(state >> 33) % most;
}

static void fail(const char *what, int round, int step)
{
    int me;
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    printf("rank %d: %s in round %d, step %d\n", me, what, round, step);
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Bytes of an operation: each way of travelling has its share. */
static int length(void)
{
    static const int sizes[] = {8, 5000, 65536, 100000, 262144, LONGEST - 1000};
    return sizes[below(6)] + (int)below(100) * 8;
}

int main(int argc, char **argv)
{
    int me, ranks, rounds = argc > 2 ? atoi(argv[2]) : 4;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    state = strtoul(argc > 1 ? argv[1] : "1", NULL, 0) * 31 + (unsigned long)me;
    int right = (me + 1) % ranks;
    for (int round = 0; round < rounds; round++) {
        unsigned char *memory, *model = malloc(BYTES), *own = NULL;
        MPI_Win win;
        MPI_Aint base = 0;
        if (round % 3 == 0) {
            MPI_Win_allocate(BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
        } else {
            memory = own = malloc(BYTES);
            if (round % 3 == 1) {
                MPI_Win_create(memory, BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
            } else {
                MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
                MPI_Win_attach(win, memory, BYTES);
                MPI_Get_address(memory, &base);
                MPI_Sendrecv_replace(&base, 1, MPI_AINT, (me + ranks - 1) % ranks, 0, right, 0, MPI_COMM_WORLD,
                                     MPI_STATUS_IGNORE);
            }
        }
        memset(memory, 0, BYTES);
        memset(model, 0, BYTES);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_lock_all(0, win);
        unsigned char *buffers[STEPS], *expected[STEPS];
        int bytes[STEPS], requests = 0;
        MPI_Request request[STEPS];
        for (int step = 0; step < STEPS; step++) {
            int size = bytes[step] = length(), at = (int)below((BYTES - 2 * size) / 8) * 8;
            buffers[step] = malloc(2 * (size_t)size), expected[step] = NULL;
            for (int i = 0; i < size; i++)
                buffers[step][i] = (unsigned char)(i * 11 + step + me + round);
            unsigned char *buffer = buffers[step];
            switch (below(7)) {
            case 0:
                MPI_Put(buffer, size, MPI_BYTE, right, base + at, size, MPI_BYTE, win);
                memcpy(model + at, buffer, (size_t)size);
                break;
            case 1:
                MPI_Rput(buffer, size, MPI_BYTE, right, base + at, size, MPI_BYTE, win, &request[requests++]);
                memcpy(model + at, buffer, (size_t)size);
                break;
            case 2: {
                /* The origin is free when the request is done. */
                MPI_Request mine;
                MPI_Rput(buffer, size, MPI_BYTE, right, base + at, size, MPI_BYTE, win, &mine);
                memcpy(model + at, buffer, (size_t)size);
                MPI_Wait(&mine, MPI_STATUS_IGNORE);
                memset(buffer, 0xee, (size_t)size);
                break;
            }
            case 3:
                MPI_Accumulate(buffer, size, MPI_BYTE, right, base + at, size, MPI_BYTE, MPI_REPLACE, win);
                memcpy(model + at, buffer, (size_t)size);
                break;
            case 4:
                expected[step] = malloc((size_t)size);
                memcpy(expected[step], model + at, (size_t)size);
                MPI_Get(buffer, size, MPI_BYTE, right, base + at, size, MPI_BYTE, win);
                break;
            case 5:
                expected[step] = malloc((size_t)size);
                memcpy(expected[step], model + at, (size_t)size);
                if (below(2)) {
                    MPI_Rget(buffer, size, MPI_BYTE, right, base + at, size, MPI_BYTE, win, &request[requests++]);
                } else {
                    MPI_Rget_accumulate(NULL, 0, MPI_BYTE, buffer, size, MPI_BYTE, right, base + at, size, MPI_BYTE,
                                        MPI_NO_OP, win, &request[requests++]);
                }
                break;
            default: {
                /* From one stretch there into many here. */
                int many = size / 4 < 1 << 16 ? size / 4 : 1 << 16;
                MPI_Datatype part;
                MPI_Type_vector(many, 4, 8, MPI_BYTE, &part);
                MPI_Type_commit(&part);
                MPI_Get(buffer, 1, part, right, base + at, 4 * many, MPI_BYTE, win);
                MPI_Type_free(&part);
                unsigned char *now = malloc(2 * (size_t)size);
                memcpy(now, model + at, 4 * (size_t)many);
                MPI_Win_flush(right, win);
                for (int i = 0; i < 4 * many; i++)
                    if (buffer[i / 4 * 8 + i % 4] != now[i])
                        fail("a get with gaps is wrong", round, step);
                free(now);
            }
            }
        }
        int is_by_request = (int)below(2);
        if (is_by_request)
            MPI_Waitall(requests, request, MPI_STATUSES_IGNORE);
        MPI_Win_flush(right, win);
        if (!is_by_request)
            MPI_Waitall(requests, request, MPI_STATUSES_IGNORE);
        for (int step = 0; step < STEPS; step++) {
            if (expected[step] && memcmp(buffers[step], expected[step], (size_t)bytes[step]))
                fail("a get is wrong", round, step);
            free(buffers[step]), free(expected[step]);
        }
        unsigned char *all = malloc(BYTES);
        MPI_Get(all, BYTES, MPI_BYTE, right, base, BYTES, MPI_BYTE, win);
        MPI_Win_unlock_all(win);
        if (memcmp(all, model, BYTES))
            fail("the memory is wrong", round, -1);
        /* What the owner sees is the same. */
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Sendrecv(model, BYTES, MPI_BYTE, right, 1, all, BYTES, MPI_BYTE, (me + ranks - 1) % ranks, 1,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (memcmp(all, memory, BYTES))
            fail("the owner sees something else", round, -1);
        if (round % 3 == 2)
            MPI_Win_detach(win, own);
        MPI_Win_free(&win);
        free(own), free(model), free(all);
    }
    if (me == 0)
        printf("long: all right\n");
    MPI_Finalize();
    return 0;
}
