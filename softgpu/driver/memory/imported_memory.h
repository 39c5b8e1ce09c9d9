// Memory of other processes.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>

#include "common/base/mutex.h"
#include "softgpu/driver/share/shared_file.h"
#include "softgpu/driver/space/address_map.h"

namespace warpline::softgpu::driver {

class Device;

/// Maps a part of another process's file and makes it known as memory of a device, to copies and to kernels. `described` says
/// kind, device and what else there is to say. Errors: invalid value (beyond the file's end), out of memory.
CUresult map_imported(const SharedFile& file, uint64_t offset, uint64_t size_bytes, const AllocationPtr& described);
/// Takes it back. It is in the map of addresses no more, and nobody may use it: the caller has waited.
void unmap_imported(const Allocation& allocation);

/// What a CUipcMemHandle holds.
struct ExportedMemory {
    static constexpr uint64_t k_magic = 0x316d656d'6370496c;
    uint64_t magic = k_magic;
    int32_t pid = 0, fd = -1;
    SharedId file{};
    uint64_t offset = 0, size_bytes = 0;
    uint64_t allocation = 0;  ///< tells memory from what was at its address before
    uint64_t reserved = 0;
};
static_assert(sizeof(ExportedMemory) == sizeof(CUipcMemHandle));

/// The memory that cuIpcOpenMemHandle has mapped. One per process; any thread may call.
class ImportedMemory {
public:
    static ImportedMemory& instance();

    /// What is to be made of memory that is open already: one more use of its mapping is counted, or it is refused.
    enum class Again { counted, refused };
    /// Maps the memory for a context of a device. Errors: invalid handle (the exporter has ended, or the bytes are no handle),
    /// invalid context (the memory is this process's own), map failed, already mapped.
    CUresult open(const ExportedMemory& exported, const Device& accessor, CUcontext owner, Again again, uint64_t* address);
    /// Counts one use less. True in `last` if it was the last one: the mapping is to be closed. Error: invalid value.
    CUresult release(uint64_t address, bool* last);
    /// Takes a mapping away that is in the map of addresses no more.
    void close(const Allocation& allocation);

private:
    using Key = std::array<uint64_t, 5>;  // file, offset, allocation, context
    struct Opened {
        uint64_t address = 0;
        uint32_t uses = 0;
        int accessor = 0, owner = 0;  // devices: the context's, and the memory's
    };
    Mutex m_mutex;
    std::map<Key, Opened> m_opened WL_GUARDED_BY(m_mutex);
};

}  // namespace warpline::softgpu::driver
