// Writing PTX.
#pragma once

#include <string>

#include "softgpu/ptx/ast.h"

namespace warpline::softgpu::ptx {

/// PTX text of a module: what an assembler makes of it is what it makes of the text that was parsed. Bodies that parse_body()
/// has not read are copied as they stand, so a linked module wants all of its bodies read.
///
/// @thread any, while nobody changes the module
std::string print(const Module& module);

/// The text of one instruction without its semicolon, for messages and traces.
std::string print(const Module& module, const Function& function, const Instruction& instruction);

/// The name of a register as the body spells it: "%r12".
std::string register_name(const Function& function, RegId reg);

}  // namespace warpline::softgpu::ptx
