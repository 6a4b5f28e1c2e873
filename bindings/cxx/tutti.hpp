// tutti.hpp: functions, tasks and objects on all ranks of a program, in C++20. Compile with tutticxx.
//
//     tutti::init();                                                       on all ranks
//     int there = tutti::invoke(3, [](int x) { return x + 1; }, 41);       runs at rank 3
//     tutti::quit();
//
// Functions and tasks of a rank run one at a time, inside waits of its main: invoke, post, get, meet, quiet. What runs is a lambda
// without captures, or tutti::fn<f>{}; tutti::quick(f) runs at once, beside main. Arguments and results are copied. One thread of a
// rank calls all of this; quick functions post.
#ifndef TUTTI_HPP
#define TUTTI_HPP

#if __cplusplus < 202002L
#error "tutti.hpp needs C++20: compile with tutticxx, or with -std=c++20"
#endif
#ifndef __cpp_exceptions
#error "tutti.hpp needs exceptions: compile without -fno-exceptions"
#endif

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <source_location>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>
#ifdef __GXX_RTTI
#include <cxxabi.h>
#include <typeinfo>
#endif

#include <tutti_call.h>

namespace tutti {

// What was wrong.
enum class fault {
    gone,             // the rank has left the job
    unknown_function, // the rank does not have the function, or it lies in memory that can be written
    too_long,         // more bytes than a call may have
    wait_in_function, // a function or a task waits as only main may, or a quick function does more than post
    closed,           // before init or behind quit; init a second time
    busy,             // 64 MiB of calls wait, or 65535 are open
    no_rank,          // there is no such rank
    wrong_thread,     // another thread has called init
    no_memory,        // there is none for the queue, or for an object of make
    freed,            // the object of a global_ptr has been destroyed, or is of another job, or it points to none
    out_of_range,     // a global_ptr points behind its object
    not_own,          // the object of a global_ptr is of another rank
    no_service,       // no service has this name
    not_allowed,      // the service is not for this user
    version,          // the service has no such function, or it takes or gives other types
    deadline,         // the time is over; the function may have run
    lost,             // the service has ended while the call was under way; the function may have run
    bad_name,         // no name of a service, or it is in use
    threw             // the function has ended with an exception
};

// What a call throws.
class error : public std::runtime_error {
  public:
    error(fault code, int rank, const std::string &what) : std::runtime_error(what), code_(code), rank_(rank) {}
    fault code() const noexcept { return code_; }
    // The rank that was called, or -1.
    int rank() const noexcept { return rank_; }

  private:
    fault code_;
    int rank_;
};

// The function has thrown at its rank: what() is the text of its exception, as far as an answer has room.
class remote_error : public error {
  public:
    remote_error(int rank, std::string type, const std::string &what)
        : error(fault::threw, rank, what), type_(std::move(type)) {}
    // The type of the exception.
    std::string_view type() const noexcept { return type_; }

  private:
    std::string type_;
};

// Says that objects of a class may travel as bytes although the compiler cannot look into it.
template <class T> inline constexpr bool wire_as_bytes = false;

// A function by its name: invoke(rank, fn<f>{}, x).
template <auto F> struct fn {
    template <class... A>
        requires std::is_invocable_v<decltype(F), A...>
    decltype(auto) operator()(A &&...arguments) const
    {
        return F(std::forward<A>(arguments)...);
    }
};

// A function that runs at once, in a thread of the library: invoke(rank, quick(f), x), post(rank, quick(f), x).
template <class F> struct quick_function {
    template <class... A>
        requires std::is_invocable_v<const F, A...>
    decltype(auto) operator()(A &&...arguments) const
    {
        return F{}(std::forward<A>(arguments)...);
    }
};
struct quick_t {
    template <class F> constexpr quick_function<F> operator()(F) const noexcept { return {}; }
};
inline constexpr quick_t quick;

template <class R = void> class task;
template <class R> class awaiter;

namespace detail {

// Why a type may not travel.
enum class why {
    fine,
    pointer,
    member_pointer,
    reference,
    has_virtual,
    is_union,
    not_copyable,
    not_assignable,
    is_closed,
    has_base,
    members,
    elements,
    view
};

struct any {
    template <class T> operator T() const;
};
template <class D> struct any_base {
    template <class T>
        requires(std::is_base_of_v<T, D> && !std::is_same_v<T, D>)
    operator T() const;
};
template <std::size_t> using any_of = any;

template <class T, std::size_t... A, std::size_t... B, std::size_t... C>
consteval bool takes(std::index_sequence<A...>, std::index_sequence<B...>, std::index_sequence<C...>)
{
    return requires { T{any_of<A>{}..., {any_of<B>{}...}, any_of<C>{}...}; };
}
template <class T, std::size_t... A> consteval bool takes(std::index_sequence<A...>) { return requires { T{any_of<A>{}...}; }; }

inline constexpr std::size_t elements_max = 64, members_max = 16;

// Initializers that a class takes, those of arrays one by one.
template <class T, std::size_t N = 0> consteval std::size_t elements()
{
    if constexpr (N > elements_max) return N;
    else if constexpr (takes<T>(std::make_index_sequence<N + 1>{})) return elements<T, N + 1>();
    else return N;
}
// Initializers of the member that begins behind so many.
template <class T, std::size_t All, std::size_t Before, std::size_t N> consteval std::size_t elements_of_member()
{
    if constexpr (N <= 1) return 1;
    else {
        constexpr std::make_index_sequence<Before> before;
        constexpr std::make_index_sequence<N> inside;
        constexpr bool fits = takes<T>(before, inside, std::make_index_sequence<All - Before - N>{});
        constexpr bool has_more = takes<T>(before, inside, std::make_index_sequence<All - Before - N + 1>{});
        if constexpr (fits && !has_more) return N;
        else return elements_of_member<T, All, Before, N - 1>();
    }
}
template <class T, std::size_t All, std::size_t Before = 0> consteval std::size_t members()
{
    if constexpr (Before >= All) return 0;
    else return 1 + members<T, All, Before + elements_of_member<T, All, Before, All - Before>()>();
}

template <class T> consteval why check();

// Bytes of a message: counted, written, read. Views begin at multiples of 8.
struct counter {
    std::size_t bytes = 0;
    void put(const void *, std::size_t some) noexcept { bytes += some; }
    void align() noexcept { bytes = (bytes + 7) / 8 * 8; }
};
struct writer {
    std::byte *begin, *at;
    void put(const void *from, std::size_t some) noexcept
    {
        if (some > 0) std::memcpy(at, from, some);
        at += some;
    }
    void align() noexcept
    {
        while ((at - begin) % 8 != 0) *at++ = std::byte{0};
    }
};
struct reader {
    const std::byte *begin, *at, *end;
    reader(const void *data, std::size_t bytes) noexcept : begin(static_cast<const std::byte *>(data)), at(begin), end(begin + bytes) {}
    const std::byte *take(std::size_t some)
    {
        if (some > static_cast<std::size_t>(end - at)) throw std::length_error("tutti: a message of another length");
        return std::exchange(at, at + some);
    }
    void align() { take(static_cast<std::size_t>((8 - (at - begin) % 8) % 8)); }
    // Elements of so many bytes at least are left.
    std::size_t count(std::size_t bytes_min)
    {
        std::uint64_t found;
        std::memcpy(&found, take(sizeof found), sizeof found);
        if (found > static_cast<std::size_t>(end - at) / bytes_min) throw std::length_error("tutti: a message of another length");
        return static_cast<std::size_t>(found);
    }
    void expect_end() const
    {
        if (at != end) throw std::length_error("tutti: a message of another length");
    }
};

inline constexpr std::size_t any_length = std::numeric_limits<std::size_t>::max();
constexpr std::size_t sum(std::size_t a, std::size_t b) { return a == any_length || b == any_length ? any_length : a + b; }

// How a type travels. What has no special way does so as its bytes.
template <class T> struct codec {
    static constexpr bool has_parts = false, is_view = false;
    static consteval std::size_t bytes_max() { return sizeof(T); }
    template <class Out> static void put(Out &out, const T &value) { out.put(std::addressof(value), sizeof(T)); }
    static T get(reader &in)
    {
        std::array<std::byte, sizeof(T)> bytes;
        std::memcpy(bytes.data(), in.take(sizeof(T)), sizeof(T));
        return std::bit_cast<T>(bytes);
    }
};

// Elements one behind another, behind their number.
template <class C, class T> struct codec_of_elements {
    static constexpr bool has_parts = true, is_view = false;
    static consteval why check_parts() { return check<T>(); }
    static consteval std::size_t bytes_max() { return any_length; }
    // Their bytes lie in memory as they travel.
    static constexpr bool is_bytes = std::is_trivially_copyable_v<T> && !codec<T>::has_parts && !std::is_same_v<T, bool>;
    template <class Out> static void put(Out &out, const C &values)
    {
        const std::uint64_t count = values.size();
        out.put(&count, sizeof count);
        if constexpr (is_bytes) out.put(values.data(), values.size() * sizeof(T));
        else
            for (const auto &value : values) codec<T>::put(out, value);
    }
    static C get(reader &in)
    {
        std::size_t left = in.count(is_bytes ? sizeof(T) : 1);
        C values;
        if constexpr (is_bytes && std::is_default_constructible_v<T>) {
            values.resize(left);
            const std::byte *from = in.take(left * sizeof(T));
            if (left > 0) std::memcpy(values.data(), from, left * sizeof(T));
        } else
            for (; left > 0; --left) values.push_back(codec<T>::get(in));
        return values;
    }
};
template <class T, class R, class A> struct codec<std::basic_string<T, R, A>> : codec_of_elements<std::basic_string<T, R, A>, T> {};
template <class T, class A> struct codec<std::vector<T, A>> : codec_of_elements<std::vector<T, A>, T> {};

template <class T> struct codec<std::optional<T>> {
    static constexpr bool has_parts = true, is_view = false;
    static consteval why check_parts() { return check<T>(); }
    static consteval std::size_t bytes_max() { return sum(1, codec<T>::bytes_max()); }
    template <class Out> static void put(Out &out, const std::optional<T> &value)
    {
        codec<bool>::put(out, value.has_value());
        if (value) codec<T>::put(out, *value);
    }
    static std::optional<T> get(reader &in)
    {
        if (codec<bool>::get(in)) return codec<T>::get(in);
        return std::nullopt;
    }
};

// One behind another.
template <class C, class... T> struct codec_of_parts {
    static constexpr bool has_parts = true, is_view = false;
    static consteval why check_parts()
    {
        why first = why::fine;
        ((first = first == why::fine ? check<T>() : first), ...);
        return first;
    }
    static consteval std::size_t bytes_max()
    {
        std::size_t all = 0;
        ((all = sum(all, codec<T>::bytes_max())), ...);
        return all;
    }
    template <class Out> static void put(Out &out, const C &parts)
    {
        std::apply([&](const T &...part) { (codec<T>::put(out, part), ...); }, parts);
    }
    // In the order of a list in braces.
    static C get([[maybe_unused]] reader &in) { return C{codec<T>::get(in)...}; }
};
template <class... T> struct codec<std::tuple<T...>> : codec_of_parts<std::tuple<T...>, T...> {};
template <class A, class B> struct codec<std::pair<A, B>> : codec_of_parts<std::pair<A, B>, A, B> {};
template <class T, std::size_t N, class I = std::make_index_sequence<N>> struct codec_of_array;
template <class T, std::size_t N, std::size_t... I> struct codec_of_array<T, N, std::index_sequence<I...>> {
    static constexpr bool has_parts = true, is_view = false;
    static consteval why check_parts() { return check<T>(); }
    static consteval std::size_t bytes_max() { return codec<T>::bytes_max() == any_length ? any_length : N * codec<T>::bytes_max(); }
    template <class Out> static void put(Out &out, const std::array<T, N> &values)
    {
        for (const T &value : values) codec<T>::put(out, value);
    }
    static std::array<T, N> get(reader &in) { return {((void)I, codec<T>::get(in))...}; }
};
template <class T, std::size_t N>
    requires codec<T>::has_parts
struct codec<std::array<T, N>> : codec_of_array<T, N> {};

// Arguments that the function sees in the message, while it runs.
template <class C, class T> struct codec_of_view {
    static constexpr bool has_parts = true, is_view = true;
    static consteval why check_parts() { return check<T>(); }
    static consteval std::size_t bytes_max() { return any_length; }
    template <class Out> static void put(Out &out, const C &view)
    {
        out.align();
        const std::uint64_t count = view.size();
        out.put(&count, sizeof count);
        out.put(view.data(), view.size() * sizeof(T));
    }
    static C get(reader &in)
    {
        in.align();
        const std::size_t count = in.count(sizeof(T));
        return C(reinterpret_cast<const T *>(in.take(count * sizeof(T))), count);
    }
};
template <class T, class R> struct codec<std::basic_string_view<T, R>> : codec_of_view<std::basic_string_view<T, R>, T> {};
template <class T> struct codec<std::span<const T>> : codec_of_view<std::span<const T>, T> {
    static_assert(codec<T>::is_view || alignof(T) <= 8, "tutti: elements of a span are aligned to 8 bytes at most: send a std::vector");
    static_assert(!codec<T>::has_parts, "tutti: elements of a span are seen in the message: send a std::vector of strings, vectors or tuples");
};

// What an argument is at the target: it cannot be written through a view.
template <class T> struct arriving { using type = T; };
template <class T, std::size_t N> struct arriving<std::span<T, N>> { using type = std::span<const std::remove_cv_t<T>>; };
template <class T> using arriving_t = typename arriving<std::decay_t<T>>::type;

// Values as they travel.
template <class... T> class encoded {
    static constexpr std::size_t bytes_max()
    {
        std::size_t all = 0;
        ((all = sum(all, codec<T>::bytes_max())), ...);
        return all;
    }
    static constexpr bool is_short = bytes_max() <= TUTTI_CALL_BYTES_MAX;
    std::conditional_t<is_short, std::array<std::byte, is_short ? bytes_max() + 1 : 1>, std::vector<std::byte>> bytes_;
    std::size_t size_;

  public:
    explicit encoded(const T &...values)
    {
        if constexpr (!is_short) {
            counter all;
            (codec<T>::put(all, values), ...);
            bytes_.resize(all.bytes);
        }
        writer out{bytes_.data(), bytes_.data()};
        (codec<T>::put(out, values), ...);
        size_ = static_cast<std::size_t>(out.at - out.begin);
    }
    const std::byte *data() const noexcept { return bytes_.data(); }
    std::size_t size() const noexcept { return size_; }
};

// The first member of these types that may not travel.
template <class... T> consteval why of_members()
{
    why first = why::fine;
    ((first = first == why::fine ? check<T>() : first), ...);
    return first;
}
template <why Why> using found = std::integral_constant<why, Why>;
// Only its type is used.
template <std::size_t N, class T> auto look([[maybe_unused]] T &of)
{
    if constexpr (N == 0) return found<why::fine>{};
    else if constexpr (N == 1) {
        [[maybe_unused]] auto &[a] = of;
        return found<of_members<decltype(a)>()>{};
    }
    else if constexpr (N == 2) {
        [[maybe_unused]] auto &[a, b] = of;
        return found<of_members<decltype(a), decltype(b)>()>{};
    }
    else if constexpr (N == 3) {
        [[maybe_unused]] auto &[a, b, c] = of;
        return found<of_members<decltype(a), decltype(b), decltype(c)>()>{};
    }
    else if constexpr (N == 4) {
        [[maybe_unused]] auto &[a, b, c, d] = of;
        return found<of_members<decltype(a), decltype(b), decltype(c), decltype(d)>()>{};
    }
    else if constexpr (N == 5) {
        [[maybe_unused]] auto &[a, b, c, d, e] = of;
        return found<of_members<decltype(a), decltype(b), decltype(c), decltype(d), decltype(e)>()>{};
    }
    else if constexpr (N == 6) {
        [[maybe_unused]] auto &[a, b, c, d, e, f] = of;
        return found<of_members<decltype(a), decltype(b), decltype(c), decltype(d), decltype(e), decltype(f)>()>{};
    }
    else if constexpr (N == 7) {
        [[maybe_unused]] auto &[a, b, c, d, e, f, g] = of;
        return found<of_members<decltype(a), decltype(b), decltype(c), decltype(d), decltype(e), decltype(f), decltype(g)>()>{};
    }
    else if constexpr (N == 8) {
        [[maybe_unused]] auto &[a, b, c, d, e, f, g, h] = of;
        return found<of_members<decltype(a), decltype(b), decltype(c), decltype(d), decltype(e), decltype(f), decltype(g), decltype(h)>()>{};
    }
    else if constexpr (N == 9) {
        [[maybe_unused]] auto &[a, b, c, d, e, f, g, h, i] = of;
        return found<of_members<decltype(a), decltype(b), decltype(c), decltype(d), decltype(e), decltype(f), decltype(g), decltype(h), decltype(i)>()>{};
    }
    else if constexpr (N == 10) {
        [[maybe_unused]] auto &[a, b, c, d, e, f, g, h, i, j] = of;
        return found<of_members<decltype(a), decltype(b), decltype(c), decltype(d), decltype(e), decltype(f), decltype(g), decltype(h), decltype(i), decltype(j)>()>{};
    }
    else if constexpr (N == 11) {
        [[maybe_unused]] auto &[a, b, c, d, e, f, g, h, i, j, k] = of;
        return found<of_members<decltype(a), decltype(b), decltype(c), decltype(d), decltype(e), decltype(f), decltype(g), decltype(h), decltype(i), decltype(j), decltype(k)>()>{};
    }
    else if constexpr (N == 12) {
        [[maybe_unused]] auto &[a, b, c, d, e, f, g, h, i, j, k, l] = of;
        return found<of_members<decltype(a), decltype(b), decltype(c), decltype(d), decltype(e), decltype(f), decltype(g), decltype(h), decltype(i), decltype(j), decltype(k), decltype(l)>()>{};
    }
    else if constexpr (N == 13) {
        [[maybe_unused]] auto &[a, b, c, d, e, f, g, h, i, j, k, l, m] = of;
        return found<of_members<decltype(a), decltype(b), decltype(c), decltype(d), decltype(e), decltype(f), decltype(g), decltype(h), decltype(i), decltype(j), decltype(k), decltype(l), decltype(m)>()>{};
    }
    else if constexpr (N == 14) {
        [[maybe_unused]] auto &[a, b, c, d, e, f, g, h, i, j, k, l, m, n] = of;
        return found<of_members<decltype(a), decltype(b), decltype(c), decltype(d), decltype(e), decltype(f), decltype(g), decltype(h), decltype(i), decltype(j), decltype(k), decltype(l), decltype(m), decltype(n)>()>{};
    }
    else if constexpr (N == 15) {
        [[maybe_unused]] auto &[a, b, c, d, e, f, g, h, i, j, k, l, m, n, o] = of;
        return found<of_members<decltype(a), decltype(b), decltype(c), decltype(d), decltype(e), decltype(f), decltype(g), decltype(h), decltype(i), decltype(j), decltype(k), decltype(l), decltype(m), decltype(n), decltype(o)>()>{};
    }
    else if constexpr (N == 16) {
        [[maybe_unused]] auto &[a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = of;
        return found<of_members<decltype(a), decltype(b), decltype(c), decltype(d), decltype(e), decltype(f), decltype(g), decltype(h), decltype(i), decltype(j), decltype(k), decltype(l), decltype(m), decltype(n), decltype(o), decltype(p)>()>{};
    }
    else return found<why::members>{};
}
template <class T> struct array_of { using type = void; };
template <class T, std::size_t N> struct array_of<std::array<T, N>> { using type = T; };

// A class whose members the compiler can look at.
template <class T> consteval why check_class()
{
    if constexpr (requires { T{any_base<T>{}}; }) return why::has_base;
    else {
        constexpr std::size_t all = elements<T>();
        if constexpr (all > elements_max) return why::elements;
        else {
            constexpr std::size_t count = members<T, all>();
            if constexpr (count > members_max) return why::members;
            else return decltype(look<count, T>(std::declval<T &>()))::value;
        }
    }
}

template <class T> consteval why check()
{
    if constexpr (std::is_reference_v<T>) return why::reference;
    else if constexpr (std::is_array_v<T>) return check<std::remove_all_extents_t<T>>();
    else if constexpr (std::is_pointer_v<T> || std::is_null_pointer_v<T>) return why::pointer;
    else if constexpr (std::is_member_pointer_v<T>) return why::member_pointer;
    else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) return why::fine;
    else if constexpr (codec<T>::is_view) return why::view;
    else if constexpr (codec<T>::has_parts) return codec<T>::check_parts();
    else if constexpr (std::is_polymorphic_v<T>) return why::has_virtual;
    else if constexpr (!std::is_trivially_copyable_v<T>) return why::not_copyable;
    else if constexpr (wire_as_bytes<T> || std::is_empty_v<T>) return why::fine;
    else if constexpr (std::is_union_v<T>) return why::is_union;
    else if constexpr (!std::is_void_v<typename array_of<T>::type>) return check<typename array_of<T>::type>();
    else if constexpr (!std::is_aggregate_v<T>) return why::is_closed;
    else if constexpr (!std::is_copy_assignable_v<T>) return why::not_assignable;
    else return check_class<T>();
}

template <class T> consteval why check_argument()
{
    if constexpr (codec<T>::is_view) return codec<T>::check_parts();
    else return check<T>();
}

// One sentence for each reason.
template <why reason> consteval bool may_travel()
{
    static_assert(reason != why::pointer, "tutti: a pointer means nothing at another rank: send what it points to");
    static_assert(reason != why::member_pointer, "tutti: a pointer to a member cannot travel: choose by a number");
    static_assert(reason != why::reference, "tutti: a reference means nothing at another rank: send a value");
    static_assert(reason != why::has_virtual, "tutti: a class with virtual functions cannot travel");
    static_assert(reason != why::is_union, "tutti: a union can hide a pointer: if none is in it, say tutti::wire_as_bytes<T> = true");
    static_assert(reason != why::not_copyable,
                  "tutti: a type that is not trivially copyable cannot travel: send its elements, as std::vector, std::string or std::tuple");
    static_assert(reason != why::view,
                  "tutti: a view can be an argument, and nothing else: what it looks at may be gone; use std::string or std::vector");
    static_assert(reason != why::not_assignable, "tutti: a class with a reference or a const member cannot travel");
    static_assert(reason != why::is_closed,
                  "tutti: the class has private members or constructors: if no pointer is in it, say tutti::wire_as_bytes<T> = true");
    static_assert(reason != why::has_base, "tutti: the class has a base: if no pointer is in it, say tutti::wire_as_bytes<T> = true");
    static_assert(reason != why::members,
                  "tutti: the class has more than 16 members: if no pointer is in it, say tutti::wire_as_bytes<T> = true");
    static_assert(reason != why::elements,
                  "tutti: arrays of the class have more than 64 elements: make them std::array, or say tutti::wire_as_bytes<T> = true");
    return reason == why::fine;
}

template <class F> inline constexpr bool is_quick = false;
template <class F> inline constexpr bool is_quick<quick_function<F>> = true;
// The function that a quick one wraps.
template <class F> struct bare { using type = F; };
template <class F> struct bare<quick_function<F>> { using type = F; };

template <class T> inline constexpr bool is_task = false;
template <class R> inline constexpr bool is_task<task<R>> = true;
template <class T> struct result_of { using type = T; };
template <class R> struct result_of<task<R>> { using type = R; };

// What a function gives for arguments of these types, which are copies at the target.
template <class F, class... A> consteval auto result_type()
{
    constexpr bool is_pointer = std::is_pointer_v<F> || std::is_member_pointer_v<F>;
    constexpr bool is_class = std::is_class_v<F>;
    constexpr bool is_empty = std::is_empty_v<F> && std::is_default_constructible_v<F>;
    static_assert(!is_pointer, "tutti: a pointer to a function means nothing at another rank: send tutti::fn<f>{}, or a lambda");
    static_assert(is_pointer || (is_class && is_empty),
                  "tutti: the function has captures or members: hand over what it needs as arguments");
    if constexpr (is_class && is_empty) {
        constexpr bool can_be_called = std::is_invocable_v<const F, A...>;
        static_assert(can_be_called,
                      "tutti: the function cannot be called with copies of these arguments: their types and number, and no reference to change");
        if constexpr (can_be_called) return std::type_identity<std::invoke_result_t<const F, A...>>{};
        else return std::type_identity<void>{};
    }
    else return std::type_identity<void>{};
}

// All that is checked of a call.
template <class F, class... A> struct checked {
    using given = typename decltype(result_type<typename bare<F>::type, A...>())::type;
    using result = typename result_of<given>::type;
    static constexpr bool arguments_travel = (may_travel<check_argument<A>()>() && ... && true);
    template <class T> static consteval std::size_t bytes() { return codec<T>::bytes_max() == any_length ? 0 : codec<T>::bytes_max(); }
    static_assert((bytes<A>() + ... + 0) <= TUTTI_CALL_BYTES_MAX, "tutti: the arguments are longer than 2048 bytes: send a std::vector");
    static_assert(!(is_quick<F> && is_task<given>), "tutti: a quick function does not wait: it cannot be a tutti::task");
    static consteval bool result_travels()
    {
        if constexpr (std::is_void_v<result>) return true;
        else {
            static_assert(bytes<result>() <= TUTTI_CALL_BYTES_MAX, "tutti: the result is longer than 2048 bytes: give a std::vector");
            return may_travel<check<result>()>();
        }
    }
    static constexpr bool is_fine = arguments_travel && result_travels();
};

// The result is kept as its bytes until it is taken.
template <class R> consteval bool is_plain()
{
    if constexpr (std::is_void_v<R>) return true;
    else return !codec<R>::has_parts;
}
template <class R> consteval std::size_t size()
{
    if constexpr (std::is_void_v<R> || !is_plain<R>()) return 0;
    else return sizeof(R);
}
// Room for the result of a function in one message, and how it is started.
template <class F, class R> consteval std::size_t room()
{
    if constexpr (std::is_void_v<R>) return 0;
    else if constexpr (codec<R>::bytes_max() != any_length) return codec<R>::bytes_max();
    else return is_quick<F> ? TUTTI_CALL_BYTES_MAX : 0;
}
template <class F, class R> consteval int flags()
{
    if constexpr (is_quick<F>) return TUTTI_CALL_QUICK;
    else if constexpr (std::is_void_v<R>) return 0;
    else return codec<R>::bytes_max() == any_length ? TUTTI_CALL_LONG : 0;
}

// What may run, in its order. A node leaves the list when it is destroyed.
class ready {
  public:
    ready() = default;
    ready(const ready &) = delete;
    ready &operator=(const ready &) = delete;
    ~ready()
    {
        if (next_ != nullptr) unlink();
    }
    std::coroutine_handle<> handle;

    void push_to(ready &list) noexcept
    {
        next_ = &list;
        before_ = list.before_;
        before_->next_ = this;
        list.before_ = this;
    }
    void unlink() noexcept
    {
        before_->next_ = next_;
        next_->before_ = before_;
        next_ = before_ = nullptr;
    }
    void be_list() noexcept { next_ = before_ = this; }
    ready *first() noexcept { return next_ == this ? nullptr : next_; }
    bool is_in_list() const noexcept { return next_ != nullptr; }

  private:
    ready *next_ = nullptr, *before_ = nullptr;
};

// This rank's scheduler.
struct scheduler {
    ready list;
    // A function or a task runs.
    bool is_inside = false;
    int me = -1, ranks = -1;

    scheduler() { list.be_list(); }
};
inline scheduler own;
// This thread runs quick functions: the scheduler is not its own.
inline constinit thread_local bool is_quick_thread = false;

inline bool is_in_function() noexcept { return is_quick_thread || own.is_inside; }
inline int own_rank() noexcept { return is_quick_thread ? tutti_call_rank() : own.me; }
inline int own_ranks() noexcept { return is_quick_thread ? tutti_call_ranks() : own.ranks; }

class inside {
  public:
    inside() noexcept : before_(std::exchange(own.is_inside, true)) {}
    inside(const inside &) = delete;
    inside &operator=(const inside &) = delete;
    ~inside() { own.is_inside = before_; }

  private:
    bool before_;
};
struct inside_quick {
    inside_quick() noexcept { is_quick_thread = true; }
};

[[noreturn]] inline void refuse(int status, int rank = -1, const std::string &programs = "")
{
    const std::string to = rank < 0 ? "" : " (rank " + std::to_string(rank) + ")";
    switch (status) {
    case TUTTI_ERR_RUNNING: throw error(fault::closed, rank, "tutti: used before tutti::init or behind tutti::quit");
    case TUTTI_ERR_GONE: throw error(fault::gone, rank, "tutti: the rank has left the job" + to);
    case TUTTI_ERR_MEMORY: throw error(fault::no_memory, rank, "tutti: there is no memory for the queue of this rank");
    case TUTTI_ERR_BUSY:
        throw error(fault::busy, rank, "tutti: 64 MiB of calls wait, or 65535 are open: wait for some of them in main" + to);
    case TUTTI_ERR_FUNCTION:
        throw error(fault::unknown_function, rank,
                    "tutti: the function is not known" + to + ": " +
                        (programs.empty() ? "ranks run different programs or libraries, or it is linked with -z norelro" : programs));
    case TUTTI_ERR_THREAD: throw error(fault::wrong_thread, rank, "tutti: another thread has called tutti::init");
    case TUTTI_ERR_LONG: throw error(fault::too_long, rank, "tutti: more than 16 MiB, or than 2048 bytes of a quick function" + to);
    case TUTTI_ERR_RANK:
        throw error(fault::no_rank, rank,
                    "tutti: there is no rank " + std::to_string(rank) + ", they are 0 to " + std::to_string(own_ranks() - 1));
    default: throw error(fault::closed, rank, "tutti: error " + std::to_string(status) + to);
    }
}

inline void expect_main(const char *what)
{
    if (is_in_function())
        throw error(fault::wait_in_function, -1,
                    std::string("tutti: ") + what + " waits, which only main may: make the function a tutti::task and co_await");
}

// Tasks, and what they wait for, are of the thread of main.
inline void expect_no_quick(const char *what)
{
    if (is_quick_thread)
        throw error(fault::wait_in_function, -1,
                    std::string("tutti: ") + what + " is not for quick functions: post a function to this rank that does it");
}

// Takes what has come, and runs some of what is ready. In a post packed ones stay.
inline void step(bool may_sleep, bool is_post = false)
{
    constexpr int tasks_max = 64;
    for (int count = 0; count < tasks_max && own.list.first() != nullptr; ++count) {
        ready *first = own.list.first();
        first->unlink();
        inside mark;
        first->handle.resume();
        may_sleep = false;
    }
    const bool sleeps = may_sleep && own.list.first() == nullptr;
    const int status = tutti_call_progress(sleeps ? 1 : is_post ? TUTTI_CALL_KEEP : 0);
    if (status < 0) refuse(status);
}

template <class Over> void wait_until(const char *what, Over is_over)
{
    expect_main(what);
    while (!is_over()) step(true);
}

// The text of the exception that is handled now, behind its type and a zero.
inline std::string text_of_exception()
{
    std::string type = "an exception", what;
#ifdef __GXX_RTTI
    if (const std::type_info *found = abi::__cxa_current_exception_type()) {
        int status = 0;
        const std::unique_ptr<char, void (*)(void *)> name(abi::__cxa_demangle(found->name(), nullptr, nullptr, &status), std::free);
        type = status == 0 ? name.get() : found->name();
    }
#endif
    try {
        throw;
    } catch (const std::exception &thrown) {
        what = thrown.what();
    } catch (...) {
    }
    type.resize(type.size() < 64 ? type.size() : 64);
    return type + '\0' + what;
}

// Answers with the exception that is handled now. One of a function that nobody waits for ends the job.
inline void answer_exception(tutti_reply reply) noexcept
{
    std::string text = text_of_exception();
    if (reply.to < 0) {
        text[text.find('\0')] = ' ';
        tutti_call_fail(("rank " + std::to_string(own_rank()) + ": a posted function has thrown " + text).c_str());
    }
    tutti_call_answer(reply, TUTTI_THREW, text.data(), text.size() < reply.room ? text.size() : reply.room);
}

template <class R> void answer_value(tutti_reply reply, const R &result)
{
    const encoded<R> bytes(result);
    const int status = tutti_call_answer(reply, TUTTI_OK, bytes.data(), bytes.size());
    if (status == TUTTI_ERR_LONG)
        throw std::length_error("the result has " + std::to_string(bytes.size()) + " bytes, of " + std::to_string(reply.room) +
                                " that may travel");
}

consteval std::uint64_t hash(std::string_view text)
{
    std::uint64_t hash = 0xcbf29ce484222325;
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    return hash;
}

// A coroutine that nobody holds: it answers when the task of a function has ended.
struct detached {
    struct promise_type {
        detached get_return_object() noexcept { return {}; }
        std::suspend_never initial_suspend() noexcept { return {}; }
        std::suspend_never final_suspend() noexcept { return {}; }
        void return_void() noexcept {}
        void unhandled_exception() noexcept { std::terminate(); }
    };
};
template <class K, class R> detached serve(std::unique_ptr<K> kept, task<R> running, tutti_reply reply);

// A function with the types of its arguments: what runs at the target, and its name.
template <class F, class... A> struct call_site {
    using given = typename checked<F, A...>::given;

    static consteval const char *name() { return __PRETTY_FUNCTION__; }

    static void run(const void *arguments, std::size_t bytes, tutti_reply reply) noexcept
    {
        [[maybe_unused]] const std::conditional_t<is_quick<F>, inside_quick, inside> mark;
        try {
            if constexpr (is_task<given>) {
                // What the task looks at stays until it has ended.
                auto message = std::make_unique<std::byte[]>(bytes + 1);
                if (bytes > 0) std::memcpy(message.get(), arguments, bytes);
                reader in(message.get(), bytes);
                auto kept = std::make_unique<values>(std::move(message), in);
                in.expect_end();
                auto running = std::apply(F{}, std::move(kept->of_call));
                serve(std::move(kept), std::move(running), reply);
            } else {
                reader in(arguments, bytes);
                values all(nullptr, in);
                in.expect_end();
                if constexpr (std::is_void_v<given>) {
                    std::apply(F{}, std::move(all.of_call));
                    tutti_call_answer(reply, TUTTI_OK, nullptr, 0);
                } else if (const given result = std::apply(F{}, std::move(all.of_call)); reply.to >= 0) {
                    answer_value(reply, result);
                } else {
                    tutti_call_answer(reply, TUTTI_OK, nullptr, 0);
                }
            }
        } catch (...) {
            answer_exception(reply);
        }
    }

    static constexpr tutti_descriptor descriptor{TUTTI_CALL_MAGIC, hash(name()), run, name()};

  private:
    struct values {
        std::unique_ptr<std::byte[]> message;
        std::tuple<A...> of_call;
        // In the order of a list in braces.
        values(std::unique_ptr<std::byte[]> of, [[maybe_unused]] reader &in)
            : message(std::move(of)), of_call{codec<A>::get(in)...}
        {
        }
    };
};

// Sends; in main it waits while there is no room, in a function it throws.
template <class F, class... A> void send(int rank, int flags, std::size_t result_bytes, tutti_answer *answer, const A &...arguments)
{
    const encoded<A...> bytes(arguments...);
    for (;;) {
        const int status =
            tutti_call_send(rank, &call_site<F, A...>::descriptor, flags, bytes.data(), bytes.size(), result_bytes, answer);
        if (status == TUTTI_OK) return;
        if (status != TUTTI_ERR_BUSY || is_in_function()) refuse(status, rank);
        step(true);
    }
}

struct empty {};
} // namespace detail

// The result of a call that was sent: co_await it once, or get() it in main. Destroyed before, the answer is dropped.
template <class R> class [[nodiscard("the answer is dropped: co_await it, get() it, or use tutti::post")]] awaiter {
    static constexpr bool has_result = !std::is_void_v<R>;

  public:
    awaiter(const awaiter &) = delete;
    awaiter &operator=(const awaiter &) = delete;
    // Only while nothing waits for it.
    awaiter(awaiter &&other) noexcept
        : call_{{&ended, 0}, this}, rank_(other.rank_), status_(other.status_), bytes_(other.bytes_), text_(std::move(other.text_))
    {
        if (status_ == TUTTI_PENDING) tutti_call_redirect(&other.call_.answer, &call_.answer);
        other.status_ = TUTTI_OK;
    }
    ~awaiter()
    {
        if (status_ == TUTTI_PENDING) tutti_call_redirect(&call_.answer, nullptr);
    }

    bool is_ready() const noexcept { return status_ != TUTTI_PENDING; }
    R get()
    {
        detail::wait_until("get", [this] { return is_ready(); });
        return take();
    }

    bool await_ready() const noexcept { return is_ready(); }
    void await_suspend(std::coroutine_handle<> handle) noexcept { waiting_.handle = handle; }
    R await_resume() { return take(); }

  private:
    template <class F, class... A> friend auto invoke_async(int rank, F, A &&...arguments);
    template <class F, class... A> friend auto spawn(int rank, F, A &&...arguments);

    struct call {
        tutti_answer answer;
        awaiter *of;
    };

    // What does not compile gives something, so that the sentence of its reason stands alone.
    explicit awaiter(detail::empty) : call_{{&ended, 0}, this}, rank_(-1), status_(TUTTI_OK) {}

    template <class F, class... A>
    awaiter(std::type_identity<F>, int rank, const A &...arguments) : call_{{&ended, 0}, this}, rank_(rank)
    {
        status_ = TUTTI_OK;
        detail::expect_no_quick("waiting for a call");
        detail::send<F>(rank, detail::flags<F, R>(), detail::room<F, R>(), &call_.answer, arguments...);
        status_ = TUTTI_PENDING;
    }

    static void ended(tutti_answer *answer, int status, const void *data, std::size_t bytes)
    {
        awaiter &self = *reinterpret_cast<call *>(answer)->of;
        if (detail::is_plain<R>() && status == TUTTI_OK && bytes != detail::size<R>()) status = TUTTI_ERR_LONG;
        if (detail::is_plain<R>() && status == TUTTI_OK) {
            if constexpr (has_result) std::memcpy(self.bytes_.data(), data, bytes);
        } else {
            self.text_.assign(static_cast<const char *>(data), bytes);
        }
        self.status_ = status;
        if (self.waiting_.handle) self.waiting_.push_to(detail::own.list);
    }

    R take()
    {
        if (status_ == TUTTI_THREW) {
            const std::size_t zero = text_.find('\0');
            throw remote_error(rank_, text_.substr(0, zero), zero == std::string::npos ? "" : text_.substr(zero + 1));
        }
        if (status_ != TUTTI_OK) detail::refuse(status_, rank_, text_);
        if constexpr (has_result && detail::is_plain<R>()) return std::bit_cast<R>(bytes_);
        else if constexpr (has_result) {
            detail::reader in(text_.data(), text_.size());
            return detail::codec<R>::get(in);
        }
    }

    call call_;
    int rank_;
    int status_;
    // The result, where it is plain; else text_ has its bytes.
    alignas(std::conditional_t<has_result, R, char>) std::array<std::byte, detail::size<R>()> bytes_;
    std::string text_;
    detail::ready waiting_;
};

// Starts a function at a rank; it is sent when this returns.
template <class F, class... A> auto invoke_async(int rank, F, A &&...arguments)
{
    using call = detail::checked<F, detail::arriving_t<A>...>;
    static_assert(!detail::is_task<typename call::given>, "tutti: the function is a coroutine: start it by tutti::spawn");
    if constexpr (call::is_fine && !detail::is_task<typename call::given>)
        return awaiter<typename call::result>(std::type_identity<F>{}, rank, detail::arriving_t<A>(std::forward<A>(arguments))...);
    else return awaiter<void>(detail::empty{});
}

// Starts a function that gives a task at a rank, and gives the result of the task.
template <class F, class... A> auto spawn(int rank, F, A &&...arguments)
{
    using call = detail::checked<F, detail::arriving_t<A>...>;
    static_assert(detail::is_task<typename call::given>, "tutti: the function gives no tutti::task: start it by tutti::invoke_async");
    if constexpr (call::is_fine && detail::is_task<typename call::given>)
        return awaiter<typename call::result>(std::type_identity<F>{}, rank, detail::arriving_t<A>(std::forward<A>(arguments))...);
    else return awaiter<void>(detail::empty{});
}

// Runs a function at a rank and gives its result. Only main may.
template <class F, class... A> auto invoke(int rank, F function, A &&...arguments)
{
    detail::expect_main("invoke");
    return invoke_async(rank, function, std::forward<A>(arguments)...).get();
}

// Starts a function at a rank and forgets it; an exception of it ends the job. In main this is a wait: functions of others may run.
template <class F, class... A> void post(int rank, F, A &&...arguments)
{
    using call = detail::checked<F, detail::arriving_t<A>...>;
    if constexpr (call::is_fine) {
        constexpr int flags = detail::is_quick<F> ? TUTTI_CALL_QUICK : TUTTI_CALL_PACKED;
        detail::send<F, detail::arriving_t<A>...>(rank, flags, 0, nullptr, detail::arriving_t<A>(std::forward<A>(arguments))...);
        if (detail::is_in_function()) return;
        do detail::step(tutti_call_backlog_bytes() > 0, true);
        while (tutti_call_backlog_bytes() > 0);
    }
}

// A coroutine that begins when it is awaited, started, or got in main. It goes on by the ready list of its rank.
template <class R> class [[nodiscard("a task that is not awaited never begins")]] task {
    static_assert(!std::is_reference_v<R>, "tutti: a task gives a value, no reference");

  public:
    struct promise_type;
    using handle = std::coroutine_handle<promise_type>;

  private:
    // The result of a task, or none.
    struct of_value {
        std::optional<std::conditional_t<std::is_void_v<R>, detail::empty, R>> value;
        template <class T> void return_value(T &&given) { value.emplace(std::forward<T>(given)); }
    };
    struct of_void {
        std::optional<detail::empty> value;
        void return_void() noexcept { value.emplace(); }
    };

    class initial {
      public:
        explicit initial(promise_type &promise) noexcept : promise_(&promise) {}
        bool await_ready() const noexcept { return false; }
        // Version 12 of g++ and older ones put the promise of some coroutines where resuming does not find it.
        void await_suspend(handle given) const noexcept
        {
            if (handle::from_promise(*promise_).address() != given.address())
                tutti_call_fail("this compiler lays out a coroutine wrongly: declare a variable in it before its first co_await");
        }
        void await_resume() const noexcept {}

      private:
        promise_type *promise_;
    };
    class final {
      public:
        final() noexcept {}
        bool await_ready() const noexcept { return false; }
        void await_suspend(handle ended) const noexcept
        {
            promise_type &promise = ended.promise();
            promise.is_done = true;
            if (promise.continuation) {
                promise.node.handle = promise.continuation;
                promise.node.push_to(detail::own.list);
            }
        }
        void await_resume() const noexcept {}
    };
    class waiting {
      public:
        explicit waiting(handle of) noexcept : of_(of) {}
        bool await_ready() const noexcept { return of_.promise().is_done; }
        void await_suspend(std::coroutine_handle<> continuation) const noexcept
        {
            of_.promise().continuation = continuation;
            of_.promise().start();
        }
        R await_resume() const { return of_.promise().take(); }

      private:
        handle of_;
    };

  public:
    struct promise_type : std::conditional_t<std::is_void_v<R>, of_void, of_value> {
        std::coroutine_handle<> continuation;
        detail::ready node;
        std::exception_ptr thrown;
        bool is_started = false, is_done = false;

        task get_return_object() noexcept { return task(handle::from_promise(*this)); }
        initial initial_suspend() noexcept { return initial(*this); }
        final final_suspend() noexcept { return final(); }
        void unhandled_exception() noexcept { thrown = std::current_exception(); }

        void start() noexcept
        {
            if (std::exchange(is_started, true)) return;
            node.handle = handle::from_promise(*this);
            node.push_to(detail::own.list);
        }
        R take()
        {
            if (thrown) std::rethrow_exception(std::exchange(thrown, nullptr));
            if constexpr (!std::is_void_v<R>) return std::move(*this->value);
        }
    };

    task(task &&other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    task &operator=(task &&other) noexcept
    {
        std::swap(handle_, other.handle_);
        return *this;
    }
    ~task()
    {
        if (handle_) handle_.destroy();
    }

    // It is ready to run from now on.
    void start()
    {
        detail::expect_no_quick("a task");
        handle_.promise().start();
    }
    bool is_done() const noexcept { return handle_.promise().is_done; }
    // Runs it to its end, and what else is ready. Only main may.
    R get()
    {
        detail::expect_main("get");
        start();
        detail::wait_until("get", [this] { return is_done(); });
        return handle_.promise().take();
    }
    waiting operator co_await() const noexcept { return waiting(handle_); }

  private:
    explicit task(handle of) noexcept : handle_(of) {}
    handle handle_;
};

namespace detail {
template <class K, class R> detached serve(std::unique_ptr<K>, task<R> running, tutti_reply reply)
{
    try {
        if constexpr (std::is_void_v<R>) {
            co_await running;
            tutti_call_answer(reply, TUTTI_OK, nullptr, 0);
        } else {
            const R result = co_await running;
            if (reply.to >= 0) answer_value(reply, result);
            else tutti_call_answer(reply, TUTTI_OK, nullptr, 0);
        }
    } catch (...) {
        answer_exception(reply);
    }
}

class yielding {
  public:
    yielding() noexcept {}
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> handle) noexcept
    {
        node_.handle = handle;
        node_.push_to(own.list);
    }
    void await_resume() const noexcept {}

  private:
    ready node_;
};
} // namespace detail

// Lets what else is ready run first: co_await it in a task.
inline detail::yielding yield() noexcept { return detail::yielding(); }

// Values of one rank that tasks of it wait for, in their order (MPC++: Sync). Others post to it.
template <class T> class sync_var {
    enum class wish { take, peek };
    // In the list of who waits, then in that of what may run.
    struct entry : detail::ready {
        explicit entry(wish wanted) noexcept : wants(wanted) {}
        wish wants;
        std::optional<T> value;
    };

  public:
    template <wish Wish> class waiting {
      public:
        explicit waiting(sync_var &of) noexcept : of_(&of) {}
        waiting(const waiting &) = delete;
        waiting &operator=(const waiting &) = delete;
        bool await_ready()
        {
            if (!entry_.value && !of_->values_.empty()) of_->give(entry_);
            return entry_.value.has_value();
        }
        void await_suspend(std::coroutine_handle<> handle)
        {
            entry_.handle = handle;
            entry_.push_to(of_->waiting_);
        }
        T await_resume() { return std::move(*entry_.value); }
        T get()
        {
            detail::wait_until("get", [this] { return await_ready(); });
            return await_resume();
        }

      private:
        friend class sync_var;
        sync_var *of_;
        entry entry_{Wish};
    };

    sync_var() noexcept(noexcept(std::deque<T>())) { waiting_.be_list(); }
    sync_var(const sync_var &) = delete;
    sync_var &operator=(const sync_var &) = delete;

    // Never waits.
    void put(T value)
    {
        detail::expect_no_quick("sync_var::put");
        // Who waits finds no value: those that peek have a copy, up to the first that takes it.
        while (detail::ready *first = waiting_.first()) {
            entry &to = static_cast<entry &>(*first);
            const bool takes = to.wants == wish::take;
            // A copy may throw: who waits goes on waiting then.
            if (takes)
                to.value.emplace(std::move(value));
            else
                to.value.emplace(value);
            to.unlink();
            to.push_to(detail::own.list);
            if (takes) return;
        }
        values_.push_back(std::move(value));
    }
    // Where there is a value already, it changes nothing and gives false.
    bool try_put(T value)
    {
        if (!values_.empty()) return false;
        put(std::move(value));
        return true;
    }
    // The next value, which is its own from then on: co_await it, or get() it in main.
    waiting<wish::take> take() { return waiting<wish::take>(*this); }
    // A copy of the next value, which stays.
    waiting<wish::peek> peek() { return waiting<wish::peek>(*this); }
    std::size_t size() const noexcept { return values_.size(); }

  private:
    void give(entry &to)
    {
        if (to.wants == wish::peek) {
            to.value.emplace(values_.front());
            return;
        }
        to.value.emplace(std::move(values_.front()));
        values_.pop_front();
    }

    std::deque<T> values_;
    detail::ready waiting_;
};

// Values of one rank in their order, at most so many: put waits for room, take for a value. Both are co_awaited, or got in main.
template <class T> class fifo {
    // In the list of who waits, then in that of what may run.
    struct entry : detail::ready {
        std::optional<T> value;
        bool is_done = false;
    };

  public:
    class [[nodiscard("nothing is put before it is awaited")]] putting {
      public:
        putting(fifo &of, T value) : of_(&of) { entry_.value.emplace(std::move(value)); }
        putting(const putting &) = delete;
        putting &operator=(const putting &) = delete;
        bool await_ready()
        {
            if (!entry_.is_done && of_->has_room()) of_->move_in(entry_);
            return entry_.is_done;
        }
        void await_suspend(std::coroutine_handle<> handle) { of_->wait(of_->putting_, entry_, handle); }
        void await_resume() const noexcept {}
        void get()
        {
            detail::wait_until("get", [this] { return await_ready(); });
        }

      private:
        fifo *of_;
        entry entry_;
    };
    class taking {
      public:
        explicit taking(fifo &of) noexcept : of_(&of) {}
        taking(const taking &) = delete;
        taking &operator=(const taking &) = delete;
        bool await_ready()
        {
            if (!entry_.is_done && !of_->values_.empty()) of_->move_out(entry_);
            return entry_.is_done;
        }
        void await_suspend(std::coroutine_handle<> handle) { of_->wait(of_->taking_, entry_, handle); }
        T await_resume() { return std::move(*entry_.value); }
        T get()
        {
            detail::wait_until("get", [this] { return await_ready(); });
            return await_resume();
        }

      private:
        fifo *of_;
        entry entry_;
    };

    explicit fifo(std::size_t capacity) : capacity_(capacity)
    {
        if (capacity == 0) throw std::invalid_argument("tutti: a fifo holds one value at least");
        putting_.be_list();
        taking_.be_list();
    }
    fifo(const fifo &) = delete;
    fifo &operator=(const fifo &) = delete;

    putting put(T value) { return putting(*this, std::move(value)); }
    taking take() { return taking(*this); }
    // Where there is no room it changes nothing and gives false.
    bool try_put(T value)
    {
        if (!has_room()) return false;
        entry one;
        one.value.emplace(std::move(value));
        move_in(one);
        return true;
    }
    std::optional<T> try_take()
    {
        if (values_.empty()) return std::nullopt;
        entry one;
        move_out(one);
        return std::move(one.value);
    }
    std::size_t size() const noexcept { return values_.size(); }
    std::size_t capacity() const noexcept { return capacity_; }

  private:
    bool has_room() const noexcept { return values_.size() < capacity_; }
    void wait(detail::ready &list, entry &one, std::coroutine_handle<> handle) noexcept
    {
        one.handle = handle;
        one.push_to(list);
    }
    static void wake(entry &first) noexcept
    {
        first.unlink();
        first.push_to(detail::own.list);
    }
    void move_in(entry &from)
    {
        detail::expect_no_quick("fifo::put");
        if (taking_.first() == nullptr) {
            values_.push_back(std::move(*from.value));
            from.is_done = true;
            return;
        }
        // Who waits to take finds no value.
        entry &first = static_cast<entry &>(*taking_.first());
        first.value.emplace(std::move(*from.value));
        from.is_done = first.is_done = true;
        wake(first);
    }
    void move_out(entry &to)
    {
        detail::expect_no_quick("fifo::take");
        to.value.emplace(std::move(values_.front()));
        values_.pop_front();
        to.is_done = true;
        if (putting_.first() == nullptr) return;
        entry &first = static_cast<entry &>(*putting_.first());
        values_.push_back(std::move(*first.value));
        first.is_done = true;
        wake(first);
    }

    std::size_t capacity_;
    std::deque<T> values_;
    detail::ready putting_, taking_;
};

// An object that each rank has one of; a variable outside of functions, which functions at other ranks name.
template <class T> class dist {
    static_assert(std::is_object_v<T>, "tutti: each rank has an object of its own, no reference");

  public:
    template <class... A>
        requires std::is_constructible_v<T, A...>
    explicit dist(A &&...arguments) : own_(std::forward<A>(arguments)...)
    {
    }
    dist(const dist &) = delete;
    dist &operator=(const dist &) = delete;
    T &operator*() noexcept { return own_; }
    T *operator->() noexcept { return std::addressof(own_); }

  private:
    T own_;
};

inline int this_rank()
{
    const int rank = detail::own_rank();
    if (rank < 0) detail::refuse(TUTTI_ERR_RUNNING);
    return rank;
}
inline int ranks()
{
    const int ranks = detail::own_ranks();
    if (ranks < 0) detail::refuse(TUTTI_ERR_RUNNING);
    return ranks;
}

// Called by all ranks that were started together; starts MPI unless the program has.
inline void init()
{
    constexpr auto nothing = [] {};
    const int status = tutti_call_init(&detail::call_site<std::remove_const_t<decltype(nothing)>>::descriptor);
    if (status == TUTTI_ERR_BUSY) throw error(fault::closed, -1, "tutti: tutti::init has been called already");
    if (status != TUTTI_OK) detail::refuse(status);
    detail::own.me = tutti_call_rank();
    detail::own.ranks = tutti_call_ranks();
}

namespace detail {
inline std::array<std::uint64_t, 2> meet_with_sums(const char *what)
{
    std::array<std::uint64_t, 2> sums{};
    expect_main(what);
    step(false);
    if (const int status = tutti_call_arrive(); status != TUTTI_OK) refuse(status);
    wait_until(what, [&sums] { return tutti_call_arrived(sums.data()) != TUTTI_PENDING; });
    return sums;
}
} // namespace detail

// A barrier of all ranks: main waits in it, functions and tasks run.
inline void meet() { detail::meet_with_sums("meet"); }

// Called by all ranks: all that was sent before has ended, and what that has sent.
inline void quiet()
{
    std::array<std::uint64_t, 2> before{1, 0}, sums{2, 0};
    while (sums[0] != sums[1] || sums != before) {
        before = sums;
        sums = detail::meet_with_sums("quiet");
    }
}

namespace detail {
struct pointers;
}

// Points to objects of a rank, which make has made; it travels, and any rank reads, writes and changes them while their rank computes.
template <class T> class global_ptr {
  public:
    global_ptr() noexcept : region_{}, offset_(0), first_(0), rank_(-1) {}
    template <class U>
        requires(std::is_same_v<const U, T> && !std::is_same_v<U, T>)
    global_ptr(const global_ptr<U> &other) noexcept
        : region_(other.region_), offset_(other.offset_), first_(other.first_), rank_(other.rank_)
    {
    }

    // The rank of the object; -1: it points to none.
    int where() const noexcept { return rank_; }
    explicit operator bool() const noexcept { return rank_ >= 0; }
    // The object in the memory of this rank, whose it is.
    T *local() const
    {
        if (rank_ < 0 || rank_ != this_rank()) throw error(fault::not_own, rank_, "tutti: the object is of another rank: read it");
        return reinterpret_cast<T *>(first_ + static_cast<std::uintptr_t>(offset_) * sizeof(T));
    }

    global_ptr &operator+=(std::ptrdiff_t by) noexcept
    {
        offset_ = static_cast<std::int64_t>(static_cast<std::uint64_t>(offset_) + static_cast<std::uint64_t>(by));
        return *this;
    }
    global_ptr &operator-=(std::ptrdiff_t by) noexcept
    {
        offset_ = static_cast<std::int64_t>(static_cast<std::uint64_t>(offset_) - static_cast<std::uint64_t>(by));
        return *this;
    }
    global_ptr &operator++() noexcept { return *this += 1; }
    global_ptr &operator--() noexcept { return *this += -1; }
    friend global_ptr operator+(global_ptr of, std::ptrdiff_t by) noexcept { return of += by; }
    friend global_ptr operator-(global_ptr of, std::ptrdiff_t by) noexcept { return of -= by; }
    // Elements between two that point into the same object.
    friend std::ptrdiff_t operator-(const global_ptr &a, const global_ptr &b) noexcept { return a.offset_ - b.offset_; }
    friend bool operator==(const global_ptr &a, const global_ptr &b) noexcept
    {
        return a.rank_ == b.rank_ && a.first_ == b.first_ && a.offset_ == b.offset_;
    }

    // For the functions of this header: the region, and the place in it.
    const tutti_region *region() const
    {
        if (rank_ < 0) throw error(fault::freed, -1, "tutti: a global_ptr that points to nothing");
        return &region_;
    }
    std::uint64_t offset_bytes() const
    {
        if (offset_ < 0) throw error(fault::out_of_range, rank_, "tutti: a global_ptr before its object");
        // No object ends behind it, and the bytes stay a number.
        if (static_cast<std::uint64_t>(offset_) > (std::uint64_t{1} << 46) / sizeof(T))
            throw error(fault::out_of_range, rank_, "tutti: a global_ptr behind its object");
        return static_cast<std::uint64_t>(offset_) * sizeof(T);
    }

  private:
    template <class U> friend class global_ptr;
    friend struct detail::pointers;

    tutti_region region_;
    std::int64_t offset_;
    std::uintptr_t first_;
    int rank_;
};
template <class T> inline constexpr bool wire_as_bytes<global_ptr<T>> = true;

namespace detail {
// Makes pointers, and looks into them.
struct pointers {
    template <class T> static global_ptr<T> of(const tutti_region &region, void *memory)
    {
        global_ptr<T> made;
        made.region_ = region;
        made.first_ = reinterpret_cast<std::uintptr_t>(memory);
        made.rank_ = own_rank();
        return made;
    }
    template <class T> static bool is_first(const global_ptr<T> &one) { return one.offset_ == 0; }
};

inline void expect_done(int status, int rank)
{
    const std::string of = rank < 0 ? "" : " of rank " + std::to_string(rank);
    switch (status) {
    case TUTTI_OK: return;
    case TUTTI_ERR_REGION: throw error(fault::freed, rank, "tutti: the object" + of + " has been destroyed, or is of another job");
    case TUTTI_ERR_RANGE: throw error(fault::out_of_range, rank, "tutti: the object" + of + " ends before");
    case TUTTI_ERR_MEMORY: throw error(fault::no_memory, rank, "tutti: no memory is left, or 4096 objects of make are there");
    default: refuse(status, rank);
    }
}

template <class T> consteval bool may_be_shared()
{
    return may_travel<check<std::remove_const_t<T>>()>() && !codec<std::remove_const_t<T>>::has_parts;
}
template <class T> inline constexpr bool is_shared = may_be_shared<T>();
} // namespace detail

// Objects of this rank, one behind another and zero, that all ranks reach. 4096 of them are there at most.
template <class T> global_ptr<T> make(std::size_t count = 1)
{
    static_assert(detail::is_shared<T>, "tutti: other ranks see the bytes of an object: no strings, vectors or tuples");
    static_assert(alignof(T) <= 64, "tutti: objects of make are aligned to 64 bytes at most");
    if (detail::own_rank() < 0) detail::refuse(TUTTI_ERR_RUNNING);
    if (count == 0 || count > (std::size_t{1} << 46) / sizeof(T)) detail::expect_done(TUTTI_ERR_MEMORY, -1);
    void *memory = tutti_alloc(count * sizeof(T));
    if (memory == nullptr) detail::expect_done(TUTTI_ERR_MEMORY, -1);
    tutti_region region;
    const int status = tutti_open(memory, count * sizeof(T), TUTTI_READ | TUTTI_WRITE | TUTTI_ATOMIC, &region);
    if (status != TUTTI_OK) {
        tutti_free(memory);
        detail::expect_done(status, -1);
    }
    return detail::pointers::of<T>(region, memory);
}

// Gives objects of this rank back; a rank that still points to them gets fault::freed.
template <class T> void destroy(const global_ptr<T> &of)
{
    auto *memory = const_cast<std::remove_const_t<T> *>(of.local());
    if (!detail::pointers::is_first(of)) throw error(fault::out_of_range, of.where(), "tutti: destroy takes what make has given");
    detail::expect_done(tutti_close(of.region()), of.where());
    tutti_free(memory);
}

// These wait for the network alone: no function runs meanwhile, and functions, tasks and quick functions may call them, too.
template <class T> void read(const global_ptr<T> &from, std::span<std::remove_const_t<T>> into)
{
    detail::expect_done(tutti_read(from.region(), from.offset_bytes(), into.data(), into.size_bytes(), TUTTI_WAIT), from.where());
}
template <class T> std::remove_const_t<T> read(const global_ptr<T> &from)
{
    alignas(T) std::array<std::byte, sizeof(T)> bytes;
    detail::expect_done(tutti_read(from.region(), from.offset_bytes(), bytes.data(), sizeof(T), TUTTI_WAIT), from.where());
    return std::bit_cast<std::remove_const_t<T>>(bytes);
}
template <class T>
    requires(!std::is_const_v<T>)
void write(const global_ptr<T> &to, std::type_identity_t<std::span<const T>> from)
{
    detail::expect_done(tutti_write(to.region(), to.offset_bytes(), from.data(), from.size_bytes(), TUTTI_WAIT), to.where());
}
template <class T>
    requires(!std::is_const_v<T>)
void write(const global_ptr<T> &to, const std::type_identity_t<T> &value)
{
    write(to, std::span<const T>(&value, 1));
}

// Writes, then adds to a word of the same rank: who sees the sum there sees what was written. It waits once, for both; what was wrong with
// the write is thrown by the next fence.
template <class T>
    requires(!std::is_const_v<T>)
void write_signal(const global_ptr<T> &to, std::type_identity_t<std::span<const T>> from, const global_ptr<std::int64_t> &word, std::int64_t add)
{
    if (word.where() != to.where())
        throw error(fault::not_own, word.where(), "tutti: write_signal writes and adds at one rank, not at " + std::to_string(to.where()) +
                                                      " and " + std::to_string(word.where()));
    detail::expect_done(tutti_write(to.region(), to.offset_bytes(), from.data(), from.size_bytes(), TUTTI_POSTED), to.where());
    std::int64_t found;
    detail::expect_done(tutti_fetch_add(word.region(), word.offset_bytes(), add, &found, TUTTI_WAIT), word.where());
}

// What this rank has written before is in place at all ranks.
inline void fence()
{
    tutti_fence all;
    int status = tutti_fence_start(&all);
    if (status == TUTTI_OK) status = tutti_fence_wait(&all);
    detail::expect_done(status, -1);
}

// A number at a global_ptr that ranks change at the same time.
template <class T> class global_atomic {
    static_assert(std::is_integral_v<T> && sizeof(T) == 8, "tutti: ranks change numbers of 8 bytes: std::int64_t or std::uint64_t");

  public:
    explicit global_atomic(const global_ptr<T> &of) noexcept : of_(of) {}
    T load() const { return fetch_add(0); }
    void store(T value) const { exchange(value); }
    T fetch_add(T value) const
    {
        std::int64_t found = 0;
        expect(tutti_fetch_add(of_.region(), of_.offset_bytes(), static_cast<std::int64_t>(value), &found, TUTTI_WAIT));
        return static_cast<T>(found);
    }
    T exchange(T value) const
    {
        std::int64_t found = 0;
        expect(tutti_swap(of_.region(), of_.offset_bytes(), static_cast<std::int64_t>(value), &found, TUTTI_WAIT));
        return static_cast<T>(found);
    }
    // As that of std::atomic: what was there goes to `expected` if it is another number.
    bool compare_exchange(T &expected, T value) const
    {
        std::int64_t found = 0;
        const auto old = static_cast<std::int64_t>(expected);
        expect(tutti_compare_swap(of_.region(), of_.offset_bytes(), old, static_cast<std::int64_t>(value), &found, TUTTI_WAIT));
        const bool is_done = found == old;
        expected = static_cast<T>(found);
        return is_done;
    }

  private:
    void expect(int status) const { detail::expect_done(status, of_.where()); }
    global_ptr<T> of_;
};

namespace detail {
// A reduction or a broadcast. Calls are numbered, so that the same number is the same call on all ranks.
struct collective {
    std::uint64_t key = 0;
    // The call that has been heard of first.
    std::string where;
    bool is_called = false, is_done = false;
    // Reduction: children whose values are here, their values, and what makes one of all.
    std::size_t risen = 0;
    std::array<std::string, 2> below;
    std::string (*combine)(const collective &) = nullptr;
    // The own value, then the result, as they travel.
    std::string value;
    ready *waiting = nullptr;
};
struct collectives {
    std::map<std::uint64_t, std::shared_ptr<collective>> open;
    std::uint64_t next = 0;
};
inline collectives own_collectives;

// Names a call to other ranks.
struct collective_name {
    std::uint64_t number, key;
    int root;
};

inline std::shared_ptr<collective> collective_of(const collective_name &name, const std::string &where)
{
    std::shared_ptr<collective> &place = own_collectives.open[name.number];
    if (!place) {
        place = std::make_shared<collective>();
        place->key = name.key;
        place->where = where;
    }
    if (place->key != name.key)
        tutti_call_fail((where + " meets " + place->where + ": all ranks call the same collectives in the same order").c_str());
    return place;
}

inline void settle(collective_name name, std::string where, std::string value);
inline void rise(collective_name name, std::string where, std::size_t child, std::string value);

// The result is here: the ranks below get it.
inline void finish(const collective_name &name, const std::shared_ptr<collective> &of, const std::string &where)
{
    of->is_done = true;
    const long ranks = own.ranks, me = (own.me - name.root + ranks) % ranks;
    for (long child = 2 * me + 1; child <= 2 * me + 2 && child < ranks; ++child)
        send<fn<settle>>(static_cast<int>((child + name.root) % ranks), TUTTI_CALL_PACKED, 0, nullptr, name, where, of->value);
    if (of->waiting != nullptr) of->waiting->push_to(own.list);
    if (of->is_called) own_collectives.open.erase(name.number);
}

inline void settle(collective_name name, std::string where, std::string value)
{
    const std::shared_ptr<collective> of = collective_of(name, where);
    of->value = std::move(value);
    finish(name, of, where);
}

// Reduction: once the own value and those of the children are here, one of them all goes up, or is the result.
inline void combine(const collective_name &name, const std::shared_ptr<collective> &of, const std::string &where)
{
    const long first = 2L * own.me + 1, children = first >= own.ranks ? 0 : first + 1 >= own.ranks ? 1 : 2;
    if (!of->is_called || of->risen < static_cast<std::size_t>(children)) return;
    of->value = of->combine(*of);
    if (own.me == 0) finish(name, of, where);
    else send<fn<rise>>((own.me - 1) / 2, TUTTI_CALL_PACKED, 0, nullptr, name, where, static_cast<std::size_t>((own.me - 1) % 2), of->value);
}

inline void rise(collective_name name, std::string where, std::size_t child, std::string value)
{
    const std::shared_ptr<collective> of = collective_of(name, where);
    of->below.at(child) = std::move(value);
    ++of->risen;
    combine(name, of, where);
}

template <class T> std::string text_of(const T &value)
{
    const encoded<T> bytes(value);
    return std::string(reinterpret_cast<const char *>(bytes.data()), bytes.size());
}
template <class T> T of_text(const std::string &text)
{
    reader in(text.data(), text.size());
    return codec<T>::get(in);
}

// The lower children come in their order, so that a result is the same each time.
template <class T, class Op> std::string combine_all(const collective &of)
{
    T all = of_text<T>(of.value);
    for (std::size_t child = 0; child < of.risen; ++child) all = Op{}(std::move(all), of_text<T>(of.below[child]));
    return text_of<T>(all);
}

template <class... T> consteval std::uint64_t key_of() { return hash(__PRETTY_FUNCTION__); }

// Enters a collective call of this rank.
inline std::shared_ptr<collective> enter(const char *what, const collective_name &name, std::string &where, const std::source_location &place)
{
    expect_no_quick(what);
    if (own.me < 0) refuse(TUTTI_ERR_RUNNING);
    const std::string_view file = place.file_name();
    where = std::string(what) + " at " + std::string(file.substr(file.rfind('/') + 1)) + ":" + std::to_string(place.line()) + " of rank " +
            std::to_string(own.me);
    std::shared_ptr<collective> of = collective_of(name, where);
    of->is_called = true;
    return of;
}
} // namespace detail

// The result of a reduction or a broadcast: co_await it, or get() it in main.
template <class T> class [[nodiscard("co_await it, or get() it")]] collected {
  public:
    explicit collected(std::shared_ptr<detail::collective> of) noexcept : of_(std::move(of)) {}
    collected(const collected &) = delete;
    collected &operator=(const collected &) = delete;
    ~collected() { of_->waiting = nullptr; }

    bool await_ready() const noexcept { return of_->is_done; }
    void await_suspend(std::coroutine_handle<> handle) noexcept
    {
        node_.handle = handle;
        of_->waiting = &node_;
    }
    T await_resume() const { return detail::of_text<T>(of_->value); }
    T get() const
    {
        detail::wait_until("get", [this] { return await_ready(); });
        return await_resume();
    }

  private:
    std::shared_ptr<detail::collective> of_;
    detail::ready node_;
};

// One value of all ranks' values, on all of them; all call it, in the same order among such calls. The operation is associative.
template <class T, class Op>
collected<T> reduce(T value, Op, const std::source_location &place = std::source_location::current())
{
    constexpr bool is_closed = std::is_class_v<Op> && std::is_empty_v<Op> && std::is_default_constructible_v<Op>;
    static_assert(is_closed, "tutti: the operation has captures or members: a lambda without, or std::plus<>{}");
    constexpr bool gives = std::is_invocable_r_v<T, const Op, T, T>;
    static_assert(gives, "tutti: the operation takes two values of the type and gives one");
    const detail::collective_name name{detail::own_collectives.next, detail::key_of<T, Op>(), 0};
    std::string where;
    if constexpr (is_closed && gives && detail::may_travel<detail::check<T>()>()) {
        std::shared_ptr<detail::collective> of = detail::enter("reduce", name, where, place);
        ++detail::own_collectives.next;
        of->value = detail::text_of<T>(value);
        of->combine = detail::combine_all<T, Op>;
        detail::combine(name, of, where);
        return collected<T>(std::move(of));
    }
    else return collected<T>(nullptr);
}

// The value of one rank, on all ranks; all call it, in the same order among such calls. The values of the others are not looked at.
template <class T> collected<T> broadcast(T value, int root, const std::source_location &place = std::source_location::current())
{
    if (root < 0 || root >= ranks()) detail::refuse(TUTTI_ERR_RANK, root);
    const std::uint64_t key = detail::key_of<T>() + static_cast<std::uint64_t>(root) + 1;
    const detail::collective_name name{detail::own_collectives.next, key, root};
    std::string where;
    if constexpr (detail::may_travel<detail::check<T>()>()) {
        std::shared_ptr<detail::collective> of = detail::enter("broadcast", name, where, place);
        ++detail::own_collectives.next;
        if (root == detail::own.me) {
            of->value = detail::text_of<T>(value);
            detail::finish(name, of, where);
        } else if (of->is_done) {
            detail::own_collectives.open.erase(name.number);
        }
        return collected<T>(std::move(of));
    }
    else return collected<T>(nullptr);
}

// Ends what init has begun, on all ranks, when nothing is under way any more.
inline void quit()
{
    quiet();
    detail::wait_until("quit", [] { return tutti_call_open_calls() <= 0; });
    meet();
    if (const int status = tutti_call_quit(); status != TUTTI_OK) detail::refuse(status);
    detail::own.me = detail::own.ranks = -1;
    detail::own_collectives = {};
}

namespace detail {
// Types that travel between jobs: their names, and how they are read. What comes may be anything, so all of it is looked at.
template <class T> struct foreign {
    static constexpr bool is_fine = std::is_arithmetic_v<T> && !std::is_same_v<T, long double>;
    static std::string text()
    {
        if constexpr (std::is_same_v<T, bool>) return "bool";
        else return (std::is_floating_point_v<T> ? "f" : std::is_signed_v<T> ? "i" : "u") + std::to_string(8 * sizeof(T));
    }
    static T get(reader &in)
    {
        if constexpr (std::is_same_v<T, bool>) {
            const auto found = codec<unsigned char>::get(in);
            if (found > 1) throw std::length_error("tutti: a bool that is neither true nor false");
            return found == 1;
        }
        else return codec<T>::get(in);
    }
};
template <class C, class T> struct foreign_elements {
    static constexpr bool is_fine = foreign<T>::is_fine;
    static std::string text() { return "vec(" + foreign<T>::text() + ")"; }
    static C get(reader &in)
    {
        C values;
        for (std::size_t left = in.count(1); left > 0; --left) values.push_back(foreign<T>::get(in));
        return values;
    }
};
template <class T, class A> struct foreign<std::vector<T, A>> : foreign_elements<std::vector<T, A>, T> {};
template <> struct foreign<std::string> : foreign_elements<std::string, char> {
    static std::string text() { return "str"; }
};
template <class T> struct foreign<std::optional<T>> {
    static constexpr bool is_fine = foreign<T>::is_fine;
    static std::string text() { return "opt(" + foreign<T>::text() + ")"; }
    static std::optional<T> get(reader &in)
    {
        if (foreign<bool>::get(in)) return foreign<T>::get(in);
        return std::nullopt;
    }
};
template <class... T> std::string texts()
{
    std::string all;
    ((all += (all.empty() ? "" : ",") + foreign<T>::text()), ...);
    return all;
}
template <class C, class... T> struct foreign_parts {
    static constexpr bool is_fine = (foreign<T>::is_fine && ... && true);
    static std::string text() { return "tuple(" + texts<T...>() + ")"; }
    static C get([[maybe_unused]] reader &in) { return C{foreign<T>::get(in)...}; }
};
template <class... T> struct foreign<std::tuple<T...>> : foreign_parts<std::tuple<T...>, T...> {};
template <class A, class B> struct foreign<std::pair<A, B>> : foreign_parts<std::pair<A, B>, A, B> {};
template <> struct foreign<void> {
    static constexpr bool is_fine = true;
    static std::string text() { return "void"; }
};

template <class R, class... A> consteval bool is_foreign()
{
    constexpr bool is_fine = (foreign<A>::is_fine && ... && foreign<R>::is_fine);
    static_assert(is_fine, "tutti: between jobs numbers, bool, std::string, std::vector, std::optional, std::pair and std::tuple travel");
    return is_fine;
}
template <class R, class... A> std::string signature(const std::string &name)
{
    return name + "(" + texts<A...>() + ")->" + foreign<R>::text();
}

[[noreturn]] inline void refuse_service(int status, const std::string &name)
{
    const std::string of = "tutti: service " + name + ": ";
    switch (status) {
    case TUTTI_ERR_SERVICE: throw error(fault::no_service, -1, of + "there is none");
    case TUTTI_ERR_RIGHT: throw error(fault::not_allowed, -1, of + "it is not for this user, or another user has taken its name");
    case TUTTI_ERR_DEADLINE: throw error(fault::deadline, -1, of + "the time is over");
    case TUTTI_ERR_LOST: throw error(fault::lost, -1, of + "it has ended while the call was under way");
    case TUTTI_ERR_GONE: throw error(fault::gone, -1, of + "it has ended");
    case TUTTI_ERR_REFUSED: throw error(fault::gone, -1, of + "what listens under its name does not answer as a service");
    case TUTTI_ERR_BUSY: throw error(fault::busy, -1, of + "it has too many clients, or its queue stays full, or a call of it runs");
    case TUTTI_ERR_LONG: throw error(fault::too_long, -1, of + "more than 32768 bytes");
    case TUTTI_ERR_NODE: throw error(fault::no_service, -1, of + "the cluster has no such node, or it does not answer");
    case TUTTI_ERR_DAEMON: throw error(fault::no_service, -1, of + "no daemon of this node can be asked for services of others");
    case TUTTI_ERR_MEMORY: throw error(fault::no_memory, -1, of + "no memory or descriptor is left");
    default: throw error(fault::bad_name, -1, of + "error " + std::to_string(status) + ": letters, digits and . _ -, at most 64, or user/name, or name@node");
    }
}

// A function of a service, with what it has captured.
class offered {
  public:
    offered() = default;
    offered(const offered &) = delete;
    offered &operator=(const offered &) = delete;
    virtual ~offered() = default;
    virtual void call(reader in, tutti_served *call) = 0;

    static void run(void *context, const void *arguments, std::size_t bytes, tutti_served *call) noexcept
    {
        try {
            static_cast<offered *>(context)->call(reader(arguments, bytes), call);
        } catch (...) {
            const std::string text = text_of_exception();
            tutti_service_answer(call, TUTTI_THREW, text.data(), text.size() < 1024 ? text.size() : 1024);
        }
    }
};
template <class R, class... A> class offered_as final : public offered {
  public:
    explicit offered_as(std::function<R(A...)> f) : f_(std::move(f)) {}
    void call([[maybe_unused]] reader in, tutti_served *call) override
    {
        // In the order of a list in braces.
        std::tuple<std::decay_t<A>...> values{foreign<std::decay_t<A>>::get(in)...};
        in.expect_end();
        if constexpr (std::is_void_v<R>) {
            std::apply(f_, std::move(values));
            tutti_service_answer(call, TUTTI_OK, nullptr, 0);
        } else {
            const encoded<R> bytes(std::apply(f_, std::move(values)));
            if (tutti_service_answer(call, TUTTI_OK, bytes.data(), bytes.size()) != TUTTI_OK)
                throw std::length_error("the result has " + std::to_string(bytes.size()) + " bytes, of 32768 that may travel");
        }
    }

  private:
    std::function<R(A...)> f_;
};

// Text goes as std::string.
template <class T> struct foreign_argument { using type = std::decay_t<T>; };
template <class T>
    requires(std::is_convertible_v<T, std::string_view>)
struct foreign_argument<T> { using type = std::string; };

inline std::int64_t ns_of(std::chrono::nanoseconds time) { return time.count() < 0 ? 0 : time.count(); }
} // namespace detail

// Functions that this process offers by a name to other processes of its cluster, in a job or not; it needs no init.
class service {
  public:
    // For whom: "user" (this one), "user:bob", "group:chem", "everybody".
    explicit service(const std::string &name, const std::string &whom = "user") : name_(name)
    {
        if (const int status = tutti_service_open(name.c_str(), whom.c_str(), &handle_); status != TUTTI_OK) {
            if (status == TUTTI_ERR_BUSY) throw error(fault::bad_name, -1, "tutti: service " + name + ": the name is in use");
            detail::refuse_service(status, name);
        }
    }
    service(const service &) = delete;
    service &operator=(const service &) = delete;
    ~service() { tutti_service_close(handle_); }

    // Offers a function, which may have captures; it runs inside serve.
    template <class F> void add(const std::string &name, F f) { add_as(name, std::function(std::move(f))); }
    // Serves clients until stop is called, by any thread or by a function of it.
    void serve() { expect(tutti_service_serve(handle_, -1)); }
    // The same for so long at most; how many calls there were.
    int serve_for(std::chrono::nanoseconds at_most) { return expect(tutti_service_serve(handle_, detail::ns_of(at_most))); }
    void stop() noexcept { tutti_service_stop(handle_); }

  private:
    int expect(int status) const
    {
        if (status < 0) detail::refuse_service(status, name_);
        return status;
    }
    template <class R, class... A> void add_as(const std::string &name, std::function<R(A...)> f)
    {
        if constexpr (detail::is_foreign<R, std::decay_t<A>...>()) {
            auto one = std::make_unique<detail::offered_as<R, A...>>(std::move(f));
            const std::string signature = detail::signature<R, std::decay_t<A>...>(name);
            const int status = tutti_service_add(handle_, signature.c_str(), detail::offered::run, one.get());
            if (status == TUTTI_ERR_ARG) throw error(fault::bad_name, -1, "tutti: service " + name_ + " has a function " + name);
            expect(status);
            functions_.push_back(std::move(one));
        }
    }

    std::string name_;
    std::int64_t handle_ = 0;
    std::vector<std::unique_ptr<detail::offered>> functions_;
};

// A connection to a service; one thread at a time calls.
class client {
  public:
    // "name" of this user, "user/name", "name@node", "name@*" of any node. Each call waits so long at most, also while the service stands still.
    explicit client(const std::string &name, std::chrono::nanoseconds at_most = std::chrono::seconds(60))
        : connection_(std::make_shared<connection>()), at_most_(at_most)
    {
        connection_->name = name;
        const int status = tutti_client_open(name.c_str(), detail::ns_of(at_most), &connection_->handle);
        if (status != TUTTI_OK) detail::refuse_service(status, name);
    }
    // The same connection with another time.
    client within(std::chrono::nanoseconds at_most) const
    {
        client other = *this;
        other.at_most_ = at_most;
        return other;
    }
    // The signatures of all functions.
    std::vector<std::string> signatures() const
    {
        std::vector<std::string> all;
        std::string text(TUTTI_SERVICE_BYTES_MAX, ' ');
        std::size_t bytes = text.size();
        if (const int status = tutti_client_signatures(connection_->handle, text.data(), &bytes); status != TUTTI_OK)
            detail::refuse_service(status, connection_->name);
        for (std::size_t at = 0, end = 0; at < bytes; at = end + 1) {
            end = std::min(text.find('\n', at), bytes);
            all.push_back(text.substr(at, end - at));
        }
        return all;
    }

    // Length of the queue of this connection: calls that were given up at their deadline and that the service has not answered yet.
    std::size_t waiting() const
    {
        const std::int64_t count = tutti_client_waiting(connection_->handle);
        return count > 0 ? static_cast<std::size_t>(count) : 0;
    }

    // Runs a function of the service: call<long>("add", 1, 2). Its types are those of the service, to the letter.
    template <class R = void, class... A> R call(const std::string &function, const A &...arguments) const
    {
        if constexpr (detail::is_foreign<R, typename detail::foreign_argument<A>::type...>())
            return call_as<R, typename detail::foreign_argument<A>::type...>(function, typename detail::foreign_argument<A>::type(arguments)...);
    }

  private:
    struct connection {
        std::string name;
        std::int64_t handle = 0;
        connection() = default;
        connection(const connection &) = delete;
        connection &operator=(const connection &) = delete;
        ~connection()
        {
            if (handle != 0) tutti_client_close(handle);
        }
    };

    template <class R, class... A> R call_as(const std::string &function, const A &...arguments) const
    {
        const detail::encoded<A...> bytes(arguments...);
        const std::string signature = detail::signature<R, A...>(function);
        std::vector<std::byte> result(TUTTI_SERVICE_BYTES_MAX);
        std::size_t size = result.size();
        const int status = tutti_client_call(connection_->handle, signature.c_str(), bytes.data(), bytes.size(), detail::ns_of(at_most_),
                                             result.data(), &size);
        if (status == TUTTI_ERR_VERSION) refuse_version(function, signature);
        detail::reader in(result.data(), size);
        if (status == TUTTI_THREW) {
            const std::string text(reinterpret_cast<const char *>(result.data()), size);
            const std::size_t zero = text.find('\0');
            throw remote_error(-1, text.substr(0, zero), zero == std::string::npos ? "" : text.substr(zero + 1));
        }
        if (status == TUTTI_ERR_DEADLINE || status == TUTTI_ERR_BUSY) refuse_waiting(status);
        if (status != TUTTI_OK) detail::refuse_service(status, connection_->name);
        if constexpr (!std::is_void_v<R>) {
            R value = detail::foreign<R>::get(in);
            in.expect_end();
            return value;
        }
    }
    // Says how many calls of this connection wait at the service, and how long this one has.
    [[noreturn]] void refuse_waiting(int status) const
    {
        const std::size_t count = waiting();
        if (status == TUTTI_ERR_BUSY && count == 0) detail::refuse_service(status, connection_->name);
        const std::string ms = std::to_string(std::chrono::ceil<std::chrono::milliseconds>(at_most_).count()) + " ms";
        const std::string queue = std::to_string(count) + (count == 1 ? " call of this client waits there" : " calls of this client wait there");
        const std::string of = "tutti: service " + connection_->name + ": ";
        if (status == TUTTI_ERR_BUSY) throw error(fault::busy, -1, of + "its queue is full and has no room within " + ms + ": " + queue);
        throw error(fault::deadline, -1, of + "the time of " + ms + " is over: " + queue);
    }
    [[noreturn]] void refuse_version(const std::string &function, const std::string &wanted) const
    {
        std::string found = "no function " + function;
        for (const std::string &one : signatures())
            if (one.substr(0, one.find('(')) == function) found = one;
        throw error(fault::version, -1, "tutti: service " + connection_->name + " has " + found + ", and is asked for " + wanted);
    }

    std::shared_ptr<connection> connection_;
    std::chrono::nanoseconds at_most_;
};

} // namespace tutti
#endif
