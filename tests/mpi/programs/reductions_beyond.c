/* Reductions that the standard does not define and that MPICH and Open MPI have: characters as integers, the truth of floating
 * point numbers. Small and large ones, with every way of reducing. */
#include "check.h"
#include <wchar.h>

enum { LARGE = 100000 };

static int rank, size;

/* Every rank gives its number + 1 + i % 3; the result is checked for the first elements and the last ones. */
static void sums(int count)
{
    char *mine = malloc(count), *sum = malloc(count), *most = malloc(count);
    for (int i = 0; i < count; i++)
        mine[i] = (char)(rank + 1 + i % 3);
    CHECK(MPI_Allreduce(mine, sum, count, MPI_CHAR, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS);
    CHECK(MPI_Reduce(mine, most, count, MPI_CHAR, MPI_MAX, 0, MPI_COMM_WORLD) == MPI_SUCCESS);
    int wrong = 0;
    for (int i = 0; i < count; i++) {
        wrong += sum[i] != (char)(size * (size + 1) / 2 + size * (i % 3));
        wrong += rank == 0 && most[i] != (char)(size + i % 3);
    }
    CHECK(wrong == 0);
    MPI_Request request;
    memset(sum, -1, count);
    CHECK(MPI_Iallreduce(mine, sum, count, MPI_CHARACTER, MPI_MIN, MPI_COMM_WORLD, &request) == MPI_SUCCESS);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(sum[0] == 1 && sum[count - 1] == 1 + (count - 1) % 3);
    free(mine);
    free(sum);
    free(most);
}

static void others(void)
{
    wchar_t wide = (wchar_t)(1000 * (rank + 1)), sum = 0;
    CHECK(MPI_Scan(&wide, &sum, 1, MPI_WCHAR, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS);
    CHECK(sum == 500 * (rank + 1) * (rank + 2));

    char bits = (char)(1 << rank), all = 0;
    MPI_Allreduce(&bits, &all, 1, MPI_CHAR, MPI_BOR, MPI_COMM_WORLD);
    CHECK(all == (char)((1 << size) - 1));

    double truth = rank == 0 ? 0 : 2.5, any = -1, every = -1;
    CHECK(MPI_Allreduce(&truth, &any, 1, MPI_DOUBLE, MPI_LOR, MPI_COMM_WORLD) == MPI_SUCCESS);
    CHECK(MPI_Allreduce(&truth, &every, 1, MPI_DOUBLE, MPI_LAND, MPI_COMM_WORLD) == MPI_SUCCESS);
    CHECK(any == (size > 1) && every == 0);
    long double one = rank == 0 ? 1 : 0, odd = -1;
    CHECK(MPI_Allreduce(&one, &odd, 1, MPI_LONG_DOUBLE, MPI_LXOR, MPI_COMM_WORLD) == MPI_SUCCESS);
    CHECK(odd == 1);

    /* What has no meaning is still an error. */
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    CHECK(class_of(MPI_Allreduce(&truth, &any, 1, MPI_DOUBLE, MPI_BAND, MPI_COMM_WORLD)) == MPI_ERR_OP);
    CHECK(class_of(MPI_Allreduce(&bits, &all, 1, MPI_BYTE, MPI_SUM, MPI_COMM_WORLD)) == MPI_ERR_OP);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    sums(7);
    sums(LARGE);
    others();
    return finish("reductions_beyond");
}
