// Device memory in pieces.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "softgpu/exec/rounding.h"

namespace warpline::softgpu::driver {

/// Where a heap takes memory from, in chunks.
class ChunkSource {
public:
    /// Zero-filled memory, aligned to k_chunk_bytes, of a multiple of it; 0 if the device has no more.
    virtual uint64_t take_chunk(uint64_t size_bytes) = 0;
    virtual void give_chunk(uint64_t address, uint64_t size_bytes) = 0;

protected:
    ~ChunkSource() = default;
};

/// The granule of device memory, as on NVIDIA's devices.
inline constexpr uint64_t k_chunk_bytes = uint64_t{2} << 20;

/// Device memory in pieces: small ones share chunks, large ones have their own. Any thread may call.
class Heap {
public:
    explicit Heap(ChunkSource& source) : m_source(source) {}

    /// 0 if there is no memory. Aligned to 512 bytes.
    uint64_t allocate(uint64_t size_bytes);
    /// The address must come from allocate(). Chunks that become empty go back to the source as long as more than `keep_bytes`
    /// would remain.
    void free(uint64_t address, uint64_t keep_bytes);
    /// Gives back empty chunks until at most `keep_bytes` are held, or none is left that is empty.
    void trim(uint64_t keep_bytes);

    /// The chunk of an allocation, whose bytes other processes may see from now on: what is freed in it is not allocated again,
    /// because they may still use it. It goes back to the source as soon as nothing in it is used. False: no such allocation.
    bool share(uint64_t address, uint64_t* chunk, uint64_t* chunk_bytes);

    uint64_t reserved_bytes() const;
    uint64_t used_bytes() const;

private:
    struct Chunk {
        uint64_t size_bytes = 0;
        uint64_t used_bytes = 0;
        bool shared = false;
    };
    using Chunks = std::map<uint64_t, Chunk>;
    Chunks::iterator chunk_of(uint64_t address) WL_REQUIRES(m_mutex);
    void add_free(uint64_t address, uint64_t size_bytes) WL_REQUIRES(m_mutex);
    void remove_free(uint64_t address, uint64_t size_bytes) WL_REQUIRES(m_mutex);
    void trim_locked(uint64_t keep_bytes, std::vector<std::pair<uint64_t, uint64_t>>& given) WL_REQUIRES(m_mutex);
    void join_free(Chunks::iterator chunk, uint64_t address, uint64_t size_bytes) WL_REQUIRES(m_mutex);
    void free_shared(Chunks::iterator chunk, std::vector<std::pair<uint64_t, uint64_t>>& given) WL_REQUIRES(m_mutex);
    void give(const std::vector<std::pair<uint64_t, uint64_t>>& chunks);

    ChunkSource& m_source;
    mutable Mutex m_mutex;
    Chunks m_chunks WL_GUARDED_BY(m_mutex);
    std::map<uint64_t, uint64_t> m_free WL_GUARDED_BY(m_mutex);                     // address → bytes
    std::set<std::pair<uint64_t, uint64_t>> m_free_by_size WL_GUARDED_BY(m_mutex);  // (bytes, address)
    std::unordered_map<uint64_t, uint64_t> m_used WL_GUARDED_BY(m_mutex);           // address → bytes
    uint64_t m_reserved_bytes WL_GUARDED_BY(m_mutex) = 0;
    uint64_t m_used_bytes WL_GUARDED_BY(m_mutex) = 0;
};

}  // namespace warpline::softgpu::driver
