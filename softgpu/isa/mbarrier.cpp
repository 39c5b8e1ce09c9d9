// mbarrier and cp.async.mbarrier.arrive. PTX ISA: Parallel Synchronization and Communication Instructions: mbarrier.
#include "softgpu/isa/mbarrier.h"

#include "softgpu/exec/warp.h"
#include "softgpu/isa/async_copy.h"
#include "softgpu/isa/families.h"

namespace warpline::softgpu::isa {

namespace {

using exec::dest;
using exec::k_warp_size;
using exec::set_predicate;
using exec::source;

enum class Action : uint8_t { init, inval, expect, complete, arrive, drop };

struct Spec {
    Action action = Action::init;
    RowAddress address;
    bool expects = false;  ///< .expect_tx: op[1] is bytes, and one arrival
    bool has_state = false;
};

void act(MbarrierObject& object, const Spec& spec, uint32_t operand) {
    switch (spec.action) {
        case Action::init: object.init(operand); break;
        case Action::inval: object.invalidate(); break;
        case Action::expect: object.expect(operand); break;
        case Action::complete: object.complete_transaction(operand); break;
        case Action::arrive:
        case Action::drop:
            if (spec.expects) object.expect(operand);
            object.arrive(spec.expects ? 1 : operand, spec.action == Action::drop);
            break;
    }
}

/// op[0] = state, op[1] = count or bytes.
Flow change(Warp& w, const Instr& i, uint32_t mask) {
    const Spec& spec = *static_cast<const Spec*>(i.extra);
    std::byte* at[k_warp_size];
    if (!resolve(w, i, mask, spec.address, k_mbarrier_bytes, k_mbarrier_bytes, at)) return Flow::fault;
    // Only mbarrier.init may find memory that was never written.
    const bool first = spec.action == Action::init;
    note_access(w, i, mask, at, k_mbarrier_bytes, first ? exec::AccessKind::write : exec::AccessKind::atomic);
    const uint32_t* operand = source<uint32_t>(w, i.op[1]);
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        auto lane = uint32_t(__builtin_ctz(rest));
        MbarrierObject object(at[lane]);
        const uint64_t before = object.bits();
        if (spec.action == Action::init && (operand[lane] == 0 || operand[lane] > MbarrierObject::k_max_count)) {
            return w.raise(i, 715, lane, "mbarrier.init with a count that is 0 or too large");
        }
        act(object, spec, operand[lane]);
        if (spec.has_state) dest<uint64_t>(w, i.op[0])[lane] = before;
    }
    return Flow::next;
}

/// op[0] = predicate, op[1] = state or parity; imm: the test fails with patience (try_wait).
template <bool Parity>
Flow test(Warp& w, const Instr& i, uint32_t mask) {
    const Spec& spec = *static_cast<const Spec*>(i.extra);
    std::byte* at[k_warp_size];
    if (!resolve(w, i, mask, spec.address, k_mbarrier_bytes, k_mbarrier_bytes, at)) return Flow::fault;
    note_access(w, i, mask, at, k_mbarrier_bytes, exec::AccessKind::atomic);
    uint32_t complete = 0;
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        auto lane = uint32_t(__builtin_ctz(rest));
        bool waits_for;
        if constexpr (Parity) {
            waits_for = (source<uint32_t>(w, i.op[1])[lane] & 1) != 0;
        } else {
            waits_for = MbarrierObject::phase(source<uint64_t>(w, i.op[1])[lane]);
        }
        complete |= uint32_t{MbarrierObject::phase(MbarrierObject(at[lane]).bits()) != waits_for} << lane;
    }
    set_predicate(w, i.op[0], complete, mask);
    if (complete != mask) {
        // Somebody else has to run before the answer can change: try_wait gives up the turn, test_wait part of it.
        w.spend(i.imm != 0 ? exec::k_turn_back_edges : exec::k_spin_cost, true);
        if (i.imm != 0) w.spins += k_warp_size;
    }
    return Flow::next;
}

Flow pending_count(Warp& w, const Instr& i, uint32_t mask) {
    const uint64_t* state = source<uint64_t>(w, i.op[1]);
    uint32_t* d = dest<uint32_t>(w, i.op[0]);
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        auto lane = uint32_t(__builtin_ctz(rest));
        d[lane] = MbarrierObject::pending(state[lane]);
    }
    return Flow::next;
}

const Row k_rows[] = {{"mbarrier.pending_count.b64", &pending_count, {out(4), in(8)}, 0}};

Space space_of(const DecodeContext& context) {
    Space space = Space::generic;
    for (std::string_view word : context.modifiers()) space = space_word(word, space);
    return space;
}

bool decode_test(DecodeContext& context) {
    const uint32_t operands = context.operand_count();
    if (operands != 3 && !(operands == 4 && context.has("try_wait"))) return context.invalid("wrong number of operands");
    auto* spec = context.storage<Spec>();
    new (spec) Spec;
    spec->address = row_address(context, 1, space_of(context), false);
    const bool parity = context.has("parity");
    int32_t phase = context.in(2, parity ? 4 : 8);
    if (operands == 4) context.in(3, 4);  // how long to wait at most: a hint
    int32_t p = context.out_pred(0);
    uint32_t cache = context.new_range_cache();
    Instr& instr = context.emit(parity ? &test<true> : &test<false>);
    instr.op[0] = p;
    instr.op[1] = phase;
    instr.imm = context.has("try_wait");
    instr.extra = spec;
    instr.cache = cache;
    return true;
}

bool decode_change(DecodeContext& context, Action action) {
    auto* spec = context.storage<Spec>();
    new (spec) Spec;
    spec->action = action;
    const bool arrives = action == Action::arrive || action == Action::drop;
    const uint32_t memory = arrives && !context.is_memory(0) ? 1 : 0, operands = context.operand_count();
    spec->expects = arrives && context.has("expect_tx");
    const bool optional = arrives && !spec->expects, none = action == Action::inval;
    if (operands != memory + (none ? 1 : 2) && !(optional && operands == memory + 1))
        return context.invalid("wrong number of operands");
    spec->address = row_address(context, memory, space_of(context), true);
    int32_t count = operands > memory + 1 ? context.in(memory + 1, 4) : context.constant_row(1, 4);
    spec->has_state = memory == 1 && !context.is_sink(0);
    int32_t state = spec->has_state ? context.out(0, 8) : 0;
    uint32_t cache = context.new_range_cache();
    Instr& instr = context.emit(&change);
    instr.op[0] = state;
    instr.op[1] = count;
    instr.extra = spec;
    instr.cache = cache;
    return true;
}

bool decode_mbarrier(DecodeContext& context) {
    if (!context.has("b64")) return context.unsupported();
    if (context.has("test_wait") || context.has("try_wait")) return decode_test(context);
    if (context.has("init")) return decode_change(context, Action::init);
    if (context.has("inval")) return decode_change(context, Action::inval);
    if (context.has("arrive_drop")) return decode_change(context, Action::drop);
    if (context.has("arrive")) return decode_change(context, Action::arrive);
    if (context.has("expect_tx")) return decode_change(context, Action::expect);
    return context.has("complete_tx") ? decode_change(context, Action::complete) : context.unsupported();
}

}  // namespace

// The copies that the arrival waits for are done when they are issued. Without .noinc the arrival was not expected: the count
// goes up for it, and down again.
bool decode_async_arrive(DecodeContext& context) {
    if (context.operand_count() != 1) return context.invalid("wrong number of operands");
    auto* spec = context.storage<Spec>();
    new (spec) Spec;
    spec->action = Action::arrive;
    spec->address = row_address(context, 0, space_of(context), true);
    int32_t count = context.constant_row(context.has("noinc") ? 1 : 0, 4);
    uint32_t cache = context.new_range_cache();
    Instr& instr = context.emit(&change);
    instr.op[1] = count;
    instr.extra = spec;
    instr.cache = cache;
    return true;
}

void register_mbarrier(Registry& registry) {
    registry.add(k_rows);
    registry.add_decoder("mbarrier", &decode_mbarrier);
}

}  // namespace warpline::softgpu::isa
