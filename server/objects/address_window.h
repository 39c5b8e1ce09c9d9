#pragma once

// The range of device addresses that client and worker both reserve.

#include <cstdint>

#include "common/base/result.h"
#include "server/driver/driver.h"

namespace warpline::server {

struct AddressWindow {
    uint64_t address = 0;
    uint64_t bytes = 0;
    uint64_t unused_bytes = 0;  ///< reserved behind it
};

/// Where a driver can be asked for addresses.
enum class AddressSpace : uint8_t {
    large,  ///< a process's own
    low,    ///< under WSL2 a hint of 2 TiB or more never returns (docs/driver-behaviour.md): only what lies below
};
/// What this machine's drivers allow.
AddressSpace address_space_of_this_machine();

/// Reserves a window, at the wanted address if the driver grants that, else at one that should be free on the client's side
/// too, else wherever the driver likes; smaller if it must be. A driver that does not honour hints is not asked again and
/// again: at most a dozen and a half of attempts are made.
///
/// @errors unsupported (this driver has no virtual memory management), alloc_failed (no such range, not even a small one)
Result<AddressWindow> reserve_address_window(const Driver& driver, AddressWindow wanted, AddressSpace space);
void release_address_window(const Driver& driver, AddressWindow window);

}  // namespace warpline::server
