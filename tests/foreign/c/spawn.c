/* Processes start processes, built with another MPI's compiler: two children three times, the last time by two commands;
 * sums over both groups, a name. "missing" as argument: a program that does not exist. "often": three children as often
 * as the next argument says. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int number_of(const char *variable)
{
    const char *text = getenv(variable);
    return text ? atoi(text) : -1;
}

static int child(MPI_Comm parent, int argc, char **argv)
{
    int size, sum, number = -1, one = 1, flag, *program;
    MPI_Comm all;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &program, &flag);
    /* What its launcher says of its neighbours is what its library has found out. */
    MPI_Comm near;
    int neighbours, place;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &near);
    MPI_Comm_size(near, &neighbours);
    MPI_Comm_rank(near, &place);
    MPI_Comm_free(&near);
    if (neighbours != number_of("OMPI_COMM_WORLD_LOCAL_SIZE") || place != number_of("OMPI_COMM_WORLD_LOCAL_RANK"))
        MPI_Abort(MPI_COMM_WORLD, 6);
    MPI_Intercomm_merge(parent, 1, &all);
    MPI_Bcast(&number, 1, MPI_INT, 0, all);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, all);
    if (number != 42 || argc != 4 || strcmp(argv[1], "a child") || size != atoi(argv[2]))
        MPI_Abort(MPI_COMM_WORLD, 3);
    if (!flag || *program != atoi(argv[3]))
        MPI_Abort(MPI_COMM_WORLD, 5);
    MPI_Comm_free(&all);
    MPI_Comm_disconnect(&parent);
    MPI_Finalize();
    return 0;
}

/* Children that go again; gives the sum over them and us. */
static int round_with(int children, char *program, int by_two, int tries)
{
    char count[8], *first[] = {"a child", count, "0", NULL}, *second[] = {"a child", count, "1", NULL};
    char *programs[] = {program, program}, **arguments[] = {first, second};
    int number = 42, one = 1, sum, codes[8], ranks[] = {1, children - 1}, code;
    MPI_Info infos[] = {MPI_INFO_NULL, MPI_INFO_NULL};
    MPI_Comm inter, all;
    snprintf(count, sizeof count, "%d", children);
    if (by_two)
        code = MPI_Comm_spawn_multiple(2, programs, arguments, ranks, infos, 0, MPI_COMM_WORLD, &inter, codes);
    else
        code = MPI_Comm_spawn(program, first, children, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, codes);
    /* Those of the last round may be on their way out. */
    for (int again = 0; again < tries && code != MPI_SUCCESS; again++) {
        usleep(100000);
        code = MPI_Comm_spawn(program, first, children, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, codes);
    }
    if (code != MPI_SUCCESS)
        MPI_Abort(MPI_COMM_WORLD, 2);
    MPI_Intercomm_merge(inter, 0, &all);
    MPI_Bcast(&number, 1, MPI_INT, 0, all);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, all);
    MPI_Comm_free(&all);
    MPI_Comm_disconnect(&inter);
    return sum;
}

int main(int argc, char **argv)
{
    MPI_Comm parent, inter;
    int rank, size, sum = 0, codes[2];
    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL)
        return child(parent, argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (argc > 1 && !strcmp(argv[1], "missing")) {
        int code = MPI_SUCCESS;
#if defined OMPI_MAJOR_VERSION && OMPI_MAJOR_VERSION < 5
        /* Its root leaves the call without a word when nothing is started, and the others wait in it for ever. */
        MPI_Comm over = MPI_COMM_SELF;
        MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
#else
        MPI_Comm over = MPI_COMM_WORLD;
#endif
        if (rank == 0 || over == MPI_COMM_WORLD)
            code = MPI_Comm_spawn("./no-such-program", MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, over, &inter, codes);
        if (rank == 0)
            printf("%s\n", code == MPI_SUCCESS ? "started" : "refused");
        MPI_Finalize();
        return 0;
    }
    if (argc > 2 && !strcmp(argv[1], "often")) {
        for (int round = 0; round < atoi(argv[2]); round++)
            sum += round_with(3, argv[0], 0, 300);
        if (rank == 0)
            printf("sum %d\n", sum);
        MPI_Finalize();
        return 0;
    }
    for (int round = 0; round < 3; round++) {
        sum = round_with(2, argv[0], round == 2, 0);
        if (rank == 0)
            printf("round %d, sum %d\n", round, sum);
    }
    MPI_Finalize();
    return 0;
}
