/* turns FILE: ranks that compute until the file is there, then say what they were told of their turns, beside what the kernel has seen of them:
   who neither runs nor waits for a core stands still. First they try to write what they are told. */
#define _GNU_SOURCE
#include <mpi.h>

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static void wrong(const char *what)
{
    printf("turns: %s\n", what);
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 3);
}

/* By its mappings and by its descriptors. Returns how many pages were found. */
static int try_to_write(void)
{
    int found = 0;
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
        unsigned long begin, end;
        if (strstr(line, "/memfd:tutti-turns") == NULL || sscanf(line, "%lx-%lx", &begin, &end) != 2)
            continue;
        found++;
        if (mprotect((void *)begin, end - begin, PROT_READ | PROT_WRITE) == 0)
            wrong("the page was made writable");
    }
    if (maps != NULL)
        fclose(maps);
    for (int file = 0; file < 256; file++) {
        char path[64], name[256] = "";
        snprintf(path, sizeof path, "/proc/self/fd/%d", file);
        if (readlink(path, name, sizeof name - 1) < 0 || strstr(name, "/memfd:tutti-turns") == NULL)
            continue;
        found++;
        if (mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) != MAP_FAILED)
            wrong("the page was mapped writable");
        if (pwrite(file, "12345678", 8, 0) >= 0)
            wrong("the page was written");
        if (ftruncate(file, 0) == 0)
            wrong("the page was cut");
    }
    return found;
}

struct seen {
    unsigned long long thaws, frozen_us;
    /* By the kernel: how long it has run, and waited for a core. */
    unsigned long long ran_ns, waited_ns, wall_ns;
};

/* All of one moment: in between it was not thawed, nor without a core for longer than a moment. */
static struct seen look(MPI_T_pvar_session session, MPI_T_pvar_handle *handles)
{
    const uint64_t moment_ns = 5000000;
    struct seen seen;
    unsigned long long thaws;
    uint64_t began_ns;
    do {
        began_ns = now();
        MPI_T_pvar_read(session, handles[0], &seen.thaws);
        MPI_T_pvar_read(session, handles[1], &seen.frozen_us);
        FILE *file = fopen("/proc/self/schedstat", "r");
        if (file == NULL || fscanf(file, "%llu %llu", &seen.ran_ns, &seen.waited_ns) != 2)
            wrong("the kernel does not say how long it ran");
        fclose(file);
        seen.wall_ns = now();
        MPI_T_pvar_read(session, handles[0], &thaws);
    } while (thaws != seen.thaws || seen.wall_ns - began_ns > moment_ns);
    return seen;
}

/* The same, once the page has caught up: what a thaw was told of may come behind it, since the daemon does
   not wait for long for the thread that brings it. Then more is told as frozen than was, and it looks anew. */
static struct seen look_settled(MPI_T_pvar_session session, MPI_T_pvar_handle *handles)
{
    const unsigned long long stretch_ns = 200000000, slack_us = 20000;
    struct seen first, next = look(session, handles);
    unsigned long long passed_ns, ran_ns;
    do {
        first = next;
        do {
            next = look(session, handles);
            ran_ns = next.ran_ns - first.ran_ns;
        } while (ran_ns < stretch_ns);
        passed_ns = next.wall_ns - first.wall_ns;
    } while (next.frozen_us - first.frozen_us > (passed_ns - ran_ns) / 1000 + slack_us);
    return first;
}

int main(int argc, char **argv)
{
    int rank, provided, index, count;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_T_pvar_session session;
    MPI_T_pvar_session_create(&session);
    MPI_T_pvar_handle handles[2];
    const char *names[2] = {"thaws", "frozen_us"};
    for (int i = 0; i < 2; i++) {
        if (MPI_T_pvar_get_index(names[i], MPI_T_PVAR_CLASS_COUNTER, &index) != MPI_SUCCESS)
            wrong("there is no such counter");
        MPI_T_pvar_handle_alloc(session, index, NULL, &handles[i], &count);
        MPI_T_pvar_start(session, handles[i]);
    }
    if (try_to_write() == 0)
        wrong("no page was found");
    MPI_Barrier(MPI_COMM_WORLD);
    struct seen before = look_settled(session, handles);
    if (rank == 0) {
        puts("turns: up");
        fflush(stdout);
    }
    for (volatile unsigned looks = 0; (looks & 0xfffff) != 0 || access(argv[1], F_OK) != 0; looks++)
        ;
    /* What a thaw was told of may come behind it, as above. */
    struct seen after;
    uint64_t limit_ns = now() + 15000000000;
    unsigned long long wall_ns, waited_ns, still_ns;
    do {
        after = look(session, handles);
        wall_ns = after.wall_ns - before.wall_ns;
        waited_ns = after.waited_ns - before.waited_ns;
        still_ns = wall_ns - (after.ran_ns - before.ran_ns) - waited_ns;
    } while ((after.frozen_us - before.frozen_us) * 1000 + 50000000 < still_ns && now() < limit_ns);
    printf("turns: rank %d thaws %llu frozen_us %llu still_us %llu waited_us %llu wall_us %llu\n", rank,
           after.thaws - before.thaws, after.frozen_us - before.frozen_us,
           still_ns / 1000, waited_ns / 1000, wall_ns / 1000);
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
