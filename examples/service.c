/*
 * A server region with two clients. The server publishes memory and a signal; a client takes a place by an atomic addition, sends its
 * question as a signal, and sleeps until the answer is in its place. Server and clients are jobs of their own: each may be frozen
 * while the others run, and a client that waits uses no CPU time.
 *
 *   mpicc -O2 -o service examples/service.c -ltutti
 *   mpiexec -n 1 ./service serve squares 200
 *   mpiexec -n 1 ./service ask squares 100       (twice, in other terminals)
 *
 * On a cluster: tutti run -H node1 -n 1 ./service serve squares 200
 *               tutti run -H node2 -n 1 ./service ask squares@node1 100
 */
#include <mpi.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti.h>

enum { PLACES = 4096 };

/* What the clients see. */
struct shared {
    int64_t next_place, clients, done;
    int64_t answers[PLACES];
};

struct question {
    int64_t place, number;
};

struct server {
    tutti_region region;
    _Atomic int64_t answered;
};

static void fail(const char *what, int status) {
    fprintf(stderr, "%s: status %d\n", what, status);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Runs in the server, once for each question. What a client sends may be anything. */
static void answer(const void *data, size_t bytes, int from, void *context) {
    struct server *server = context;
    struct question question;
    (void)from;
    if (bytes != sizeof question) {
        return;
    }
    memcpy(&question, data, sizeof question);
    if (question.place < 0 || question.place >= PLACES) {
        return;
    }
    int64_t square = question.number * question.number;
    uint64_t offset = offsetof(struct shared, answers) + 8 * (uint64_t)question.place;
    /* A client that has the last answer ends the server: what it counts comes before. */
    server->answered += 1;
    tutti_write(&server->region, offset, &square, sizeof square, TUTTI_WAIT);
}

static void serve(const char *name, int64_t count) {
    static struct server server;
    static char questions[128];
    struct shared *shared;
    tutti_region signal;
    int status;
    snprintf(questions, sizeof questions, "%s.questions", name);
    status = tutti_publish(name, sizeof *shared, TUTTI_READ | TUTTI_ATOMIC, "user", (void **)&shared, &server.region);
    if (status != TUTTI_OK) {
        fail("publish the memory", status);
    }
    status = tutti_publish_signal(questions, 4096, "user", answer, &server, &signal);
    if (status != TUTTI_OK) {
        fail("publish the signal", status);
    }
    puts("serving");
    fflush(stdout);
    tutti_wait_for(&server.region, offsetof(struct shared, done), TUTTI_GE, count);
    printf("%lld questions of %lld clients\n", (long long)server.answered, (long long)shared->clients);
    tutti_close(&signal);
    tutti_close(&server.region);
}

static void ask(const char *name, int64_t count) {
    static char questions[128];
    tutti_region region, signal;
    int64_t right = 0, found;
    int status, end = (int)strcspn(name, "@");
    snprintf(questions, sizeof questions, "%.*s.questions%s", end, name, name + end);
    status = tutti_open_published(name, 0, &region, NULL);
    if (status != TUTTI_OK) {
        fail("open the memory", status);
    }
    status = tutti_open_published(questions, 0, &signal, NULL);
    if (status != TUTTI_OK) {
        fail("open the signal", status);
    }
    for (int64_t i = 0; i < count; i++) {
        struct question question = {0, 3 + i};
        int64_t square = 0;
        tutti_fetch_add(&region, offsetof(struct shared, next_place), 1, &question.place, TUTTI_WAIT);
        uint64_t offset = offsetof(struct shared, answers) + 8 * (uint64_t)question.place;
        do {
            status = tutti_put(&signal, &question, sizeof question, TUTTI_WAIT);
        } while (status == TUTTI_ERR_FULL);
        if (status != TUTTI_OK) {
            fail("ask", status);
        }
        status = tutti_wait_for(&region, offset, TUTTI_NE, 0);
        if (status != TUTTI_OK) {
            fail("wait for the answer", status);
        }
        tutti_read(&region, offset, &square, sizeof square, TUTTI_WAIT);
        right += square == question.number * question.number;
    }
    tutti_fetch_add(&region, offsetof(struct shared, clients), 1, &found, TUTTI_WAIT);
    tutti_fetch_add(&region, offsetof(struct shared, done), count, &found, TUTTI_WAIT);
    printf(right == count ? "%lld answers, all right\n" : "only %lld answers are right\n", (long long)right);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    if (argc != 4 || atoi(argv[3]) < 1 || atoi(argv[3]) > PLACES) {
        fprintf(stderr, "usage: %s serve|ask NAME QUESTIONS\n", argv[0]);
        MPI_Abort(MPI_COMM_WORLD, 2);
    } else if (strcmp(argv[1], "serve") == 0) {
        serve(argv[2], atoi(argv[3]));
    } else {
        ask(argv[2], atoi(argv[3]));
    }
    MPI_Finalize();
    return 0;
}
