// A memory operand as resolve_row() wants it, for instructions that take all kinds of addresses alike.
#pragma once

#include "softgpu/isa/access.h"
#include "softgpu/isa/registry.h"

namespace warpline::softgpu::isa {

struct RowAddress {
    Where where = Where::generic;
    uint8_t width = 8;
    int32_t slot = 0;
    int64_t displacement = 0;
};

/// The space that the modifiers name; generic if none.
inline Space space_word(std::string_view word, Space otherwise = Space::generic) {
    if (word == "global") return Space::global;
    if (word == "shared" || word == "shared::cta") return Space::shared;
    if (word == "shared::cluster") return Space::shared_cluster;
    if (word == "local") return Space::local;
    if (word == "const") return Space::constant;
    return otherwise;
}

/// The row of addresses of operand `operand`. A fixed address becomes a constant row.
inline RowAddress row_address(DecodeContext& context, uint32_t operand, Space space, bool writes) {
    Address address = context.address(operand, space, writes);
    RowAddress out;
    switch (address.space) {
        case Space::global:
        case Space::constant: out.where = Where::global; break;
        case Space::shared:
        case Space::shared_cluster: out.where = Where::shared; break;
        case Space::local: out.where = Where::local; break;
        case Space::generic: break;
        default: context.unsupported("an address in the parameter space"); break;
    }
    if (address.fixed) {
        out.slot = context.constant_row(uint64_t(address.displacement), 8);
        return out;
    }
    out.slot = address.slot;
    out.width = address.width;
    out.displacement = address.displacement;
    return out;
}

/// resolve_row() of such an operand.
inline bool resolve(Warp& warp, const Instr& instr, uint32_t mask, const RowAddress& address, uint32_t size_bytes,
                    uint32_t alignment, std::byte** lanes) {
    return resolve_row(warp, instr, mask, address.where, address.slot, address.width, address.displacement, size_bytes,
                       alignment, lanes);
}

}  // namespace warpline::softgpu::isa
