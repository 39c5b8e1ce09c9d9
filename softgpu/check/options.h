// The checkers of SOFTGPU_CHECK (docs/softgpu-checkers.md).
#pragma once

#include <cstdint>
#include <string_view>

namespace warpline::softgpu::check {

enum Check : uint32_t {
    check_memory = 1,  ///< accesses outside of allocations, exact to the byte
    check_race = 2,    ///< accesses to shared memory that nothing orders
    check_init = 4,    ///< reads of memory that nobody has written
    check_leak = 8,    ///< allocations that are never freed
};

/// The checks that instrument kernels.
constexpr uint32_t k_kernel_checks = check_memory | check_race | check_init;

struct ParsedChecks {
    uint32_t checks = 0;
    std::string_view unknown;  ///< the first word that names no check
};

/// A list of names, separated by commas.
ParsedChecks parse_checks(std::string_view text);

}  // namespace warpline::softgpu::check
