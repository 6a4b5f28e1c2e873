/*
 * Communicators that come and go, more at a time than the segment has blocks for, with collective operations of few or no data on
 * all of them: blocking, nonblocking, left outstanding (also over the end of their communicator), persistent. What one of them
 * leaves in a block, or a rank that is behind, must not reach the next.
 *
 *   lifetimes SEED ROUNDS [stopped]
 *
 * With `stopped` a child of each rank stops it for some milliseconds again and again.
 */
#define _GNU_SOURCE
#include "draws.h"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { POOL = 90, OUTSTANDING = 8, COUNT_MAX = 1500 };

typedef struct {
    MPI_Comm comm; /* MPI_COMM_NULL where this rank is no member */
    bool used, inter;
} life;

typedef struct {
    MPI_Request request;
    int *send, *receive;
    uint64_t salt;
    int kind, count, size, rank, root;
    bool inter;
} operation;

static life pool[POOL];
static operation outstanding[OUTSTANDING];
static int pending, world_size;

static int few(void) {
    static const int counts[] = {0, 0, 0, 1, 13, 14, 15, 1023, 1024, 1025, COUNT_MAX};
    return counts[below((int)(sizeof counts / sizeof *counts))];
}

enum { BARRIER, BROADCAST, GATHER, SCATTER, ALLGATHER, ALLTOALL, REDUCE, ALLREDUCE, SCAN, KINDS };

/* An operation: way 0 does it, 1 begins it, 2 prepares it. */
static void call(const operation *o, MPI_Comm comm, int way, MPI_Request *request) {
    const int n = o->count, root = o->root;
    int *s = o->send, *r = o->receive;
#define WAYS(blocking, nonblocking, persistent) \
    (way == 0 ? (void)(blocking) : way == 1 ? (void)(nonblocking) : (void)(persistent))
    switch (o->kind) {
    case BARRIER:
        WAYS(MPI_Barrier(comm), MPI_Ibarrier(comm, request), MPI_Barrier_init(comm, MPI_INFO_NULL, request));
        break;
    case BROADCAST:
        WAYS(MPI_Bcast(r, n, MPI_INT, root, comm), MPI_Ibcast(r, n, MPI_INT, root, comm, request),
             MPI_Bcast_init(r, n, MPI_INT, root, comm, MPI_INFO_NULL, request));
        break;
    case GATHER:
        WAYS(MPI_Gather(s, n, MPI_INT, r, n, MPI_INT, root, comm),
             MPI_Igather(s, n, MPI_INT, r, n, MPI_INT, root, comm, request),
             MPI_Gather_init(s, n, MPI_INT, r, n, MPI_INT, root, comm, MPI_INFO_NULL, request));
        break;
    case SCATTER:
        WAYS(MPI_Scatter(s, n, MPI_INT, r, n, MPI_INT, root, comm),
             MPI_Iscatter(s, n, MPI_INT, r, n, MPI_INT, root, comm, request),
             MPI_Scatter_init(s, n, MPI_INT, r, n, MPI_INT, root, comm, MPI_INFO_NULL, request));
        break;
    case ALLGATHER:
        WAYS(MPI_Allgather(s, n, MPI_INT, r, n, MPI_INT, comm),
             MPI_Iallgather(s, n, MPI_INT, r, n, MPI_INT, comm, request),
             MPI_Allgather_init(s, n, MPI_INT, r, n, MPI_INT, comm, MPI_INFO_NULL, request));
        break;
    case ALLTOALL:
        WAYS(MPI_Alltoall(s, n, MPI_INT, r, n, MPI_INT, comm),
             MPI_Ialltoall(s, n, MPI_INT, r, n, MPI_INT, comm, request),
             MPI_Alltoall_init(s, n, MPI_INT, r, n, MPI_INT, comm, MPI_INFO_NULL, request));
        break;
    case REDUCE:
        WAYS(MPI_Reduce(s, r, n, MPI_INT, MPI_MAX, root, comm),
             MPI_Ireduce(s, r, n, MPI_INT, MPI_MAX, root, comm, request),
             MPI_Reduce_init(s, r, n, MPI_INT, MPI_MAX, root, comm, MPI_INFO_NULL, request));
        break;
    case ALLREDUCE:
        WAYS(MPI_Allreduce(s, r, n, MPI_INT, MPI_MAX, comm),
             MPI_Iallreduce(s, r, n, MPI_INT, MPI_MAX, comm, request),
             MPI_Allreduce_init(s, r, n, MPI_INT, MPI_MAX, comm, MPI_INFO_NULL, request));
        break;
    default:
        WAYS(MPI_Scan(s, r, n, MPI_INT, MPI_MAX, comm), MPI_Iscan(s, r, n, MPI_INT, MPI_MAX, comm, request),
             MPI_Scan_init(s, r, n, MPI_INT, MPI_MAX, comm, MPI_INFO_NULL, request));
    }
}

/* Everything sent is `value(salt, rank, place)`. */
static void look(const operation *o) {
    const int n = o->count;
    const bool is_root = o->rank == o->root;
    for (int rank = 0; rank < o->size; rank++) {
        if (o->kind == ALLGATHER || (o->kind == GATHER && is_root)) {
            check_ints(o->receive + rank * n, n, o->salt, rank, 0);
        } else if (o->kind == ALLTOALL) {
            check_ints(o->receive + rank * n, n, o->salt, rank, o->inter ? 0 : o->rank * n);
        }
    }
    if (o->kind == BROADCAST) {
        check_ints(o->receive, n, o->salt, o->root, 0);
    } else if (o->kind == SCATTER) {
        check_ints(o->receive, n, o->salt, o->root, o->rank * n);
    } else if (o->kind == ALLREDUCE || o->kind == SCAN || (o->kind == REDUCE && is_root)) {
        int last = o->kind == SCAN ? o->rank : o->size - 1;
        for (int i = 0; i < n; i++) {
            int most = 0;
            for (int rank = 0; rank <= last; rank++) {
                int theirs = value(o->salt, rank, i);
                most = theirs > most ? theirs : most;
            }
            if (o->receive[i] != most) {
                fail("kind %d of %d ints, place %d: %d instead of %d", o->kind, n, i, o->receive[i], most);
            }
        }
    }
}

static void conclude(operation *o) {
    look(o);
    free(o->send);
    free(o->receive);
}

static void settle(int left) {
    while (pending > left) {
        /* Any of them, not the oldest: every rank waits for its own. */
        int i = (int)((unsigned)rand() % (unsigned)pending);
        MPI_Wait(&outstanding[i].request, MPI_STATUS_IGNORE);
        conclude(&outstanding[i]);
        outstanding[i] = outstanding[--pending];
    }
}

static void operate(const life *life) {
    operation o = {.request = MPI_REQUEST_NULL, .salt = draw() % 1000, .count = few()};
    int rooted = below(world_size), way = below(4), times = 1 + below(3);
    /* Between two groups: what needs no root. */
    static const int symmetric[] = {BARRIER, ALLGATHER, ALLREDUCE};
    o.kind = life->inter ? symmetric[below(3)] : below(KINDS);
    o.inter = life->inter;
    if (life->comm == MPI_COMM_NULL) {
        return;
    }
    MPI_Comm_rank(life->comm, &o.rank);
    MPI_Comm_size(life->comm, &o.size);
    if (life->inter) {
        MPI_Comm_remote_size(life->comm, &o.size);
    }
    o.root = rooted % o.size;
    size_t all = (size_t)(o.count * (o.size > world_size ? o.size : world_size)) * sizeof(int);
    o.send = allocate(all);
    o.receive = allocate(all);
    fill_ints(o.send, o.count * o.size, o.salt, o.rank, 0);
    if (o.kind == BROADCAST) {
        memcpy(o.receive, o.send, all);
    }
    call(&o, life->comm, way > 2 ? 1 : way, &o.request);
    if (way == 2) {
        for (int i = 0; i < times; i++) {
            MPI_Start(&o.request);
            MPI_Wait(&o.request, MPI_STATUS_IGNORE);
        }
        MPI_Request_free(&o.request);
    } else if (way == 1) {
        MPI_Wait(&o.request, MPI_STATUS_IGNORE);
    } else if (way == 3) {
        settle(OUTSTANDING - 1);
        outstanding[pending++] = o;
        return;
    }
    conclude(&o);
}

static void make(life *life) {
    /* A parent that all have. */
    int kind = below(6), mask = below(1 << world_size), cut = 1 + below(world_size > 1 ? world_size - 1 : 1);
    int key = below(7);
    MPI_Request request;
    MPI_Group world, group;
    life->used = true;
    life->inter = false;
    life->comm = MPI_COMM_NULL;
    if (kind == 0) {
        MPI_Comm_idup(MPI_COMM_WORLD, &life->comm, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else if (kind == 1) {
        MPI_Comm_dup(MPI_COMM_WORLD, &life->comm);
    } else if (kind == 2) {
        MPI_Comm_split(MPI_COMM_WORLD, mask >> world_rank & 1, (world_rank * key) % 5, &life->comm);
    } else if (kind == 3) {
        int color = mask >> world_rank & 1 ? 4 : MPI_UNDEFINED;
        MPI_Comm_split(MPI_COMM_WORLD, color, -world_rank, &life->comm);
    } else if (kind == 4 || world_size == 1) {
        MPI_Comm_group(MPI_COMM_WORLD, &world);
        MPI_Group_range_incl(world, 1, (int[][3]){{cut - 1, world_size - 1, 1}}, &group);
        if (world_rank >= cut - 1) {
            MPI_Comm_create_group(MPI_COMM_WORLD, group, key, &life->comm);
        }
        MPI_Group_free(&group);
        MPI_Group_free(&world);
    } else {
        MPI_Comm half;
        MPI_Comm_split(MPI_COMM_WORLD, world_rank >= cut, world_rank, &half);
        MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, world_rank < cut ? cut : 0, key, &life->comm);
        MPI_Comm_free(&half);
        life->inter = true;
    }
}

static void end(life *life) {
    int how = below(3);
    life->used = false;
    if (how == 0) {
        settle(0);
    }
    if (life->comm != MPI_COMM_NULL) {
        if (how == 1) {
            MPI_Comm_disconnect(&life->comm);
        } else {
            MPI_Comm_free(&life->comm);
        }
    }
}

/* Stops its parent again and again, and ends with it. */
static void stop_now_and_then(void) {
    pid_t rank = getpid();
    if (fork() != 0) {
        return;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    srand((unsigned)getpid());
    while (getppid() == rank) {
        nanosleep(&(struct timespec){0, 1000 * (1 + rand() % 20000)}, NULL);
        kill(rank, SIGSTOP);
        nanosleep(&(struct timespec){0, 1000 * (1 + rand() % 5000)}, NULL);
        kill(rank, SIGCONT);
    }
    _exit(0);
}

int main(int argc, char **argv) {
    if (argc > 3 && strcmp(argv[3], "stopped") == 0) {
        stop_now_and_then();
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    state = strtoull(argv[1], NULL, 0);
    srand((unsigned)world_rank);
    (void)common; /* Everything here is the standard. */
    int rounds = atoi(argv[2]);
    if (world_rank == 0) {
        printf("lifetimes: seed %llu, %d ranks\n", (unsigned long long)state, world_size);
        fflush(stdout);
    }
    const life world = {MPI_COMM_WORLD, true, false};
    char text[32];
    stage = text;
    for (int i = 0; i < rounds; i++) {
        snprintf(text, sizeof text, "round %d", i);
        life *one = &pool[below(i % 400 < 200 ? POOL : 12)];
        if (!one->used) {
            make(one);
        } else if (below(4) == 0) {
            end(one);
        } else {
            nap(MPI_COMM_WORLD);
            operate(below(3) == 0 ? &world : one);
        }
    }
    settle(0);
    for (int i = 0; i < POOL; i++) {
        if (pool[i].used) {
            end(&pool[i]);
        }
    }
    MPI_Finalize();
    if (world_rank == 0) {
        puts("lifetimes: all right");
    }
    return 0;
}
