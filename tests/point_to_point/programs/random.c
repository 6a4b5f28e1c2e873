/*
 * Random messages among all ranks, checked for content, order and completeness.
 *
 *   random SEED ROUNDS
 *
 * All ranks draw the same plan from the seed. In a round every rank receives its messages in one manner: named source and
 * tag, any source, or any source and any tag; posted before, between or after its sends. Exit status 0 means all was right.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGES = 60, TAGS = 3, RANKS_MAX = 32 };

struct message {
    int from, to, tag, mode, order;
    size_t bytes;
};

static uint64_t state;
static int rank, ranks;

static unsigned draw(unsigned below) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)((state >> 11) % below);
}

static size_t draw_size(void) {
    switch (draw(5)) {
    case 0: return draw(65);
    case 1: return draw(600);
    case 2: return draw(5000);
    case 3: return draw(20000);
    default: return draw(300000);
    }
}

static unsigned char expected(const struct message *m, size_t i) {
    return (unsigned char)(m->from * 31 + m->tag * 7 + m->order * 13 + (int)(i * 5));
}

static void fail(const char *what, const struct message *m) {
    fprintf(stderr, "rank %d: %s: from %d to %d tag %d order %d bytes %zu\n", rank, what, m->from, m->to, m->tag, m->order,
            m->bytes);
    MPI_Abort(MPI_COMM_WORLD, 3);
}

static void start_send(const struct message *m, unsigned char *data, MPI_Request *request) {
    for (size_t i = 0; i < m->bytes; i++) {
        data[i] = expected(m, i);
    }
    if (m->mode == 0) {
        MPI_Isend(data, (int)m->bytes, MPI_BYTE, m->to, m->tag, MPI_COMM_WORLD, request);
    } else {
        MPI_Issend(data, (int)m->bytes, MPI_BYTE, m->to, m->tag, MPI_COMM_WORLD, request);
    }
}

/* The message of the plan that a received one must be: the first one open of its source and tag. */
static struct message *claim(struct message *plan, int *open, const MPI_Status *status) {
    for (int i = 0; i < MESSAGES; i++) {
        struct message *m = &plan[i];
        if (open[i] && m->to == rank && m->from == status->MPI_SOURCE && m->tag == status->MPI_TAG) {
            open[i] = 0;
            return m;
        }
    }
    fprintf(stderr, "rank %d: a message from %d with tag %d that nobody sent\n", rank, status->MPI_SOURCE, status->MPI_TAG);
    MPI_Abort(MPI_COMM_WORLD, 4);
    return NULL;
}

static void check(const struct message *m, const unsigned char *data, const MPI_Status *status) {
    int bytes;
    MPI_Get_count(status, MPI_BYTE, &bytes);
    if ((size_t)bytes != m->bytes) {
        fail("wrong length", m);
    }
    for (size_t i = 0; i < m->bytes; i++) {
        if (data[i] != expected(m, i)) {
            fail("wrong data", m);
        }
    }
}

static void round_of_messages(int manner, int when) {
    static struct message plan[MESSAGES];
    MPI_Request requests[2 * MESSAGES];
    MPI_Status statuses[2 * MESSAGES];
    unsigned char *data[2 * MESSAGES];
    int open[MESSAGES], mine[2 * MESSAGES], count = 0, receives = 0;
    for (int i = 0; i < MESSAGES; i++) {
        plan[i] = (struct message){.from = (int)draw((unsigned)ranks), .to = (int)draw((unsigned)ranks),
                                   .tag = (int)draw(TAGS), .mode = draw(4) == 0, .order = i, .bytes = draw_size()};
        open[i] = 1;
    }
    for (int pass = 0; pass < 2; pass++) {
        int receiving = when == 2 ? 1 : pass == when;
        for (int i = 0; i < MESSAGES; i++) {
            struct message *m = &plan[i];
            if (receiving && m->to == rank && (when != 2 || pass == 0)) {
                data[count] = malloc(300000);
                MPI_Irecv(data[count], 300000, MPI_BYTE, manner == 0 ? m->from : MPI_ANY_SOURCE,
                          manner == 2 ? MPI_ANY_TAG : m->tag, MPI_COMM_WORLD, &requests[count]);
                mine[count++] = -1 - i;
                receives++;
            }
            if ((when == 2 ? pass == 0 : !receiving) && m->from == rank) {
                data[count] = malloc(m->bytes + 1);
                start_send(m, data[count], &requests[count]);
                mine[count++] = i;
            }
        }
    }
    MPI_Waitall(count, requests, statuses);
    /* Posted receives of the same matching are filled in order, so going through them in order meets the plan in order. */
    for (int i = 0; i < count; i++) {
        if (mine[i] < 0) {
            check(claim(plan, open, &statuses[i]), data[i], &statuses[i]);
            receives--;
        }
        free(data[i]);
    }
    if (receives != 0) {
        fail("receives left", &plan[0]);
    }
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc != 3 || ranks > RANKS_MAX) {
        fprintf(stderr, "usage: random SEED ROUNDS, on at most %d ranks\n", RANKS_MAX);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    state = strtoull(argv[1], NULL, 10) * 2654435761u + 1;
    int rounds = atoi(argv[2]);
    for (int round = 0; round < rounds; round++) {
        round_of_messages(round % 3, round / 3 % 3);
        /* A receive from anyone with any tag must not meet the next round's messages. */
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Finalize();
    if (rank == 0) {
        printf("%d rounds of %d messages on %d ranks\n", rounds, MESSAGES, ranks);
    }
    return 0;
}
