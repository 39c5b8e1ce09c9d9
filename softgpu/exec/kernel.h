// Decoded kernels.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "softgpu/exec/body.h"
#include "softgpu/exec/slots.h"

namespace warpline::softgpu::exec {

/// Where a module's symbols lie once it is loaded.
struct ModuleLayout {
    std::vector<uint64_t> variable_address;  ///< by index of ptx::Module::variables; 0: none (shared, textures)
    uint64_t code_base = 0;                  ///< address of function 0; k_code_stride apart
    uint32_t checks = 0;                     ///< check::Check: what is decoded for checking
};
constexpr uint64_t k_code_stride = 16;

/// A kernel with everything that it can call, decoded: bodies, and the layout of its shared memory.
struct KernelCode {
    std::vector<std::unique_ptr<Body>> bodies;  ///< by index of ptx::Module::functions; null: not part of this kernel
    Body* entry = nullptr;
    uint32_t cache_count = 0;          ///< range caches of all bodies
    uint32_t static_shared_bytes = 0;  ///< as reported: variables with a known size
    uint32_t dynamic_shared_offset = 0;
    uint32_t local_bytes = 0;  ///< local memory of the deepest chain of calls; only the entry's if `open_stack`
    uint32_t peak_registers = 0;
    bool open_stack = false;  ///< recursion, indirect calls or alloca: the stack's depth is not known
    bool uses_printf = false;
    uint64_t code_base = 0;
    mutable std::atomic<bool> meets_denormals{false};  ///< relaxed: a hint for speed, set by any block that did
    std::string errors;                                ///< one line each: what is not supported
    std::string invalid;                               ///< what is wrong with the PTX

    /// Body of a code address; null if it is none of this module's functions.
    Body* body_at(uint64_t code_address) const;
};

/// Assigns offsets in shared memory, and knows them while bodies are decoded.
class SharedLayout {
public:
    /// System memory at the start of shared memory, which cooperative groups use (%reserved_smem_offset_begin … _end).
    static constexpr uint32_t k_reserved_bytes = 1024;

    /// Collects the shared variables that a kernel's functions name, then places them.
    void use_module_variable(const ptx::Module& module, uint32_t variable);
    void use_local_variable(const ptx::Variable& variable);
    void place();

    uint32_t offset_of(const ptx::Variable& variable) const;
    uint32_t static_bytes() const { return m_end - k_reserved_bytes; }
    uint32_t dynamic_offset() const { return m_dynamic; }

private:
    std::vector<const ptx::Variable*> m_order;
    std::map<const ptx::Variable*, uint32_t> m_offset;
    uint32_t m_end = k_reserved_bytes, m_dynamic = k_reserved_bytes;
};

/// What decoding one body needs to know about its kernel.
struct DecodeInput {
    const ptx::Module& module;
    const ptx::Function& function;
    const ptx::Body& body;
    const ModuleLayout& layout;
    const SharedLayout& shared;
    KernelCode& kernel;
};

/// Decodes one function's body into `out`. Instructions that are not supported become traps, and their messages go into
/// `kernel.errors`; wrong PTX goes into `kernel.invalid`.
void decode_body(const DecodeInput& input, Body& out);

/// Decodes a kernel and all that it can reach. Parses bodies that have not been parsed yet.
std::unique_ptr<KernelCode> decode_kernel(ptx::Module& module, uint32_t function, const ModuleLayout& layout);

}  // namespace warpline::softgpu::exec
