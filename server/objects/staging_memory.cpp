// Page-locked slabs for copies, made ahead of need.
#include "server/objects/staging_memory.h"

#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "common/log/log.h"
#include "cuda/abi/error_names.h"
#include "server/objects/contexts.h"

namespace warpline::server {

namespace {

constexpr uint64_t k_grain_bytes = 4096;
constexpr uint64_t k_first_slab_bytes = 4u << 20;
constexpr uint64_t k_slab_bytes = 16u << 20;
/// Less than this free, and the next slab is made.
constexpr uint64_t k_reserve_bytes = 2u << 20;

uint64_t rounded(uint64_t bytes) { return (std::max<uint64_t>(bytes, 1) + k_grain_bytes - 1) & ~(k_grain_bytes - 1); }

}  // namespace

StagingMemory::~StagingMemory() {
    close();
    std::thread grower;
    {
        MutexLock lock(m_mutex);
        grower.swap(m_grower);
    }
    if (grower.joinable()) grower.join();
    MutexLock lock(m_mutex);
    for (const Slab& slab : m_slabs) {
        if (slab.registered_in != nullptr) m_driver->cuMemHostUnregister(slab.data);
        if (slab.is_ours) munmap(slab.data, slab.bytes);
    }
}

void StagingMemory::prepare() {
    const CUcontext context = Contexts::current_base(m_driver);
    uint64_t bytes = 0;
    std::vector<Slab> unregistered;
    {
        MutexLock lock(m_mutex);
        m_context = context;
        if (m_has_to_lock) m_growth.notify_one();
        if (m_first == FirstSlab::in_prepare && m_slabs.empty() && m_slab_bytes == 0)
            bytes = std::min(k_first_slab_bytes, m_most_bytes) & ~(k_grain_bytes - 1);
        m_slab_bytes += bytes;
        for (Slab& slab : m_slabs) {
            if (slab.registered_in != nullptr || std::exchange(slab.is_in_hand, true)) continue;
            unregistered.push_back(slab);
        }
    }
    if (bytes != 0) make_slab(bytes, context);
    for (const Slab& slab : unregistered) lock_in_hand(slab, context);
}

/// Nobody else does: to page-lock the same memory twice is an error.
void StagingMemory::lock_in_hand(const Slab& slab, CUcontext context) {
    const bool registered = lock_pages(slab.data, slab.bytes);
    MutexLock lock(m_mutex);
    for (Slab& mine : m_slabs) {
        if (mine.data != slab.data) continue;
        mine.is_in_hand = false;
        if (registered) mine.registered_in = context;
    }
}

bool StagingMemory::lock_pages(void* data, uint64_t bytes) const {
    if (m_driver->cuMemHostRegister_v2 == nullptr || m_driver->cuMemHostUnregister == nullptr) return false;
    const CUresult result =
        m_driver->cuMemHostRegister_v2(data, bytes, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
    if (result != CUDA_SUCCESS)
        WL_LOG(debug, "copies", "{} bytes cannot be page-locked: {}", bytes, cuda::abi::error_name_for_log(result));
    return result == CUDA_SUCCESS;
}

void StagingMemory::use_first(MutableBytesView memory) {
    MutexLock lock(m_mutex);
    m_given = memory;
    m_first_memory = memory;
}

/// Null data: there is none.
StagingMemory::Slab StagingMemory::take_memory(uint64_t bytes) {
    {
        MutexLock lock(m_mutex);
        if (bytes <= m_given.size()) {
            const Slab slab{m_given.data(), bytes, nullptr, false};
            m_given = m_given.subspan(bytes);
            return slab;
        }
    }
    void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return {data != MAP_FAILED ? static_cast<std::byte*>(data) : nullptr, bytes, nullptr, true};
}

/// `bytes` are counted already.
bool StagingMemory::make_slab(uint64_t bytes, CUcontext context) {
    Slab slab = take_memory(bytes);
    const bool registered = slab.data != nullptr && lock_pages(slab.data, bytes);
    slab.registered_in = registered ? context : nullptr;
    MutexLock lock(m_mutex);
    ++m_generation;
    m_changed.notify_all();
    if (slab.data == nullptr) {
        m_slab_bytes -= bytes;
        m_failed = true;
        return false;
    }
    m_slabs.push_back(slab);
    m_free.emplace(slab.data, bytes);
    m_free_bytes += bytes;
    const uint64_t in_all = m_slab_bytes;
    lock.unlock();
    WL_LOG(debug, "copies", "staging memory: {} bytes more, {} in all", bytes, in_all);
    return true;
}

std::byte* StagingMemory::try_take(uint64_t bytes) {
    const uint64_t size = rounded(bytes);
    MutexLock lock(m_mutex);
    // Best fit, in the memory that is to be used first: large pieces stay for those who need them.
    const BytesView first = m_first_memory;
    const auto rank = [&](const auto& piece) {
        const bool is_first = piece.first >= first.data() && piece.first < first.data() + first.size();
        return std::pair(!is_first, piece.second);
    };
    auto best = m_free.end();
    for (auto it = m_free.begin(); it != m_free.end(); ++it) {
        if (it->second >= size && (best == m_free.end() || rank(*it) < rank(*best))) best = it;
    }
    if (best == m_free.end()) return nullptr;
    std::byte* const data = best->first;
    const uint64_t rest = best->second - size;
    m_free.erase(best);
    if (rest > 0) m_free.emplace(data + size, rest);
    m_taken.emplace(data, size);
    m_free_bytes -= size;
    if (m_free_bytes < k_reserve_bytes) ask_for_slab(k_slab_bytes);
    return data;
}

bool StagingMemory::grow(uint64_t bytes) {
    const CUcontext context = Contexts::current_base(m_driver);
    MutexLock lock(m_mutex);
    if (context != nullptr) m_context = context;
    if (m_has_to_lock) m_growth.notify_one();
    return ask_for_slab(bytes);
}

bool StagingMemory::ask_for_slab(uint64_t bytes) {
    const uint64_t size = std::max(k_slab_bytes, std::bit_ceil(rounded(bytes)));
    if (m_closed || m_failed) return false;
    if (m_wanted_bytes != 0) return true;  // one at a time: who needs more asks again
    // What never fits into the budget is taken all the same, when nobody uses any of it: it could not be copied else.
    const uint64_t fits = m_most_bytes > m_slab_bytes ? m_most_bytes - m_slab_bytes : 0;
    if (fits < rounded(bytes) && !m_taken.empty()) return false;
    m_wanted_bytes = fits >= size ? size : std::max(rounded(bytes), fits & ~(k_grain_bytes - 1));
    m_slab_bytes += m_wanted_bytes;
    if (!m_grower.joinable()) m_grower = std::thread([this] { grower_main(); });
    m_growth.notify_one();
    return true;
}

void StagingMemory::lock_also(MutableBytesView memory) {
    MutexLock lock(m_mutex);
    if (m_closed) return;
    m_slabs.push_back({memory.data(), memory.size(), nullptr, false});
    m_has_to_lock = true;
    if (!m_grower.joinable()) m_grower = std::thread([this] { grower_main(); });
    m_growth.notify_one();
}

/// The one slab that is not locked: what is locked in a context that has gone is prepare()'s.
void StagingMemory::lock_added(MutexLock& lock) {
    m_has_to_lock = false;
    const CUcontext context = m_context;
    const auto added = std::find_if(m_slabs.begin(), m_slabs.end(), [](const Slab& slab) {
        return !slab.is_ours && !slab.is_in_hand && slab.registered_in == nullptr;
    });
    if (added == m_slabs.end()) return;
    added->is_in_hand = true;
    const Slab slab = *added;
    lock.unlock();
    if (m_driver->cuCtxSetCurrent != nullptr) m_driver->cuCtxSetCurrent(context);
    lock_in_hand(slab, context);
    if (m_driver->cuCtxSetCurrent != nullptr) m_driver->cuCtxSetCurrent(nullptr);
    lock.lock();
}

void StagingMemory::grower_main() {
    pthread_setname_np(pthread_self(), "staging");
    MutexLock lock(m_mutex);
    while (!m_closed) {
        if (m_has_to_lock && m_context != nullptr) {
            lock_added(lock);
            continue;  // it let go of the lock
        }
        if (m_wanted_bytes == 0) {
            m_growth.wait(m_mutex);
            continue;
        }
        const uint64_t bytes = m_wanted_bytes;
        const CUcontext context = m_context;
        lock.unlock();
        if (m_driver->cuCtxSetCurrent != nullptr) m_driver->cuCtxSetCurrent(context);
        make_slab(bytes, context);
        if (m_driver->cuCtxSetCurrent != nullptr) m_driver->cuCtxSetCurrent(nullptr);
        lock.lock();
        m_wanted_bytes = 0;
        // Who found it too small meanwhile was told that one is on its way, and waits: it is to ask again.
        ++m_generation;
        m_changed.notify_all();
    }
}

void StagingMemory::give(std::byte* data) {
    MutexLock lock(m_mutex);
    const auto taken = m_taken.find(data);
    if (taken == m_taken.end()) return;
    uint64_t bytes = taken->second;
    m_free_bytes += bytes;
    m_taken.erase(taken);
    const auto slab_of = [&](std::byte* at) WL_NO_THREAD_SAFETY_ANALYSIS {
        return std::find_if(m_slabs.begin(), m_slabs.end(),
                            [at](const Slab& slab) { return at >= slab.data && at < slab.data + slab.bytes; });
    };
    const auto next = m_free.find(data + bytes);
    if (next != m_free.end() && slab_of(next->first) == slab_of(data)) {
        bytes += next->second;
        m_free.erase(next);
    }
    auto before = m_free.lower_bound(data);
    if (before != m_free.begin() && (--before)->first + before->second == data && slab_of(before->first) == slab_of(data)) {
        before->second += bytes;
    } else {
        m_free.emplace(data, bytes);
    }
    ++m_generation;
    m_changed.notify_all();
}

size_t StagingMemory::taken() const {
    MutexLock lock(m_mutex);
    return m_taken.size();
}

protocol::Place StagingMemory::place(uint64_t bytes) {
    if (std::byte* data = try_take(bytes)) return {{data, bytes}, *this};
    grow(bytes);
    return {};
}

uint64_t StagingMemory::generation() const {
    MutexLock lock(m_mutex);
    return m_generation;
}

void StagingMemory::wait_change(uint64_t seen) {
    MutexLock lock(m_mutex);
    while (m_generation == seen && !m_closed) m_changed.wait(m_mutex);
}

void StagingMemory::context_ended(CUcontext context) {
    MutexLock lock(m_mutex);
    if (m_context == context) m_context = nullptr;
    for (Slab& slab : m_slabs) {
        if (slab.registered_in == context) slab.registered_in = nullptr;
    }
}

void StagingMemory::close() {
    MutexLock lock(m_mutex);
    m_closed = true;
    m_changed.notify_all();
    m_growth.notify_one();
}

}  // namespace warpline::server
