#pragma once

// A call of cuda/api as data, and a way to make it with whatever arguments.

#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

#include "cuda/abi/cuda_types.h"

namespace warpline::probe {

enum class Shape : uint8_t { pointer, enumeration, integer, real, structure };

/// A parameter as cuda/api describes it. The words are those of docs/api-description.md.
struct Param {
    const char* name;
    std::string_view type;
    std::string_view dir;
    std::string_view handle;  ///< kind of handle, for parameters and arrays of them; else empty
    std::string_view len;
    bool string;
    bool destroys;
    Shape shape;
    unsigned bytes;
};

template <typename T>
constexpr Param param(const char* name, std::string_view type, std::string_view dir, std::string_view handle,
                      std::string_view len, bool string, bool destroys) {
    Shape shape = Shape::structure;
    if (std::is_pointer_v<T>) {
        shape = Shape::pointer;
    } else if (std::is_enum_v<T>) {
        shape = Shape::enumeration;
    } else if (std::is_integral_v<T>) {
        shape = Shape::integer;
    } else if (std::is_floating_point_v<T>) {
        shape = Shape::real;
    }
    return {name, type, dir, handle, len, string, destroys, shape, sizeof(T)};
}

/// An argument: a number, the bits of a handle or a real number, an address; for a structure by value, where it lies.
using Argument = uint64_t;

template <typename T>
T taken(Argument argument) {
    if constexpr (std::is_class_v<T>) {
        T value;
        std::memcpy(&value, reinterpret_cast<const void*>(argument), sizeof value);
        return value;
    } else {
        T value;
        std::memcpy(&value, &argument, sizeof value);  // little-endian: the low bytes
        return value;
    }
}

template <typename F>
struct Signature;
template <typename... P>
struct Signature<CUresult(P...)> {
    template <size_t... I>
    static int call(void* function, const Argument* arguments, std::index_sequence<I...>) {
        (void)arguments;
        return static_cast<int>(reinterpret_cast<CUresult (*)(P...)>(function)(taken<P>(arguments[I])...));
    }
    static int call(void* function, const Argument* arguments) {
        return call(function, arguments, std::index_sequence_for<P...>());
    }
};

template <typename F>
int invoke(void* function, const Argument* arguments) {
    return Signature<F>::call(function, arguments);
}

struct DescribedCall {
    const char* name;
    const char* area;
    bool before_init;  ///< may be called before cuInit
    int (*make)(void* function, const Argument* arguments);
    std::span<const Param> params;
};

/// All calls of the driver in cuda/api that have their parameters there. Generated.
std::span<const DescribedCall> described_calls();

}  // namespace warpline::probe
