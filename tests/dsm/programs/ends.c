/* Programs whose processes end, or die, while others need them, and those that use memory or a lock that is gone; the
 * first argument says which. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <tutti/parmacs.h>

MAIN_ENV

struct shared {
    LOCKDEC(names)
    LOCKDEC(lock)
    BARDEC(barrier)
    long next;
};

/* Some pages of its own. */
struct large {
    char before[8192];
    LOCKDEC(lock)
    volatile long value;
    char behind[8192];
};

static struct shared *all;
static struct large *large;
static const char *what;

static int is(const char *name) {
    return strcmp(what, name) == 0;
}

static void use_freed(void) {
    if (is("freed")) {
        G_FREE(large);
        large->value = 1;
    }
    if (is("freed-own")) {
        struct large *own = G_MALLOC(sizeof *own)
        own->value = 1;
        G_FREE(own);
        printf("ends: %ld in freed memory\n", own->value);
    }
    if (is("destroyed")) {
        LOCK(large->lock);
        G_FREE(large);
        UNLOCK(large->lock);
    }
    if (is("again")) {
        /* What was given back is given to somebody else. */
        struct large *next, *own = G_MALLOC(sizeof *own)
        own->value = 1;
        G_FREE(own);
        next = G_MALLOC(sizeof *next);
        next->value = 2;
        memset(next->before, 3, sizeof next->before);
        memset(next->behind, 4, sizeof next->behind);
        G_FREE(next);
    }
    if (is("made-again")) {
        LOCK(all->lock);
        LOCKINIT(all->lock);
        UNLOCK(all->lock);
    }
}

static void run(void) {
    long me;
    LOCK(all->names);
    me = all->next++;
    UNLOCK(all->names);
    if (me == 1) {
        use_freed();
        if (is("null"))
            ((struct large *)NULL)->value = 1;
        if (is("killed"))
            raise(SIGKILL);
    }
    /* Once main, which waits for the others then, and once another one. */
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (is(rank == 0 ? "main-returns" : "returns"))
        return;
    BARRIER(all->barrier, 2);
}

int main(int argc, char **argv) {
    what = argc > 1 ? argv[1] : "";
    all = G_MALLOC(sizeof *all);
    large = G_MALLOC(sizeof *large);
    all->next = 0;
    LOCKINIT(all->names);
    LOCKINIT(all->lock);
    LOCKINIT(large->lock);
    BARINIT(all->barrier, 2);
    CREATE(run, 2);
    WAIT_FOR_END(2);
    printf("ends: %s\n", is("again") ? "right" : "nothing was said");
    MAIN_END;
}
