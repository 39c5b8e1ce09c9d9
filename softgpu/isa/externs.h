// Functions that device code calls and that are not written in PTX.
#pragma once

#include <string_view>

#include "softgpu/isa/row.h"

namespace warpline::softgpu::isa {

/// Handler of a function that PTX calls without defining it: vprintf, malloc, free, __assertfail. Instr::extra is the CallInfo.
/// Null if there is none of that name with these numbers of parameters.
Handler extern_function(std::string_view name, uint32_t arg_count, uint32_t ret_count);

/// True if a function of that name may stay undefined in PTX.
bool is_extern_function(std::string_view name);

}  // namespace warpline::softgpu::isa
