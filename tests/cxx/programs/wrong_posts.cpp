// A function of another program is refused: where somebody waits, by an exception; else the job ends. "throw": a post throws.
// "collectives": ranks call different ones.
#include <cstdio>
#include <cstring>
#include <functional>

#include <tutti.hpp>

#ifdef OTHER
static int other(int x) { return x + 1; }
#else
static int other(int x) { return x - 1; }
#endif

int main(int argc, char **argv)
{
    tutti::init();
    if (argc > 1 && std::strcmp(argv[1], "collectives") == 0) {
        if (tutti::this_rank() == 0) tutti::broadcast(1, 0).get();
        else tutti::reduce(1, std::plus<>{}).get();
        tutti::meet();
    }
    if (tutti::this_rank() == 0) {
        if (argc > 1 && std::strcmp(argv[1], "throw") == 0) tutti::post(1, [] { throw std::logic_error("wrong on purpose"); });
        try {
            tutti::invoke(1, tutti::fn<other>{}, 1);
            std::fprintf(stderr, "the function has run\n");
        } catch (const tutti::error &thrown) {
            if (thrown.code() != tutti::fault::unknown_function) std::fprintf(stderr, "another error\n");
            std::fprintf(stderr, "%s\n", thrown.what());
        }
        tutti::post(1, tutti::fn<other>{}, 1);
    }
    tutti::quit();
}
