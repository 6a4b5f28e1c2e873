/* MPI 7.3: the algebra of groups as the C interface shows it. */
#include "check.h"

static int rank, size;

static int size_of(MPI_Group group)
{
    int n = -1;
    CHECK(MPI_Group_size(group, &n) == MPI_SUCCESS);
    return n;
}

static int likeness(MPI_Group a, MPI_Group b)
{
    int result = -1;
    CHECK(MPI_Group_compare(a, b, &result) == MPI_SUCCESS);
    return result;
}

int main(int argc, char **argv)
{
    MPI_Group world, self, even, rest, reversed, made;
    int n, *ranks, *other;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Comm_group(MPI_COMM_SELF, &self);
    ranks = malloc((size_t)(size + 1) * sizeof *ranks);
    other = malloc((size_t)(size + 1) * sizeof *other);

    CHECK(size_of(world) == size && size_of(self) == 1 && size_of(MPI_GROUP_EMPTY) == 0);
    CHECK(MPI_Group_rank(world, &n) == MPI_SUCCESS && n == rank);
    CHECK(MPI_Group_rank(MPI_GROUP_EMPTY, &n) == MPI_SUCCESS && n == MPI_UNDEFINED);
    CHECK(likeness(world, world) == MPI_IDENT);
    CHECK(likeness(world, self) == (size == 1 ? MPI_IDENT : MPI_UNEQUAL));

    int evens[1][3] = {{0, size - 1, 2}};
    CHECK(MPI_Group_range_incl(world, 1, evens, &even) == MPI_SUCCESS);
    CHECK(size_of(even) == (size + 1) / 2);
    CHECK(MPI_Group_range_excl(world, 1, evens, &rest) == MPI_SUCCESS);
    CHECK(size_of(rest) == size / 2);
    CHECK(MPI_Group_rank(even, &n) == MPI_SUCCESS && n == (rank % 2 ? MPI_UNDEFINED : rank / 2));
    CHECK(MPI_Group_union(rest, even, &made) == MPI_SUCCESS);
    CHECK(likeness(made, world) == (size == 1 ? MPI_IDENT : MPI_SIMILAR));
    MPI_Group_free(&made);
    CHECK(MPI_Group_intersection(rest, even, &made) == MPI_SUCCESS && size_of(made) == 0);
    CHECK(made == MPI_GROUP_EMPTY || likeness(made, MPI_GROUP_EMPTY) == MPI_IDENT);
    CHECK(MPI_Group_difference(world, rest, &made) == MPI_SUCCESS && likeness(made, even) == MPI_IDENT);
    MPI_Group_free(&made);

    for (int i = 0; i < size; i++)
        ranks[i] = size - 1 - i;
    CHECK(MPI_Group_incl(world, size, ranks, &reversed) == MPI_SUCCESS);
    CHECK(likeness(reversed, world) == (size == 1 ? MPI_IDENT : MPI_SIMILAR));
    ranks[size] = MPI_PROC_NULL;
    CHECK(MPI_Group_translate_ranks(reversed, size + 1, ranks, even, other) == MPI_SUCCESS);
    for (int i = 0; i < size; i++)
        CHECK(other[i] == (i % 2 ? MPI_UNDEFINED : i / 2));
    CHECK(other[size] == MPI_PROC_NULL);
    CHECK(MPI_Group_excl(world, size, ranks, &made) == MPI_SUCCESS && size_of(made) == 0);
    CHECK(MPI_Group_incl(world, 0, NULL, &made) == MPI_SUCCESS && size_of(made) == 0);

    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int twice[2] = {0, 0}, beyond[1] = {size}, none[1][3] = {{0, 0, 0}};
    if (is_tutti())
        CHECK(class_of(MPI_Group_incl(world, 2, twice, &made)) == MPI_ERR_RANK);
    CHECK(class_of(MPI_Group_excl(world, 1, beyond, &made)) == MPI_ERR_RANK);
    CHECK(class_of(MPI_Group_incl(world, -1, twice, &made)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Group_range_incl(world, 1, none, &made)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Group_size(MPI_GROUP_NULL, &n)) == MPI_ERR_GROUP);
    MPI_Group_free(&world);
    MPI_Group_free(&self);
    MPI_Group_free(&even);
    MPI_Group_free(&rest);
    MPI_Group_free(&reversed);
    CHECK(world == MPI_GROUP_NULL);
    free(ranks);
    free(other);
    return finish("groups");
}
