/* Statuses as users fill them, and what the library tells about itself and the machine. */
#include "check.h"

static void statuses(void)
{
    MPI_Status status, empty;
    int n, flag;
    memset(&status, 0, sizeof status);
    CHECK(MPI_Status_set_source(&status, 5) == MPI_SUCCESS && status.MPI_SOURCE == 5);
    CHECK(MPI_Status_set_tag(&status, 6) == MPI_SUCCESS && status.MPI_TAG == 6);
    CHECK(MPI_Status_set_error(&status, MPI_ERR_TAG) == MPI_SUCCESS && status.MPI_ERROR == MPI_ERR_TAG);
    CHECK(MPI_Status_get_source(&status, &n) == MPI_SUCCESS && n == 5);
    CHECK(MPI_Status_get_tag(&status, &n) == MPI_SUCCESS && n == 6);
    CHECK(MPI_Status_get_error(&status, &n) == MPI_SUCCESS && n == MPI_ERR_TAG);
    CHECK(MPI_Status_set_cancelled(&status, 1) == MPI_SUCCESS);
    CHECK(MPI_Test_cancelled(&status, &flag) == MPI_SUCCESS && flag);
    CHECK(MPI_Status_set_cancelled(&status, 0) == MPI_SUCCESS);
    CHECK(MPI_Test_cancelled(&status, &flag) == MPI_SUCCESS && !flag);
    CHECK(MPI_Status_get_source(&status, &n) == MPI_SUCCESS && n == 5);

    /* The same as Fortran's two kinds of status, and back. */
    MPI_Fint fortran[MPI_F_STATUS_SIZE];
    CHECK(MPI_Status_c2f(&status, fortran) == MPI_SUCCESS && fortran[MPI_F_SOURCE] == 5 && fortran[MPI_F_TAG] == 6);
    memset(&empty, 0, sizeof empty);
    CHECK(MPI_Status_f2c(fortran, &empty) == MPI_SUCCESS && memcmp(&status, &empty, sizeof status) == 0);
}

static int number(MPI_Info info, const char *key)
{
    char value[16];
    int length = sizeof value, flag = 0;
    CHECK(MPI_Info_get_string(info, key, &length, value, &flag) == MPI_SUCCESS);
    return flag ? atoi(value) : -1;
}

static void platform(void)
{
    MPI_Info info;
    int major, minor, set = 0;
    long long yes = 7, no = 7;
    CHECK(MPI_Abi_get_version(&major, &minor) == MPI_SUCCESS && major == 1 && minor == 0);
    CHECK(MPI_Abi_get_info(&info) == MPI_SUCCESS);
    CHECK(number(info, "mpi_aint_size") == (int)sizeof(MPI_Aint));
    CHECK(number(info, "mpi_count_size") == (int)sizeof(MPI_Count));
    CHECK(number(info, "mpi_offset_size") == (int)sizeof(MPI_Offset));
    MPI_Info_free(&info);
    CHECK(MPI_Abi_get_fortran_info(&info) == MPI_SUCCESS && info != MPI_INFO_NULL);
    CHECK(number(info, "mpi_integer_size") == 4 && number(info, "mpi_double_precision_size") == 8);
    if (is_tutti())
        CHECK(MPI_Abi_set_fortran_info(info) == MPI_SUCCESS);
    MPI_Info_free(&info);
    if (is_tutti()) {
        CHECK(MPI_Abi_get_fortran_booleans(8, &yes, &no, &set) == MPI_SUCCESS && set && yes == 1 && no == 0);
        CHECK(MPI_Abi_set_fortran_booleans(8, &yes, &no) == MPI_SUCCESS);
        MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
        yes = -1;
        CHECK(class_of(MPI_Abi_set_fortran_booleans(8, &yes, &no)) == MPI_ERR_ABI);
    }
    CHECK(MPI_Get_hw_resource_info(&info) == MPI_SUCCESS && info != MPI_INFO_NULL);
    MPI_Info_free(&info);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    statuses();
    platform();
    return finish("platform");
}
