// Reads shapes, types and layouts of matrix instructions, and computes who holds which element.
#include "softgpu/isa/matrix_layout.h"

#include <charconv>
#include <deque>
#include <map>
#include <tuple>
#include <vector>

#include "common/base/mutex.h"

namespace warpline::softgpu::isa {

namespace {

constexpr uint32_t k_lanes = 32;

/// Takes a letter and a number off a word.
bool take(std::string_view& word, char letter, uint32_t& number) {
    if (word.empty() || word[0] != letter) return false;
    auto [end, error] = std::from_chars(word.data() + 1, word.data() + word.size(), number);
    if (error != std::errc()) return false;
    word.remove_prefix(size_t(end - word.data()));
    return true;
}

/// Tables that exist; each is made once.
class Tables {
public:
    using Key = std::tuple<uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t>;

    template <typename Make>
    const uint16_t* find(const Key& key, Make make) {
        MutexLock lock(m_mutex);
        auto [entry, is_new] = m_tables.try_emplace(key);
        if (is_new) entry->second = make();
        return entry->second.data();
    }
    static Tables& instance() {
        static Tables& tables = *new Tables;  // leaked on purpose, as the instruction table is
        return tables;
    }

private:
    Mutex m_mutex;
    std::map<Key, std::vector<uint16_t>> m_tables WL_GUARDED_BY(m_mutex);
};

/// Index of value `i` of a lane in the matrices of the four products of m8n8k4.
uint16_t quad_pair_index(QuadPair which, uint32_t lane, uint32_t i) {
    const uint32_t pair = lane % 16 / 4, upper = lane >= 16 ? 4 : 0;
    switch (which) {
        case QuadPair::a_row: return uint16_t(pair * 32 + (lane % 4 + upper) * 4 + i);
        case QuadPair::a_column: return uint16_t(pair * 32 + (i + upper) * 4 + lane % 4);
        case QuadPair::b_row: return uint16_t(pair * 32 + lane % 4 * 8 + i + upper);
        case QuadPair::b_column: return uint16_t(pair * 32 + i * 8 + lane % 4 + upper);
        case QuadPair::c_f16: return uint16_t(pair * 64 + (lane % 4 + upper) * 8 + i);
        case QuadPair::c_f32: break;
    }
    uint32_t row = (lane & 1) + (i & 2) + upper, column = (i & 4) + (lane & 2) + (i & 1);
    return uint16_t(pair * 64 + row * 8 + column);
}

}  // namespace

bool parse_shape(std::string_view word, MatrixShape& shape) {
    return take(word, 'm', shape.m) && take(word, 'n', shape.n) && take(word, 'k', shape.k) && word.empty();
}

bool parse_matrix_kind(std::string_view word, MatrixKind& kind) {
    static constexpr std::pair<std::string_view, MatrixKind> k_kinds[] = {
        {"f16", MatrixKind::f16}, {"bf16", MatrixKind::bf16}, {"tf32", MatrixKind::tf32}, {"f32", MatrixKind::f32},
        {"f64", MatrixKind::f64}, {"e4m3", MatrixKind::e4m3}, {"e5m2", MatrixKind::e5m2}, {"s8", MatrixKind::s8},
        {"u8", MatrixKind::u8},   {"s4", MatrixKind::s4},     {"u4", MatrixKind::u4},     {"b1", MatrixKind::b1},
        {"s32", MatrixKind::s32},
    };
    for (auto [name, value] : k_kinds) {
        if (name != word) continue;
        kind = value;
        return true;
    }
    return false;
}

uint32_t bits_of(MatrixKind kind) {
    switch (kind) {
        case MatrixKind::f64: return 64;
        case MatrixKind::tf32:
        case MatrixKind::f32:
        case MatrixKind::s32: return 32;
        case MatrixKind::f16:
        case MatrixKind::bf16: return 16;
        case MatrixKind::e4m3:
        case MatrixKind::e5m2:
        case MatrixKind::s8:
        case MatrixKind::u8: return 8;
        case MatrixKind::s4:
        case MatrixKind::u4: return 4;
        case MatrixKind::b1: return 1;
    }
    return 0;
}

bool is_float(MatrixKind kind) { return kind <= MatrixKind::e5m2 && kind != MatrixKind::f64; }
bool is_integer(MatrixKind kind) { return kind >= MatrixKind::s8 && kind <= MatrixKind::u4; }

namespace {

Arrangement arrangement_of(const FragmentShape& shape, uint32_t per_lane) {
    if (shape.run == per_lane && shape.element_stride == 1) return Arrangement::lines;
    if (shape.run == per_lane && shape.line_stride == 1) return Arrangement::columns;
    return shape.run == 2 && per_lane == 1 && shape.element_stride == 1 ? Arrangement::pairs : Arrangement::scattered;
}

}  // namespace

FragmentTable fragment_table(const FragmentShape& shape, uint32_t per_lane) {
    FragmentTable table;
    table.per_lane = per_lane;
    table.registers = shape.lines * shape.length / k_lanes / per_lane;
    table.arrangement = arrangement_of(shape, per_lane);
    table.pitch = shape.element_stride;
    Tables::Key key{shape.lines, shape.length, shape.run, shape.line_stride, shape.element_stride, per_lane};
    table.at = Tables::instance().find(key, [&] {
        std::vector<uint16_t> at;
        const uint32_t groups = shape.lines / 8;  // of eight lines
        for (uint32_t r = 0; r < table.registers; ++r) {
            for (uint32_t lane = 0; lane < k_lanes; ++lane) {
                for (uint32_t v = 0; v < per_lane; ++v) {
                    uint32_t value = r * per_lane + v, step = value / shape.run;
                    uint32_t line = lane / 4 + step % groups * 8;
                    uint32_t element = lane % 4 * shape.run + value % shape.run + step / groups * 4 * shape.run;
                    at.push_back(uint16_t(line * shape.line_stride + element * shape.element_stride));
                }
            }
        }
        return at;
    });
    return table;
}

FragmentTable quad_pair_table(QuadPair which) {
    FragmentTable table;
    table.per_lane = which == QuadPair::c_f32 ? 1 : 2;
    table.registers = which == QuadPair::c_f32 ? 8 : which == QuadPair::c_f16 ? 4 : 2;
    table.at = Tables::instance().find(Tables::Key{0, uint32_t(which), 0, 0, 0, 0}, [&] {
        std::vector<uint16_t> at;
        for (uint32_t r = 0; r < table.registers; ++r) {
            for (uint32_t lane = 0; lane < k_lanes; ++lane) {
                for (uint32_t v = 0; v < table.per_lane; ++v)
                    at.push_back(quad_pair_index(which, lane, r * table.per_lane + v));
            }
        }
        return at;
    });
    return table;
}

}  // namespace warpline::softgpu::isa
