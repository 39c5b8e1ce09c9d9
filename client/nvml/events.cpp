// Exported functions: events, of which no server tells any. Sets can be made, and waited for: watchers that do (DCGM,
// Kubernetes' device plugins) go on without, as they do with a GPU that has none.
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <limits>

#include "client/nvml/answer.h"
#include "client/nvml/export.h"

namespace abi = warpline::cuda::nvml;
using namespace warpline::client::nvml;

namespace {

/// The sets that there are. A handle is the address of one's place; there is nothing in it. Without a lock, which a child of
/// fork could find held.
constexpr size_t k_most_sets = 1024;
std::atomic<bool> g_sets[k_most_sets];

std::atomic<bool>* set_of(void* handle) {
    auto* set = static_cast<std::atomic<bool>*>(handle);
    return set >= g_sets && set < g_sets + k_most_sets && set->load() ? set : nullptr;
}

int initialised() noexcept {
    SnapshotPtr snapshot;
    return Library::instance().snapshot(Age::any, snapshot);
}

}  // namespace

WL_NVML int nvmlEventSetCreate(void** set) {
    if (const int result = initialised(); result != abi::k_success) return result;
    if (set == nullptr) return abi::k_invalid_argument;
    for (std::atomic<bool>& place : g_sets) {
        if (place.exchange(true)) continue;
        *set = &place;
        return abi::k_success;
    }
    return abi::k_memory;
}

/// None of the types can be had; the set can be used all the same. Who asks for no more than is supported asks for none, and
/// takes a refusal for a broken GPU (Kubernetes' device plugin).
WL_NVML int nvmlDeviceRegisterEvents(void* device, uint64_t types, void* set) {
    Known known;
    if (const int result = find_device(device, Age::any, known); result != abi::k_success) return result;
    if (set_of(set) == nullptr) return abi::k_invalid_argument;
    return types == 0 ? abi::k_success : abi::k_not_supported;
}

WL_NVML int nvmlDeviceGetSupportedEventTypes(void* device, uint64_t* types) {
    Known known;
    if (const int result = find_device(device, Age::any, known); result != abi::k_success) return result;
    if (types == nullptr) return abi::k_invalid_argument;
    *types = 0;
    return abi::k_success;
}

WL_NVML int nvmlEventSetWait_v2(void* set, abi::EventData* data, uint32_t timeout_ms) {
    if (const int result = initialised(); result != abi::k_success) return result;
    if (data == nullptr || set_of(set) == nullptr) return abi::k_invalid_argument;
    constexpr uint32_t k_most = std::numeric_limits<int>::max();
    ::poll(nullptr, 0, static_cast<int>(std::min(timeout_ms, k_most)));  // an interrupt ends it, as it ends NVML's
    return abi::k_timeout;
}
WL_NVML int nvmlEventSetWait(void* set, abi::EventData* data, uint32_t timeout_ms) {
    return nvmlEventSetWait_v2(set, data, timeout_ms);
}

WL_NVML int nvmlEventSetFree(void* set) {
    if (const int result = initialised(); result != abi::k_success) return result;
    auto* place = set_of(set);
    if (place == nullptr) return abi::k_invalid_argument;
    place->store(false);
    return abi::k_success;
}
