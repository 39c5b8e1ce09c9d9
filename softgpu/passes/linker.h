// The linker at work.
#pragma once

#include <string>
#include <unordered_map>
#include <unordered_set>

#include "softgpu/passes/link.h"

namespace warpline::softgpu::passes {

/// The work of link(), step by step. Until compact() symbols are numbered over the concatenation of all inputs.
class Linker {
public:
    Linker(std::vector<std::unique_ptr<ptx::Module>> modules, const LinkOptions& options, LinkResult& result)
        : m_inputs(std::move(modules)), m_options(options), m_result(result), m_out(*result.module) {}
    bool run();

private:
    /// What stands for a name that several texts may share.
    struct Winner {
        ptx::SymbolRef symbol;
        int strength = 0;  ///< 3 strong definition, 2 weak, 1 common, 0 declaration only
    };

    void concatenate();
    bool agree_on_target(const ptx::Module& input);
    void choose();
    void offer(std::string_view name, ptx::SymbolRef symbol, int strength);
    void check_agreement(ptx::SymbolRef winner, ptx::SymbolRef other);
    void redirect();
    void report_unresolved();
    void compact();
    void rename_private();
    std::string_view unique_name(std::string_view name);
    void arrange();
    void place_variable(uint32_t index);
    uint32_t declare(uint32_t function);

    bool is_shared_name(ptx::SymbolRef symbol) const;
    int strength_of(ptx::SymbolRef symbol) const;
    std::string_view name_of(ptx::SymbolRef symbol) const;
    ptx::SymbolRef moved(ptx::SymbolRef symbol) const;
    void error(ptx::SymbolRef where, std::string text);

    std::vector<std::unique_ptr<ptx::Module>> m_inputs;
    const LinkOptions& m_options;
    LinkResult& m_result;
    ptx::Module& m_out;
    std::unordered_map<std::string_view, Winner> m_winners;
    std::vector<bool> m_keep_variable, m_keep_function;
    std::vector<uint32_t> m_new_variable, m_new_function;  ///< index after compact(); UINT32_MAX for what was dropped
    std::unordered_set<std::string_view> m_taken;
    std::vector<uint8_t> m_placed;  ///< by variable: 0 not yet, 1 begun, 2 done
};

}  // namespace warpline::softgpu::passes
