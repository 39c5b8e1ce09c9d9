// The operations, by type.
#include "softgpu/isa/async_reduce.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "softgpu/isa/half_format.h"

namespace warpline::softgpu::isa {

namespace {

struct Add {
    template <typename T>
    static T run(T a, T b) {
        return T(a + b);
    }
};
struct Min {
    template <typename T>
    static T run(T a, T b) {
        return std::min(a, b);
    }
};
struct Max {
    template <typename T>
    static T run(T a, T b) {
        return std::max(a, b);
    }
};
struct And {
    template <typename T>
    static T run(T a, T b) {
        return T(a & b);
    }
};
struct Or {
    template <typename T>
    static T run(T a, T b) {
        return T(a | b);
    }
};
struct Xor {
    template <typename T>
    static T run(T a, T b) {
        return T(a ^ b);
    }
};
struct Increment {
    template <typename T>
    static T run(T a, T b) {
        return a >= b ? T(0) : T(a + 1);
    }
};
struct Decrement {
    template <typename T>
    static T run(T a, T b) {
        return a == 0 || a > b ? b : T(a - 1);
    }
};

/// A 16-bit float in memory.
template <bool Brain>
struct Half {
    uint16_t bits;
    static const SmallFloat& format() { return Brain ? k_bf16 : k_f16; }
    double value() const { return decode(format(), bits); }
    static Half of(double value) { return {uint16_t(encode(format(), value, Rounding::nearest, false))}; }
    friend Half operator+(Half a, Half b) { return of(a.value() + b.value()); }
};
template <typename H>
H half_min(H a, H b) {
    double x = a.value(), y = b.value();
    return H::of(std::isnan(x) ? y : std::isnan(y) || x < y || (x == y && std::signbit(x)) ? x : y);
}
template <typename H>
H half_max(H a, H b) {
    double x = a.value(), y = b.value();
    return H::of(std::isnan(x) ? y : std::isnan(y) || x > y || (x == y && !std::signbit(x)) ? x : y);
}
struct HalfAdd {
    template <typename H>
    static H run(H a, H b) {
        return a + b;
    }
};
struct HalfMin {
    template <typename H>
    static H run(H a, H b) {
        return half_min(a, b);
    }
};
struct HalfMax {
    template <typename H>
    static H run(H a, H b) {
        return half_max(a, b);
    }
};

template <typename T>
using Bits = std::conditional_t<sizeof(T) == 2, uint16_t, std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>;

template <typename Op, typename T>
void reduce(std::byte* to, const std::byte* from, uint32_t size_bytes) {
    for (uint32_t at = 0; at < size_bytes; at += sizeof(T)) {
        auto* word = reinterpret_cast<Bits<T>*>(to + at);
        Bits<T> operand, old = __atomic_load_n(word, __ATOMIC_SEQ_CST), next;
        std::memcpy(&operand, from + at, sizeof operand);
        do {
            next = __builtin_bit_cast(Bits<T>, Op::run(__builtin_bit_cast(T, old), __builtin_bit_cast(T, operand)));
        } while (!__atomic_compare_exchange_n(word, &old, next, true, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
    }
}

struct Entry {
    std::string_view operation, type;
    BulkReduction reduction;
};
#define WL_INTEGERS(name, Op, T32, T64, type32, type64) \
    {name, type32, &reduce<Op, T32>}, { name, type64, &reduce<Op, T64> }
constexpr Entry k_entries[] = {
    WL_INTEGERS("add", Add, uint32_t, uint64_t, "u32", "u64"),
    WL_INTEGERS("add", Add, uint32_t, uint64_t, "s32", "s64"),
    WL_INTEGERS("min", Min, uint32_t, uint64_t, "u32", "u64"),
    WL_INTEGERS("min", Min, int32_t, int64_t, "s32", "s64"),
    WL_INTEGERS("max", Max, uint32_t, uint64_t, "u32", "u64"),
    WL_INTEGERS("max", Max, int32_t, int64_t, "s32", "s64"),
    WL_INTEGERS("and", And, uint32_t, uint64_t, "b32", "b64"),
    WL_INTEGERS("or", Or, uint32_t, uint64_t, "b32", "b64"),
    WL_INTEGERS("xor", Xor, uint32_t, uint64_t, "b32", "b64"),
    {"inc", "u32", &reduce<Increment, uint32_t>},
    {"dec", "u32", &reduce<Decrement, uint32_t>},
    {"add", "f32", &reduce<Add, float>},
    {"add", "f64", &reduce<Add, double>},
    {"add", "f16", &reduce<HalfAdd, Half<false>>},
    {"min", "f16", &reduce<HalfMin, Half<false>>},
    {"max", "f16", &reduce<HalfMax, Half<false>>},
    {"add", "bf16", &reduce<HalfAdd, Half<true>>},
    {"min", "bf16", &reduce<HalfMin, Half<true>>},
    {"max", "bf16", &reduce<HalfMax, Half<true>>},
};

}  // namespace

bool is_reduction(std::string_view word) {
    constexpr std::string_view k_words[] = {"add", "min", "max", "inc", "dec", "and", "or", "xor"};
    return std::find(std::begin(k_words), std::end(k_words), word) != std::end(k_words);
}

BulkReduction bulk_reduction(std::string_view operation, std::string_view type) {
    for (const Entry& entry : k_entries) {
        if (entry.operation == operation && entry.type == type) return entry.reduction;
    }
    return nullptr;
}

}  // namespace warpline::softgpu::isa
