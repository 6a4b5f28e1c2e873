/* Functions that MPI-3.0 has removed, which older binaries of MPICH call: what they give, and that they refuse null pointers. */
#include <mpi.h>
#include <stdio.h>

static int wrong;

static void expect(int is_right, const char *what)
{
    if (!is_right) {
        printf("%s is wrong\n", what);
        wrong = 1;
    }
}

static int is_refused(int code)
{
    int class = MPI_SUCCESS;
    MPI_Error_class(code, &class);
    return class == MPI_ERR_ARG;
}

static void handler(MPI_Comm *comm, int *code, ...)
{
    (void)comm;
    (void)code;
}

static void values(void)
{
    struct {
        int count;
        double value;
    } memory[2];
    MPI_Aint first, second, extent, lb, ub, places[3] = {0, 8, 40};
    int lengths[3] = {1, 1, 1}, size;
    MPI_Datatype types[3] = {MPI_INT, MPI_DOUBLE, MPI_UB}, type, other;
    MPI_Errhandler made, found;

    MPI_Address(&memory[0], &first);
    MPI_Address(&memory[1], &second);
    expect(second - first == sizeof *memory, "MPI_Address");
    MPI_Type_struct(3, lengths, places, types, &type);
    MPI_Type_commit(&type);
    MPI_Type_size(type, &size);
    MPI_Type_extent(type, &extent);
    MPI_Type_lb(type, &lb);
    MPI_Type_ub(type, &ub);
    expect(size == 12 && extent == 40 && lb == 0 && ub == 40, "MPI_Type_struct");
    MPI_Type_free(&type);
    places[0] = -16;
    types[0] = MPI_LB;
    MPI_Type_struct(3, lengths, places, types, &type);
    MPI_Type_lb(type, &lb);
    MPI_Type_ub(type, &ub);
    MPI_Type_extent(type, &extent);
    expect(lb == -16 && ub == 40 && extent == 56, "MPI_LB");
    MPI_Type_hvector(2, 1, 100, type, &other);
    MPI_Type_extent(other, &extent);
    expect(extent == 156, "MPI_Type_hvector");
    MPI_Type_free(&other);
    places[0] = 4;
    MPI_Type_hindexed(2, lengths, places, MPI_INT, &other);
    MPI_Type_lb(other, &lb);
    MPI_Type_ub(other, &ub);
    expect(lb == 4 && ub == 12, "MPI_Type_hindexed");
    MPI_Type_free(&other);
    MPI_Type_free(&type);
    MPI_Errhandler_create(handler, &made);
    MPI_Errhandler_set(MPI_COMM_SELF, made);
    MPI_Errhandler_get(MPI_COMM_SELF, &found);
    expect(found == made, "MPI_Errhandler_get");
    MPI_Errhandler_set(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Errhandler_free(&found);
    MPI_Errhandler_free(&made);
}

static void nulls(void)
{
    MPI_Aint place = 0;
    int length = 1, memory;
    MPI_Datatype type = MPI_INT, made;

    expect(is_refused(MPI_Address(&memory, NULL)), "MPI_Address of a null pointer");
    expect(is_refused(MPI_Type_extent(MPI_INT, NULL)), "MPI_Type_extent of a null pointer");
    expect(is_refused(MPI_Type_lb(MPI_INT, NULL)), "MPI_Type_lb of a null pointer");
    expect(is_refused(MPI_Type_ub(MPI_INT, NULL)), "MPI_Type_ub of a null pointer");
    expect(is_refused(MPI_Type_hvector(1, 1, 4, MPI_INT, NULL)), "MPI_Type_hvector of a null pointer");
    expect(is_refused(MPI_Type_hindexed(1, &length, &place, MPI_INT, NULL)), "MPI_Type_hindexed of a null pointer");
    expect(is_refused(MPI_Type_hindexed(1, NULL, &place, MPI_INT, &made)), "MPI_Type_hindexed without lengths");
    expect(is_refused(MPI_Type_struct(1, &length, &place, &type, NULL)), "MPI_Type_struct of a null pointer");
    expect(is_refused(MPI_Type_struct(1, &length, NULL, &type, &made)), "MPI_Type_struct without places");
    expect(is_refused(MPI_Type_struct(1, &length, &place, NULL, &made)), "MPI_Type_struct without types");
    expect(is_refused(MPI_Errhandler_create(handler, NULL)), "MPI_Errhandler_create of a null pointer");
    expect(is_refused(MPI_Errhandler_get(MPI_COMM_SELF, NULL)), "MPI_Errhandler_get of a null pointer");
    expect(is_refused(MPI_Status_c2f(NULL, NULL)), "MPI_Status_c2f of a null pointer");
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    values();
    nulls();
    if (!wrong)
        puts("removed: all right");
    MPI_Finalize();
    return wrong;
}
