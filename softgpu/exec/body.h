// What decoding makes of a PTX function body.
#pragma once

#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "softgpu/check/report.h"
#include "softgpu/exec/machine.h"
#include "softgpu/ptx/ast.h"

namespace warpline::softgpu::exec {

/// Zeroed bytes, aligned for vector loads.
class AlignedBytes {
public:
    static constexpr size_t k_alignment = 64;
    AlignedBytes() = default;
    explicit AlignedBytes(size_t size_bytes) { resize(size_bytes); }
    /// Replaces the contents by zeros.
    void resize(size_t size_bytes) {
        m_size = (size_bytes + k_alignment - 1) / k_alignment * k_alignment;
        m_bytes.reset(m_size == 0 ? nullptr : static_cast<std::byte*>(std::aligned_alloc(k_alignment, m_size)));
        if (m_size != 0 && m_bytes == nullptr) throw std::bad_alloc();
        if (m_size != 0) __builtin_memset(m_bytes.get(), 0, m_size);
    }
    std::byte* data() const { return m_bytes.get(); }
    size_t size() const { return m_size; }

private:
    struct Free {
        void operator()(std::byte* p) const { std::free(p); }
    };
    std::unique_ptr<std::byte, Free> m_bytes;
    size_t m_size = 0;
};

/// A region of a frame that holds a .param variable: 32 lanes of `size_bytes` each, one after the other. With a size of 4 or 8
/// that is the same as a register row.
struct ParamSlot {
    int32_t slot = 0;
    uint32_t size_bytes = 0;
};

/// A decoded body. Stable in memory from the moment the kernel's decoding begins, so that calls can point at it.
struct Body {
    std::string name;
    uint32_t function = 0;  ///< index in ptx::Module::functions
    bool is_entry = false;
    std::vector<Instr> code;
    AlignedBytes constants;
    const std::byte* constants_end = nullptr;
    uint32_t frame_bytes = 0;
    uint32_t local_bytes = 0;
    uint32_t peak_registers = 0;  ///< most 32-bit registers alive at once
    std::vector<ParamSlot> params, returns;
    std::vector<std::unique_ptr<std::byte[]>> storage;
    std::vector<check::Site> sites;  ///< by index of `code`, where something is checked; else empty
    std::vector<uint32_t> callees;   ///< indices of functions called directly
    bool calls_indirectly = false;
    bool uses_alloca = false;
    bool uses_printf = false;
};

/// Instr::extra of a call: where arguments and results lie in the caller's frame.
struct CallInfo {
    Body* callee = nullptr;  ///< null: indirect, op[1] is the row of code addresses
    uint32_t arg_count = 0, ret_count = 0;
    const ParamSlot* args = nullptr;
    const ParamSlot* rets = nullptr;
};

/// Instr::extra of brx.idx.
struct BranchTable {
    uint32_t count = 0;
    const Instr** targets = nullptr;
};

}  // namespace warpline::softgpu::exec
