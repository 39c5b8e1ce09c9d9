// Which multiprocessors a green context has, and how resources are divided.
#include "softgpu/driver/context/green_context.h"

#include <algorithm>
#include <cstring>

#include "softgpu/driver/context/stream.h"
#include "softgpu/driver/device/device.h"
#include "softgpu/driver/process/process.h"

namespace warpline::softgpu::driver {

namespace {

/// How a device's multiprocessors can be divided.
struct Steps {
    unsigned least, multiple;
};

Steps steps_of(const Device& device) {
    const int major = device.attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    if (major >= 9) return {8, 8};
    return major == 8 ? Steps{4, 2} : Steps{2, 2};
}

/// What a resource has inside: bytes that programs carry about and do not look at.
struct Inside {
    uint64_t mark = 0;
    uint64_t split = 0;
    int32_t device = 0;
    uint32_t words[k_divisible_multiprocessors / 32] = {};
};
constexpr uint64_t k_mark = 0x31736d5365726157;
static_assert(sizeof(Inside) <= sizeof(CUdevResource::_internal_padding));

std::atomic<uint64_t> g_splits{0}, g_green_contexts{0};

std::vector<uint32_t> numbers_of(const MultiprocessorSet& set) {
    std::vector<uint32_t> numbers;
    for (size_t i = 0; i < set.size(); ++i) {
        if (set[i]) numbers.push_back(static_cast<uint32_t>(i));
    }
    return numbers;
}

}  // namespace

SmResource whole_device(const Device& device) {
    SmResource resource;
    resource.device = device.ordinal();
    const auto count = static_cast<size_t>(device.attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
    for (size_t i = 0; i < std::min(count, resource.set.size()); ++i) resource.set.set(i);
    return resource;
}

CUdevResource as_resource(const SmResource& resource) {
    CUdevResource out{};
    if (resource.set.none()) return out;
    const Device* device = process().device(resource.device);
    const Steps steps = device != nullptr ? steps_of(*device) : Steps{1, 1};
    Inside inside;
    inside.mark = k_mark;
    inside.split = resource.split;
    inside.device = resource.device;
    for (size_t i = 0; i < resource.set.size(); ++i) {
        if (resource.set[i]) inside.words[i / 32] |= 1u << i % 32;
    }
    std::memcpy(out._internal_padding, &inside, sizeof inside);
    out.type = CU_DEV_RESOURCE_TYPE_SM;
    out.sm.smCount = static_cast<unsigned>(resource.set.count());
    out.sm.minSmPartitionSize = steps.least;
    out.sm.smCoscheduledAlignment = steps.multiple;
    return out;
}

CUresult read_resource(const CUdevResource& from, SmResource& resource) {
    if (from.type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    Inside inside;
    std::memcpy(&inside, from._internal_padding, sizeof inside);
    const Device* device = inside.mark == k_mark ? process().device(inside.device) : nullptr;
    if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
    resource.device = inside.device;
    resource.split = inside.split;
    resource.set.reset();
    for (size_t i = 0; i < resource.set.size(); ++i) resource.set[i] = (inside.words[i / 32] >> i % 32 & 1) != 0;
    const MultiprocessorSet beyond = resource.set & ~whole_device(*device).set;
    return beyond.none() && resource.set.any() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult split(const SmResource& input, unsigned most, unsigned flags, unsigned least_count, SmSplit& result) {
    constexpr unsigned k_alone = CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING;
    constexpr unsigned k_clusters = CU_DEV_SM_RESOURCE_SPLIT_MAX_POTENTIAL_CLUSTER_SIZE;
    const Device& device = *process().device(input.device);
    Steps steps = steps_of(device);
    if ((flags & ~(k_alone | k_clusters)) != 0 || least_count > input.set.count()) return CUDA_ERROR_INVALID_VALUE;
    if ((flags & k_clusters) != 0 && steps.multiple < 8) return CUDA_ERROR_INVALID_VALUE;
    if ((flags & k_alone) != 0) steps = {2, 2};
    if (input.split != 0) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    const size_t wanted = std::max(least_count, steps.least);
    const size_t each = (wanted + steps.multiple - 1) / steps.multiple * steps.multiple;
    const std::vector<uint32_t> numbers = numbers_of(input.set);
    const size_t groups = std::min<size_t>(numbers.size() / each, most);
    if (groups == 0) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    SmResource part;
    part.device = input.device;
    part.split = g_splits.fetch_add(1) + 1;
    result.groups.assign(groups, part);
    result.rest = part;
    for (size_t i = 0; i < numbers.size(); ++i) {
        SmResource& owner = i < groups * each ? result.groups[i / each] : result.rest;
        owner.set.set(numbers[i]);
    }
    return CUDA_SUCCESS;
}

GreenContext::GreenContext(std::shared_ptr<Context> primary, const SmResource& resource)
    : m_primary(std::move(primary)),
      m_resource(resource),
      m_id(g_green_contexts.fetch_add(1) + 1),
      m_multiprocessors(numbers_of(resource.set)) {}

void GreenContext::own_stream(const std::shared_ptr<Stream>& stream) {
    MutexLock lock(m_mutex);
    std::erase_if(m_streams, [](const auto& weak) { return weak.expired(); });
    m_streams.push_back(stream);
}

std::vector<std::shared_ptr<Stream>> GreenContext::streams() const {
    std::vector<std::shared_ptr<Stream>> alive;
    MutexLock lock(m_mutex);
    for (const auto& weak : m_streams) {
        if (auto stream = weak.lock(); stream != nullptr && stream->alive()) alive.push_back(std::move(stream));
    }
    return alive;
}

}  // namespace warpline::softgpu::driver
