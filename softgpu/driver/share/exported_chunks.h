// Memory of cuMemAlloc that other processes may map.
#pragma once

#include <cstdint>
#include <map>

#include "common/base/mutex.h"
#include "softgpu/driver/share/shared_file.h"

namespace warpline::softgpu::driver {

/// The chunks of cuMemAlloc's memory that other processes may map. Any thread may call.
class ExportedChunks {
public:
    /// Moves a chunk's bytes into a file that is mapped in place of them; the same file every time after the first. Nothing of
    /// the device runs meanwhile. Null if the machine refuses.
    ///
    /// @blocks until the kernels and copies that are running have ended
    SharedFilePtr share(const SharedOwner& owner, uint64_t chunk, uint64_t size_bytes);
    /// The chunk's addresses are given back. Processes that have mapped it keep its bytes.
    void forget(uint64_t chunk);

private:
    Mutex m_mutex;
    std::map<uint64_t, SharedFilePtr> m_files WL_GUARDED_BY(m_mutex);  // by address of the chunk
};

}  // namespace warpline::softgpu::driver
