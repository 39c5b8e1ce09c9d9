// Which PTX a driver compiles: each release of CUDA has its version of the language, and a driver takes those up to its own.
#pragma once

#include <cstdint>
#include <string_view>

namespace warpline::cuda::image {

/// 10 × major + minor of what follows .version, which is one word: "9.0"; 0 if it is none.
uint32_t parse_ptx_version(std::string_view word);

/// 10 × major + minor of a text's .version, as 90; 0 if it does not begin with one. Reads no further.
uint32_t ptx_version(std::string_view text);

/// The newest PTX that the driver of a CUDA version (12040) compiles. UINT32_MAX for drivers that came after this was written.
///
/// @source  PTX ISA, Release Notes
uint32_t newest_ptx_version(int driver_version);

}  // namespace warpline::cuda::image
