// The typed tree of PTX modules. Texts are kept, so every string_view here points into Module::units or Module::names and
// lives as long as the module. Storage is by index: an Instruction names ranges of the pools of its Body.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "softgpu/ptx/types.h"

namespace warpline::softgpu::ptx {

struct Location {
    uint32_t line = 0;  ///< from 1; 0 is "nowhere"
    uint32_t column = 0;
};

enum class DiagnosticKind : uint8_t { syntax, type, symbol, version, target, unsupported, limit };

/// One message. `text` is complete but for the place: "line:column: text" (to_string adds it).
struct Diagnostic {
    DiagnosticKind kind = DiagnosticKind::syntax;
    Location at;
    std::string text;
    uint32_t unit = 0;
};
using Diagnostics = std::vector<Diagnostic>;

/// What a name that is not a register stands for.
struct SymbolRef {
    enum class Kind : uint8_t {
        none,
        variable,      ///< Module::variables[index]
        function,      ///< Module::functions[index]
        local,         ///< Body::variables[index]: .local, .shared, .param … declared inside the body
        param,         ///< Function::params[index]
        return_param,  ///< Function::returns[index]
        label,         ///< Body::labels[index]
        targets,       ///< Body::targets[index]: a .branchtargets or .calltargets list
        prototype,     ///< Body::prototypes[index]
    };
    Kind kind = Kind::none;
    uint32_t index = 0;
    friend bool operator==(const SymbolRef&, const SymbolRef&) = default;
    explicit operator bool() const { return kind != Kind::none; }
};

/// An address inside an initialiser: the bytes at `offset` are (address of symbol + addend) >> shift, `size` bytes of it.
struct InitAddress {
    uint32_t offset = 0;   ///< bytes from the start of the variable
    uint8_t size = 8;      ///< bytes written
    uint8_t shift = 0;     ///< bits; 8·n for the form mask(symbol) that picks one byte
    bool generic = false;  ///< generic(symbol): the generic address of it; otherwise the address in its own state space
    SymbolRef symbol;
    int64_t addend = 0;
    std::string_view name;
    Location at;
};

/// A module-level or local variable, or a parameter.
struct Variable {
    std::string_view name;
    Space space = Space::none;
    Linkage linkage = Linkage::internal;
    Type type = Type::none;
    uint8_t vector = 1;        ///< elements of .v2 .v4 .v8
    bool managed = false;      ///< .attribute(.managed)
    std::string_view unified;  ///< .attribute(.unified(a, b)), as written
    bool is_array = false;     ///< has [] or [n]…
    bool has_init = false;
    uint32_t alignment = 0;  ///< bytes; as declared, or that of the type
    bool declared_alignment = false;
    std::vector<uint64_t> dims;   ///< 0 in the first place: `[]`, of unknown size
    uint64_t size_bytes = 0;      ///< of all elements; 0 for `[]` without an initialiser
    std::vector<std::byte> init;  ///< little endian, may be shorter than size_bytes: the rest is zero
    std::vector<InitAddress> init_addresses;
    std::vector<std::string_view> texture_fields;  ///< sampler and texture references: `field = value` as written
    // .param … .ptr.space.align n name
    bool is_ptr = false;
    Space ptr_space = Space::none;
    uint32_t ptr_alignment = 0;
    uint32_t unit = 0;
    Location at;
};

/// Index of a virtual register in its body.
using RegId = uint32_t;
constexpr RegId k_no_reg = UINT32_MAX;

/// `.reg .b32 %r<100>;` or `.reg .pred p, q;`: registers [first, first + count) of the body.
struct RegisterDecl {
    std::string_view name;  ///< without the number of a range
    RegId first = 0;
    uint32_t count = 1;
    bool is_range = false;
    Type type = Type::none;
    uint8_t vector = 1;
    uint32_t alignment = 0;
};

struct Operand {
    enum class Kind : uint8_t {
        none,
        reg,      ///< reg; negated for !p; component for .x/.y/.z/.w or a video selector
        special,  ///< special; component
        integer,  ///< bits (two's complement, 64 bits); is_unsigned if the literal said so or does not fit s64
        f32,      ///< bits: an exact 0f… literal. Where 64 bits are wanted, ptxas extends the bits with zeros; so must we
        f64,      ///< bits: an exact 0d… or a decimal literal; to be rounded to the instruction's type
        symbol,   ///< symbol + bits: the address itself (mov), a function, a parameter in a call, a texture reference
        label,    ///< symbol (label)
        sink,     ///< _
        address,  ///< [reg + bits], [symbol + bits] or [bits]
        indexed,  ///< symbol[reg + n]: the address symbol + reg · count + bits, count being the size of an element
        vector,   ///< { … }: operands [first, first + count) of the body
        pair,     ///< d | p: two operands of the body
        list,     ///< [a, {x, y}], [a, b, {x}]: operands of the body; the first is the base, of kind address
    };
    /// An element of a vector, or the part of a register that a video instruction takes. halves is .hXY and bytes .bWXYZ (the
    /// packed video instructions): the digits are in `selector`, as hexadecimal digits in the order of the text.
    enum class Component : uint8_t { none, x, y, z, w, b0, b1, b2, b3, h0, h1, halves, bytes };

    Kind kind = Kind::none;
    bool negated = false;  ///< !p; or -x in the video instructions (vmad)
    bool is_unsigned = false;
    bool has_offset = false;  ///< an offset was written, be it + 0: without optimisation ptxas makes an addition of it
    Component component = Component::none;
    SpecialReg special{};
    uint16_t selector = 0;
    uint8_t special_number = 0;  ///< of %envreg<n>, %pm<n>, %reserved_smem_offset_<n>
    RegId reg = k_no_reg;
    SymbolRef symbol;
    uint32_t first = 0;
    uint32_t count = 0;
    uint64_t bits = 0;  ///< immediate, or the offset of an address as int64_t
    int64_t offset() const { return static_cast<int64_t>(bits); }
};

/// One machine instruction. Operands are in the order of the text, destination first.
struct Instruction {
    Opcode opcode = Opcode::count;
    uint8_t mod_count = 0;
    uint8_t type_count = 0;
    uint8_t operand_count = 0;
    bool guard_negated = false;
    RegId guard = k_no_reg;      ///< @p, @!p
    uint32_t first_mod = 0;      ///< Body::mods: every dotted word in order, types included
    uint32_t first_operand = 0;  ///< Body::operands
    uint32_t call = UINT32_MAX;  ///< Body::calls, for call
    uint32_t loc = UINT32_MAX;   ///< Body::locs, the .loc in force
    uint32_t line = 0;
    uint32_t column = 0;
    std::array<Type, 6> types{Type::none, Type::none, Type::none,
                              Type::none, Type::none, Type::none};  ///< the types among the modifiers
    Type type(size_t i = 0) const { return types[i]; }
};

/// The parts of `call (rets), target, (args), prototype_or_targets;`. Ranges of Body::operands.
struct Call {
    uint32_t first_ret = 0, ret_count = 0;
    uint32_t target = 0;  ///< one operand: symbol (function) or reg
    uint32_t first_arg = 0, arg_count = 0;
    SymbolRef via;  ///< prototype or targets of an indirect call
};

struct Label {
    std::string_view name;
    uint32_t instruction = 0;  ///< index of the instruction that follows; instructions.size() at the end of the body
    uint32_t scope = 0;
    Location at;
};

/// `.branchtargets a, b;` (labels) or `.calltargets f, g;` (functions), or the labels of a jump table.
struct Targets {
    std::string_view name;
    bool calls = false;
    std::vector<SymbolRef> entries;
    Location at;
};

/// `name: .callprototype (rets) _ (params);`
struct Prototype {
    std::string_view name;
    std::vector<Variable> returns, params;
    bool noreturn = false;
    uint32_t abi_preserve = UINT32_MAX, abi_preserve_control = UINT32_MAX;
    Location at;
};

/// `.loc file line column[, function_name …, inlined_at …]`
struct Loc {
    uint32_t file = 0, line = 0, column = 0;
    std::string_view tail;  ///< what follows the three numbers
};

/// What a body contains, in the order of the text; for the printer. The engine needs only `instructions`.
struct BodyItem {
    enum class Kind : uint8_t { instruction, label, open, close, registers, variable, loc, pragma, targets, prototype };
    Kind kind = Kind::instruction;
    uint32_t index = 0;
};

/// A nested { } block. Scope 0 is the body itself.
struct Scope {
    uint32_t parent = UINT32_MAX;
    uint32_t first_instruction = 0, end_instruction = 0;
};

/// The parsed body of a function.
struct Body {
    std::vector<Instruction> instructions;
    std::vector<Mod> mods;
    std::vector<Operand> operands;
    std::vector<Call> calls;
    std::vector<RegisterDecl> registers;
    std::vector<Type> reg_types;      ///< by RegId
    std::vector<uint8_t> reg_vector;  ///< by RegId: 1, 2 or 4 elements
    std::vector<Variable> variables;
    std::vector<Label> labels;
    std::vector<Targets> targets;
    std::vector<Prototype> prototypes;
    std::vector<Loc> locs;
    std::vector<std::string_view> pragmas;
    std::vector<Scope> scopes;
    std::vector<BodyItem> items;
    std::vector<RegId> param_regs;  ///< registers of .reg-space parameters, by index in Function::params; k_no_reg otherwise
    std::vector<RegId> return_regs;

    std::span<const Mod> mods_of(const Instruction& i) const { return {mods.data() + i.first_mod, i.mod_count}; }
    std::span<const Operand> operands_of(const Instruction& i) const {
        return {operands.data() + i.first_operand, i.operand_count};
    }
    /// Elements of a vector, pair or list operand.
    std::span<const Operand> elements_of(const Operand& o) const { return {operands.data() + o.first, o.count}; }
    bool has(const Instruction& i, Mod mod) const {
        for (Mod m : mods_of(i))
            if (m == mod) return true;
        return false;
    }
    RegId register_count() const { return static_cast<RegId>(reg_types.size()); }
};

/// Bounds and hints of an entry. Zeros: not given.
struct Tuning {
    std::array<uint32_t, 3> maxntid{}, reqntid{}, reqnctapercluster{};
    uint32_t minnctapersm = 0, maxnctapersm = 0, maxnreg = 0, maxclusterrank = 0;
    uint8_t maxntid_count = 0, reqntid_count = 0, reqnctapercluster_count = 0;  ///< numbers written
    bool explicitcluster = false, noreturn = false, blocksareclusters = false, local_maxnreg = false;
    uint32_t abi_preserve = UINT32_MAX, abi_preserve_control = UINT32_MAX;
};

struct Function {
    std::string_view name;
    bool is_entry = false;
    bool has_body = false;
    bool is_alias = false;  ///< `.alias name, alias_of;`
    Linkage linkage = Linkage::internal;
    Tuning tuning;
    std::vector<std::string_view> pragmas;  ///< module-level .pragma in the header of the function
    std::vector<Variable> params, returns;
    std::string_view body_text;                ///< with its braces
    std::vector<std::string_view> attributes;  ///< .attribute(…) of a function, as written
    Location at, body_at;
    uint32_t unit = 0;
    uint32_t alias_of = UINT32_MAX;
    std::unique_ptr<Body> body;  ///< after parse_body(); null before, and if the body has errors
    bool body_parsed = false;    ///< parse_body() has run
};

struct Version {
    uint16_t major_number = 0, minor_number = 0;
};

struct Target {
    uint32_t sm = 0;  ///< 75 … 121
    char suffix = 0;  ///< 'a', 'f' or 0
    bool texmode_independent = false, texmode_unified = false;
    bool debug = false;
    bool map_f64_to_f32 = false;
};

/// Module-level things in the order of the text, for the printer.
struct ModuleItem {
    enum class Kind : uint8_t { variable, function, file, section, pragma, alias };
    Kind kind = Kind::variable;
    uint32_t index = 0;
};

struct Section {
    std::string_view name;
    std::string_view text;  ///< what stands between the braces
};

/// A source text that is part of a module. A parsed module has one; a linked one has one for each input.
struct Unit {
    std::shared_ptr<const std::string> text;
    std::string name;                                         ///< for messages: empty, or a file's name
    uint32_t sm = 0;                                          ///< its own architecture; Target::sm has the newest of all
    std::unordered_map<std::string_view, SymbolRef> symbols;  ///< names as this text spells them
};

struct Module {
    Version version;
    Target target;
    uint32_t address_size = 64;
    std::vector<Unit> units;
    std::vector<std::shared_ptr<const std::string>> names;  ///< names that no text contains (renamed by the linker)
    std::vector<Variable> variables;
    std::vector<Function> functions;
    std::vector<std::string_view> files;  ///< .file directives, without the word
    std::vector<Section> sections;
    std::vector<std::string_view> pragmas;
    std::vector<std::string_view> attributes;
    std::vector<ModuleItem> items;

    /// The symbol of a name as unit `unit` means it; kind none if there is none. A definition wins over its declarations.
    SymbolRef find(std::string_view name, uint32_t unit = 0) const;
    Function* function(std::string_view name);
    const Function* function(std::string_view name) const;
    const Variable* variable(std::string_view name) const;
};

/// "line:column: text", with the unit's name before it if it has one.
std::string to_string(const Module& module, const Diagnostic& diagnostic);

}  // namespace warpline::softgpu::ptx
