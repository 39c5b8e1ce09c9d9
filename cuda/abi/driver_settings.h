#pragma once

// Environment variables that a CUDA driver reads when it starts and that change what it does for a program.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace warpline::cuda::abi {

/// The settings of a program's environment as bits; 0: all as the driver has them by itself. They stand in the preamble of a
/// connection, because a driver must know them before it starts (docs/session.md#start). Bits never change their meaning.
using DriverSettings = uint64_t;

constexpr DriverSettings k_eager_loading = 1u << 0;  ///< CUDA_MODULE_LOADING=EAGER
constexpr DriverSettings k_no_ptx_jit = 1u << 1;     ///< CUDA_DISABLE_PTX_JIT=1
constexpr DriverSettings k_no_jit = 1u << 2;         ///< CUDA_DISABLE_JIT=1
constexpr DriverSettings k_force_ptx_jit = 1u << 3;  ///< CUDA_FORCE_PTX_JIT=1
constexpr DriverSettings k_force_jit = 1u << 4;      ///< CUDA_FORCE_JIT=1
constexpr DriverSettings k_order_by_bus = 1u << 7;   ///< CUDA_DEVICE_ORDER=PCI_BUS_ID

/// Reads the variables of an environment. A value that means nothing is left out, as the driver does.
/// @param variable  the value of a variable, or null: std::getenv
DriverSettings read_driver_settings(const std::function<const char*(const char*)>& variable);

/// True if every bit means something.
bool are_driver_settings(DriverSettings settings);

/// The variables, with their values, that make a driver have these settings.
std::vector<std::pair<std::string, std::string>> variables_of(DriverSettings settings);

/// Code of a program that a driver with these settings takes.
constexpr bool takes_ptx(DriverSettings settings) { return (settings & (k_no_ptx_jit | k_no_jit)) == 0; }
constexpr bool takes_ptx_only(DriverSettings settings) { return (settings & (k_force_ptx_jit | k_force_jit)) != 0; }

}  // namespace warpline::cuda::abi
