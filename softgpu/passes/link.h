// Linking modules.
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "softgpu/ptx/ast.h"

namespace warpline::softgpu::passes {

struct LinkOptions {
    /// True for functions that the machine provides (vprintf, malloc …): they may stay without a definition.
    std::function<bool(std::string_view name)> is_provided;
};

struct LinkResult {
    std::unique_ptr<ptx::Module> module;  ///< null if anything was wrong
    ptx::Diagnostics diagnostics;         ///< Diagnostic::unit counts the units of all inputs in order
    int cu_result = 0;                    ///< 218 (invalid PTX) for unresolved, duplicate and contradictory symbols
};

/// Makes one module of several, at PTX level: what nvlink does with relocatable objects.
///
/// Of the definitions of a name the strong one wins, then a weak, then a common one (of several weak or common ones the first);
/// two strong ones are an error. Names that are private to a text and clash with others are renamed. Line tables and debug
/// sections are left out, because their numbers would clash. Bodies that were parsed already are parsed again when needed.
/// One module alone is a valid input: it comes back as it is, or its unresolved symbols are reported.
///
/// @thread any
LinkResult link(std::vector<std::unique_ptr<ptx::Module>> modules, const LinkOptions& options = {});

}  // namespace warpline::softgpu::passes
