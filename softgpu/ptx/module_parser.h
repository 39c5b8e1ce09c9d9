// Parsing at module level.
#pragma once

#include "softgpu/ptx/declarations.h"

namespace warpline::softgpu::ptx {

/// Reads the module level of a text into a Module whose only unit holds that text.
class ModuleParser : public DeclarationReader {
public:
    ModuleParser(Module& module, Diagnostics& diagnostics)
        : DeclarationReader(*module.units[0].text, {1, 1}, diagnostics, module, 0), m_module(module) {}

    /// False if anything was wrong; the messages say what.
    bool run();

private:
    bool statement();
    void next_statement();
    bool version();
    bool target();
    bool target_word(std::string_view word);
    bool architecture(std::string_view word);
    bool address_size();
    bool file();
    bool section();
    bool pragma();
    bool alias();
    bool linked();
    bool variables(Linkage linkage);
    bool add_variable(Variable variable);
    bool function(Linkage linkage);
    bool tuning(Function& function);
    bool tuning_word(Function& function, std::string_view word);
    bool numbers(std::array<uint32_t, 3>& values, uint8_t& count);
    bool function_pragma(Function& function);
    bool body_extent(Function& function);
    bool add_function(Function function);
    bool resolve_addresses();

    Module& m_module;
    bool m_has_version = false, m_has_target = false;
    bool m_stop = false;
};

}  // namespace warpline::softgpu::ptx
