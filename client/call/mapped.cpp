// How page-locked memory becomes the device's, too.
#include "client/call/mapped.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "client/call/allocate.h"
#include "client/managed/faults.h"
#include "client/session/connection_to_server.h"
#include "common/log/log.h"

namespace warpline::client {

namespace {

/// Who maps memory does it alone.
Mutex& mapping_mutex() {
    static auto* mutex = new Mutex;
    return *mutex;
}

DeviceRange device_range_of(const HostRange& range, uint64_t device_address) {
    DeviceRange made;
    made.base = device_address;
    made.size_bytes = range.size_bytes;
    made.context = range.context;
    made.device = range.device;
    made.kind = MemoryKind::page_locked;
    return made;
}

/// Memory that CUDA has allocated: pages at the same address.
CUresult share_pages(Call& call, const HostRange& range) {
    const RangeHeap::Range block{range.base, range.block_bytes};
    if (CUresult result = map_block(call, block, range.device, Reach::every_device); result != CUDA_SUCCESS) return result;
    SharedPages& pages = SharedPages::instance();
    MutexLock lock(pages.mutex);
    pages.expect(AddressRange{block.base, block.size_bytes});
    PageRegion::Options options;
    options.sharing = Sharing::concurrent;
    options.adopts = true;
    auto region = PageRegion::make({block.base, block.size_bytes}, options);
    if (!region) return CUDA_ERROR_OUT_OF_MEMORY;
    region->add_extent(region->pages_of({range.base, range.size_bytes}));
    pages.add(std::move(region), range.context);
    return CUDA_SUCCESS;
}

/// Memory of the program's own: its bytes, and a copy of them on the device.
CUresult mirror(Call& call, const HostRange& range, uint64_t& device_address) {
    constexpr uint64_t k_page_mask = 4095;
    const uint64_t offset = range.base & k_page_mask;
    settle_freed(call);
    const auto block = call.state.memory.take_block(offset + range.size_bytes);
    if (!block) return CUDA_ERROR_OUT_OF_MEMORY;
    if (CUresult result = map_block(call, *block, range.device, Reach::every_device); result != CUDA_SUCCESS) {
        call.state.memory.return_block(*block);
        return result;
    }
    auto made = std::make_shared<MirroredRange>();
    made->host = range.base;
    made->size_bytes = range.size_bytes;
    made->device = block->base + offset;
    made->block = {block->base, block->size_bytes};
    made->context = range.context;
    made->read_only = (range.flags & CU_MEMHOSTREGISTER_READ_ONLY) != 0;
    device_address = made->device;
    SharedPages& pages = SharedPages::instance();
    MutexLock lock(pages.mutex);
    pages.mirrored.emplace(range.base, std::move(made));
    return CUDA_SUCCESS;
}

/// Calls visit() with every word at which an address may stand: at multiples of eight bytes from where a parameter begins.
/// @param sizes  as map_host_pointers() has them
template <typename Visit>
CUresult for_each_word(BytesView bytes, BytesView sizes, Visit visit) {
    const size_t count = sizes.empty() ? 1 : sizes.size() / sizeof(uint32_t);
    for (size_t i = 0; i < count; ++i) {
        auto size = static_cast<uint32_t>(bytes.size());
        if (!sizes.empty()) std::memcpy(&size, sizes.data() + i * sizeof size, sizeof size);
        const BytesView parameter = bytes.first(std::min<size_t>(size, bytes.size()));
        bytes = bytes.subspan(parameter.size());
        for (size_t offset = 0; offset + sizeof(uint64_t) <= parameter.size(); offset += sizeof(uint64_t)) {
            uint64_t word = 0;
            std::memcpy(&word, parameter.data() + offset, sizeof word);
            if (CUresult refused = visit(word); refused != CUDA_SUCCESS) return refused;
        }
    }
    return CUDA_SUCCESS;
}

/// What is attached to the host or to another stream, and passed to a kernel nevertheless.
void attach_managed_pointers(const Call& call, BytesView bytes, BytesView sizes) {
    SharedPages& pages = SharedPages::instance();
    MutexLock lock(pages.mutex);
    static_cast<void>(for_each_word(bytes, sizes, [&](uint64_t word) WL_NO_THREAD_SAFETY_ANALYSIS {
        if (SharedRegion* shared = pages.find(word)) shared->let_work_use({word, 1}, call.known_stream());
        return CUDA_SUCCESS;
    }));
}

/// Waits for a context, so that what it copies to some memory is there.
void settle_context(const Call& call, uint64_t context, uint64_t base, uint64_t size_bytes) {
    Session& session = call.session;
    const uint64_t last_number = session.last_number();
    Call own = call;
    if (context != call.context) own.converted = 0;
    own.context = context;
    // Its result is not ours to report: whoever waits for the streams gets it. A context that has gone has nothing under way.
    const bool exists = call.state.contexts.find(context) != nullptr;
    const CUresult result = exists ? wait_beside_captures(own) : CUDA_SUCCESS;
    if (result != CUDA_SUCCESS) session.defer(result, context);
    if (result != CUDA_SUCCESS || !exists) session.host_calls().failed(context, last_number);
    session.copies_settled(context, base, size_bytes, last_number);
}

/// Whatever context still copies to the memory, or from it: it may be anything then.
void settle_copies(const Call& call, const void* address, uint64_t size_bytes) {
    Session& session = call.session;
    const auto base = reinterpret_cast<uint64_t>(address);
    if (!HostCalls::in_callback()) {
        for (const uint64_t context : session.contexts_copying(base, size_bytes))
            settle_context(call, context, base, size_bytes);
        for (const uint64_t context : session.host_calls().contexts_reading({base, size_bytes}))
            settle_context(call, context, base, size_bytes);
    }
    session.calls().outbox().give_back(as_bytes(address, size_bytes));
}

bool is_out_of_reach(const Call& call, const HostRange& range) {
    return !call.state.memory.has_window() || (range.origin == HostOrigin::allocated && range.block_bytes == 0);
}

/// Copies that the program makes of the memory end before it becomes the device's, and begin behind that.
class ChangeOfHands {
public:
    ChangeOfHands(HostMemory& memory, uint64_t base) : m_memory(memory), m_base(base), m_begun(memory.begin_change(base)) {}
    ~ChangeOfHands() {
        if (m_begun) m_memory.end_change(m_base);
    }
    ChangeOfHands(const ChangeOfHands&) = delete;
    ChangeOfHands& operator=(const ChangeOfHands&) = delete;

private:
    HostMemory& m_memory;
    const uint64_t m_base;
    const bool m_begun;
};

bool is_used_by_graphs(const Call& call, const HostRange& range) {
    return call.state.graph_ends.meets(range.base, range.size_bytes);
}

}  // namespace

bool may_be_written(const Call& call, const void* address, uint64_t size_bytes, std::optional<uint64_t> stream) {
    Session& session = call.session;
    const auto base = reinterpret_cast<uint64_t>(address);
    const bool copies = session.copy_pending(base, size_bytes);
    const bool called =
        !session.host_calls().idle() && (!stream || session.host_calls().may_precede(*stream, session.last_join()));
    const bool functions = called || session.graph_functions_pending();
    if ((!functions && !copies) || HostCalls::in_callback()) return false;
    // From pageable memory CUDA takes the bytes when the call is made, as we do, if it is not said to take them in the order of
    // the stream; and what it copies to it is there when that call returns.
    return copies || call.source == SourceAccess::in_order || call.state.host_memory.find(base);
}

void settle_host_memory(Call& call, const void* address, uint64_t size_bytes) {
    settle_context(call, call.context, reinterpret_cast<uint64_t>(address), size_bytes);
}

void take_back_host_memory(Call& call, const void* address, uint64_t size_bytes) {
    if (may_be_written(call, address, size_bytes)) settle_host_memory(call, address, size_bytes);
    settle_copies(call, address, size_bytes);
}

CUresult free_host_memory(Call& call, uint64_t base) {
    HostMemory& host = call.state.host_memory;
    const auto range = host.find(base);
    if (!range || range->base != base) return CUDA_ERROR_INVALID_VALUE;
    if (range->device_base == 0) take_back_host_memory(call, reinterpret_cast<const void*>(base), range->size_bytes);
    std::optional<HostRange> mapped;
    {
        MutexLock lock(mapping_mutex());
        mapped = host.forget_mapped(base, HostOrigin::allocated);
        if (!mapped) return host.free(reinterpret_cast<void*>(base)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    }
    unmap_host_memory(call, *mapped);
    return CUDA_SUCCESS;
}

CUresult unregister_host_memory(Call& call, uint64_t base) {
    HostMemory& host = call.state.host_memory;
    const auto range = host.find(base);
    if (!range) return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    // What is known, and was not registered from this address on, is an invalid value.
    if (range->origin != HostOrigin::registered || range->base != base) return CUDA_ERROR_INVALID_VALUE;
    auto* const address = reinterpret_cast<void*>(base);
    take_back_host_memory(call, address, range->size_bytes);
    if (const auto mapped = host.forget_mapped(base, HostOrigin::registered)) {
        unmap_host_memory(call, *mapped);
        return CUDA_SUCCESS;
    }
    return host.unregister(address) ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

void release_host_memory_of_context(Call& call, uint64_t context) {
    for (const HostRange& range : call.state.host_memory.of_context(context)) {
        if (range.origin == HostOrigin::allocated)
            (void)free_host_memory(call, range.base);
        else
            (void)unregister_host_memory(call, range.base);
    }
}

static bool can_be_mapped(const Call& call, const HostRange& range) {
    return range.device_base != 0 || (!is_out_of_reach(call, range) && !is_used_by_graphs(call, range));
}

bool can_be_mapped(const Call& call, uint64_t address) {
    const auto range = call.state.host_memory.find(address);
    return range && can_be_mapped(call, *range);
}

CUresult map_host_memory(Call& call, uint64_t address, uint64_t& device_address) {
    HostMemory& host = call.state.host_memory;
    MutexLock lock(mapping_mutex());
    const auto range = host.find(address);
    if (!range) return CUDA_ERROR_INVALID_VALUE;
    device_address = range->device_base + (address - range->base);
    if (range->device_base != 0) return CUDA_SUCCESS;
    if (is_out_of_reach(call, *range))
        return WL_REFUSE_CALL("cuMemHostGetDevicePointer", "the server's driver cannot map memory at this address");
    if (is_used_by_graphs(call, *range))
        return WL_REFUSE_CALL("cuMemHostGetDevicePointer",
                              "memory that copies of a graph use cannot be used by kernels as well");
    if (!start_pager(call)) return CUDA_ERROR_OUT_OF_MEMORY;
    const ChangeOfHands change(host, range->base);
    // Functions of the program's go on: what they do there from now on is as what the program does (run_between_kernels).
    settle_copies(call, reinterpret_cast<const void*>(range->base), range->size_bytes);
    Call own = call;
    own.context = range->context;
    uint64_t device_base = range->base;
    const CUresult result =
        range->origin == HostOrigin::allocated ? share_pages(own, *range) : mirror(own, *range, device_base);
    if (result != CUDA_SUCCESS) return result;
    call.state.memory.register_range(device_range_of(*range, device_base));
    host.set_device_base(range->base, device_base);
    device_address = device_base + (address - range->base);
    return CUDA_SUCCESS;
}

CUresult map_host_pointers(Call& call, BytesView bytes, BytesView sizes) {
    if (SharedPages::any_attached()) attach_managed_pointers(call, bytes, sizes);
    if (!call.state.host_memory.may_be_passed()) return CUDA_SUCCESS;
    return for_each_word(bytes, sizes, [&](uint64_t word) {
        if (!call.state.host_memory.in_window(word)) return CUDA_SUCCESS;
        uint64_t device_address = 0;
        const CUresult result = map_host_memory(call, word, device_address);
        // What is none of ours is the kernel's affair.
        return result == CUDA_ERROR_INVALID_VALUE ? CUDA_SUCCESS : result;
    });
}

bool is_being_copied(const Call& call, uint64_t base) {
    const auto range = call.state.host_memory.find(base);
    return range && range->device_base == 0 &&
           (call.session.copy_pending(range->base, range->size_bytes) ||
            !call.session.host_calls().contexts_reading({range->base, range->size_bytes}).empty());
}

void map_named_memory(const Call& call, uint64_t base) {
    Call own = call;
    uint64_t device_address = 0;
    const auto range = call.state.host_memory.find(base);
    if (!range || range->device_base != 0) return;
    const bool can_be = can_be_mapped(call, *range);
    const CUresult result = can_be ? map_host_memory(own, base, device_address) : CUDA_ERROR_NOT_SUPPORTED;
    static std::atomic<bool> s_said{false};
    // Freed meanwhile, it is an invalid value.
    if (result == CUDA_SUCCESS || result == CUDA_ERROR_INVALID_VALUE || s_said.exchange(true)) return;
    WL_LOG(warn, "client",
           "page-locked memory at {:#x}, whose address the device was given, cannot be the device's as well: {}", base,
           can_be ? "there is no room for it" : "a graph copies it, or the server's driver cannot map it there");
}

void unmap_host_memory(Call& call, const HostRange& range) {
    Call own = call;
    own.context = range.context;
    const CUresult result = come_to_rest(own);
    if (result != CUDA_SUCCESS) call.session.defer(result, own.context);
    call.state.memory.forget(range.device_base, MemoryKind::page_locked);
    RangeHeap::Range block{range.base, range.block_bytes};
    if (range.origin == HostOrigin::registered) faults::recall();
    SharedPages& pages = SharedPages::instance();
    {
        MutexLock lock(pages.mutex);
        if (range.origin == HostOrigin::allocated) {
            pages.remove(range.base);
        } else if (const auto found = pages.mirrored.find(range.base); found != pages.mirrored.end()) {
            block = {found->second->block.base, found->second->block.size_bytes};
            pages.mirrored.erase(found);
        }
    }
    unmap_block(own, block);
}

}  // namespace warpline::client
