// The passes over a body, its frame, and its lines for reports.
#include "softgpu/exec/decode.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "common/log/log.h"
#include "softgpu/exec/control.h"
#include "softgpu/isa/decode_helpers.h"

namespace warpline::softgpu::exec {

using ptx::Opcode;

namespace {

/// Name of a file by the number that .loc gives, without folders; empty if it is not known. The directive reads
/// `.file 1 "/folder/name.cu"`; in a linked module the numbers of several texts mix.
std::string_view source_file(const ptx::Module& module, uint32_t number) {
    if (module.units.size() != 1) return {};
    for (std::string_view file : module.files) {
        file.remove_prefix(std::min(file.size(), file.find_first_not_of(" \t")));
        uint32_t index = 0;
        auto [end, error] = std::from_chars(file.data(), file.data() + file.size(), index);
        const size_t open = file.find('"'), close = file.find('"', open + 1);
        if (error != std::errc() || index != number || close == std::string_view::npos) continue;
        std::string_view path = file.substr(open + 1, close - open - 1);
        return path.substr(path.rfind('/') + 1);
    }
    return {};
}

}  // namespace

BodyDecoder::BodyDecoder(const DecodeInput& input, Body& out)
    : m_input(input), m_ptx(input.body), m_body(out), m_registry(isa::Registry::instance()) {}

void BodyDecoder::run() {
    m_graph = build_flow_graph(m_ptx);
    prepare();
    find_copies();
    pass(Pass::analyse);
    std::stable_sort(m_uses.begin(), m_uses.end(), [](const RegisterUse& a, const RegisterUse& b) {
        return a.instruction != b.instruction ? a.instruction < b.instruction : a.is_def < b.is_def;
    });
    m_slots = assign_slots(m_graph, m_uses, m_row_bytes);
    pass(Pass::emit);
    finish();
}

void BodyDecoder::prepare() {
    auto add_register = [this](uint32_t lane_bytes, uint32_t row_bytes) {
        m_lane_bytes.push_back(lane_bytes);
        m_row_bytes.push_back(row_bytes);
    };
    auto add_param = [&](const ptx::Variable& variable) {
        auto size = uint32_t(variable.size_bytes);
        add_register(size, std::max<uint32_t>(64, (size * k_warp_size + 63) / 64 * 64));
    };
    for (uint32_t id = 0; id < m_ptx.register_count(); ++id) {
        uint32_t bytes = ptx::bytes_of(m_ptx.reg_types[id]);
        if (m_ptx.reg_types[id] == ptx::Type::pred) {
            add_register(0, k_predicate_row_bytes);
        } else {
            bytes = std::max<uint32_t>(bytes, 2);
            add_register(bytes, bytes * k_warp_size * std::max<uint32_t>(1, m_ptx.reg_vector[id]));
        }
    }
    m_first_body_param = uint32_t(m_row_bytes.size());
    m_local_offset.assign(m_ptx.variables.size(), 0);
    for (size_t i = 0; i < m_ptx.variables.size(); ++i) {
        const ptx::Variable& variable = m_ptx.variables[i];
        add_param(variable.space == ptx::Space::param ? variable : ptx::Variable{});
        if (variable.space != ptx::Space::local) continue;
        uint32_t alignment = std::max<uint32_t>(1, variable.alignment);
        m_body.local_bytes = (m_body.local_bytes + alignment - 1) / alignment * alignment;
        m_local_offset[i] = m_body.local_bytes;
        m_body.local_bytes += uint32_t(variable.size_bytes);
    }
    m_body.local_bytes = (m_body.local_bytes + 15) / 16 * 16;
    m_first_param = uint32_t(m_row_bytes.size());
    for (const ptx::Variable& variable : m_input.function.params) add_param(variable);
    m_first_return = uint32_t(m_row_bytes.size());
    for (const ptx::Variable& variable : m_input.function.returns) add_param(variable);
    uint32_t offset = 0;
    for (const ptx::Variable& variable : m_input.function.params) {
        uint32_t alignment = std::max<uint32_t>(1, variable.alignment);
        offset = (offset + alignment - 1) / alignment * alignment;
        m_param_offset.push_back(offset);
        offset += uint32_t(variable.size_bytes);
    }
}

namespace {

/// `mov d, s` and `cvta.to.global d, s` between whole registers: d repeats s.
const ptx::Operand* copied_register(const ptx::Body& body, const ptx::Instruction& instruction) {
    bool is_mov = instruction.opcode == Opcode::mov;
    bool is_cvta = instruction.opcode == Opcode::cvta && body.has(instruction, ptx::Mod::global);
    if ((!is_mov && !is_cvta) || instruction.guard != ptx::k_no_reg || instruction.operand_count != 2) return nullptr;
    auto operands = body.operands_of(instruction);
    auto plain = [](const ptx::Operand& operand) {
        return operand.kind == ptx::Operand::Kind::reg && operand.component == ptx::Operand::Component::none &&
               !operand.negated;
    };
    return plain(operands[0]) && plain(operands[1]) ? &operands[1] : nullptr;
}

}  // namespace

/// Registers that only repeat another one need no row and no instruction. Safe if both are written at one place only, and the
/// one that is repeated cannot be written a second time by a loop. What writes a register is not known here: the first operand
/// is taken to be written by every instruction, and every register of a vector or pair there too, which errs on the safe side.
void BodyDecoder::find_copies() {
    m_copy_of.resize(m_row_bytes.size());
    std::vector<uint8_t> writes(m_row_bytes.size(), 0);
    std::vector<uint32_t> written_at(m_row_bytes.size(), 0);
    for (uint32_t id = 0; id < m_copy_of.size(); ++id) m_copy_of[id] = id;
    auto written = [&](ptx::RegId id, uint32_t at) {
        writes[id] = uint8_t(std::min(2, writes[id] + 1));
        written_at[id] = at;
    };
    auto note = [&](auto&& self, const ptx::Operand& operand, uint32_t at) -> void {
        if (operand.kind == ptx::Operand::Kind::reg) written(operand.reg, at);
        bool several = operand.kind == ptx::Operand::Kind::vector || operand.kind == ptx::Operand::Kind::pair;
        for (uint32_t e = 0; several && e < operand.count; ++e) self(self, m_ptx.elements_of(operand)[e], at);
    };
    for (ptx::RegId id : m_ptx.param_regs) {
        if (id != ptx::k_no_reg) written(id, 0);
    }
    for (uint32_t i = 0; i < m_ptx.instructions.size(); ++i) {
        const ptx::Instruction& instruction = m_ptx.instructions[i];
        if (instruction.opcode == Opcode::call) {
            const ptx::Call& call = m_ptx.calls[instruction.call];
            for (uint32_t r = 0; r < call.ret_count; ++r) note(note, m_ptx.operands[call.first_ret + r], i);
        } else if (instruction.operand_count != 0) {
            note(note, m_ptx.operands_of(instruction)[0], i);
        }
    }
    for (const ptx::Instruction& instruction : m_ptx.instructions) {
        const ptx::Operand* from = copied_register(m_ptx, instruction);
        if (from == nullptr) continue;
        ptx::RegId into = m_ptx.operands_of(instruction)[0].reg, origin = m_copy_of[from->reg];
        bool once = writes[into] == 1 && writes[from->reg] == 1 && writes[origin] == 1;
        bool in_loop = m_graph.blocks[m_graph.block_of[written_at[origin]]].in_loop;
        bool same_row = m_row_bytes[into] == m_row_bytes[origin] && m_lane_bytes[into] == m_lane_bytes[origin];
        if (once && !in_loop && same_row) m_copy_of[into] = origin;
    }
}

void BodyDecoder::pass(Pass which) {
    m_pass = which;
    m_block_start.assign(m_graph.blocks.size(), 0);
    for (uint32_t b = 0; b < m_graph.blocks.size(); ++b) {
        m_block_start[b] = uint32_t(m_body.code.size());
        for (uint32_t i = m_graph.blocks[b].begin; i < m_graph.blocks[b].end; ++i) decode(i);
        end_of_block(b);
    }
}

/// Lanes that run into a block which others enter too must stop to meet them; the end of the text is a return.
void BodyDecoder::end_of_block(uint32_t block) {
    if (m_pass == Pass::analyse) return;
    const auto& info = m_graph.blocks[block];
    m_index = info.begin;
    if (block + 1 == m_graph.blocks.size()) {
        append(&control::ret, false);
        return;
    }
    bool ends = ends_block(m_ptx.instructions[info.end - 1]);
    if (!ends && info.falls_through && m_graph.blocks[block + 1].predecessors > 1) {
        append(&control::fall_through, false);
        m_fixups.push_back({uint32_t(m_body.code.size() - 1), block + 1, nullptr});
    }
}

void BodyDecoder::decode(uint32_t index) {
    m_index = index;
    m_instruction = &m_ptx.instructions[index];
    m_scratch = 0;
    m_failed = false;
    m_code_mark = m_body.code.size();
    if (m_instruction->guard != ptx::k_no_reg) touch(m_instruction->guard, false);
    if (const ptx::Operand* from = copied_register(m_ptx, *m_instruction)) {
        ptx::RegId into = m_ptx.operands_of(*m_instruction)[0].reg;
        if (m_copy_of[into] != into && m_copy_of[into] == m_copy_of[from->reg]) return;
    }
    m_modifiers.clear();
    for (ptx::Mod mod : m_ptx.mods_of(*m_instruction)) m_modifiers.push_back(ptx::to_string(mod));
    if (ends_block(*m_instruction) && m_instruction->opcode != Opcode::trap) {
        decode_control();
        return;
    }
    // Rows know only plain operands; vectors and pairs are a decoder's business.
    bool plain = true;
    for (uint32_t i = 0; i < operand_count(); ++i) plain = plain && element_count(i) == 1 && !is_memory(i);
    const isa::Row* row = plain ? m_registry.find(m_instruction->opcode, m_ptx.mods_of(*m_instruction)) : nullptr;
    if (row != nullptr) {
        decode_row(*row);
    } else if (isa::Decoder decoder = m_registry.decoder(opcode())) {
        if (!decoder(*this) && !m_failed) unsupported({});
    } else {
        unsupported({});
    }
}

void BodyDecoder::decode_row(const isa::Row& row) {
    uint32_t wanted = 0;
    while (wanted < 5 && row.operands[wanted].role != isa::Role::none) ++wanted;
    if (operand_count() != wanted) {
        invalid("wrong number of operands");
        return;
    }
    int32_t slots[5] = {};
    uint64_t immediate = row.imm;
    // Sources first: what they need to be computed beforehand must not see the destinations.
    for (uint32_t i = 0; i < wanted; ++i) {
        const isa::Operand& shape = row.operands[i];
        int64_t value = 0;
        switch (shape.role) {
            case isa::Role::in: slots[i] = in(i, shape.width, 0); break;
            case isa::Role::in_pred: slots[i] = in_pred(i, 0); break;
            case isa::Role::imm:
                if (!constant(i, value, 0)) unsupported("an operand that is not a constant");
                immediate = uint64_t(value);
                break;
            default: break;
        }
    }
    for (uint32_t i = 0; i < wanted; ++i) {
        const isa::Operand& shape = row.operands[i];
        if (shape.role == isa::Role::out) slots[i] = out(i, shape.width, 0);
        if (shape.role == isa::Role::out_pred) slots[i] = out_pred(i, 0);
    }
    if (m_failed) return;
    Instr& instr = emit(row.handler);
    std::copy(std::begin(slots), std::end(slots), std::begin(instr.op));
    instr.imm = immediate;
}

Instr& BodyDecoder::append(Handler handler, bool guarded) {
    if (m_pass == Pass::analyse) {
        m_dummy = Instr{};
        return m_dummy;
    }
    Instr& instr = m_body.code.emplace_back();
    instr.fn = instr.inner = handler;
    uint32_t at = std::min<uint32_t>(m_index, uint32_t(m_ptx.instructions.size()) - 1);
    instr.line = m_ptx.instructions.empty() ? m_input.function.at.line : m_ptx.instructions[at].line;
    instr.block = m_graph.blocks[m_graph.block_of[m_index]].order;
    if (guarded && m_instruction->guard != ptx::k_no_reg) {
        instr.guard = m_slots.slot_of[m_copy_of[m_instruction->guard]];
        instr.flags |= instr_guarded | (m_instruction->guard_negated ? uint32_t{instr_guard_negated} : 0u);
        instr.fn = m_instruction->guard_negated ? &control::guard_not : &control::guard;
    }
    if (checks() != 0) m_body.sites.push_back(site_of(at));
    return instr;
}

/// For reports: what the programmer knows of the instruction.
check::Site BodyDecoder::site_of(uint32_t instruction) {
    check::Site site;
    if (instruction >= m_ptx.instructions.size()) return site;
    const ptx::Module& module = m_input.module;
    const ptx::Instruction& from = m_ptx.instructions[instruction];
    const std::string unit = m_input.function.unit < module.units.size() ? module.units[m_input.function.unit].name : "";
    site.id = check::next_site_id();
    site.opcode = name_of_instruction();
    if (m_readable_name.empty()) m_readable_name = check::readable_name(m_body.name);
    site.kernel = m_readable_name;
    site.ptx = log::format("{}:{}", unit.empty() ? "ptx" : unit, from.line);
    for (std::string_view modifier : m_modifiers) {
        uint32_t bytes = isa::type_info(modifier).bytes;
        if (bytes != 0) site.bytes = bytes;
    }
    for (uint32_t elements : {2, 4, 8}) {
        if (has("v" + std::to_string(elements))) site.bytes *= elements;
    }
    if (from.loc < m_ptx.locs.size()) {
        const ptx::Loc& loc = m_ptx.locs[from.loc];
        const std::string_view file = source_file(module, loc.file);
        if (!file.empty()) site.source = log::format("{}:{}", file, loc.line);
    }
    return site;
}

Instr& BodyDecoder::emit(Handler handler) { return append(handler, true); }

Handler BodyDecoder::handler(std::string_view name) {
    Handler found = m_registry.handler(name);
    if (found == nullptr) unsupported({});
    return found;
}

uint32_t BodyDecoder::new_range_cache() { return m_pass == Pass::analyse ? 0 : m_input.kernel.cache_count++; }

void* BodyDecoder::storage(size_t size_bytes) {
    m_body.storage.push_back(std::make_unique<std::byte[]>(size_bytes));
    return m_body.storage.back().get();
}

int32_t BodyDecoder::constant_row(uint64_t value, uint8_t width) {
    if (width < 8 && width > 0) value &= (1ull << (8 * width)) - 1;
    auto [entry, is_new] = m_constants.try_emplace({value, width}, 0);
    if (is_new) {
        m_constant_bytes += std::max<uint32_t>(64, width * k_warp_size);
        entry->second = -int32_t(m_constant_bytes);
    }
    return entry->second;
}

// Predicates are stored as width 0, which no register has.
int32_t BodyDecoder::constant_pred(bool value) { return constant_row(value ? k_full_mask : 0, 0); }

int32_t BodyDecoder::scratch(uint8_t width) {
    auto slot = int32_t(m_slots.frame_bytes + m_scratch);
    m_scratch += std::max<uint32_t>(64, width * k_warp_size);
    m_scratch_peak = std::max(m_scratch_peak, m_scratch);
    return slot;
}

std::string BodyDecoder::name_of_instruction() const {
    std::string name(ptx::to_string(m_instruction->opcode));
    for (std::string_view modifier : m_modifiers) name.append(".").append(modifier);
    return name;
}

void BodyDecoder::refuse(const std::string& why, bool is_invalid) {
    if (m_failed) return;
    m_failed = true;
    if (m_pass == Pass::analyse) return;
    const ptx::Module& module = m_input.module;
    std::string unit = m_input.function.unit < module.units.size() ? module.units[m_input.function.unit].name : std::string();
    std::string line =
        log::format("{}:{}: {}{}{}, in {}\n", unit.empty() ? "ptx" : unit, m_instruction->line, name_of_instruction(),
                    why.empty() ? "" : ": ", why.empty() ? " is not supported" : why, m_body.name);
    (is_invalid ? m_input.kernel.invalid : m_input.kernel.errors) += line;
    m_body.code.resize(m_code_mark);
    m_body.sites.resize(std::min(m_body.sites.size(), m_code_mark));
    append(&control::refused, true);
}

bool BodyDecoder::unsupported(std::string_view why) {
    refuse(why.empty() ? std::string() : std::string(why) + " is not supported", false);
    return false;
}

bool BodyDecoder::invalid(std::string_view why) {
    refuse(std::string(why), true);
    return false;
}

void BodyDecoder::finish() {
    m_body.frame_bytes = m_slots.frame_bytes + m_scratch_peak;
    m_body.peak_registers = m_slots.peak_registers;
    m_body.constants.resize(m_constant_bytes);
    m_body.constants_end = m_body.constants.data() + m_constant_bytes;
    for (auto& [key, slot] : m_constants) {
        auto [value, width] = key;
        std::byte* row = const_cast<std::byte*>(m_body.constants_end) + slot;
        size_t lane_bytes = std::min<size_t>(width, 8);
        if (width == 0) std::memcpy(row, &value, k_predicate_row_bytes);
        for (uint32_t lane = 0; lane < k_warp_size && width != 0; ++lane) std::memcpy(row + lane * width, &value, lane_bytes);
    }
    for (const Fixup& fixup : m_fixups) {
        const Instr* target = &m_body.code[m_block_start[fixup.block]];
        Instr& from = m_body.code[fixup.instruction];
        if (fixup.table != nullptr) {
            *fixup.table = target;
        } else {
            from.target = target;
        }
        if (m_graph.blocks[fixup.block].order <= from.block) from.flags |= instr_back_edge;
    }
    // Block numbers of the first instruction decide the order of fragments; an empty block shares its successor's instruction,
    // which then carries the successor's number: still a place where both can meet.
    for (uint32_t b = 0; b < m_graph.blocks.size(); ++b) m_body.code[m_block_start[b]].flags |= instr_leader;
    if (m_input.function.is_entry) return;
    auto param_slot = [this](ptx::RegId id, ptx::RegId param) {
        if (id != ptx::k_no_reg) return ParamSlot{m_slots.slot_of[id], m_lane_bytes[id]};
        return ParamSlot{m_slots.slot_of[param], m_lane_bytes[param]};
    };
    for (uint32_t i = 0; i < m_input.function.params.size(); ++i) {
        m_body.params.push_back(
            param_slot(i < m_ptx.param_regs.size() ? m_ptx.param_regs[i] : ptx::k_no_reg, m_first_param + i));
    }
    for (uint32_t i = 0; i < m_input.function.returns.size(); ++i) {
        m_body.returns.push_back(
            param_slot(i < m_ptx.return_regs.size() ? m_ptx.return_regs[i] : ptx::k_no_reg, m_first_return + i));
    }
}

void decode_body(const DecodeInput& input, Body& out) { BodyDecoder(input, out).run(); }

}  // namespace warpline::softgpu::exec
