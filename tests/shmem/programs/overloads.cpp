// The names that serve all types, in C++.
#include "check.h"
#include <complex>

static long counter;

template <typename T> static void all(int right)
{
    T *at = static_cast<T *>(shmem_calloc(2, sizeof(T)));
    const T here[2] = {T(3), T(4)};
    shmem_put(at, here, 2, right);
    shmem_barrier_all();
    CHECK(at[0] == T(3) && shmem_g(at + 1, right) == T(4));
    shmem_barrier_all();
    shmem_p(SHMEM_CTX_DEFAULT, at, T(7), right);
    shmem_barrier_all();
    CHECK(at[0] == T(7));
    shmem_free(at);
}

int main()
{
    shmem_init();
    int n = shmem_n_pes(), right = (shmem_my_pe() + 1) % n;
    all<float>(right);
    all<double>(right);
    all<long double>(right);
    all<char>(right);
    all<int>(right);
    all<unsigned long>(right);
    all<long long>(right);
    shmem_atomic_add(&counter, 5L, right);
    shmem_wait_until(&counter, SHMEM_CMP_EQ, 5L);
    shmem_sync(SHMEM_TEAM_WORLD);
    return finish("overloads");
}
