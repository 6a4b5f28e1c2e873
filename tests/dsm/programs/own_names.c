/* Functions of the program that have names of the C library's, for another purpose: calls from another source reach them. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <tutti/parmacs.h>

MAIN_ENV

struct node {
    struct node *next;
    long number;
};

/* own_calls.c has these. */
struct node *link_node(struct node *list, long number);
long sum_of(struct node *list);

static struct {
    LOCKDEC(lock)
    char name[64];
    long wrong;
} *all;

static void run(void) {
    struct node *list = NULL;
    for (long number = 1; number <= 100; number++)
        list = link_node(list, number);
    struct stat found;
    /* What the program has no function for is the C library's, with shared memory. */
    int is_right = sum_of(list) == 8 * 5050 && stat(all->name, &found) == 0 && S_ISDIR(found.st_mode);
    LOCK(all->lock);
    all->wrong += !is_right;
    UNLOCK(all->lock);
}

int main(void) {
    all = G_MALLOC(sizeof *all);
    snprintf(all->name, sizeof all->name, "/tmp");
    all->wrong = 0;
    LOCKINIT(all->lock);
    CREATE(run, 2);
    WAIT_FOR_END(2);
    printf("own names: %ld wrong\n", all->wrong);
    MAIN_END;
}
