// What the programs of tutti.hpp share: a check that ends the process, and the fault that a call throws.
#ifndef TUTTI_CXX_CHECK_HPP
#define TUTTI_CXX_CHECK_HPP

#include <cstdio>
#include <cstdlib>

#include <tutti.hpp>

#define CHECK(condition)                                                                               \
    do {                                                                                               \
        if (!(condition)) {                                                                            \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                       \
            std::exit(1);                                                                              \
        }                                                                                              \
    } while (0)

template <class F> static tutti::fault fault_of(F f)
{
    try {
        f();
    } catch (const tutti::error &found) {
        return found.code();
    }
    std::fprintf(stderr, "nothing was thrown\n");
    std::exit(1);
}

#endif
