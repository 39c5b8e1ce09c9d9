// What a cubin's description says, in the form of a module.
#include "softgpu/driver/code/dry_module.h"

#include <algorithm>
#include <map>

#include "cuda/image/image_info.h"

namespace warpline::softgpu::driver {

namespace {

constexpr uint32_t k_guessed_registers = 32;

class DryFunction final : public exec::Function {
public:
    DryFunction(const cuda::image::Kernel& kernel, uint32_t arch) {
        m_info.name = kernel.name;
        for (const cuda::image::Param& param : kernel.params) {
            m_info.params.push_back({param.offset_bytes, param.size_bytes, 1});
            m_info.param_bytes = std::max(m_info.param_bytes, param.offset_bytes + param.size_bytes);
        }
        m_info.param_bytes = std::max(m_info.param_bytes, kernel.param_bytes);
        m_info.static_shared_bytes = kernel.static_shared_bytes;
        m_info.local_bytes = kernel.local_bytes;
        m_info.const_bytes = kernel.constant_bytes;
        m_info.registers = kernel.registers != 0 ? kernel.registers : k_guessed_registers;
        if (uint32_t bound = kernel.max_threads_per_block()) m_info.max_threads = bound;
        m_info.required_threads = kernel.required_threads;
        m_info.required_cluster = kernel.cluster;
        m_info.ptx_version = arch;
    }

    const exec::FunctionInfo& info() const override { return m_info; }
    exec::ModuleError ensure_ready() override { return {}; }

private:
    exec::FunctionInfo m_info;
};

class DryModule final : public exec::Module {
public:
    DryModule(exec::Memory& memory, const cuda::image::ImageInfo& info, std::shared_ptr<exec::ManagedPlaces> managed)
        : m_memory(memory), m_managed(std::move(managed)) {
        for (const auto& kernel : info.kernels) m_functions[kernel.name] = std::make_shared<DryFunction>(kernel, info.arch);
    }
    ~DryModule() override {
        for (const exec::GlobalInfo& global : m_globals) {
            if (global.managed) continue;
            (void)m_memory.remove_range(global.address, global.size_bytes);
            (void)m_memory.unmap(global.address, global.size_bytes);
            (void)m_memory.release(global.address, global.size_bytes);
        }
    }

    bool add_globals(const cuda::image::ImageInfo& info) {
        constexpr uint64_t k_alignment_bytes = 256;
        std::vector<exec::ManagedVariable> managed;
        for (const cuda::image::Global& wanted : info.globals) {
            if (wanted.external || wanted.size_bytes == 0) continue;
            if (wanted.managed) {
                managed.push_back({wanted.name, wanted.size_bytes, k_alignment_bytes});
                continue;
            }
            auto address = m_memory.reserve(wanted.size_bytes, k_alignment_bytes, 0);
            if (!address || !m_memory.map(*address, wanted.size_bytes) || !m_memory.add_range(*address, wanted.size_bytes)) {
                return false;
            }
            bool constant = wanted.space == cuda::image::Space::constant;
            m_globals.push_back({wanted.name, *address, wanted.size_bytes, false, constant});
        }
        if (!managed.empty() && !m_managed->place(managed)) return false;
        for (const exec::ManagedVariable& one : managed)
            m_globals.push_back({std::string(one.name), one.address, one.size_bytes, true, false});
        return true;
    }

    std::shared_ptr<exec::Function> function(std::string_view name) override {
        auto found = m_functions.find(name);
        return found != m_functions.end() ? found->second : nullptr;
    }
    std::vector<std::string> function_names() const override {
        std::vector<std::string> names;
        for (const auto& [name, function] : m_functions) names.push_back(name);
        return names;
    }
    const exec::GlobalInfo* global(std::string_view name) const override {
        auto found =
            std::find_if(m_globals.begin(), m_globals.end(), [name](const auto& global) { return global.name == name; });
        return found != m_globals.end() ? &*found : nullptr;
    }
    std::vector<exec::GlobalInfo> globals() const override { return m_globals; }
    std::vector<std::string> texrefs() const override { return {}; }

private:
    exec::Memory& m_memory;
    const std::shared_ptr<exec::ManagedPlaces> m_managed;
    std::map<std::string, std::shared_ptr<DryFunction>, std::less<>> m_functions;
    std::vector<exec::GlobalInfo> m_globals;
};

}  // namespace

std::shared_ptr<exec::Module> make_dry_module(exec::Memory& memory, const cuda::image::ImageInfo& info,
                                              std::shared_ptr<exec::ManagedPlaces> managed) {
    auto module = std::make_shared<DryModule>(memory, info, std::move(managed));
    return module->add_globals(info) ? module : nullptr;
}

}  // namespace warpline::softgpu::driver
