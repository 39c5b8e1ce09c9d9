// Which multiprocessors a green context has, and how resources are divided.
#include "softgpu/driver/context/green_context.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "softgpu/driver/context/stream.h"
#include "softgpu/driver/device/device.h"
#include "softgpu/driver/memory/memory_pool.h"
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
    int16_t device = 0;
    uint16_t named_again = 0;
    uint8_t alignment = 0;
    uint8_t group_flags = 0;
    bool rest = false;
    bool of_context = false;  // work queues: `split` is the id of the context that they are of
    uint32_t words[k_divisible_multiprocessors / 32] = {};
};
constexpr uint64_t k_mark = 0x31736d5365726157;
static_assert(sizeof(Inside) <= sizeof(CUdevResource::_internal_padding));

std::atomic<uint64_t> g_splits{0};

/// What follows the multiprocessors of a resource since CUDA 13.1.
constexpr size_t k_group_flags_offset = 3 * sizeof(uint32_t);

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
    inside.device = static_cast<int16_t>(resource.device);
    inside.named_again = static_cast<uint16_t>(resource.named_again);
    inside.alignment = static_cast<uint8_t>(resource.alignment);
    inside.group_flags = static_cast<uint8_t>(resource.group_flags);
    inside.rest = resource.rest;
    for (size_t i = 0; i < resource.set.size(); ++i) {
        if (resource.set[i]) inside.words[i / 32] |= 1u << i % 32;
    }
    std::memcpy(out._internal_padding, &inside, sizeof inside);
    out.type = CU_DEV_RESOURCE_TYPE_SM;
    out.sm.smCount = static_cast<unsigned>(resource.set.count()) + resource.named_again;
    out.sm.minSmPartitionSize = steps.least;
    out.sm.smCoscheduledAlignment = resource.alignment != 0 ? resource.alignment : steps.multiple;
    std::memcpy(reinterpret_cast<std::byte*>(&out.sm) + k_group_flags_offset, &resource.group_flags, sizeof(uint32_t));
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
    resource.named_again = inside.named_again;
    resource.alignment = inside.alignment;
    resource.group_flags = inside.group_flags;
    resource.rest = inside.rest;
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
    if ((flags & ~(k_alone | k_clusters)) != 0) return CUDA_ERROR_INVALID_VALUE;
    if ((flags & k_clusters) != 0 && steps.multiple < 8) return CUDA_ERROR_INVALID_VALUE;
    if (least_count > input.set.count()) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
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
    result.rest.rest = true;
    return CUDA_SUCCESS;
}

namespace {

/// How many multiprocessors a group gets of those that are left. Multiprocessors run together with their neighbours by number.
/// @param together  how many have to
CUresult size_of_group(const CU_DEV_SM_RESOURCE_GROUP_PARAMS& wanted, unsigned together, size_t left, unsigned& size) {
    const bool backfill = (wanted.flags & cuda::abi::k_group_backfill) != 0;
    // No part of the device is closer to some of its memory than the others.
    if ((wanted.flags & (cuda::abi::k_group_locality_domain | cuda::abi::k_group_supplemental)) != 0)
        return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    if (wanted.smCount % 2 != 0 || (!backfill && wanted.smCount % together != 0)) return CUDA_ERROR_INVALID_VALUE;
    const size_t step = backfill ? 2 : together;
    size = wanted.smCount;
    if (size == 0) size = left < together ? 0 : static_cast<unsigned>(left / step * step);
    return size <= left ? CUDA_SUCCESS : CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
}

}  // namespace

CUresult split_into(const SmResource& input, std::span<CU_DEV_SM_RESOURCE_GROUP_PARAMS> parameters, bool discover,
                    SmSplit& result) {
    constexpr unsigned k_known_flags =
        cuda::abi::k_group_backfill | cuda::abi::k_group_locality_domain | cuda::abi::k_group_supplemental;
    const bool has_clusters = steps_of(*process().device(input.device)).multiple == 8;
    const unsigned usual = has_clusters ? 8 : 2, most = has_clusters ? 32 : 2;
    if (input.split != 0 && !input.rest) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    const std::vector<uint32_t> numbers = numbers_of(input.set);
    std::vector<unsigned> sizes;
    SmResource part;
    part.device = input.device;
    part.split = g_splits.fetch_add(1) + 1;
    size_t taken = 0;
    for (const CU_DEV_SM_RESOURCE_GROUP_PARAMS& wanted : parameters) {
        const unsigned together = wanted.coscheduledSmCount != 0 ? wanted.coscheduledSmCount : usual;
        const unsigned preferred = wanted.preferredCoscheduledSmCount;
        if (together % 2 != 0 || together > most || preferred % together != 0 || (wanted.flags & ~k_known_flags) != 0)
            return CUDA_ERROR_INVALID_VALUE;
        if (wanted.smCount > numbers.size()) return CUDA_ERROR_INVALID_VALUE;
        unsigned size = 0;
        CU_TRY(size_of_group(wanted, together, numbers.size() - taken, size));
        if (!discover && (size == 0 || size < together)) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
        part.alignment = together;
        part.group_flags = wanted.flags;
        part.set.reset();
        for (unsigned i = 0; i < size; ++i) part.set.set(numbers[taken++]);
        result.groups.push_back(part);
        sizes.push_back(size);
    }
    for (size_t i = 0; i < sizes.size(); ++i) parameters[i].smCount = sizes[i];
    result.rest = {input.device, {}, part.split, true, 0, 0, 0};
    while (taken < numbers.size()) result.rest.set.set(numbers[taken++]);
    return CUDA_SUCCESS;
}

Workqueues usual_workqueues(const Device& device) {
    constexpr unsigned k_usual = 8, k_most = 32;
    Workqueues queues;
    queues.config.device = device.ordinal();
    const char* text = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
    const unsigned long wanted = text != nullptr ? std::strtoul(text, nullptr, 10) : 0;
    queues.config.concurrency_limit = wanted >= 1 && wanted <= k_most ? static_cast<unsigned>(wanted) : k_usual;
    return queues;
}

CUdevResource as_workqueue_config(const Workqueues& queues) {
    CUdevResource out{};
    cuda::abi::set_type(out, cuda::abi::k_resource_workqueue_config);
    cuda::abi::set_workqueue_config(out, queues.config);
    return out;
}

CUdevResource as_workqueue(const Workqueues& queues) {
    CUdevResource out{};
    cuda::abi::set_type(out, cuda::abi::k_resource_workqueue);
    Inside inside;
    inside.mark = k_mark;
    inside.split = queues.of;
    inside.device = static_cast<int16_t>(queues.config.device);
    inside.of_context = true;
    inside.words[0] = queues.config.concurrency_limit;
    inside.words[1] = queues.config.sharing_scope;
    std::memcpy(out._internal_padding, &inside, sizeof inside);
    return out;
}

CUresult read_workqueues(const CUdevResource& from, Workqueues& queues) {
    if (cuda::abi::type_of(from) == cuda::abi::k_resource_workqueue_config) {
        queues.config = cuda::abi::workqueue_config_of(from);
        queues.of = 0;
        const bool known_scope = queues.config.sharing_scope <= cuda::abi::k_workqueue_scope_balanced;
        return known_scope && queues.config.concurrency_limit != 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    }
    Inside inside;
    std::memcpy(&inside, from._internal_padding, sizeof inside);
    if (inside.mark != k_mark || !inside.of_context) return CUDA_ERROR_INVALID_VALUE;
    queues.config = {inside.device, inside.words[0], inside.words[1]};
    queues.of = inside.split;
    return CUDA_SUCCESS;
}

GreenContext::GreenContext(std::shared_ptr<Context> primary, const ResourceDescriptor& described)
    : m_primary(std::move(primary)),
      m_described(described),
      m_id(new_context_id()),
      m_multiprocessors(numbers_of(described.resource.set)) {}

void GreenContext::end() {
    m_alive.store(false, std::memory_order_release);
    StreamPtr legacy;
    {
        MutexLock lock(m_mutex);
        legacy.swap(m_legacy);
    }
    if (legacy != nullptr) legacy->retire();
}

StreamPtr GreenContext::legacy_stream() {
    StreamPtr made;
    {
        MutexLock lock(m_mutex);
        if (m_legacy != nullptr && m_legacy->alive()) return m_legacy;
        made = std::make_shared<Stream>(m_primary, QueueKind::legacy, CU_STREAM_DEFAULT, 0, 0, shared_from_this());
        m_legacy = made;
    }
    own_stream(made);
    return made;
}

StreamPtr GreenContext::per_thread_stream() {
    auto& mine = thread_state().default_streams[m_id];
    if (mine == nullptr || !mine->alive()) {
        mine = std::make_shared<Stream>(m_primary, QueueKind::blocking, CU_STREAM_DEFAULT, 0, 0, shared_from_this());
        own_stream(mine);
    }
    return mine;
}

std::vector<FencePtr> work_of(const GreenContext& green) {
    std::vector<FencePtr> fences;
    for (const StreamPtr& stream : green.streams()) {
        for (FencePtr& fence : Scheduler::instance().pending(stream->queue())) fences.push_back(std::move(fence));
    }
    return fences;
}

CUresult GreenContext::synchronise() {
    for (const FencePtr& fence : work_of(*this)) fence->wait();
    m_primary->device().flush_printf();
    release_pool_excess(m_primary->device());
    return m_primary->sticky();
}

void GreenContext::own_stream(const StreamPtr& stream) {
    m_primary->streams().add(stream);
    m_streams.add(stream);
}

std::vector<StreamPtr> GreenContext::streams() const {
    std::vector<StreamPtr> usable = m_streams.all();
    std::erase_if(usable, [](const StreamPtr& stream) { return !stream->alive(); });
    return usable;
}

}  // namespace warpline::softgpu::driver
