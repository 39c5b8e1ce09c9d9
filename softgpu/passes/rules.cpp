// Reads the tables of forms, and finds those of an opcode.
#include "softgpu/passes/rules.h"

#include <cstdlib>
#include <string_view>

namespace warpline::softgpu::passes {
namespace {

// Names of sets of types that the tables use.
struct TypeSet {
    std::string_view name, members;
};
constexpr TypeSet k_type_sets[] = {
    {"int", "u16|u32|u64|s16|s32|s64"},
    {"int8", "u8|u16|u32|u64|s8|s16|s32|s64"},
    {"int32", "u32|s32"},
    {"int64", "u32|u64|s32|s64"},
    {"sint", "s16|s32|s64"},
    {"bits", "b16|b32|b64"},
    {"float", "f32|f64"},
    {"half", "f16|f16x2|bf16|bf16x2"},
    {"scalar", "b16|b32|b64|u16|u32|u64|s16|s32|s64|f32|f64"},
    {"memory", "b8|b16|b32|b64|b128|u8|u16|u32|u64|s8|s16|s32|s64|f32|f64"},
};

// Calls back with each part of a text between separators, empty parts left out.
template <typename F>
void split(std::string_view text, char separator, F&& each) {
    while (!text.empty()) {
        size_t end = std::min(text.find(separator), text.size());
        if (end > 0) each(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
}

// The tables are ours: a word in them that does not exist is a bug that the first test shows.
ptx::Mod known_mod(std::string_view word) {
    ptx::Mod mod = ptx::mod_from(word);
    if (mod == ptx::Mod::count) std::abort();
    return mod;
}

void insert_types(std::string_view list, WordSet& set) {
    split(list, '|', [&](std::string_view word) {
        for (const TypeSet& named : k_type_sets)
            if (named.name == word) return insert_types(named.members, set);
        set.insert(known_mod(word));
    });
}

OperandPattern compile_operand(std::string_view text) {
    OperandPattern pattern;
    pattern.kind = text[0];
    text.remove_prefix(1);
    for (; !text.empty(); text.remove_suffix(1)) {
        switch (text.back()) {
            case '~': pattern.may_be_wider = true; continue;
            case '_': pattern.may_be_sink = true; continue;
            case '|': pattern.may_be_pair = true; continue;
            case '?': pattern.optional = true; continue;
            case '*': pattern.repeated = pattern.optional = true; continue;
            case '@': pattern.may_be_symbol = true; continue;
            case '!': pattern.may_be_special = true; continue;
            default: break;
        }
        break;
    }
    if (text.empty()) return pattern;
    bool twice = text[0] == 'w' && text.size() == 2;
    if (twice) text.remove_prefix(1);
    if (text.size() == 1 && text[0] >= '0' && text[0] <= '5') {
        pattern.from = twice ? OperandPattern::TypeFrom::twice : OperandPattern::TypeFrom::opcode;
        pattern.index = static_cast<uint8_t>(text[0] - '0');
    } else {
        pattern.from = OperandPattern::TypeFrom::fixed;
        pattern.type = ptx::to_type(known_mod(text));
    }
    return pattern;
}

Rule compile(const RuleText& text) {
    Rule rule;
    split(text.when, ' ', [&](std::string_view group) {
        Rule::Group& added = rule.when.emplace_back();
        added.absent = group[0] == '!';
        if (added.absent) group.remove_prefix(1);
        split(group, '|', [&](std::string_view word) {
            added.any_of.push_back(known_mod(word));
            if (!added.absent) rule.modifiers.insert(added.any_of.back());
        });
    });
    split(text.modifiers, ' ', [&](std::string_view word) {
        if (word == "*")
            rule.any_modifier = true;
        else
            rule.modifiers.insert(known_mod(word));
    });
    split(text.types, ' ', [&](std::string_view list) {
        if (list == "*") {
            rule.any_types = true;
            return;
        }
        Rule::TypeList& added = rule.types.emplace_back();
        added.optional = list.back() == '?';
        if (added.optional) list.remove_suffix(1);
        insert_types(list, added.set);
    });
    split(text.operands, ' ', [&](std::string_view operand) { rule.operands.push_back(compile_operand(operand)); });
    return rule;
}

struct RuleBook {
    std::array<std::vector<Rule>, size_t(ptx::Opcode::count)> by_opcode;
    RuleBook() {
        for (std::span<const RuleText> table : {arithmetic_rules(), memory_rules(), warp_rules(), matrix_rules()})
            for (const RuleText& text : table) by_opcode[size_t(text.opcode)].push_back(compile(text));
    }
};

}  // namespace

std::span<const Rule> rules_of(ptx::Opcode opcode) {
    static const RuleBook* const k_book = new RuleBook;  // leaked on purpose: modules may outlive static destruction
    return k_book->by_opcode[size_t(opcode)];
}

}  // namespace warpline::softgpu::passes
