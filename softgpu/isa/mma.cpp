// mma and wmma.mma. PTX ISA: Warp Level Matrix Multiply-Accumulate Instructions. The products are in level/matrix.cpp.
#include <algorithm>
#include <array>

#include "softgpu/isa/families.h"
#include "softgpu/isa/matrix_layout.h"
#include "softgpu/isa/wmma.h"

namespace warpline::softgpu::isa {

namespace {

/// What the words of an instruction say.
struct Words {
    MatrixShape shape;
    std::vector<MatrixKind> kinds;
    bool saturate = false, bits_and = false, bits_xor = false;
    bool a_row = true, b_row = false;
    uint32_t layouts = 0;
};

bool parse(DecodeContext& context, Words& words) {
    for (std::string_view word : context.modifiers()) {
        MatrixKind kind;
        if (parse_matrix_kind(word, kind)) {
            words.kinds.push_back(kind);
        } else if (word == "row" || word == "col") {
            (words.layouts++ == 0 ? words.a_row : words.b_row) = word == "row";
        } else if (word == "satfinite") {
            words.saturate = true;
        } else if (word == "and") {
            words.bits_and = true;
        } else if (word == "xor") {
            words.bits_xor = true;
        } else if (word == "popc" || word == "sync" || word == "aligned" || word == "mma" || word == "rn") {
            continue;
        } else if (!parse_shape(word, words.shape)) {
            return context.unsupported();  // .sp, .block_scale, .kind::…, other roundings
        }
    }
    // wmma with halves names only D and C.
    if (words.kinds.size() == 2) words.kinds.insert(words.kinds.begin() + 1, 2, MatrixKind::f16);
    if (words.shape.k == 0 || words.kinds.size() != 4 || words.layouts != 2) return context.unsupported();
    return true;
}

enum class Product { none, floats, integers, bits, doubles };

Product product_of(const Words& words) {
    MatrixKind d = words.kinds[0], a = words.kinds[1], b = words.kinds[2], c = words.kinds[3];
    auto accumulator = [](MatrixKind kind) { return kind == MatrixKind::f16 || kind == MatrixKind::f32; };
    if (a == MatrixKind::f64) return b == a && c == a && d == a ? Product::doubles : Product::none;
    if (a == MatrixKind::b1)
        return b == a && c == MatrixKind::s32 && d == c && words.bits_and != words.bits_xor ? Product::bits : Product::none;
    if (is_integer(a)) {
        return is_integer(b) && bits_of(a) == bits_of(b) && c == MatrixKind::s32 && d == c ? Product::integers : Product::none;
    }
    bool byte_floats = bits_of(a) == 8 && bits_of(b) == 8 && is_float(b);
    bool matches = (a == b && (a == MatrixKind::f16 || a == MatrixKind::bf16 || a == MatrixKind::tf32)) || byte_floats;
    bool half_sums = a == MatrixKind::f16 || byte_floats;
    if (!matches || !accumulator(c) || !accumulator(d)) return Product::none;
    return half_sums || (c == MatrixKind::f32 && d == c) ? Product::floats : Product::none;
}

/// The shapes that exist for a kind of multiplicand.
bool shape_exists(const MatrixShape& s, MatrixKind a, bool wmma) {
    struct Entry {
        uint32_t bits;
        MatrixShape shape;
    };
    static constexpr Entry k_mma[] = {
        {16, {8, 8, 4}},  {16, {16, 8, 8}}, {16, {16, 8, 16}}, {32, {16, 8, 4}}, {32, {16, 8, 8}},  {64, {8, 8, 4}},
        {64, {16, 8, 4}}, {64, {16, 8, 8}}, {64, {16, 8, 16}}, {8, {8, 8, 16}},  {8, {16, 8, 16}},  {8, {16, 8, 32}},
        {4, {8, 8, 32}},  {4, {16, 8, 32}}, {4, {16, 8, 64}},  {1, {8, 8, 128}}, {1, {16, 8, 128}}, {1, {16, 8, 256}}};
    static constexpr Entry k_wmma[] = {{16, {16, 16, 16}}, {16, {32, 8, 16}}, {16, {8, 32, 16}}, {8, {16, 16, 16}},
                                       {8, {32, 8, 16}},   {8, {8, 32, 16}},  {32, {16, 16, 8}}, {64, {8, 8, 4}},
                                       {4, {8, 8, 32}},    {1, {8, 8, 128}}};
    auto matches = [&](const Entry& e) {
        return e.bits == bits_of(a) && e.shape.m == s.m && e.shape.n == s.n && e.shape.k == s.k;
    };
    if (wmma)
        return !(a == MatrixKind::e4m3 || a == MatrixKind::e5m2) && std::any_of(std::begin(k_wmma), std::end(k_wmma), matches);
    if (a == MatrixKind::bf16 && s.k == 4) return false;
    if ((a == MatrixKind::e4m3 || a == MatrixKind::e5m2) && s.m == 8) return false;
    return std::any_of(std::begin(k_mma), std::end(k_mma), matches);
}

FragmentTable accumulator_table(const MatrixShape& s, MatrixKind kind) {
    return fragment_table({s.m, s.n, 2, s.n, 1}, kind == MatrixKind::f16 ? 2 : 1);
}

void set_tables(MatrixSpec& spec, const Words& words, Product product) {
    MatrixShape s = words.shape;
    if (s.k == 4 && spec.a.kind == MatrixKind::f16) {
        spec.batch = 4;
        spec.a.table = quad_pair_table(words.a_row ? QuadPair::a_row : QuadPair::a_column);
        spec.b.table = quad_pair_table(words.b_row ? QuadPair::b_row : QuadPair::b_column);
        spec.c.table = quad_pair_table(spec.c.kind == MatrixKind::f16 ? QuadPair::c_f16 : QuadPair::c_f32);
        spec.d.table = quad_pair_table(spec.d.kind == MatrixKind::f16 ? QuadPair::c_f16 : QuadPair::c_f32);
        return;
    }
    uint32_t per_register = product == Product::doubles || product == Product::bits ? 1 : 32 / bits_of(spec.a.kind);
    if (product == Product::bits) s.k /= 32;
    spec.k = s.k;
    spec.a.table = fragment_table({s.m, s.k, per_register, s.k, 1}, per_register);
    bool by_row = product == Product::floats;
    spec.b.table = fragment_table({s.n, s.k, per_register, by_row ? 1 : s.k, by_row ? s.n : 1}, per_register);
    spec.c.table = accumulator_table(s, spec.c.kind);
    spec.d.table = accumulator_table(s, spec.d.kind);
}

/// Registers of an operand. wmma gives each half of A and B to several lanes: more registers than the matrix needs.
bool registers(DecodeContext& context, uint32_t operand, MatrixOperand& out, bool is_result, bool wmma) {
    out.count = context.element_count(operand);
    uint32_t natural = out.table.registers;
    bool copies = wmma && out.kind == MatrixKind::f16 && operand != 0 && operand != 3;
    uint32_t expected = copies ? 8 : natural;
    if (out.count != expected || out.count > std::size(out.slots))
        return context.invalid("wrong number of registers for the matrix");
    const uint8_t width = out.kind == MatrixKind::f64 ? 8 : 4;
    for (uint32_t r = 0; r < out.count; ++r) {
        out.slots[r] = is_result ? context.out(operand, width, r) : context.in(operand, width, r);
    }
    return true;
}

const char* handler_name(Product product) {
    switch (product) {
        case Product::floats: return "$matrix.float";
        case Product::integers: return "$matrix.integer";
        case Product::bits: return "$matrix.bit";
        default: return "$matrix.double";
    }
}

}  // namespace

bool decode_matrix_product(DecodeContext& context, bool wmma) {
    Words words;
    if (!parse(context, words)) return false;
    Product product = product_of(words);
    if (product == Product::none || !shape_exists(words.shape, words.kinds[1], wmma)) return context.unsupported();
    if (words.saturate && product != Product::integers) return context.unsupported();
    bool quad_pairs = words.shape.k == 4 && words.kinds[1] == MatrixKind::f16;
    if (!wmma && !quad_pairs && (!words.a_row || words.b_row)) return context.unsupported("this layout of a multiplicand");
    if (context.operand_count() != 4) return context.invalid("wrong number of operands");
    auto* spec = context.storage<MatrixSpec>();
    new (spec) MatrixSpec;
    spec->d.kind = words.kinds[0];
    spec->a.kind = words.kinds[1];
    spec->b.kind = words.kinds[2];
    spec->c.kind = words.kinds[3];
    spec->m = words.shape.m;
    spec->n = words.shape.n;
    spec->k = words.shape.k;
    spec->saturate = words.saturate;
    spec->bits_and = words.bits_and;
    set_tables(*spec, words, product);
    Handler handler = context.handler(handler_name(product));
    if (handler == nullptr) return false;
    if (!registers(context, 1, spec->a, false, wmma) || !registers(context, 2, spec->b, false, wmma) ||
        !registers(context, 3, spec->c, false, wmma) || !registers(context, 0, spec->d, true, wmma)) {
        return false;
    }
    context.emit(handler).extra = spec;
    return true;
}

namespace {
bool decode_mma(DecodeContext& context) { return decode_matrix_product(context, false); }
}  // namespace

void register_mma(Registry& registry) { registry.add_decoder("mma", &decode_mma); }

}  // namespace warpline::softgpu::isa
