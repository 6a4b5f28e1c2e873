/* Calls of functions in own_functions.c that have names of the C library's. */
#include <stdlib.h>

struct node {
    struct node *next;
    long number;
};

void *link(void *list, void *node);
double times(const struct node *node, double factor);
struct node *chroot(struct node *list, long number, long factor);
struct node *link_node(struct node *list, long number);
long sum_of(struct node *list);

struct node *link_node(struct node *list, long number) {
    struct node *node = malloc(sizeof *node);
    node->number = number;
    return chroot(link(list, node), 7, number) == node ? node : NULL;
}

long sum_of(struct node *list) {
    double sum = 0;
    for (; list != NULL; list = list->next)
        sum += times(list, 1);
    return (long)sum;
}
