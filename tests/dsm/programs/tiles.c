/* A picture of bytes, drawn by tiles as a ray caster draws it: each process takes tiles of its own part from a queue, then those
 * of others. Tiles are narrow and lie anywhere, so that processes store to runs of bytes side by side in every page. In each
 * frame the picture is cleared by parts that are no tiles, and process 0 alone changes the light that all need; each process
 * fills a part of the table by which light becomes colour. The picture does not depend on who draws what.
 *
 * With -DVARIABLES all that is shared is variables of C (tutticc --globals=shared). Arguments: the number of processes, and of
 * frames (6). */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <tutti/parmacs.h>

MAIN_ENV

enum { SIDE = 91, TILE = 4, ACROSS = (SIDE + TILE - 1) / TILE, TILES = ACROSS * ACROSS, COLOURS = 1531, PROCESSES_MAX = 16 };

struct picture {
    unsigned char pixels[SIDE * SIDE];
    unsigned char drawn[TILES];
};

struct shared {
    BARDEC(barrier)
    ALOCKDEC(queues, PROCESSES_MAX)
    long next[PROCESSES_MAX];
    unsigned char colours[COLOURS];
    float light[3];
    uint64_t digest;
    long wrong;
};

#ifdef VARIABLES
static struct shared variables;
static struct picture canvas;
#endif
static struct shared *all;
static struct picture *picture;
static long processes = 1, frames = 6;

/* Clears this process's part: rows are split where they are. */
static void clear(long me) {
    long bytes = sizeof *picture, part = (bytes + processes - 1) / processes;
    unsigned char *first = (unsigned char *)picture;
    for (long at = me * part; at < (me + 1) * part && at < bytes; at++)
        first[at] = 0;
}

static void fill(long me) {
    long part = (COLOURS + processes - 1) / processes;
    for (long at = me * part; at < (me + 1) * part && at < COLOURS; at++) {
        float shade = all->light[at % 3] * (float)(at + 1);
        all->colours[at] = (unsigned char)((long)shade % 251 + 1);
    }
}

static void draw(long tile) {
    long left = tile % ACROSS * TILE, top = tile / ACROSS * TILE;
    for (long y = top; y < top + TILE && y < SIDE; y++)
        for (long x = left; x < left + TILE && x < SIDE; x++) {
            long ray = (x * 131 + y * 17) % COLOURS;
            /* What is there is background: a pixel that is drawn twice is another one. */
            unsigned char *pixel = &picture->pixels[y * SIDE + x];
            *pixel = (unsigned char)(*pixel / 2 + all->colours[ray]);
        }
    picture->drawn[tile]++;
}

/* The next tile of a part; -1: it has none left. */
static long take(long part) {
    long of_part = (TILES + processes - 1) / processes, found = -1;
    ALOCK(all->queues, part)
    if (all->next[part] < of_part && part * of_part + all->next[part] < TILES)
        found = part * of_part + all->next[part]++;
    AULOCK(all->queues, part)
    return found;
}

static void sum_up(void) {
    for (long at = 0; at < SIDE * SIDE; at++)
        all->digest = (all->digest ^ picture->pixels[at]) * 1099511628211u;
    for (long tile = 0; tile < TILES; tile++)
        all->wrong += picture->drawn[tile] != 1;
}

static void run(void) {
    long me;
    GET_PID(me)
    for (long frame = 0; frame < frames; frame++) {
        BARRIER(all->barrier, processes)
        clear(me);
        all->next[me] = 0;
        if (me == 0)
            for (int axis = 0; axis < 3; axis++)
                all->light[axis] = (float)((frame + 2) * (axis + 3)) / 7;
        BARRIER(all->barrier, processes)
        fill(me);
        BARRIER(all->barrier, processes)
        for (long other = 0; other < processes; other++) {
            long tile;
            while ((tile = take((me + other) % processes)) >= 0)
                draw(tile);
        }
        BARRIER(all->barrier, processes)
        if (me == 0)
            sum_up();
    }
}

int main(int count, char **arguments) {
    if (count > 1)
        processes = atol(arguments[1]);
    if (count > 2)
        frames = atol(arguments[2]);
    if (processes < 1 || processes > PROCESSES_MAX)
        return 2;
#ifdef VARIABLES
    all = &variables;
    picture = &canvas;
#else
    all = (struct shared *)G_MALLOC(sizeof *all)
    picture = (struct picture *)G_MALLOC(sizeof *picture)
#endif
    all->digest = 14695981039346656037u;
    all->wrong = 0;
    BARINIT(all->barrier, processes)
    ALOCKINIT(all->queues, PROCESSES_MAX)
    CREATE(run, processes)
    WAIT_FOR_END(processes)
    printf("tiles: %ld wrong: %016lx\n", all->wrong, (unsigned long)all->digest);
    MAIN_END
}
