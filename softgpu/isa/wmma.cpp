// wmma.load and wmma.store. PTX ISA: wmma.load, wmma.store.
#include <cstring>
#include <type_traits>

#include "softgpu/isa/families.h"
#include "softgpu/isa/matrix_layout.h"
#include "softgpu/isa/row_address.h"
#include "softgpu/isa/wmma.h"

namespace warpline::softgpu::isa {

namespace {

using exec::dest;
using exec::k_warp_size;
using exec::source;

constexpr uint32_t k_all_lanes[k_warp_size] = {~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u,
                                               ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u};

/// A matrix in memory: `lines` lines (rows or columns, as it is stored) of `length` units. A unit is an element, or 32 bits of
/// elements of 4 bits or 1 bit.
struct Transfer {
    RowAddress address;
    int32_t stride = 0;              ///< row of distances between lines, in elements
    uint32_t lines = 0, length = 0;  // the length is a power of two, as all of PTX's shapes are
    uint32_t length_bits = 0;
    uint32_t unit_bytes = 0;
    uint32_t unit_elements = 1;
    MatrixOperand fragment;  ///< its table gives line * length + place in the line
    uint32_t register_bytes = 4;
};

/// Host addresses of the lines. All lanes give the same address and stride: those of the first one count.
bool find_lines(Warp& w, const Instr& i, const Transfer& t, uint32_t mask, std::byte** lines) {
    auto first = uint32_t(__builtin_ctz(mask));
    uint64_t base =
        t.address.width == 8 ? source<uint64_t>(w, t.address.slot)[first] : source<uint32_t>(w, t.address.slot)[first];
    base += uint64_t(t.address.displacement);
    if (t.address.width == 4) base = uint32_t(base);
    int64_t pitch = int64_t(source<int32_t>(w, t.stride)[first]) * t.unit_bytes / t.unit_elements;
    uint64_t addresses[k_warp_size];
    for (uint32_t line = 0; line < t.lines; ++line) addresses[line] = base + uint64_t(int64_t(line) * pitch);
    uint32_t which = t.lines == k_warp_size ? exec::k_full_mask : (1u << t.lines) - 1;
    return resolve_lanes(w, i, which, t.address.where, addresses, t.length * t.unit_bytes, t.unit_bytes, lines);
}

/// Copies between memory and all lanes of the registers, by the units of four lanes. False where the fragment does not lie so.
template <bool Load, uint32_t Bytes>
bool transfer_runs(Warp& w, const Transfer& t, std::byte* const* lines) {
    const FragmentTable& table = t.fragment.table;
    const uint32_t in_register = t.register_bytes / Bytes, within_line = t.length - 1;
    auto memory_of = [&](uint32_t r, uint32_t lane) {
        const uint32_t at = table.at[(size_t{r % table.registers} * k_warp_size + lane) * in_register];
        return lines[at >> t.length_bits] + (at & within_line) * Bytes;
    };
    if (table.arrangement == Arrangement::lines) {
        constexpr uint32_t k_run = Bytes == 8 ? 32 : 16;
        for (uint32_t r = 0; r < t.fragment.count; ++r) {
            auto* place = dest<std::byte>(w, t.fragment.slots[r]);
            for (uint32_t lane = 0; lane < k_warp_size; lane += 4, place += k_run) {
                std::byte* memory = memory_of(r, lane);
                std::memcpy(Load ? place : memory, Load ? memory : place, k_run);
            }
        }
        return true;
    }
    if (table.arrangement != Arrangement::pairs || Bytes < 4) return false;
    using Word = std::conditional_t<Bytes == 8, uint64_t, uint32_t>;
    for (uint32_t r = 0; r < t.fragment.count; r += 2) {
        auto* even = dest<Word>(w, t.fragment.slots[r]);
        auto* odd = dest<Word>(w, t.fragment.slots[r + 1]);
        for (uint32_t lane = 0; lane < k_warp_size; lane += 4) {
            auto* memory = reinterpret_cast<Word*>(memory_of(r, lane));
            for (uint32_t l = 0; l < 4; ++l) {
                (Load ? even[lane + l] : memory[2 * l]) = Load ? memory[2 * l] : even[lane + l];
                (Load ? odd[lane + l] : memory[2 * l + 1]) = Load ? memory[2 * l + 1] : odd[lane + l];
            }
        }
    }
    return true;
}

/// Copies between memory and registers, unit by unit where there is no quicker way.
template <bool Load, uint32_t Bytes>
void transfer(Warp& w, const Transfer& t, uint32_t mask, std::byte* const* lines) {
    if (mask == exec::k_full_mask && transfer_runs<Load, Bytes>(w, t, lines)) return;
    const FragmentTable& table = t.fragment.table;
    const uint32_t in_register = t.register_bytes / Bytes;
    const uint32_t within_line = t.length - 1;
    for (uint32_t r = 0; r < t.fragment.count; ++r) {
        const uint16_t* at = table.at + size_t{r % table.registers} * k_warp_size * in_register;
        auto* bytes = dest<std::byte>(w, t.fragment.slots[r]);
        auto copy = [&](uint32_t unit) {
            std::byte* memory = lines[at[unit] >> t.length_bits] + (at[unit] & within_line) * Bytes;
            std::byte* place = bytes + unit * Bytes;
            std::memcpy(Load ? place : memory, Load ? memory : place, Bytes);
        };
        if (mask == exec::k_full_mask) {
            for (uint32_t unit = 0; unit < k_warp_size * in_register; ++unit) copy(unit);
            continue;
        }
        for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
            auto lane = uint32_t(__builtin_ctz(rest));
            for (uint32_t v = 0; v < in_register; ++v) copy(lane * in_register + v);
        }
    }
}

template <bool Load>
Flow move(Warp& w, const Instr& i, uint32_t mask) {
    if (!w.converge(i, mask, k_all_lanes)) return Flow::switch_;
    const Transfer& t = *static_cast<const Transfer*>(i.extra);
    std::byte* lines[k_warp_size];
    if (!find_lines(w, i, t, mask, lines)) return Flow::fault;
    note_access(w, i, t.lines == k_warp_size ? exec::k_full_mask : (1u << t.lines) - 1, lines, t.length * t.unit_bytes,
                Load ? exec::AccessKind::read : exec::AccessKind::write);
    switch (t.unit_bytes) {
        case 1: transfer<Load, 1>(w, t, mask, lines); break;
        case 2: transfer<Load, 2>(w, t, mask, lines); break;
        case 4: transfer<Load, 4>(w, t, mask, lines); break;
        default: transfer<Load, 8>(w, t, mask, lines); break;
    }
    return Flow::next;
}

enum class Which { a, b, c };

struct Words {
    MatrixShape shape;
    MatrixKind kind = MatrixKind::f16;
    Which which = Which::a;
    bool has_kind = false, by_row = true;
    Space space = Space::generic;
};

bool parse(DecodeContext& context, Words& words) {
    for (std::string_view word : context.modifiers()) {
        if (parse_matrix_kind(word, words.kind)) {
            words.has_kind = true;
        } else if (word == "a" || word == "b" || word == "c" || word == "d") {
            words.which = word == "a" ? Which::a : word == "b" ? Which::b : Which::c;
        } else if (word == "row" || word == "col") {
            words.by_row = word == "row";
        } else if (word == "global" || word.starts_with("shared")) {
            words.space = space_word(word);
        } else if (word != "load" && word != "store" && word != "sync" && word != "aligned" &&
                   !parse_shape(word, words.shape)) {
            return context.unsupported();
        }
    }
    return words.has_kind && words.shape.k != 0 ? true : context.unsupported();
}

/// Kinds and shapes of which wmma has fragments.
bool exists(const Words& words) {
    const MatrixShape& s = words.shape;
    auto is = [&](uint32_t m, uint32_t n, uint32_t k) { return s.m == m && s.n == n && s.k == k; };
    bool large = is(16, 16, 16) || is(32, 8, 16) || is(8, 32, 16), factor = words.which != Which::c;
    switch (words.kind) {
        case MatrixKind::f16: return large;
        case MatrixKind::bf16:
        case MatrixKind::s8:
        case MatrixKind::u8: return large && factor;
        case MatrixKind::tf32: return is(16, 16, 8) && factor;
        case MatrixKind::f64: return is(8, 8, 4);
        case MatrixKind::s4:
        case MatrixKind::u4: return is(8, 8, 32) && factor;
        case MatrixKind::b1: return is(8, 8, 128) && factor;
        case MatrixKind::f32: return (large || is(16, 16, 8)) && !factor;
        case MatrixKind::s32: return (large || is(8, 8, 32) || is(8, 8, 128)) && !factor;
        default: return false;
    }
}

bool describe(DecodeContext& context, const Words& words, Transfer& t) {
    const MatrixShape& s = words.shape;
    uint32_t bits = bits_of(words.kind);
    t.unit_elements = bits < 8 ? 32 / bits : 1;
    t.unit_bytes = bits < 8 ? 4 : bits / 8;
    t.register_bytes = words.kind == MatrixKind::f64 ? 8 : 4;
    const uint32_t per_register = t.register_bytes / t.unit_bytes;
    // As the warp holds it: lines of A, C and D are rows, those of B columns.
    const uint32_t lines = words.which == Which::b ? s.n : s.m;
    const uint32_t length = (words.which == Which::c ? s.n : s.k) / t.unit_elements;
    const uint32_t run = words.which == Which::c ? 2 : per_register;
    const bool same_way = words.by_row == (words.which != Which::b);
    if (!same_way && bits < 8) return context.unsupported("this layout");
    t.lines = same_way ? lines : length;
    t.length = same_way ? length : lines;
    t.length_bits = uint32_t(__builtin_ctz(t.length));
    t.fragment.kind = words.kind;
    t.fragment.table = fragment_table({lines, length, run, same_way ? length : 1, same_way ? 1 : lines}, per_register);
    return true;
}

bool decode_transfer(DecodeContext& context, bool load) {
    Words words;
    if (!parse(context, words)) return false;
    if (!exists(words)) return context.unsupported();
    const uint32_t memory = load ? 1 : 0, fragment = load ? 0 : 1, operands = context.operand_count();
    if (operands != 2 && operands != 3) return context.invalid("wrong number of operands");
    auto* t = context.storage<Transfer>();
    new (t) Transfer;
    if (!describe(context, words, *t)) return false;
    t->address = row_address(context, memory, words.space, !load);
    t->stride = operands == 3 ? context.in(2, 4) : context.constant_row(t->length * t->unit_elements, 4);
    MatrixOperand& registers = t->fragment;
    registers.count = context.element_count(fragment);
    uint32_t expected = words.kind == MatrixKind::f16 && words.which != Which::c ? 8 : registers.table.registers;
    if (registers.count != expected) return context.invalid("wrong number of registers for the matrix");
    for (uint32_t r = 0; r < registers.count; ++r) {
        auto width = uint8_t(t->register_bytes);
        registers.slots[r] = load ? context.out(fragment, width, r) : context.in(fragment, width, r);
    }
    uint32_t cache = context.new_range_cache();
    Instr& instr = context.emit(load ? &move<true> : &move<false>);
    instr.extra = t;
    instr.cache = cache;
    return true;
}

bool decode_wmma(DecodeContext& context) {
    if (context.has("load")) return decode_transfer(context, true);
    if (context.has("store")) return decode_transfer(context, false);
    return context.has("mma") ? decode_matrix_product(context, true) : context.unsupported();
}

}  // namespace

void register_wmma(Registry& registry) { registry.add_decoder("wmma", &decode_wmma); }

}  // namespace warpline::softgpu::isa
