// How instructions become known to the software GPU. A family of instructions is one file, softgpu/isa/<family>.cpp, with one
// function `void register_<family>(Registry&)`, named in softgpu/isa/families.h. The core is not touched.
// Handlers whose speed matters live in softgpu/isa/level/<family>.cpp, compiled once per CPU level; such a file defines
// `Rows <family>_rows()` in its level's namespace (see level/level.h) and includes no C++ library headers.
//
// There are two ways to register:
//  * rows (row.h): one name with all its modifiers ("add.sat.s32") -> handler and operand shapes. Right for all that is
//    regular.
//  * a decoder for a base opcode ("ld"): a function that looks at modifiers and operands and emits instructions. It is asked
//    when no row matches.
// What matches neither becomes an instruction that refuses: Function::ensure_ready() answers 801 and names it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "softgpu/isa/row.h"
#include "softgpu/ptx/types.h"

namespace warpline::softgpu::isa {

/// State space of a memory operand, after `.space` modifiers; generic if none is written.
enum class Space : uint8_t { generic, global, shared, shared_cluster, local, constant, param_entry, param_call };

/// [base + displacement] in a space.
/// Not fixed: `slot` is a row of addresses, `width` bytes wide (4 or 8), to which the displacement is added.
/// Fixed: the address is `displacement` alone: an absolute address (global, constant), an offset (shared, local of an
/// immediate), an offset in the kernel's parameters (param_entry), or, for param_call, an offset in the region of 32 lanes of
/// `lane_bytes` each that begins at frame slot `slot`.
struct Address {
    int32_t slot = 0;
    uint8_t width = 8;
    bool fixed = false;
    Space space = Space::generic;
    int64_t displacement = 0;
    uint32_t lane_bytes = 0;
};

/// The part of a register that an operand of a video instruction takes, and whether it is negated (-a).
struct Part {
    enum class Kind : uint8_t { whole, byte, half, halves, bytes };
    Kind kind = Kind::whole;
    uint16_t selector = 0;  ///< byte, half: its number; halves, bytes: one hexadecimal digit each, in the order of the text
    bool negated = false;
};

/// What a decoder works with: the instruction as written, and the body under construction. Operand numbers count from 0 as
/// written; a vector {a, b} or a pair d|p is one operand with elements.
class DecodeContext {
public:
    virtual ~DecodeContext() = default;

    // --- the instruction as written
    virtual std::string_view opcode() const = 0;
    /// Modifiers without dots, in order; types are among them: ld.global.v2.u32 -> global, v2, u32.
    virtual std::span<const std::string_view> modifiers() const = 0;
    virtual bool has(std::string_view modifier) const = 0;
    virtual uint32_t operand_count() const = 0;
    /// Elements of a vector operand, 2 for d|p, 1 for all others.
    virtual uint32_t element_count(uint32_t operand) const = 0;
    virtual bool is_memory(uint32_t operand) const = 0;
    virtual bool is_sink(uint32_t operand, uint32_t element = 0) const = 0;  ///< the operand is "_"
    virtual bool is_predicate(uint32_t operand, uint32_t element = 0) const = 0;
    /// Bytes per lane of the register; 0 for immediates, symbols and sinks.
    virtual uint8_t register_width(uint32_t operand, uint32_t element = 0) const = 0;
    /// The value of an integer immediate (or a constant expression); false if the operand is something else.
    virtual bool constant(uint32_t operand, int64_t& value, uint32_t element = 0) const = 0;
    /// The name of the symbol, label or function that the operand names; empty if none.
    virtual std::string_view symbol(uint32_t operand, uint32_t element = 0) const = 0;

    // --- operands to slots. All may emit instructions before the one being decoded (special registers, negated predicates).
    virtual int32_t out(uint32_t operand, uint8_t width, uint32_t element = 0) = 0;  ///< a sink gets a scratch row
    virtual int32_t in(uint32_t operand, uint8_t width, uint32_t element = 0) = 0;
    /// 32-bit operands of video instructions, which may name a part of the register.
    virtual int32_t in_part(uint32_t operand, Part& part) = 0;
    virtual int32_t out_part(uint32_t operand, Part& part) = 0;
    virtual int32_t out_pred(uint32_t operand, uint32_t element = 0) = 0;
    virtual int32_t in_pred(uint32_t operand, uint32_t element = 0) = 0;
    /// A memory operand. `space` is what the modifiers say; for Space::param_entry the answer says which kind of parameter it
    /// is. `writes`: the instruction stores there (matters for parameters only).
    virtual Address address(uint32_t operand, Space space, bool writes = false) = 0;
    /// A row filled with a value, shared by all instructions that want the same.
    virtual int32_t constant_row(uint64_t value, uint8_t width) = 0;
    virtual int32_t constant_pred(bool value) = 0;
    /// A row that is free again after this instruction.
    virtual int32_t scratch(uint8_t width) = 0;

    // --- output
    /// The handler of a '$' row for the CPU at hand; null and a refusal if there is none.
    virtual Handler handler(std::string_view name) = 0;
    /// Appends an instruction under this instruction's guard. The reference is good until the next call of this object.
    virtual Instr& emit(Handler handler) = 0;
    /// For memory instructions: a range cache of its own.
    virtual uint32_t new_range_cache() = 0;
    /// The instruction takes stack memory whose size is not known beforehand.
    virtual void uses_stack() = 0;
    /// check::Check: what memory instructions must tell the checkers.
    virtual uint32_t checks() const { return 0; }
    /// Storage that lives as long as the body, for Instr::extra (zeroed).
    virtual void* storage(size_t size_bytes) = 0;
    template <typename T>
    T* storage() {
        return static_cast<T*>(storage(sizeof(T)));
    }

    // --- refusals: record the first error; the instruction becomes one that traps. Return what they return.
    virtual bool unsupported(std::string_view why = {}) = 0;
    virtual bool invalid(std::string_view why) = 0;
};

/// Decodes one instruction. False after unsupported() or invalid().
using Decoder = bool (*)(DecodeContext&);

/// The table. Filled once per process for the CPU at hand.
class Registry {
public:
    Registry();
    ~Registry();
    Registry(const Registry&) = delete;
    Registry& operator=(const Registry&) = delete;

    /// Rows must live as long as the process. A name that is there already is replaced.
    void add(Rows rows);
    template <size_t N>
    void add(const Row (&rows)[N]) {
        add(Rows{rows, N});
    }
    void add_decoder(std::string_view opcode, Decoder decoder);

    /// Row of an instruction with exactly these modifiers. Null if there is none.
    const Row* find(ptx::Opcode opcode, std::span<const ptx::Mod> modifiers) const;
    /// Handlers with '$' names. Null if there is none.
    Handler handler(std::string_view name) const;
    Decoder decoder(std::string_view opcode) const;

    /// The process's table: all families of families.h, with the handlers of the best CPU level. Thread-safe, built on first
    /// use.
    static const Registry& instance();

private:
    struct Impl;
    std::unique_ptr<Impl> m_impl;
};

}  // namespace warpline::softgpu::isa
