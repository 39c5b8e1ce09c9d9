// From a parsed body to instructions with their slots.
#pragma once

#include <map>
#include <string>

#include "softgpu/exec/kernel.h"
#include "softgpu/isa/registry.h"

namespace warpline::softgpu::exec {

/// Decodes one body in two passes over the same code: the first records which registers each instruction reads and writes, then
/// rows are assigned, and the second emits instructions with their slots.
class BodyDecoder final : public isa::DecodeContext {
public:
    BodyDecoder(const DecodeInput& input, Body& out);
    void run();

    std::string_view opcode() const override;
    std::span<const std::string_view> modifiers() const override { return m_modifiers; }
    bool has(std::string_view modifier) const override;
    uint32_t operand_count() const override;
    uint32_t element_count(uint32_t operand) const override;
    bool is_memory(uint32_t operand) const override;
    bool is_sink(uint32_t operand, uint32_t element) const override;
    bool is_predicate(uint32_t operand, uint32_t element) const override;
    uint8_t register_width(uint32_t operand, uint32_t element) const override;
    bool constant(uint32_t operand, int64_t& value, uint32_t element) const override;
    std::string_view symbol(uint32_t operand, uint32_t element) const override;

    int32_t out(uint32_t operand, uint8_t width, uint32_t element) override;
    int32_t in(uint32_t operand, uint8_t width, uint32_t element) override;
    int32_t in_part(uint32_t operand, isa::Part& part) override;
    int32_t out_part(uint32_t operand, isa::Part& part) override;
    int32_t out_pred(uint32_t operand, uint32_t element) override;
    int32_t in_pred(uint32_t operand, uint32_t element) override;
    isa::Address address(uint32_t operand, isa::Space space, bool writes) override;
    int32_t constant_row(uint64_t value, uint8_t width) override;
    int32_t constant_pred(bool value) override;
    int32_t scratch(uint8_t width) override;

    Handler handler(std::string_view name) override;
    Instr& emit(Handler handler) override;
    uint32_t new_range_cache() override;
    void uses_stack() override { m_body.uses_alloca = true; }
    uint32_t checks() const override { return m_input.layout.checks; }
    void* storage(size_t size_bytes) override;
    bool unsupported(std::string_view why) override;
    bool invalid(std::string_view why) override;

private:
    enum class Pass { analyse, emit };
    struct Fixup {
        uint32_t instruction;  ///< in Body::code
        uint32_t block;        ///< target
        const Instr** table;   ///< entry of a branch table, instead of Instr::target
    };

    // decode.cpp
    void prepare();
    void find_copies();
    void pass(Pass which);
    void decode(uint32_t index);
    void decode_row(const isa::Row& row);
    void finish();
    void refuse(const std::string& why, bool is_invalid);
    std::string name_of_instruction() const;
    Instr& append(Handler handler, bool guarded);
    check::Site site_of(uint32_t instruction);
    void end_of_block(uint32_t block);

    // operands.cpp
    const ptx::Operand& operand_at(uint32_t operand, uint32_t element) const;
    int32_t register_slot(const ptx::Operand& operand, uint8_t width, bool is_def);
    int32_t touch(ptx::RegId id, bool is_def);
    int32_t symbol_row(const ptx::Operand& operand, uint8_t width);
    int32_t special_row(const ptx::Operand& operand, uint8_t width);
    bool symbol_value(const ptx::Operand& operand, uint64_t& value);
    isa::Address indexed_address(const ptx::Operand& operand, isa::Space space);
    isa::Address symbol_address(const ptx::Operand& operand, isa::Space space, bool writes);
    int32_t local_address_row(uint32_t offset, bool generic);
    ptx::RegId param_register(const ptx::SymbolRef& symbol) const;
    uint32_t param_offset(uint32_t param) const;

    // decode_control.cpp
    bool decode_control();
    bool decode_branch();
    bool decode_branch_table();
    bool decode_call();
    bool decode_direct_call(const ptx::Call& call, CallInfo& info);
    bool call_params(uint32_t first, uint32_t count, bool writes, const ParamSlot*& out);
    void set_target(const ptx::SymbolRef& label, uint32_t operand_of_table, const Instr** table);

    const DecodeInput& m_input;
    const ptx::Body& m_ptx;
    Body& m_body;
    const isa::Registry& m_registry;
    FlowGraph m_graph;
    Pass m_pass = Pass::analyse;

    std::vector<ptx::RegId> m_copy_of;  ///< by RegId: the register whose value this one only repeats, or itself

    // registers, then the .param variables as registers of their own
    std::vector<uint32_t> m_row_bytes;
    std::vector<uint32_t> m_lane_bytes;
    uint32_t m_first_body_param = 0, m_first_param = 0, m_first_return = 0;
    std::vector<RegisterUse> m_uses;
    SlotAssignment m_slots;

    std::vector<uint32_t> m_local_offset;  ///< by Body::variables
    std::vector<uint32_t> m_param_offset;  ///< of an entry's parameters

    // constants: (value, width) -> slot
    std::map<std::pair<uint64_t, uint8_t>, int32_t> m_constants;
    uint32_t m_constant_bytes = 0;

    // the instruction being decoded
    const ptx::Instruction* m_instruction = nullptr;
    uint32_t m_index = 0;
    std::vector<std::string_view> m_modifiers;
    uint32_t m_scratch = 0, m_scratch_peak = 0;
    bool m_failed = false;
    size_t m_code_mark = 0;

    std::vector<uint32_t> m_block_start;  ///< by block: index in Body::code
    std::vector<Fixup> m_fixups;
    std::string m_readable_name;  ///< of the function; for reports
    Instr m_dummy;
};

}  // namespace warpline::softgpu::exec
