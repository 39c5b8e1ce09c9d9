// The free parts of a file.
#pragma once

#include <cstdint>
#include <map>

namespace warpline::softgpu::driver {

/// The parts of a file that nobody uses. Not thread-safe: the owner has a mutex.
class Pieces {
public:
    /// The first piece that is large enough, cut to size. False if there is none.
    bool take(uint64_t size_bytes, uint64_t* offset);
    /// Joined with its neighbours.
    void put(uint64_t offset, uint64_t size_bytes);

private:
    std::map<uint64_t, uint64_t> m_free;  // offset → bytes
};

}  // namespace warpline::softgpu::driver
