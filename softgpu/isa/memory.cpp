// Decoding of ld, st and what goes with addresses. PTX ISA: Data Movement and Conversion Instructions.
#include <cstring>

#include "softgpu/exec/body.h"
#include "softgpu/exec/warp.h"
#include "softgpu/isa/access.h"
#include "softgpu/isa/checked.h"
#include "softgpu/isa/decode_helpers.h"
#include "softgpu/isa/families.h"

namespace warpline::softgpu::isa {

namespace {

using exec::dest;
using exec::k_warp_size;
using exec::source;

/// "4u.8": bytes in memory, sign, bytes of the register; what the names of handlers end in.
struct Access {
    TypeInfo type;
    uint32_t vector = 1;
    uint8_t register_bytes = 0;

    std::string name() const {
        bool extend = type.is_signed && register_bytes > type.bytes;
        std::string text = std::to_string(type.bytes) + (extend ? "s." : "u.") + std::to_string(register_bytes);
        if (vector > 1) text += ".v" + std::to_string(vector);
        return text;
    }
};

bool parse_access(DecodeContext& context, uint32_t data_operand, Access& access) {
    for (std::string_view modifier : context.modifiers()) {
        if (modifier == "v2") access.vector = 2;
        if (modifier == "v4") access.vector = 4;
        if (modifier == "v8") access.vector = 8;
        TypeInfo type = type_info(modifier);
        if (type.bytes != 0) access.type = type;
    }
    if (access.type.bytes == 0) return context.invalid("no type");
    for (uint32_t e = 0; e < context.element_count(data_operand); ++e) {
        access.register_bytes = std::max(access.register_bytes, context.register_width(data_operand, e));
    }
    if (access.register_bytes == 0) access.register_bytes = std::max<uint8_t>(2, access.type.bytes);
    if (access.register_bytes < access.type.bytes) return context.invalid("the register is smaller than the type");
    return true;
}

Space space_of(const DecodeContext& context) {
    for (std::string_view modifier : context.modifiers()) {
        if (modifier == "global") return Space::global;
        if (modifier == "shared" || modifier == "shared::cta") return Space::shared;
        if (modifier == "shared::cluster") return Space::shared_cluster;
        if (modifier == "local") return Space::local;
        if (modifier == "const") return Space::constant;
        if (modifier == "param" || modifier == "param::entry" || modifier == "param::func") return Space::param_entry;
    }
    return Space::generic;
}

Way way_of(const Address& address) {
    switch (address.space) {
        case Space::param_entry: return address.fixed ? Way::fixed_param : Way::global;
        case Space::shared:
        case Space::shared_cluster:
            if (address.fixed) return Way::fixed_shared;
            return address.width == 4 ? Way::shared4 : Way::shared8;
        case Space::local: return address.width == 4 ? Way::local4 : Way::local8;
        case Space::global:
        case Space::constant: return address.fixed ? Way::fixed_global : Way::global;
        default: return address.fixed ? Way::fixed_global : Way::generic;
    }
}
/// Ways that have handlers of their own, by number; the others share one.
const char* name_of(Way way) {
    switch (way) {
        case Way::global: return "global.";
        case Way::generic: return "generic.";
        case Way::shared4: return "shared4.";
        case Way::shared8: return "shared8.";
        case Way::fixed_param: return "fixed_param.";
        default: return "any.";
    }
}

/// Access to a .param variable of a call: a region of the frame with `imm >> 32` bytes per lane, at offset `imm & 0xffffffff`.
/// extra: the widths.
struct ParamWidths {
    uint32_t memory_bytes, register_bytes;
    bool is_signed;
};

Flow load_call_param(Warp& w, const Instr& i, uint32_t mask) {
    const auto& widths = *static_cast<const ParamWidths*>(i.extra);
    const auto pitch = uint32_t(i.imm >> 32), offset = uint32_t(i.imm);
    const std::byte* from = source<std::byte>(w, i.op[1]) + offset;
    std::byte* to = dest<std::byte>(w, i.op[0]);
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        auto lane = uint32_t(__builtin_ctz(rest));
        uint64_t value[2] = {};
        std::memcpy(value, from + lane * pitch, widths.memory_bytes);
        if (widths.is_signed && widths.memory_bytes < 8) {
            uint32_t shift = 64 - 8 * widths.memory_bytes;
            value[0] = uint64_t(int64_t(value[0] << shift) >> shift);
        }
        std::memcpy(to + lane * widths.register_bytes, value, widths.register_bytes);
    }
    return Flow::next;
}

Flow store_call_param(Warp& w, const Instr& i, uint32_t mask) {
    const auto& widths = *static_cast<const ParamWidths*>(i.extra);
    const auto pitch = uint32_t(i.imm >> 32), offset = uint32_t(i.imm);
    const std::byte* from = source<std::byte>(w, i.op[0]);
    std::byte* to = dest<std::byte>(w, i.op[1]) + offset;
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        auto lane = uint32_t(__builtin_ctz(rest));
        std::memcpy(to + lane * pitch, from + lane * widths.register_bytes, widths.memory_bytes);
    }
    return Flow::next;
}

bool access_call_param(DecodeContext& context, const Access& access, const Address& address, bool is_load) {
    uint32_t data = is_load ? 0 : 1;
    if (uint64_t(address.displacement) + uint64_t{access.type.bytes} * access.vector > address.lane_bytes) {
        return context.invalid("an access beyond the parameter");
    }
    for (uint32_t e = 0; e < access.vector; ++e) {
        int32_t slot = is_load ? context.out(data, access.register_bytes, e) : context.in(data, access.register_bytes, e);
        auto offset = uint32_t(address.displacement) + e * access.type.bytes;
        bool is_row = address.lane_bytes == access.register_bytes && access.type.bytes == access.register_bytes && offset == 0;
        if (is_row) {
            Handler move = context.handler("$move." + std::to_string(access.register_bytes));
            if (move == nullptr) return false;
            Instr& instr = context.emit(move);
            instr.op[0] = is_load ? slot : address.slot;
            instr.op[1] = is_load ? address.slot : slot;
            continue;
        }
        auto* widths = context.storage<ParamWidths>();
        *widths = {access.type.bytes, access.register_bytes, access.type.is_signed};
        Instr& instr = context.emit(is_load ? &load_call_param : &store_call_param);
        instr.op[0] = slot;
        instr.op[1] = address.slot;
        instr.imm = uint64_t{address.lane_bytes} << 32 | offset;
        instr.extra = widths;
    }
    return true;
}

bool decode_access(DecodeContext& context, bool is_load) {
    uint32_t data = is_load ? 0 : 1, memory = is_load ? 1 : 0;
    Access access;
    if (!parse_access(context, data, access)) return false;
    if (context.element_count(data) != access.vector) return context.invalid("wrong number of elements");
    Address address = context.address(memory, space_of(context), !is_load);
    if (address.space == Space::param_call) return access_call_param(context, access, address, is_load);
    if (address.space == Space::constant && !is_load) return context.invalid("constants cannot be written");
    bool waits = context.has("volatile") || context.has("acquire") || context.has("relaxed") || context.has("mmio");
    if (is_load && waits) emit_spin_hint(context);
    int32_t slot = address.slot;
    if (!address.fixed && address.width == 4 && address.space != Space::shared && address.space != Space::local &&
        address.space != Space::shared_cluster) {
        slot = emit_widen_address(context, slot);
    }
    VectorOperand* vector = nullptr;
    int32_t row = 0;
    if (access.vector > 1) {
        vector = context.storage<VectorOperand>();
        vector->count = access.vector;
        for (uint32_t e = 0; e < access.vector; ++e) {
            vector->slots[e] =
                is_load ? context.out(data, access.register_bytes, e) : context.in(data, access.register_bytes, e);
        }
    } else {
        row = is_load ? context.out(data, access.register_bytes, 0) : context.in(data, access.register_bytes, 0);
    }
    Way way = way_of(address);
    const std::string prefix = is_load ? "$ld." : "$st.";
    Handler handler = Registry::instance().handler(prefix + name_of(way) + access.name());
    if (handler == nullptr) handler = context.handler(prefix + "any." + access.name());
    if (handler == nullptr) return false;
    uint32_t cache = context.new_range_cache();
    Instr& instr = context.emit(handler);
    instr.op[0] = row;
    instr.op[1] = slot;
    instr.imm = uint64_t(address.displacement);
    instr.extra = vector;
    instr.cache = cache;
    instr.flags |= uint32_t(way) << k_way_shift;
    if (context.checks() != 0 && way != Way::fixed_param && address.space != Space::constant) {
        CheckedAccess checked;
        if (vector != nullptr) checked.vector = *vector;
        checked.way = way;
        checked.element_bytes = access.type.bytes;
        checked.register_bytes = access.register_bytes;
        checked.is_load = is_load;
        checked.strong = waits || context.has("release");
        check_access(context, instr, checked);
    }
    return true;
}

bool decode_ld(DecodeContext& context) { return decode_access(context, true); }
bool decode_st(DecodeContext& context) { return decode_access(context, false); }

// --- cvta, isspacep: generic addresses are host addresses, shared and local ones offsets.

template <typename T, bool ToGeneric>
Flow cvta_shared(Warp& w, const Instr& i, uint32_t mask) {
    auto base = reinterpret_cast<uint64_t>(w.shared);
    const T* a = source<T>(w, i.op[1]);
    T* d = dest<T>(w, i.op[0]);
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        auto lane = uint32_t(__builtin_ctz(rest));
        d[lane] = T(ToGeneric ? a[lane] + base : a[lane] - base);
    }
    return Flow::next;
}

/// Generic addresses of other CTAs' shared memory become offsets in the cluster's window, and back.
Flow cvta_cluster_to_generic(Warp& w, const Instr& i, uint32_t mask) {
    const uint64_t* a = source<uint64_t>(w, i.op[1]);
    uint64_t* d = dest<uint64_t>(w, i.op[0]);
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        auto lane = uint32_t(__builtin_ctz(rest));
        uint64_t rank = a[lane] >> 24;
        const exec::Cta* owner = rank == 0 || rank > w.cta->cluster_size ? w.cta : w.cta->cluster[rank - 1];
        d[lane] = reinterpret_cast<uint64_t>(owner->shared) + (rank == 0 ? a[lane] : a[lane] & 0xffffff);
    }
    return Flow::next;
}
Flow cvta_generic_to_cluster(Warp& w, const Instr& i, uint32_t mask) {
    const uint64_t* a = source<uint64_t>(w, i.op[1]);
    uint64_t* d = dest<uint64_t>(w, i.op[0]);
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        auto lane = uint32_t(__builtin_ctz(rest));
        uint64_t offset = a[lane] - reinterpret_cast<uint64_t>(w.shared);
        for (uint32_t rank = 0; rank < w.cta->cluster_size && offset >= w.shared_bytes; ++rank) {
            uint64_t within = a[lane] - reinterpret_cast<uint64_t>(w.cta->cluster[rank]->shared);
            if (within < w.cta->cluster[rank]->shared_bytes) offset = uint64_t{rank + 1} << 24 | within;
        }
        d[lane] = offset;
    }
    return Flow::next;
}

template <bool ToGeneric>
Flow cvta_local(Warp& w, const Instr& i, uint32_t mask) {
    auto base = reinterpret_cast<uint64_t>(w.local);
    const uint64_t* a = source<uint64_t>(w, i.op[1]);
    uint64_t* d = dest<uint64_t>(w, i.op[0]);
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        auto lane = uint32_t(__builtin_ctz(rest));
        uint64_t mine = base + uint64_t{lane} * w.local_stride;
        d[lane] = ToGeneric ? a[lane] + mine : a[lane] - mine;
    }
    return Flow::next;
}

bool decode_cvta(DecodeContext& context) {
    bool to = context.has("to");
    int32_t from = context.in(1, 8, 0), into = context.out(0, 8, 0);
    Handler handler = nullptr;
    switch (space_of(context)) {
        case Space::global:
        case Space::constant:
        case Space::param_entry: handler = context.handler("$move.8"); break;
        case Space::shared: handler = to ? &cvta_shared<uint64_t, false> : &cvta_shared<uint64_t, true>; break;
        case Space::shared_cluster: handler = to ? &cvta_generic_to_cluster : &cvta_cluster_to_generic; break;
        case Space::local: handler = to ? &cvta_local<false> : &cvta_local<true>; break;
        default: return context.unsupported("this state space");
    }
    Instr& instr = context.emit(handler);
    instr.op[0] = into;
    instr.op[1] = from;
    return true;
}

template <Space S>
Flow isspacep(Warp& w, const Instr& i, uint32_t mask) {
    const uint64_t* a = source<uint64_t>(w, i.op[1]);
    uint32_t bits = 0;
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        auto lane = uint32_t(__builtin_ctz(rest));
        bool in_shared = a[lane] - reinterpret_cast<uint64_t>(w.shared) < w.shared_bytes;
        bool in_cluster = in_shared;
        for (uint32_t rank = 0; rank < w.cta->cluster_size; ++rank) {
            const exec::Cta& other = *w.cta->cluster[rank];
            in_cluster |= a[lane] - reinterpret_cast<uint64_t>(other.shared) < other.shared_bytes;
        }
        bool in_local = a[lane] - reinterpret_cast<uint64_t>(w.local) < uint64_t{w.local_stride} * k_warp_size;
        bool in_param = a[lane] - reinterpret_cast<uint64_t>(w.params) < w.params_bytes;
        bool answer = S == Space::shared           ? in_shared
                      : S == Space::shared_cluster ? in_cluster
                      : S == Space::local          ? in_local
                      : S == Space::param_entry    ? in_param
                      : S == Space::constant       ? false
                                                   : !in_cluster && !in_local;
        bits |= uint32_t{answer} << lane;
    }
    exec::set_predicate(w, i.op[0], bits, mask);
    return Flow::next;
}

bool decode_isspacep(DecodeContext& context) {
    int32_t from = context.in(1, 8, 0), into = context.out_pred(0, 0);
    Handler handler = nullptr;
    switch (space_of(context)) {
        case Space::global: handler = &isspacep<Space::global>; break;
        case Space::constant: handler = &isspacep<Space::constant>; break;
        case Space::param_entry: handler = &isspacep<Space::param_entry>; break;
        case Space::shared: handler = &isspacep<Space::shared>; break;
        case Space::shared_cluster: handler = &isspacep<Space::shared_cluster>; break;
        case Space::local: handler = &isspacep<Space::local>; break;
        default: return context.unsupported("this state space");
    }
    Instr& instr = context.emit(handler);
    instr.op[0] = into;
    instr.op[1] = from;
    return true;
}

/// Hints that change no value.
bool decode_nothing(DecodeContext&) { return true; }

bool decode_createpolicy(DecodeContext& context) {
    int32_t zero = context.constant_row(0, 8), into = context.out(0, 8, 0);
    Handler move = context.handler("$move.8");
    if (move == nullptr) return false;
    Instr& instr = context.emit(move);
    instr.op[0] = into;
    instr.op[1] = zero;
    return true;
}

}  // namespace

void register_memory(Registry& registry) {
    registry.add_decoder("ld", &decode_ld);
    registry.add_decoder("ldu", &decode_ld);
    registry.add_decoder("st", &decode_st);
    registry.add_decoder("cvta", &decode_cvta);
    registry.add_decoder("isspacep", &decode_isspacep);
    registry.add_decoder("prefetch", &decode_nothing);
    registry.add_decoder("prefetchu", &decode_nothing);
    registry.add_decoder("discard", &decode_nothing);
    registry.add_decoder("applypriority", &decode_nothing);
    registry.add_decoder("createpolicy", &decode_createpolicy);
}

}  // namespace warpline::softgpu::isa
