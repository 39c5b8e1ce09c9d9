// The addresses of device memory, as this process keeps them free.
#pragma once

#include <cstdint>

namespace warpline::client {

/// A range of this process's addresses that no memory of its own can have: device addresses are taken from it, so that a
/// pointer tells by itself which side it belongs to (docs/session.md, Start).
struct AddressWindow {
    uint64_t base = 0;
    uint64_t size_bytes = 0;
};

/// Reserves the largest of the usual ranges that is free. size_bytes is 0 if there is none.
///
/// @param skip  how many of the free ones to pass over, because the server could not have them
AddressWindow reserve_window(unsigned skip);

/// Reserves exactly this range. False if some of it is in use.
bool reserve_window_at(const AddressWindow& window);

/// Keeps a range of addresses that the server has chosen free of the program's own memory, so that pointers tell where they
/// point; in steps of 2 MiB, and as long as the process lives. False if the program has something there.
/// @thread  any
bool claim_server_range(uint64_t address, uint64_t size_bytes);

void release_window(const AddressWindow& window);

}  // namespace warpline::client
