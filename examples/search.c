/* Breadth-first search of a random graph with OpenSHMEM. Vertex v lives at PE v % n. Whoever finds a vertex claims it at its
 * PE by compare-and-swap and puts it into the queue of that PE for the next level. The result is compared with a search by
 * one PE, and each parent is checked to be a neighbour one level above.
 * Usage: oshrun -n 4 search [VERTICES [EDGES OF EACH]] */
#define _POSIX_C_SOURCE 200809L
#include <shmem.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static long vertices, degree;

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* The other end of edge `edge` of a vertex; the graph is directed, and the same at all PEs. */
static long end_of(long vertex, long edge)
{
    uint64_t x = (uint64_t)vertex * 0x9e3779b97f4a7c15u + (uint64_t)edge * 0xbf58476d1ce4e5b9u + 1;
    x = (x ^ (x >> 29)) * 0x94d049bb133111ebu;
    x ^= x >> 32;
    /* Near ones for the most part, so that there are many levels. */
    return edge % 4 ? (vertex + 1 + (long)(x % 16)) % vertices : (long)(x % (uint64_t)vertices);
}

/* Levels of all vertices, found alone; -1: not reached. */
static long *search_alone(void)
{
    long *level = malloc((size_t)vertices * sizeof *level), *queue = malloc((size_t)vertices * sizeof *queue);
    long head = 0, tail = 0;
    if (!level || !queue)
        shmem_global_exit(1);
    for (long v = 0; v < vertices; v++)
        level[v] = -1;
    level[0] = 0;
    queue[tail++] = 0;
    while (head < tail) {
        long v = queue[head++];
        for (long edge = 0; edge < degree; edge++) {
            long w = end_of(v, edge);
            if (level[w] < 0) {
                level[w] = level[v] + 1;
                queue[tail++] = w;
            }
        }
    }
    free(queue);
    return level;
}

int main(int argc, char **argv)
{
    vertices = argc > 1 ? atol(argv[1]) : 2000;
    degree = argc > 2 ? atol(argv[2]) : 4;
    shmem_init();
    int me = shmem_my_pe(), n = shmem_n_pes();
    if (vertices < 1 || vertices > 10000000 || degree < 1) {
        if (me == 0)
            fprintf(stderr, "usage: search [VERTICES 1..10000000 [EDGES]]\n");
        shmem_global_exit(2);
    }
    size_t own = (size_t)(vertices / n + 1);
    /* 1 + the parent, 0: not found. Two queues, for this level and the next, and their lengths. */
    long *parent = shmem_calloc(own, sizeof(long)), *level = shmem_calloc(own, sizeof(long));
    long *queue[2] = {shmem_malloc(own * sizeof(long)), shmem_malloc(own * sizeof(long))};
    long *length = shmem_calloc(2, sizeof(long)), *found = shmem_calloc(4, sizeof(long));
    if (!parent || !level || !queue[0] || !queue[1] || !length || !found)
        shmem_global_exit(1);
    if (me == 0) {
        parent[0] = 1;
        queue[0][0] = 0;
        length[0] = 1;
    }
    shmem_barrier_all();

    double begin_ms = now_ms();
    long reached = me == 0, levels = 0;
    for (;; levels++) {
        int now = (int)(levels % 2), next = 1 - now;
        for (long i = 0; i < length[now]; i++) {
            long v = queue[now][i];
            level[v / n] = levels;
            for (long edge = 0; edge < degree; edge++) {
                long w = end_of(v, edge);
                int pe = (int)(w % n);
                if (shmem_long_atomic_fetch(&parent[w / n], pe) == 0 &&
                    shmem_long_atomic_compare_swap(&parent[w / n], 0, v + 1, pe) == 0) {
                    long place = shmem_long_atomic_fetch_inc(&length[next], pe);
                    shmem_long_p(&queue[next][place], w, pe);
                }
            }
        }
        shmem_barrier_all();
        length[now] = 0;
        found[0] = length[next];
        reached += found[0];
        /* How many vertices the next level has, at all PEs. */
        shmem_long_sum_reduce(SHMEM_TEAM_WORLD, &found[1], &found[0], 1);
        if (found[1] == 0)
            break;
    }
    double together_ms = now_ms() - begin_ms;

    begin_ms = now_ms();
    long *alone = search_alone(), wrong = 0;
    double alone_ms = now_ms() - begin_ms;
    for (long v = me; v < vertices; v += n) {
        long above = parent[v / n] - 1;
        wrong += (above >= 0) != (alone[v] >= 0);
        if (above < 0 || v == 0)
            continue;
        int is_neighbour = 0;
        for (long edge = 0; edge < degree; edge++)
            is_neighbour |= end_of(above, edge) == v;
        wrong += level[v / n] != alone[v] || alone[above] != alone[v] - 1 || !is_neighbour;
    }
    free(alone);
    found[0] = wrong;
    found[1] = reached;
    shmem_long_sum_reduce(SHMEM_TEAM_WORLD, &found[2], &found[0], 2);
    int is_wrong = me == 0 && found[2] != 0;
    if (me == 0)
        printf("search: %ld of %ld vertices reached in %ld levels, %d PEs: %.1f ms, one PE by itself %.1f: %s\n",
               found[3], vertices, levels + 1, n, together_ms, alone_ms, is_wrong ? "WRONG" : "verified");
    shmem_finalize();
    return is_wrong;
}
