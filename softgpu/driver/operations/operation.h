// What streams and graphs execute, as values: a captured call, an explicit node and an immediate call are the same thing.
#pragma once

#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "common/base/bytes.h"
#include "cuda/abi/cuda_types.h"
#include "softgpu/driver/context/stream.h"
#include "softgpu/exec/api.h"

namespace warpline::softgpu::driver {

class ArrayObject;
class Device;
class Event;
class Function;
class GreenContext;
class LoadedFunction;
class MemoryPool;

/// A kernel launch. Parameters are copied at the call.
struct KernelOperation {
    std::shared_ptr<LoadedFunction> function;  // shared: may run after its module was unloaded
    CUfunction handle = nullptr;               ///< as the program named it
    exec::Dim3 grid, block, cluster;
    uint32_t dynamic_shared_bytes = 0;
    bool cooperative = false;
    std::shared_ptr<const GreenContext> green;  ///< on whose multiprocessors it runs; null: on all
    Bytes params;
    std::vector<CUlaunchAttribute> attributes;  ///< as given, for the calls that ask
};

/// One side of a copy: rows of memory of the process, be they of host, device or an array.
struct CopySide {
    uint8_t* base = nullptr;  ///< of the first row that is copied
    uint64_t row_pitch_bytes = 0, slice_pitch_bytes = 0;
    std::shared_ptr<ArrayObject> array;  ///< keeps an array's memory
    uint64_t known_bytes = 0;            ///< from base on, of memory that the driver knows; 0 for pageable memory and arrays
    const Device* named = nullptr;       ///< of the context that the program named for this side; null: the stream's device
};
struct CopyOperation {
    CopySide from, to;
    uint64_t width_bytes = 0, height = 1, depth = 1;
    CUDA_MEMCPY3D described{};  ///< as the program described it, for cuGraphMemcpyNodeGetParams
};

inline bool is_one_dimensional(const CopyOperation& copy) { return copy.height <= 1 && copy.depth <= 1; }
/// From the same rows to the same rows.
bool is_same_copy(const CopyOperation& a, const CopyOperation& b);

struct MemsetOperation {
    CUDA_MEMSET_NODE_PARAMS params{};
};

struct HostOperation {
    CUhostFn function = nullptr;
    void* user = nullptr;
};

struct EventRecordOperation {
    std::shared_ptr<Event> event;
    CUevent handle = nullptr;
};
struct EventWaitOperation {
    std::shared_ptr<Event> event;
    CUevent handle = nullptr;
};

struct BatchMemoryOperation {
    std::vector<CUstreamBatchMemOpParams> operations;
    uint32_t flags = 0;
};

/// As many operations of the same types.
bool is_alike(const BatchMemoryOperation& a, const BatchMemoryOperation& b);

/// Memory of a graph or of a pool that ends here.
struct MemoryFreeOperation {
    CUdeviceptr address = 0;
};

using Operation = std::variant<KernelOperation, CopyOperation, MemsetOperation, HostOperation, EventRecordOperation,
                               EventWaitOperation, BatchMemoryOperation, MemoryFreeOperation>;

/// Executes an operation on the calling thread. Failures become the context's sticky error: those of kernels, and memory that
/// was freed between the call and now.
void execute(Context& context, const KernelOperation& operation, uint64_t stream_id);
void execute(Context& context, const CopyOperation& operation);
void execute(Context& context, const MemsetOperation& operation);
void execute(Context& context, const BatchMemoryOperation& operation);

/// The same of a host function: nothing in a failed context, unless the profile says otherwise (DB-01).
void execute(Context& context, const HostOperation& operation);

}  // namespace warpline::softgpu::driver
