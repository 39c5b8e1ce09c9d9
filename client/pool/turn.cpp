// A counter in a file.
#include "client/pool/turn.h"

#include <cstring>
#include <random>

#include "client/pool/user_file.h"

namespace warpline::client {

uint64_t next_turn() {
    uint64_t turn = std::random_device{}();
    auto file = UserFile::open("turn");
    if (!file.ok()) return turn;
    const std::string kept = file->read(sizeof turn);
    if (kept.size() == sizeof turn) std::memcpy(&turn, kept.data(), sizeof turn);
    const uint64_t following = turn + 1;
    file->write({reinterpret_cast<const char*>(&following), sizeof following});
    return turn;
}

}  // namespace warpline::client
