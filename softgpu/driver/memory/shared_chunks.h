// Where a shared pool's memory comes from.
#pragma once

#include <cstdint>
#include <map>

#include "common/base/mutex.h"
#include "softgpu/driver/share/shared_file.h"
#include "softgpu/driver/space/heap.h"
#include "softgpu/driver/space/pieces.h"

namespace warpline::softgpu::driver {

class Device;

/// Chunks of device memory that other processes can map, all in one file: that of a pool with handles. Any thread may call.
class SharedChunks final : public ChunkSource {
public:
    SharedChunks(Device& device, SharedFilePtr file);

    const SharedFilePtr& file() const { return m_file; }
    /// Where in the file a byte lies. False if it is in no chunk of this source.
    bool offset_of(uint64_t address, uint64_t* offset) const;

    uint64_t take_chunk(uint64_t size_bytes) override;
    void give_chunk(uint64_t address, uint64_t size_bytes) override;

private:
    struct Chunk {
        uint64_t offset = 0, size_bytes = 0;
    };

    Device& m_device;
    const SharedFilePtr m_file;
    mutable Mutex m_mutex;
    Pieces m_free WL_GUARDED_BY(m_mutex);
    std::map<uint64_t, Chunk> m_chunks WL_GUARDED_BY(m_mutex);  // by address
};

}  // namespace warpline::softgpu::driver
