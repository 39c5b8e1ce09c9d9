// atom and red. Lanes act one after another, lane 0 first; other threads of the machine see each action as a whole.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "softgpu/isa/access.h"
#include "softgpu/isa/decode_helpers.h"
#include "softgpu/isa/families.h"

namespace warpline::softgpu::isa {

namespace {

using exec::dest;
using exec::k_warp_size;
using exec::source;

struct Exchange {
    template <typename T>
    static T run(T, T b, T) {
        return b;
    }
};
struct CompareAndSwap {
    template <typename T>
    static T run(T a, T b, T c) {
        return a == b ? c : a;
    }
};
struct Add {
    template <typename T>
    static T run(T a, T b, T) {
        return T(a + b);
    }
};
struct And {
    template <typename T>
    static T run(T a, T b, T) {
        return T(a & b);
    }
};
struct Or {
    template <typename T>
    static T run(T a, T b, T) {
        return T(a | b);
    }
};
struct Xor {
    template <typename T>
    static T run(T a, T b, T) {
        return T(a ^ b);
    }
};
struct Min {
    template <typename T>
    static T run(T a, T b, T) {
        return std::min(a, b);
    }
};
struct Max {
    template <typename T>
    static T run(T a, T b, T) {
        return std::max(a, b);
    }
};
struct Increment {
    template <typename T>
    static T run(T a, T b, T) {
        return a >= b ? T(0) : T(a + 1);
    }
};
struct Decrement {
    template <typename T>
    static T run(T a, T b, T) {
        return a == 0 || a > b ? b : T(a - 1);
    }
};

template <typename T>
using Bits = std::conditional_t<sizeof(T) == 2, uint16_t, std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>;

/// On memory that no other thread of the machine touches: a CTA, and all of its cluster, is run by one thread at a time.
template <typename Op, typename T>
T update_alone(std::byte* at, T b, T c) {
    T old;
    std::memcpy(&old, at, sizeof(T));
    const T value = Op::run(old, b, c);
    std::memcpy(at, &value, sizeof(T));
    return old;
}

template <typename Op, typename T>
T update(std::byte* at, T b, T c) {
    auto* word = reinterpret_cast<Bits<T>*>(at);
    if constexpr (std::is_same_v<Op, Exchange>) return __atomic_exchange_n(word, b, __ATOMIC_SEQ_CST);
    if constexpr (std::is_same_v<Op, Add> && std::is_integral_v<T>) return __atomic_fetch_add(word, b, __ATOMIC_SEQ_CST);
    Bits<T> old = __atomic_load_n(word, __ATOMIC_SEQ_CST);
    for (;;) {
        T value = Op::run(__builtin_bit_cast(T, old), b, c);
        if (__atomic_compare_exchange_n(word, &old, __builtin_bit_cast(Bits<T>, value), true, __ATOMIC_SEQ_CST,
                                        __ATOMIC_SEQ_CST)) {
            return __builtin_bit_cast(T, old);
        }
    }
}

/// All lanes of `mask` on one address, one after another as always, but in one step for the rest of the machine: sums that a
/// whole warp adds to one place are the most common atomics, and each step costs as much as all the computing.
template <typename Op, typename T>
void update_together(std::byte* at, uint32_t mask, const T* b, const T* c, T* results) {
    auto* word = reinterpret_cast<Bits<T>*>(at);
    Bits<T> old = __atomic_load_n(word, __ATOMIC_SEQ_CST);
    T value;
    do {
        value = __builtin_bit_cast(T, old);
        for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
            const auto lane = uint32_t(__builtin_ctz(rest));
            results[lane] = value;
            value = Op::run(value, b[lane], c[lane]);
        }
    } while (
        !__atomic_compare_exchange_n(word, &old, __builtin_bit_cast(Bits<T>, value), true, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
}

bool one_address(uint32_t mask, std::byte* const* at) {
    const std::byte* first = at[__builtin_ctz(mask)];
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        if (at[__builtin_ctz(rest)] != first) return false;
    }
    return true;
}

/// Operands: op[0] = d, op[1] = address, op[2] = b, op[3] = c; imm = displacement; flags in extra.
struct AtomicExtra {
    Where where = Where::generic;
    uint8_t address_width = 8;
    bool has_result = false;
};

template <typename Op, typename T>
Flow atom(Warp& w, const Instr& i, uint32_t mask) {
    const auto& extra = *static_cast<const AtomicExtra*>(i.extra);
    std::byte* at[k_warp_size];
    if (!resolve_row(w, i, mask, extra.where, i.op[1], extra.address_width, int64_t(i.imm), sizeof(T), sizeof(T), at))
        return Flow::fault;
    note_access(w, i, mask, at, sizeof(T), exec::AccessKind::atomic);
    const T* b = source<T>(w, i.op[2]);
    const T* c = source<T>(w, i.op[3]);
    T* d = dest<T>(w, i.op[0]);
    const bool alone = extra.where == Where::shared;
    if (!alone && (mask & (mask - 1)) != 0 && one_address(mask, at)) {
        T results[k_warp_size];
        update_together<Op, T>(at[__builtin_ctz(mask)], mask, b, c, results);
        for (uint32_t rest = extra.has_result ? mask : 0; rest != 0; rest &= rest - 1)
            d[__builtin_ctz(rest)] = results[__builtin_ctz(rest)];
        return Flow::next;
    }
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        auto lane = uint32_t(__builtin_ctz(rest));
        T old = alone ? update_alone<Op, T>(at[lane], b[lane], c[lane]) : update<Op, T>(at[lane], b[lane], c[lane]);
        if (extra.has_result) d[lane] = old;
    }
    return Flow::next;
}

#define WL_ATOM(op, type, Op, T) \
    { "$atom." op "." type, &atom<Op, T>, {}, 0 }
const Row k_rows[] = {
    WL_ATOM("exch", "b32", Exchange, uint32_t),
    WL_ATOM("exch", "b64", Exchange, uint64_t),
    WL_ATOM("cas", "b16", CompareAndSwap, uint16_t),
    WL_ATOM("cas", "b32", CompareAndSwap, uint32_t),
    WL_ATOM("cas", "b64", CompareAndSwap, uint64_t),
    WL_ATOM("add", "u32", Add, uint32_t),
    WL_ATOM("add", "s32", Add, uint32_t),
    WL_ATOM("add", "u64", Add, uint64_t),
    WL_ATOM("add", "s64", Add, uint64_t),
    WL_ATOM("add", "f32", Add, float),
    WL_ATOM("add", "f64", Add, double),
    WL_ATOM("and", "b32", And, uint32_t),
    WL_ATOM("and", "b64", And, uint64_t),
    WL_ATOM("or", "b32", Or, uint32_t),
    WL_ATOM("or", "b64", Or, uint64_t),
    WL_ATOM("xor", "b32", Xor, uint32_t),
    WL_ATOM("xor", "b64", Xor, uint64_t),
    WL_ATOM("min", "u32", Min, uint32_t),
    WL_ATOM("min", "s32", Min, int32_t),
    WL_ATOM("min", "u64", Min, uint64_t),
    WL_ATOM("min", "s64", Min, int64_t),
    WL_ATOM("max", "u32", Max, uint32_t),
    WL_ATOM("max", "s32", Max, int32_t),
    WL_ATOM("max", "u64", Max, uint64_t),
    WL_ATOM("max", "s64", Max, int64_t),
    WL_ATOM("inc", "u32", Increment, uint32_t),
    WL_ATOM("dec", "u32", Decrement, uint32_t),
};

bool is_operation(std::string_view m) {
    constexpr std::string_view k_operations[] = {"exch", "cas", "add", "and", "or", "xor", "min", "max", "inc", "dec"};
    return std::find(std::begin(k_operations), std::end(k_operations), m) != std::end(k_operations);
}

struct AtomicWords {
    std::string operation, type;
    Space space = Space::generic;
    TypeInfo info;
};

AtomicWords parse_words(const DecodeContext& context) {
    AtomicWords words;
    for (std::string_view m : context.modifiers()) {
        if (is_operation(m)) words.operation = m;
        if (type_info(m).bytes != 0) {
            words.type = m;
            words.info = type_info(m);
        }
        if (m == "global") words.space = Space::global;
        if (m == "shared" || m == "shared::cta") words.space = Space::shared;
        if (m == "shared::cluster") words.space = Space::shared_cluster;
    }
    return words;
}

/// A row of addresses, also for a fixed address.
int32_t address_row(DecodeContext& context, const Address& address, AtomicExtra& extra, int64_t& displacement) {
    extra.where = address.space == Space::global                                             ? Where::global
                  : address.space == Space::shared || address.space == Space::shared_cluster ? Where::shared
                                                                                             : Where::generic;
    if (!address.fixed) {
        extra.address_width = address.width;
        displacement = address.displacement;
        return address.slot;
    }
    extra.address_width = 8;
    displacement = 0;
    return context.constant_row(uint64_t(address.displacement), 8);
}

bool decode_atomic(DecodeContext& context, bool has_result) {
    AtomicWords words = parse_words(context);
    if (context.has("async") || context.has("v2") || context.has("v4") || context.has("v8")) return context.unsupported();
    Handler handler = context.handler("$atom." + words.operation + "." + words.type);
    if (handler == nullptr) return false;
    uint32_t memory = has_result ? 1 : 0;
    uint32_t wanted = memory + (words.operation == "cas" ? 3 : 2);
    if (context.operand_count() < wanted) return context.invalid("an operand is missing");
    auto* extra = context.storage<AtomicExtra>();
    auto bytes = words.info.bytes;
    int64_t displacement = 0;
    int32_t row = address_row(context, context.address(memory, words.space, true), *extra, displacement);
    int32_t b = context.in(memory + 1, bytes, 0);
    int32_t c = words.operation == "cas" ? context.in(memory + 2, bytes, 0) : b;
    extra->has_result = has_result && !context.is_sink(0, 0);
    int32_t d = has_result ? context.out(0, bytes, 0) : 0;
    emit_spin_hint(context);
    uint32_t cache = context.new_range_cache();
    Instr& instr = context.emit(handler);
    instr.op[0] = d;
    instr.op[1] = row;
    instr.op[2] = b;
    instr.op[3] = c;
    instr.imm = uint64_t(displacement);
    instr.extra = extra;
    instr.cache = cache;
    return true;
}

bool decode_atom(DecodeContext& context) { return decode_atomic(context, true); }
bool decode_red(DecodeContext& context) { return decode_atomic(context, false); }

}  // namespace

void register_atomic(Registry& registry) {
    registry.add(k_rows);
    registry.add_decoder("atom", &decode_atom);
    registry.add_decoder("red", &decode_red);
}

}  // namespace warpline::softgpu::isa
