// Green contexts: parts of a device's multiprocessors, and the streams that have them.
#pragma once

#include <atomic>
#include <bitset>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/mutex.h"
#include "cuda/abi/cuda_types.h"
#include "softgpu/driver/context/context.h"

namespace warpline::softgpu::driver {

class Stream;

/// How many multiprocessors can be divided; devices with more keep the rest to themselves.
inline constexpr size_t k_divisible_multiprocessors = 512;
using MultiprocessorSet = std::bitset<k_divisible_multiprocessors>;

/// Some multiprocessors of a device, as a resource says it.
struct SmResource {
    int device = 0;
    MultiprocessorSet set;
    uint64_t split = 0;  ///< number of the split that it comes from; 0: none
};

/// All of a device.
SmResource whole_device(const Device& device);
/// In the form of the driver's interface; one without multiprocessors is invalid there.
CUdevResource as_resource(const SmResource& resource);
/// @errors  invalid resource type; invalid value: its inside is not as it was given
CUresult read_resource(const CUdevResource& from, SmResource& resource);

/// Symmetrical parts of at least as many multiprocessors as are asked for, in the steps that the device's compute capability
/// allows. @source CUDA Driver API 13.0, Green Contexts, cuDevSmResourceSplitByCount
struct SmSplit {
    std::vector<SmResource> groups;
    SmResource rest;
};
/// @param most  how many groups at most
/// @errors      invalid value; invalid resource configuration: it is the result of a split, or has too few
CUresult split(const SmResource& input, unsigned most, unsigned flags, unsigned least_count, SmSplit& result);

/// What cuDevResourceGenerateDesc makes.
struct ResourceDescriptor {
    SmResource resource;
};

/// A green context. Its streams are the primary context's, and run kernels on its multiprocessors alone.
class GreenContext {
public:
    GreenContext(std::shared_ptr<Context> primary, const SmResource& resource);

    const std::shared_ptr<Context>& primary() const { return m_primary; }
    const SmResource& resource() const { return m_resource; }
    uint64_t id() const { return m_id; }
    CUgreenCtx handle() const { return m_handle; }
    void set_handle(CUgreenCtx handle) { m_handle = handle; }
    /// Their numbers (%smid), in order.
    const std::vector<uint32_t>& multiprocessors() const { return m_multiprocessors; }

    bool alive() const { return m_alive.load(std::memory_order_acquire); }
    /// It is destroyed: its streams are good for nothing any more.
    void end() { m_alive.store(false, std::memory_order_release); }

    void own_stream(const std::shared_ptr<Stream>& stream) WL_EXCLUDES(m_mutex);
    std::vector<std::shared_ptr<Stream>> streams() const WL_EXCLUDES(m_mutex);

private:
    const std::shared_ptr<Context> m_primary;
    const SmResource m_resource;
    const uint64_t m_id;
    const std::vector<uint32_t> m_multiprocessors;
    CUgreenCtx m_handle = nullptr;
    std::atomic<bool> m_alive{true};
    mutable Mutex m_mutex;
    std::vector<std::weak_ptr<Stream>> m_streams WL_GUARDED_BY(m_mutex);
};
using GreenContextPtr = std::shared_ptr<GreenContext>;

}  // namespace warpline::softgpu::driver
