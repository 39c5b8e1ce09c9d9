// The third operand of comparisons (setp.lt.and.s32 p, a, b, c): what is done with it.
#pragma once

#include <cstdint>
#include <string_view>

namespace warpline::softgpu::isa {

/// How the result of a comparison and the third operand make one; the immediate operand of the handlers that do it.
enum : uint64_t { combine_none, combine_and, combine_or, combine_xor };

inline uint32_t combine(uint64_t how, uint32_t compared, uint32_t third) {
    switch (how) {
        case combine_and: return compared & third;
        case combine_or: return compared | third;
        case combine_xor: return compared ^ third;
        default: return compared;
    }
}

/// What a modifier says of it; combine_none if it is about something else.
inline uint64_t combine_of(std::string_view modifier) {
    if (modifier == "and") return combine_and;
    if (modifier == "or") return combine_or;
    return modifier == "xor" ? combine_xor : combine_none;
}

}  // namespace warpline::softgpu::isa
