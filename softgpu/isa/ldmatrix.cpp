// ldmatrix, stmatrix and movmatrix: 8 x 8 matrices of 16-bit elements, a row being 16 bytes that one lane names. PTX ISA:
// ldmatrix, stmatrix, movmatrix. (Lane l holds elements 2 * (l % 4) and the next of row l / 4; .trans: of column l / 4.)
#include <cstring>

#include "softgpu/isa/families.h"
#include "softgpu/isa/row_address.h"

namespace warpline::softgpu::isa {

namespace {

using exec::dest;
using exec::k_warp_size;
using exec::source;

constexpr uint32_t k_all_lanes[k_warp_size] = {~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u,
                                               ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u};
constexpr uint32_t k_row_bytes = 16;

struct Spec {
    RowAddress address;
    uint32_t matrices = 1;
    bool transposed = false;
    int32_t slots[4] = {};
};

/// Row and place in it of element `e` (0 or 1) of a lane.
void place(uint32_t lane, uint32_t e, bool transposed, uint32_t& row, uint32_t& column) {
    row = lane / 4;
    column = lane % 4 * 2 + e;
    if (transposed) std::swap(row, column);
}

template <bool Load>
Flow matrices(Warp& w, const Instr& i, uint32_t mask) {
    if (!w.converge(i, mask, k_all_lanes)) return Flow::switch_;
    const Spec& spec = *static_cast<const Spec*>(i.extra);
    const uint32_t rows = spec.matrices * 8;
    uint32_t naming = rows == k_warp_size ? exec::k_full_mask : (1u << rows) - 1;
    if ((naming & ~mask) != 0)
        return w.raise(i, 715, uint32_t(__builtin_ctz(naming & ~mask)), "a matrix instruction without all lanes of the warp");
    std::byte* lines[k_warp_size];
    if (!resolve(w, i, naming, spec.address, k_row_bytes, k_row_bytes, lines)) return Flow::fault;
    note_access(w, i, naming, lines, k_row_bytes, Load ? exec::AccessKind::read : exec::AccessKind::write);
    for (uint32_t m = 0; m < spec.matrices; ++m) {
        auto* values = dest<uint16_t>(w, spec.slots[m]);
        uint16_t read[2 * k_warp_size];
        for (uint32_t lane = 0; lane < k_warp_size; ++lane) {
            for (uint32_t e = 0; e < 2; ++e) {
                uint32_t row, column;
                place(lane, e, spec.transposed, row, column);
                std::byte* at = lines[m * 8 + row] + column * 2;
                if (Load)
                    std::memcpy(&read[lane * 2 + e], at, 2);
                else
                    std::memcpy(at, &values[lane * 2 + e], 2);
            }
        }
        if (!Load) continue;
        for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
            auto lane = uint32_t(__builtin_ctz(rest));
            std::memcpy(&values[lane * 2], &read[lane * 2], 4);
        }
    }
    return Flow::next;
}

Flow movmatrix(Warp& w, const Instr& i, uint32_t mask) {
    if (!w.converge(i, mask, k_all_lanes)) return Flow::switch_;
    uint16_t matrix[8][8];
    const auto* from = source<uint16_t>(w, i.op[1]);
    for (uint32_t v = 0; v < 2 * k_warp_size; ++v) matrix[v / 8][v % 8] = from[v];
    auto* d = dest<uint16_t>(w, i.op[0]);
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        auto lane = uint32_t(__builtin_ctz(rest));
        for (uint32_t e = 0; e < 2; ++e) d[lane * 2 + e] = matrix[lane % 4 * 2 + e][lane / 4];
    }
    return Flow::next;
}

const Row k_rows[] = {{"movmatrix.sync.aligned.m8n8.trans.b16", &movmatrix, {out(4), in(4)}, 0}};

bool decode_matrices(DecodeContext& context, bool load) {
    if (!context.has("m8n8") || !context.has("b16")) return context.unsupported();  // 8-bit elements: sm_100a and its kin only
    auto* spec = context.storage<Spec>();
    new (spec) Spec;
    Space space = Space::generic;
    for (std::string_view word : context.modifiers()) {
        space = space_word(word, space);
        if (word == "x2") spec->matrices = 2;
        if (word == "x4") spec->matrices = 4;
        if (word == "trans") spec->transposed = true;
    }
    const uint32_t memory = load ? 1 : 0, registers = load ? 0 : 1;
    if (context.operand_count() != 2 || context.element_count(registers) != spec->matrices)
        return context.invalid("wrong number of operands");
    spec->address = row_address(context, memory, space, !load);
    for (uint32_t m = 0; m < spec->matrices; ++m) spec->slots[m] = load ? context.out(0, 4, m) : context.in(1, 4, m);
    uint32_t cache = context.new_range_cache();
    Instr& instr = context.emit(load ? &matrices<true> : &matrices<false>);
    instr.extra = spec;
    instr.cache = cache;
    return true;
}

bool decode_ldmatrix(DecodeContext& context) { return decode_matrices(context, true); }
bool decode_stmatrix(DecodeContext& context) { return decode_matrices(context, false); }

}  // namespace

void register_ldmatrix(Registry& registry) {
    registry.add(k_rows);
    registry.add_decoder("ldmatrix", &decode_ldmatrix);
    registry.add_decoder("stmatrix", &decode_stmatrix);
}

}  // namespace warpline::softgpu::isa
