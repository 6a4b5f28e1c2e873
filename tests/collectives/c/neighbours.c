/*
 * Collective operations among the neighbours of grids and graphs, against what each rank computes alone.
 * Argument: "there", no neighbours that are MPI_PROC_NULL in graphs.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 32, COUNT = 600 };

static int rank, size;
static const char *stage = "start";

static void fail(const char *what, int place, int found, int expected) {
    fprintf(stderr, "neighbours: rank %d: %s: %s %d: %d instead of %d\n", rank, stage, what, place, found, expected);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

/* What `from` sends over its edge number `edge`. */
static int value(int from, int edge, int i) {
    return from * 10000 + edge * 1000 + i;
}

static void finish(int how, MPI_Request *request) {
    if (how == 2) {
        MPI_Start(request);
    }
    if (how > 0) {
        MPI_Wait(request, MPI_STATUS_IGNORE);
    }
    if (how == 2) {
        MPI_Request_free(request);
    }
}

/*
 * sources[i] sends to us over its edge edges[i]; all know their own lists. how: 0 blocking, 1 nonblocking, 2 persistent.
 */
static void exchange(MPI_Comm comm, int in, const int *sources, const int *edges, int out, int count, int how) {
    int *send = malloc(sizeof(int) * (size_t)(out + 1) * COUNT), *receive = malloc(sizeof(int) * (size_t)(in + 1) * COUNT);
    int counts[MOST], displacements[MOST], in_counts[MOST], in_displacements[MOST];
    MPI_Aint bytes[MOST], in_bytes[MOST];
    MPI_Datatype types[MOST];
    MPI_Request request;
    for (int i = 0; i < MOST; i++) {
        counts[i] = in_counts[i] = count;
        displacements[i] = in_displacements[i] = i * COUNT;
        bytes[i] = in_bytes[i] = (MPI_Aint)((size_t)i * COUNT * sizeof(int));
        types[i] = MPI_INT;
    }
    for (int what = 0; what < 5; what++) {
        static const char *const names[] = {"alltoall", "alltoallv", "alltoallw", "allgather", "allgatherv"};
        int dense = what == 0 || what == 3, gathers = what >= 3;
        stage = names[what];
        for (int e = 0; e <= out; e++) {
            for (int i = 0; i < count; i++) {
                send[(dense ? count : COUNT) * e + i] = value(rank, gathers ? 0 : e, i);
            }
        }
        memset(receive, 0, sizeof(int) * (size_t)(in + 1) * COUNT);
        switch (what * 3 + how) {
        case 0:
            MPI_Neighbor_alltoall(send, count, MPI_INT, receive, count, MPI_INT, comm);
            break;
        case 1:
            MPI_Ineighbor_alltoall(send, count, MPI_INT, receive, count, MPI_INT, comm, &request);
            break;
        case 2:
            MPI_Neighbor_alltoall_init(send, count, MPI_INT, receive, count, MPI_INT, comm, MPI_INFO_NULL, &request);
            break;
        case 3:
            MPI_Neighbor_alltoallv(send, counts, displacements, MPI_INT, receive, in_counts, in_displacements, MPI_INT,
                                   comm);
            break;
        case 4:
            MPI_Ineighbor_alltoallv(send, counts, displacements, MPI_INT, receive, in_counts, in_displacements, MPI_INT,
                                    comm, &request);
            break;
        case 5:
            MPI_Neighbor_alltoallv_init(send, counts, displacements, MPI_INT, receive, in_counts, in_displacements,
                                        MPI_INT, comm, MPI_INFO_NULL, &request);
            break;
        case 6:
            MPI_Neighbor_alltoallw(send, counts, bytes, types, receive, in_counts, in_bytes, types, comm);
            break;
        case 7:
            MPI_Ineighbor_alltoallw(send, counts, bytes, types, receive, in_counts, in_bytes, types, comm, &request);
            break;
        case 8:
            MPI_Neighbor_alltoallw_init(send, counts, bytes, types, receive, in_counts, in_bytes, types, comm,
                                        MPI_INFO_NULL, &request);
            break;
        case 9:
            MPI_Neighbor_allgather(send, count, MPI_INT, receive, count, MPI_INT, comm);
            break;
        case 10:
            MPI_Ineighbor_allgather(send, count, MPI_INT, receive, count, MPI_INT, comm, &request);
            break;
        case 11:
            MPI_Neighbor_allgather_init(send, count, MPI_INT, receive, count, MPI_INT, comm, MPI_INFO_NULL, &request);
            break;
        case 12:
            MPI_Neighbor_allgatherv(send, count, MPI_INT, receive, in_counts, in_displacements, MPI_INT, comm);
            break;
        case 13:
            MPI_Ineighbor_allgatherv(send, count, MPI_INT, receive, in_counts, in_displacements, MPI_INT, comm,
                                     &request);
            break;
        default:
            MPI_Neighbor_allgatherv_init(send, count, MPI_INT, receive, in_counts, in_displacements, MPI_INT, comm,
                                         MPI_INFO_NULL, &request);
            break;
        }
        finish(how, &request);
        for (int s = 0; s < in; s++) {
            for (int i = 0; i < count; i++) {
                int expected = sources[s] == MPI_PROC_NULL ? 0 : value(sources[s], gathers ? 0 : edges[s], i);
                int found = receive[(dense ? count : COUNT) * s + i];
                if (found != expected) {
                    fail(stage, s, found, expected);
                }
            }
        }
    }
    free(send);
    free(receive);
}

static void grid(int dimensions, const int *dims, const int *periods) {
    int sources[MOST], edges[MOST], inside;
    MPI_Comm comm;
    MPI_Cart_create(MPI_COMM_WORLD, dimensions, dims, periods, 0, &comm);
    inside = comm != MPI_COMM_NULL;
    for (int how = 0; inside && how < 3; how++) {
        for (int count = 1; count <= COUNT; count += COUNT - 1) {
            for (int d = 0; d < dimensions; d++) {
                MPI_Cart_shift(comm, d, 1, &sources[2 * d], &sources[2 * d + 1]);
                /* What the lower neighbour sends upwards, and the other way round. */
                edges[2 * d] = 2 * d + 1;
                edges[2 * d + 1] = 2 * d;
            }
            exchange(comm, 2 * dimensions, sources, edges, 2 * dimensions, count, how);
        }
    }
    if (inside) {
        MPI_Comm_free(&comm);
    }
}

/* Everybody sends to the next `reach` ranks. */
static void graph(int reach) {
    int sources[MOST] = {0}, destinations[MOST] = {0}, edges[MOST] = {0}, weights[MOST] = {0};
    MPI_Comm comm;
    for (int i = 0; i < reach; i++) {
        destinations[i] = (rank + 1 + i) % size;
        sources[i] = ((rank - 1 - i) % size + size) % size;
        edges[i] = i;
        weights[i] = 1;
    }
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, reach, sources, weights, reach, destinations, weights,
                                   MPI_INFO_NULL, 0, &comm);
    for (int how = 0; how < 3; how++) {
        exchange(comm, reach, sources, edges, reach, 100, how);
    }
    MPI_Comm_free(&comm);
}

/* A line of processes that all describe alike: the ends have neighbours that are not there, with weights. */
static void line(int adjacent) {
    int sources[4], destinations[4], weights[4] = {7, 8, 9, 6}, edges[4] = {1, 0, 0, 3}, degree = 4, in, out, weighted;
    int found[4], found_weights[4], ends[4], ends_weights[4], named[2] = {rank, MPI_PROC_NULL}, degrees[2] = {4, 1};
    int all[5], all_weights[5] = {7, 8, 9, 6, 5};
    MPI_Comm comm;
    stage = "line";
    sources[0] = destinations[0] = rank == 0 ? MPI_PROC_NULL : rank - 1;
    sources[1] = destinations[1] = rank == size - 1 ? MPI_PROC_NULL : rank + 1;
    sources[2] = destinations[2] = MPI_PROC_NULL;
    sources[3] = destinations[3] = rank;
    if (adjacent) {
        MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, degree, sources, weights, degree, destinations, weights,
                                       MPI_INFO_NULL, 0, &comm);
    } else {
        /* Of the edges that come from nowhere one leads to this process. */
        memcpy(all, destinations, sizeof destinations);
        all[4] = rank;
        MPI_Dist_graph_create(MPI_COMM_WORLD, 2, named, degrees, all, all_weights, MPI_INFO_NULL, 0, &comm);
    }
    MPI_Dist_graph_neighbors_count(comm, &in, &out, &weighted);
    if (out != degree || !weighted) {
        fail("neighbours", weighted, out, degree);
    }
    if (adjacent) {
        MPI_Dist_graph_neighbors(comm, degree, found, found_weights, degree, ends, ends_weights);
        for (int i = 0; i < degree; i++) {
            if (found[i] != sources[i] || ends[i] != destinations[i]) {
                fail("neighbour", i, found[i], sources[i]);
            }
            if (found_weights[i] != weights[i] || ends_weights[i] != weights[i]) {
                fail("weight", i, found_weights[i], weights[i]);
            }
        }
    } else {
        /* Sources come in the order of those that named them; each one's edge to us has the number that it gave it. */
        MPI_Dist_graph_neighbors(comm, in, sources, found_weights, out, ends, ends_weights);
        for (int i = 0; i < out; i++) {
            if (ends[i] != destinations[i] || ends_weights[i] != all_weights[i]) {
                fail("weight of an edge", i, ends_weights[i], all_weights[i]);
            }
        }
        for (int i = 0; i < in; i++) {
            int wanted = sources[i] == MPI_PROC_NULL ? 5 : sources[i] == rank ? 6 : sources[i] == rank - 1 ? 8 : 7;
            if (found_weights[i] != wanted) {
                fail("weight of a source", i, found_weights[i], wanted);
            }
            edges[i] = sources[i] == rank - 1 ? 1 : sources[i] == rank + 1 ? 0 : 3;
        }
        if (in != 2 + (rank > 0) + (rank < size - 1)) {
            fail("sources", 0, in, 2 + (rank > 0) + (rank < size - 1));
        }
    }
    for (int how = 0; how < 3; how++) {
        exchange(comm, in, sources, edges, degree, 100, how);
    }
    MPI_Comm_free(&comm);
}

/* A neighbour that is not there is MPI_PROC_NULL, and no other number below zero. */
static void refused(void) {
    int nowhere = -7, one = 1, class;
    MPI_Comm made;
    stage = "refused";
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Error_class(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &nowhere, MPI_UNWEIGHTED, 0, NULL, MPI_UNWEIGHTED,
                                                   MPI_INFO_NULL, 0, &made), &class);
    if (class != MPI_ERR_RANK) {
        fail("class", 0, class, MPI_ERR_RANK);
    }
    MPI_Error_class(MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &rank, &one, &nowhere, MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
                                          &made), &class);
    if (class != MPI_ERR_RANK) {
        fail("class", 1, class, MPI_ERR_RANK);
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    grid(1, (int[]){size}, (int[]){1});
    grid(1, (int[]){size}, (int[]){0});
    grid(2, (int[]){size, 1}, (int[]){1, 1});
    grid(2, (int[]){1, size}, (int[]){0, 1});
    if (size >= 2) {
        grid(1, (int[]){2}, (int[]){1});
    }
    if (size >= 4) {
        grid(2, (int[]){2, 2}, (int[]){1, 0});
        grid(3, (int[]){1, 2, 2}, (int[]){1, 1, 1});
    }
    graph(1);
    graph(size - 1);
    /* Other libraries do not take neighbours that are not there. */
    if (argc == 1) {
        line(1);
        line(0);
        refused();
    }
    if (rank == 0) {
        printf("neighbours: all right\n");
    }
    MPI_Finalize();
    return 0;
}
