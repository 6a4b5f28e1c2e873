// tutti.hpp: pointers to objects of another job. "keep PATH" writes those of all ranks into files, "use PATH" takes them for its own.
// Prints "another job: ok".
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "check.hpp"

using pointer = tutti::global_ptr<std::int64_t>;
static_assert(std::is_trivially_copyable_v<pointer>);
// A pointer to a number leads to a whole one: there is no way to the middle of one.
static_assert(!std::is_constructible_v<pointer, tutti::global_ptr<char>> && !std::is_constructible_v<pointer, std::uintptr_t>);

static std::string file_of(const char *path, int rank)
{
    return std::string(path) + "-" + std::to_string(rank);
}

static void keep(const char *path, const pointer &own)
{
    std::FILE *file = std::fopen(file_of(path, tutti::this_rank()).c_str(), "w");
    CHECK(file != nullptr && std::fwrite(&own, sizeof own, 1, file) == 1 && std::fclose(file) == 0);
}

static pointer kept(const char *path, int rank)
{
    std::array<std::byte, sizeof(pointer)> bytes;
    std::FILE *file = std::fopen(file_of(path, rank).c_str(), "r");
    CHECK(file != nullptr && std::fread(bytes.data(), sizeof bytes, 1, file) == 1);
    std::fclose(file);
    return std::bit_cast<pointer>(bytes);
}

static void use(const pointer &other)
{
    using tutti::fault;
    const std::array<std::int64_t, 2> two = {7, 7};
    CHECK(fault_of([&] { tutti::read(other); }) == fault::freed);
    CHECK(fault_of([&] { tutti::write(other, 7); }) == fault::freed);
    CHECK(fault_of([&] { tutti::write(other, two); }) == fault::freed);
    CHECK(fault_of([&] { tutti::global_atomic<std::int64_t>(other).fetch_add(7); }) == fault::freed);
    CHECK(fault_of([&] { tutti::write_signal(other, two, other, 7); }) == fault::freed);
    CHECK(fault_of([&] { tutti::destroy(other); }) == (other.where() == tutti::this_rank() ? fault::freed : fault::not_own));
    try {
        tutti::read(other);
    } catch (const tutti::error &found) {
        CHECK(std::strstr(found.what(), "is of another job") != nullptr);
    }
}

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    tutti::init();
    const pointer own = tutti::make<std::int64_t>(4);
    if (std::strcmp(argv[1], "keep") == 0) {
        keep(argv[2], own);
    } else {
        for (int rank = 0; rank < tutti::ranks(); ++rank) use(kept(argv[2], rank));
        tutti::meet();
        for (int at = 0; at < 4; ++at) CHECK(own.local()[at] == 0);
    }
    tutti::meet();
    const int me = tutti::this_rank();
    tutti::quit();
    if (me == 0) std::printf("another job: ok\n");
    return 0;
}
