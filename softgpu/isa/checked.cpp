// Tells the checkers of each access before it is made.
#include "softgpu/isa/checked.h"

#include <cstring>
#include <new>

namespace warpline::softgpu::isa {

namespace {

using exec::source;

/// Host address of one lane's access; null if it is not valid, which the handler behind finds out by itself.
std::byte* find(Warp& w, const Instr& i, const CheckedAccess& access, uint32_t lane, uint32_t bytes) {
    uint64_t address = i.imm;
    switch (access.way) {
        case Way::global:
        case Way::generic:
        case Way::shared8:
        case Way::local8: address += source<uint64_t>(w, i.op[1])[lane]; break;
        case Way::shared4:
        case Way::local4: address = uint32_t(address + source<uint32_t>(w, i.op[1])[lane]); break;
        default: break;
    }
    if (address % bytes != 0) return nullptr;
    switch (access.way) {
        case Way::shared4:
        case Way::shared8:
        case Way::fixed_shared: return w.resolve_shared(address, bytes);
        case Way::local4:
        case Way::local8: return w.resolve_local(address, bytes, lane);
        case Way::generic: return w.resolve(address, bytes);
        default: return w.resolve_global(address, bytes);
    }
}

Flow checked(Warp& w, const Instr& i, uint32_t mask) {
    const auto& access = *static_cast<const CheckedAccess*>(i.extra);
    const uint32_t elements = access.vector.count == 0 ? 1 : access.vector.count;
    const uint32_t bytes = access.element_bytes * elements;
    std::byte value[64];
    exec::LaneAccess lane_access;
    lane_access.bytes = bytes;
    lane_access.reads = access.is_load;
    lane_access.writes = !access.is_load;
    lane_access.strong = access.strong;
    if (!access.is_load) lane_access.value = value;
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        const auto lane = uint32_t(__builtin_ctz(rest));
        lane_access.at = find(w, i, access, lane, bytes);
        if (lane_access.at == nullptr) continue;
        for (uint32_t e = 0; e < elements && !access.is_load; ++e) {
            const int32_t slot = access.vector.count == 0 ? i.op[0] : access.vector.slots[e];
            std::memcpy(value + e * access.element_bytes, source<std::byte>(w, slot) + lane * access.register_bytes,
                        access.element_bytes);
        }
        if (!exec::check_lane(w, i, lane, lane_access)) return Flow::fault;
    }
    return access.behind(w, i, mask);
}

}  // namespace

void check_access(DecodeContext& context, Instr& instr, const CheckedAccess& access) {
    auto* copy = new (context.storage(sizeof(CheckedAccess))) CheckedAccess(access);
    copy->behind = instr.inner;
    instr.extra = copy;
    if (instr.fn == instr.inner) instr.fn = &checked;
    instr.inner = &checked;
}

}  // namespace warpline::softgpu::isa
