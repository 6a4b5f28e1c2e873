// tutti.hpp: functions, tasks and objects on all ranks of a program, in C++20. Compile with tutticxx.
//
//     tutti::init();                                                       on all ranks
//     int there = tutti::invoke(3, [](int x) { return x + 1; }, 41);       runs at rank 3
//     tutti::quit();
//
// Functions and tasks of a rank run one at a time, inside waits of its main: invoke, post, get, meet, quiet. What runs is a lambda
// without captures, or tutti::fn<f>{}; arguments and results are copied as bytes. One thread of a rank calls all of this.
#ifndef TUTTI_HPP
#define TUTTI_HPP

#if __cplusplus < 202002L
#error "tutti.hpp needs C++20: compile with tutticxx, or with -std=c++20"
#endif
#ifndef __cpp_exceptions
#error "tutti.hpp needs exceptions: compile without -fno-exceptions"
#endif

#include <array>
#include <bit>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
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
    too_long,         // more bytes than a message has
    wait_in_function, // a function or a task waits as only main may
    closed,           // before init or behind quit; init a second time
    busy,             // 64 MiB of calls wait, or 65535 are open
    no_rank,          // there is no such rank
    wrong_thread,     // another thread has called init
    no_memory,        // there is none for the queue
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
    elements
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
    else if constexpr (std::is_polymorphic_v<T>) return why::has_virtual;
    else if constexpr (!std::is_trivially_copyable_v<T>) return why::not_copyable;
    else if constexpr (wire_as_bytes<T> || std::is_empty_v<T>) return why::fine;
    else if constexpr (std::is_union_v<T>) return why::is_union;
    else if constexpr (!std::is_void_v<typename array_of<T>::type>) return check<typename array_of<T>::type>();
    else if constexpr (!std::is_aggregate_v<T>) return why::is_closed;
    else if constexpr (!std::is_copy_assignable_v<T>) return why::not_assignable;
    else return check_class<T>();
}

// One sentence for each reason.
template <class T> consteval bool may_travel()
{
    constexpr why reason = check<T>();
    static_assert(reason != why::pointer, "tutti: a pointer means nothing at another rank: send what it points to");
    static_assert(reason != why::member_pointer, "tutti: a pointer to a member cannot travel: choose by a number");
    static_assert(reason != why::reference, "tutti: a reference means nothing at another rank: send a value");
    static_assert(reason != why::has_virtual, "tutti: a class with virtual functions cannot travel");
    static_assert(reason != why::is_union, "tutti: a union can hide a pointer: if none is in it, say tutti::wire_as_bytes<T> = true");
    static_assert(reason != why::not_copyable, "tutti: a type that is not trivially copyable cannot travel: send its elements");
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
    using given = typename decltype(result_type<F, A...>())::type;
    using result = typename result_of<given>::type;
    static constexpr bool arguments_travel = (may_travel<A>() && ... && true);
    static_assert((sizeof(A) + ... + 0) <= TUTTI_CALL_BYTES_MAX, "tutti: the arguments are longer than 2048 bytes");
    static consteval bool result_travels()
    {
        if constexpr (std::is_void_v<result>) return true;
        else {
            static_assert(sizeof(result) <= TUTTI_CALL_BYTES_MAX, "tutti: the result is longer than 2048 bytes");
            return may_travel<result>();
        }
    }
    static constexpr bool is_fine = arguments_travel && result_travels();
};

template <class T> consteval std::size_t size()
{
    if constexpr (std::is_void_v<T>) return 0;
    else return sizeof(T);
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

class inside {
  public:
    inside() noexcept : before_(std::exchange(own.is_inside, true)) {}
    inside(const inside &) = delete;
    inside &operator=(const inside &) = delete;
    ~inside() { own.is_inside = before_; }

  private:
    bool before_;
};

[[noreturn]] inline void refuse(int status, int rank = -1)
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
                    "tutti: the function is not known" + to +
                        ": ranks run different programs or libraries, or it is linked with -z norelro");
    case TUTTI_ERR_THREAD: throw error(fault::wrong_thread, rank, "tutti: another thread has called tutti::init");
    case TUTTI_ERR_LONG: throw error(fault::too_long, rank, "tutti: more than 2048 bytes" + to);
    case TUTTI_ERR_RANK:
        throw error(fault::no_rank, rank,
                    "tutti: there is no rank " + std::to_string(rank) + ", they are 0 to " + std::to_string(own.ranks - 1));
    default: throw error(fault::closed, rank, "tutti: error " + std::to_string(status) + to);
    }
}

inline void expect_main(const char *what)
{
    if (own.is_inside)
        throw error(fault::wait_in_function, -1,
                    std::string("tutti: ") + what + " waits, which only main may: make the function a tutti::task and co_await");
}

// Takes what has come, and runs some of what is ready.
inline void step(bool may_sleep)
{
    constexpr int tasks_max = 64;
    for (int count = 0; count < tasks_max && own.list.first() != nullptr; ++count) {
        ready *first = own.list.first();
        first->unlink();
        inside mark;
        first->handle.resume();
        may_sleep = false;
    }
    const int status = tutti_call_progress(may_sleep && own.list.first() == nullptr);
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
        tutti_call_fail(("rank " + std::to_string(own.me) + ": a posted function has thrown " + text).c_str());
    }
    tutti_call_answer(reply, TUTTI_THREW, text.data(), text.size() < reply.room ? text.size() : reply.room);
}

template <class T> T from_bytes(const std::byte *&at)
{
    std::array<std::byte, sizeof(T)> bytes;
    std::memcpy(bytes.data(), at, sizeof(T));
    at += sizeof(T);
    return std::bit_cast<T>(bytes);
}

template <class T> void to_bytes(std::byte *&at, const T &value)
{
    std::memcpy(at, std::addressof(value), sizeof(T));
    at += sizeof(T);
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
template <class R> detached serve(task<R> running, tutti_reply reply);

// A function with the types of its arguments: what runs at the target, and its name.
template <class F, class... A> struct call_site {
    using given = typename checked<F, A...>::given;

    static consteval const char *name() { return __PRETTY_FUNCTION__; }

    static void run(const void *arguments, std::size_t bytes, tutti_reply reply) noexcept
    {
        inside mark;
        try {
            if (bytes != (sizeof(A) + ... + 0)) throw std::length_error("arguments of another length");
            [[maybe_unused]] const std::byte *at = static_cast<const std::byte *>(arguments);
            // In the order of a list in braces.
            call{from_bytes<A>(at)...}(reply);
        } catch (...) {
            answer_exception(reply);
        }
    }

    static constexpr tutti_descriptor descriptor{TUTTI_CALL_MAGIC, hash(name()), run, name()};

  private:
    struct call {
        std::tuple<A...> arguments;
        explicit call(A... values) : arguments(std::move(values)...) {}
        void operator()(tutti_reply reply)
        {
            if constexpr (is_task<given>) {
                serve(std::apply(F{}, std::move(arguments)), reply);
            } else if constexpr (std::is_void_v<given>) {
                std::apply(F{}, std::move(arguments));
                tutti_call_answer(reply, TUTTI_OK, nullptr, 0);
            } else {
                const given result = std::apply(F{}, std::move(arguments));
                tutti_call_answer(reply, TUTTI_OK, std::addressof(result), sizeof result);
            }
        }
    };
};

// Sends; in main it waits while there is no room, in a function it throws.
template <class F, class... A> void send(int rank, std::size_t result_bytes, tutti_answer *answer, const A &...arguments)
{
    std::array<std::byte, (sizeof(A) + ... + 0) + 1> bytes;
    [[maybe_unused]] std::byte *at = bytes.data();
    (to_bytes(at, arguments), ...);
    for (;;) {
        const int status =
            tutti_call_send(rank, &call_site<F, A...>::descriptor, bytes.data(), bytes.size() - 1, result_bytes, answer);
        if (status == TUTTI_OK) return;
        if (status != TUTTI_ERR_BUSY || own.is_inside) refuse(status, rank);
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
        detail::send<F>(rank, detail::size<R>(), &call_.answer, arguments...);
        status_ = TUTTI_PENDING;
    }

    static void ended(tutti_answer *answer, int status, const void *data, std::size_t bytes)
    {
        awaiter &self = *reinterpret_cast<call *>(answer)->of;
        if (status == TUTTI_OK && bytes != detail::size<R>()) status = TUTTI_ERR_LONG;
        if (status == TUTTI_OK) {
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
        if (status_ != TUTTI_OK) detail::refuse(status_, rank_);
        if constexpr (has_result) return std::bit_cast<R>(bytes_);
    }

    call call_;
    int rank_;
    int status_;
    alignas(std::conditional_t<has_result, R, char>) std::array<std::byte, detail::size<R>()> bytes_;
    std::string text_;
    detail::ready waiting_;
};

// Starts a function at a rank; it is sent when this returns.
template <class F, class... A> auto invoke_async(int rank, F, A &&...arguments)
{
    using call = detail::checked<F, std::decay_t<A>...>;
    static_assert(!detail::is_task<typename call::given>, "tutti: the function is a coroutine: start it by tutti::spawn");
    if constexpr (call::is_fine && !detail::is_task<typename call::given>)
        return awaiter<typename call::result>(std::type_identity<F>{}, rank, std::decay_t<A>(std::forward<A>(arguments))...);
    else return awaiter<void>(detail::empty{});
}

// Starts a function that gives a task at a rank, and gives the result of the task.
template <class F, class... A> auto spawn(int rank, F, A &&...arguments)
{
    using call = detail::checked<F, std::decay_t<A>...>;
    static_assert(detail::is_task<typename call::given>, "tutti: the function gives no tutti::task: start it by tutti::invoke_async");
    if constexpr (call::is_fine && detail::is_task<typename call::given>)
        return awaiter<typename call::result>(std::type_identity<F>{}, rank, std::decay_t<A>(std::forward<A>(arguments))...);
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
    using call = detail::checked<F, std::decay_t<A>...>;
    if constexpr (call::is_fine) {
        detail::send<F, std::decay_t<A>...>(rank, 0, nullptr, std::decay_t<A>(std::forward<A>(arguments))...);
        if (detail::own.is_inside) return;
        do detail::step(tutti_call_backlog_bytes() > 0);
        while (tutti_call_backlog_bytes() > 0);
    }
}

// A coroutine that begins when it is awaited, started, or got in main. It goes on by the ready list of its rank.
template <class R> class [[nodiscard("a task that is not awaited never begins")]] task {
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
        static_assert(!std::is_reference_v<R>, "tutti: a task gives a value, no reference");
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
    void start() noexcept { handle_.promise().start(); }
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
template <class R> detached serve(task<R> running, tutti_reply reply)
{
    try {
        if constexpr (std::is_void_v<R>) {
            co_await running;
            tutti_call_answer(reply, TUTTI_OK, nullptr, 0);
        } else {
            const R result = co_await running;
            tutti_call_answer(reply, TUTTI_OK, std::addressof(result), sizeof result);
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
  public:
    class taking {
      public:
        explicit taking(sync_var &of) noexcept : of_(&of) {}
        taking(const taking &) = delete;
        taking &operator=(const taking &) = delete;
        ~taking()
        {
            if (is_waiting_) std::erase(of_->waiting_, this);
        }
        bool await_ready()
        {
            if (!value_ && !of_->values_.empty()) {
                value_.emplace(std::move(of_->values_.front()));
                of_->values_.pop_front();
            }
            return value_.has_value();
        }
        void await_suspend(std::coroutine_handle<> handle)
        {
            node_.handle = handle;
            of_->waiting_.push_back(this);
            is_waiting_ = true;
        }
        T await_resume() { return std::move(*value_); }
        T get()
        {
            detail::wait_until("get", [this] { return await_ready(); });
            return await_resume();
        }

      private:
        friend class sync_var;
        sync_var *of_;
        std::optional<T> value_;
        detail::ready node_;
        bool is_waiting_ = false;
    };

    sync_var() = default;
    sync_var(const sync_var &) = delete;
    sync_var &operator=(const sync_var &) = delete;

    // Never waits.
    void put(T value)
    {
        if (waiting_.empty()) {
            values_.push_back(std::move(value));
            return;
        }
        taking *first = waiting_.front();
        waiting_.pop_front();
        first->is_waiting_ = false;
        first->value_.emplace(std::move(value));
        first->node_.push_to(detail::own.list);
    }
    // The next value, which is its own from then on: co_await it, or get() it in main.
    taking take() { return taking(*this); }
    std::size_t size() const noexcept { return values_.size(); }

  private:
    std::deque<T> values_;
    std::deque<taking *> waiting_;
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
    if (detail::own.me < 0) detail::refuse(TUTTI_ERR_RUNNING);
    return detail::own.me;
}
inline int ranks()
{
    if (detail::own.ranks < 0) detail::refuse(TUTTI_ERR_RUNNING);
    return detail::own.ranks;
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

// Ends what init has begun, on all ranks, when nothing is under way any more.
inline void quit()
{
    quiet();
    detail::wait_until("quit", [] { return tutti_call_open_calls() <= 0; });
    meet();
    if (const int status = tutti_call_quit(); status != TUTTI_OK) detail::refuse(status);
    detail::own.me = detail::own.ranks = -1;
}

} // namespace tutti
#endif
