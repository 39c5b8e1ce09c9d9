// Whose turn it is, among the programs of a user on a machine.
#pragma once

#include <cstdint>

namespace warpline::client {

/// A number that grows by one with each program that asks, kept in a small file of the user's ($XDG_RUNTIME_DIR, else /tmp).
/// By chance where there can be no such file, or another program does not give it. @blocks as UserFile::open()
uint64_t next_turn();

}  // namespace warpline::client
