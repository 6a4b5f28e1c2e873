/* Functions with names of the C library's, for another purpose. */
struct node {
    struct node *next;
    long number;
};

void *link(void *list, void *node);
double times(const struct node *node, double factor);
struct node *chroot(struct node *list, long number, long factor);

void *link(void *list, void *node) {
    ((struct node *)node)->next = list;
    return node;
}

double times(const struct node *node, double factor) {
    return (double)node->number * factor;
}

struct node *chroot(struct node *list, long number, long factor) {
    list->number += number * factor;
    return list;
}
