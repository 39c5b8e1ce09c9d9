// Green contexts: parts of a device's multiprocessors, and the streams that have them.
#pragma once

#include <atomic>
#include <bitset>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/base/mutex.h"
#include "cuda/abi/cuda_types.h"
#include "cuda/abi/dev_resource.h"
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
    uint64_t split = 0;        ///< number of the split that it comes from; 0: none
    bool rest = false;         ///< what that split left over
    unsigned alignment = 0;    ///< how many of them run together; 0: as the device has it
    unsigned group_flags = 0;  ///< of the group of the split
    unsigned named_again = 0;  ///< how many more are told: parts that overlap add up (DB-65)
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

/// Groups of the sizes that are asked for, one after another; a size of 0 is found out, and told.
///
/// @param parameters  of each group; sizes are filled in if all could be had
/// @param discover    nothing is to be made of it: a group may be empty
/// @errors            invalid value; invalid resource configuration: it is a group of a split, or has too few
/// @source CUDA Driver API 13.1, Green Contexts, cuDevSmResourceSplit
CUresult split_into(const SmResource& input, std::span<CU_DEV_SM_RESOURCE_GROUP_PARAMS> parameters, bool discover,
                    SmSplit& result);

/// How many streams work at a time, as far as programs are told: streams here run on whatever processors are free.
struct Workqueues {
    cuda::abi::WorkqueueConfig config;
    uint64_t of = 0;  ///< id of the context that they are of; 0: made for whoever asks
};
/// Those of a device that nothing has set up otherwise (CUDA_DEVICE_MAX_CONNECTIONS).
Workqueues usual_workqueues(const Device& device);
CUdevResource as_workqueue_config(const Workqueues& queues);
CUdevResource as_workqueue(const Workqueues& queues);
/// @errors  invalid value
CUresult read_workqueues(const CUdevResource& from, Workqueues& queues);

/// What cuDevResourceGenerateDesc makes.
struct ResourceDescriptor {
    SmResource resource;
    Workqueues workqueues;
};

/// A green context. Its streams are the primary context's, and run kernels on its multiprocessors alone.
class GreenContext : public std::enable_shared_from_this<GreenContext> {
public:
    GreenContext(std::shared_ptr<Context> primary, const ResourceDescriptor& described);

    const std::shared_ptr<Context>& primary() const { return m_primary; }
    const SmResource& resource() const { return m_described.resource; }
    const Workqueues& workqueues() const { return m_described.workqueues; }
    uint64_t id() const { return m_id; }
    CUgreenCtx handle() const { return m_handle; }
    /// What cuCtxFromGreenCtx gives: the same handle (DB-65).
    CUcontext context_handle() const { return reinterpret_cast<CUcontext>(m_handle); }
    void set_handle(CUgreenCtx handle) { m_handle = handle; }
    /// Their numbers (%smid), in order.
    const std::vector<uint32_t>& multiprocessors() const { return m_multiprocessors; }

    bool alive() const { return m_alive.load(std::memory_order_acquire); }
    /// It is destroyed: its streams are good for nothing any more.
    void end() WL_EXCLUDES(m_mutex);

    // While it is current.
    /// Its default stream, made at its first use.
    std::shared_ptr<Stream> legacy_stream() WL_EXCLUDES(m_mutex);
    /// The calling thread's own default stream.
    std::shared_ptr<Stream> per_thread_stream() WL_EXCLUDES(m_mutex);
    /// Waits for what its streams have been given; sticky error of the context.
    CUresult synchronise() WL_EXCLUDES(m_mutex);

    /// All work that its streams are given from now on waits for a fence, also that of streams that it does not have yet.
    void hold_until(const FencePtr& fence) { m_streams.hold_until(fence); }

    /// A stream of its own, which is its primary context's as well.
    void own_stream(const std::shared_ptr<Stream>& stream);
    /// Those that can be used.
    std::vector<std::shared_ptr<Stream>> streams() const;

private:
    const std::shared_ptr<Context> m_primary;
    const ResourceDescriptor m_described;
    const uint64_t m_id;
    const std::vector<uint32_t> m_multiprocessors;
    CUgreenCtx m_handle = nullptr;
    std::atomic<bool> m_alive{true};
    OwnedStreams m_streams;
    mutable Mutex m_mutex;
    std::shared_ptr<Stream> m_legacy WL_GUARDED_BY(m_mutex);  // has us: given up by end()
};
using GreenContextPtr = std::shared_ptr<GreenContext>;

/// The fences of all that its streams have been given.
std::vector<FencePtr> work_of(const GreenContext& green);

}  // namespace warpline::softgpu::driver
