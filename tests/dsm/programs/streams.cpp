// A program in C++: streams, algorithms and exceptions over shared memory that is not here.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <new>
#include <sstream>
#include <stdexcept>
#include <string>
#include <tutti/parmacs.h>

MAIN_ENV

constexpr long NUMBERS = 40000, BYTES = 200000;

struct Shared {
    LOCKDEC(lock)
    BARDEC(barrier)
    long wrong, caught;
    long numbers[NUMBERS];
    char text[BYTES];
    char into[BYTES];
    char file[100];
};

static Shared *all;

static void check(bool is_right, const char *what) {
    if (!is_right) {
        std::printf("streams: %s is wrong\n", what);
        LOCK(all->lock)
        all->wrong++;
        UNLOCK(all->lock)
    }
}

static void with_streams() {
    std::ofstream out(all->file, std::ios::binary);
    out.write(all->text, BYTES);
    out.close();
    check(out.good(), "ofstream");
    std::ifstream in(all->file, std::ios::binary);
    in.read(all->into, BYTES);
    check(in.gcount() == BYTES, "ifstream");
    std::ostringstream text;
    text << std::string(all->text, 1000);
    check(text.str().size() == 1000, "ostringstream");
    std::cout.write(all->text, 26) << std::endl;
    std::remove(all->file);
}

static void run() {
    int me;
    GET_PID(me)
    if (me == 0) {
        for (long at = 0; at < NUMBERS; at++)
            all->numbers[at] = at * 7919 % NUMBERS;
        for (long at = 0; at < BYTES; at++)
            all->text[at] = static_cast<char>('a' + at % 26);
    }
    BARRIER(all->barrier, 2)
    if (me == 1) {
        std::sort(all->numbers, all->numbers + NUMBERS);
        with_streams();
    }
    try {
        throw std::runtime_error("thrown");
    } catch (const std::exception &) {
        LOCK(all->lock)
        all->caught++;
        UNLOCK(all->lock)
    }
    BARRIER(all->barrier, 2)
    if (me == 0) {
        check(std::is_sorted(all->numbers, all->numbers + NUMBERS), "sort");
        check(std::memcmp(all->text, all->into, BYTES) == 0, "what a stream has left");
        check(all->caught == 2, "catch");
    }
    BARRIER(all->barrier, 2)
}

int main(int, char **arguments) {
    all = new (G_MALLOC_F(sizeof(Shared))) Shared;
    all->wrong = all->caught = 0;
    std::snprintf(all->file, sizeof all->file, "%s", arguments[1]);
    LOCKINIT(all->lock)
    BARINIT(all->barrier, 2)
    CREATE(run, 2)
    WAIT_FOR_END(2)
    std::printf("streams: %ld wrong\n", all->wrong);
    MAIN_END
}
