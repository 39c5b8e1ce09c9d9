// A context's life, its error, what it owns; and what a thread has as current.
#include "softgpu/driver/context/context.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>
#include <utility>

#include "common/log/log.h"
#include "cuda/abi/error_names.h"
#include "cuda/abi/export_tables.h"
#include "softgpu/driver/context/green_context.h"
#include "softgpu/driver/context/stream.h"
#include "softgpu/driver/device/device.h"
#include "softgpu/driver/memory/memory_pool.h"
#include "softgpu/driver/process/process.h"
#include "softgpu/exec/api.h"

namespace warpline::softgpu::driver {

namespace {

/// What a context takes of a device that is large enough: between what old and new GPUs are seen to give up (DB-16).
constexpr uint64_t k_context_bytes = uint64_t{300} << 20;

std::atomic<uint64_t> next_context_id{1};
std::atomic<uint64_t> next_thread_number{1};

pthread_key_t thread_key() {
    static pthread_key_t key = [] {
        pthread_key_t made;
        pthread_key_create(&made, [](void* state) { delete static_cast<ThreadState*>(state); });
        return made;
    }();
    return key;
}

thread_local ThreadState* t_state = nullptr;

}  // namespace

ThreadState& thread_state() {
    if (t_state == nullptr) {
        t_state = new ThreadState;
        t_state->number = next_thread_number++;
        pthread_setspecific(thread_key(), t_state);
    }
    return *t_state;
}

uint64_t new_context_id() { return next_context_id++; }

CUcontext NamedContext::handle() const {
    if (green != nullptr) return green->context_handle();
    return context != nullptr ? context->handle() : nullptr;
}

uint64_t NamedContext::id() const { return green != nullptr ? green->id() : context->id(); }

CUresult find_named_context(CUcontext handle, NamedContext& named) {
    named.green = process().green_contexts.find(handle);
    named.context = named.green != nullptr ? named.green->primary() : process().contexts.find(handle);
    return named ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

Context::Context(Device& device, bool primary, uint32_t context_flags)
    : flags(context_flags),
      m_device(device),
      m_primary(primary),
      m_id(new_context_id()),
      m_group(std::make_shared<QueueGroup>()) {}

Context::~Context() = default;

CUresult Context::activate() {
    CU_TRY(m_device.admit_context());
    const Profile& profile = m_device.config().profile;
    m_cost_bytes = profile.context_bytes;
    if (m_cost_bytes == Profile::k_usual_context_bytes) m_cost_bytes = std::min(k_context_bytes, m_device.total_bytes() / 8);
    if (!m_device.charge(m_cost_bytes)) {
        m_device.dismiss_context();
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(profile.context_ms));
    m_device.engine();
    auto legacy = std::make_shared<Stream>(shared_from_this(), QueueKind::legacy, CU_STREAM_DEFAULT, 0, 0);
    MutexLock lock(m_mutex);
    m_legacy = legacy;
    m_sticky.store(CUDA_SUCCESS);
    m_active.store(true, std::memory_order_release);
    return CUDA_SUCCESS;
}

std::optional<Context::Belongings> Context::end() {
    if (!m_active.exchange(false)) return std::nullopt;
    m_ended.store(true, std::memory_order_release);
    printf_ran.store(false);
    wait_for_work();
    m_device.flush_printf();
    cuda::abi::context_storage_clear(m_handle);
    Belongings belongings;
    belongings.streams = m_streams.give_up();
    MutexLock lock(m_mutex);
    if (m_legacy != nullptr) belongings.streams.push_back(std::exchange(m_legacy, nullptr));
    for (auto& [key, module] : std::exchange(m_modules, {})) belongings.modules.push_back(std::move(module));
    for (auto [id, device] : std::exchange(m_peer_devices, {})) process().ranges.deny_peer(m_device.ordinal(), device);
    m_peers.clear();
    return belongings;
}

void Context::leave_device() {
    m_device.refund(m_cost_bytes);
    m_device.dismiss_context();
}

void Context::fail(const exec::Fault& fault) {
    if (fault.ok()) return;
    if (fault.cu_result == CUDA_ERROR_ASSERT) {
        // The message is the program's own and goes where CUDA puts it, as it is.
        std::fprintf(stderr, "%s\n", fault.text.c_str());
    } else {
        WL_LOG(error, "softgpu", "{}: {}", cuda::abi::error_name_for_log(static_cast<CUresult>(fault.cu_result)), fault.text);
    }
    set_sticky(static_cast<CUresult>(fault.cu_result));
}

void Context::fail(CUresult result, const char* why) {
    WL_LOG(error, "softgpu", "{}: {}", cuda::abi::error_name_for_log(result), why);
    set_sticky(result);
}

void Context::set_sticky(CUresult result) {
    int none = CUDA_SUCCESS;
    m_sticky.compare_exchange_strong(none, result);
}

std::shared_ptr<Stream> Context::legacy_stream() const {
    MutexLock lock(m_mutex);
    return m_legacy;
}

std::shared_ptr<Stream> Context::per_thread_stream() {
    auto& mine = thread_state().default_streams[m_id];
    if (mine == nullptr || !mine->alive()) {
        mine = std::make_shared<Stream>(shared_from_this(), QueueKind::blocking, CU_STREAM_DEFAULT, 0, 0);
        m_streams.add(mine);
    }
    return mine;
}

void Context::wait_for_work() {
    for (const FencePtr& fence : Scheduler::instance().pending(*m_group)) fence->wait();
}

CUresult Context::synchronise() {
    wait_for_work();
    m_device.flush_printf();
    release_pool_excess(m_device);
    return sticky();
}

void Context::hold_until(const FencePtr& fence) {
    m_streams.hold_until(fence);
    legacy_stream()->submit_always({}, std::span(&fence, 1));
}

void Context::own_module(uint64_t key, std::shared_ptr<Module> module) {
    MutexLock lock(m_mutex);
    m_modules[key] = std::move(module);
}

std::shared_ptr<Module> Context::module_of(uint64_t key) const {
    MutexLock lock(m_mutex);
    auto found = m_modules.find(key);
    return found != m_modules.end() ? found->second : nullptr;
}

void Context::drop_module(uint64_t key) {
    std::shared_ptr<Module> dropped;  // destroyed without the lock
    MutexLock lock(m_mutex);
    auto found = m_modules.find(key);
    if (found == m_modules.end()) return;
    dropped = std::move(found->second);
    m_modules.erase(found);
    lock.unlock();
    dropped = nullptr;
    lock.lock();
}

CUresult Context::enable_peer(Context& peer) {
    MutexLock lock(m_mutex);
    if (!m_peers.insert(peer.id()).second) return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    m_peer_devices[peer.id()] = peer.device().ordinal();
    process().ranges.allow_peer(m_device.ordinal(), peer.device().ordinal());
    return CUDA_SUCCESS;
}

CUresult Context::disable_peer(Context& peer) {
    MutexLock lock(m_mutex);
    if (m_peers.erase(peer.id()) == 0) return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
    m_peer_devices.erase(peer.id());
    process().ranges.deny_peer(m_device.ordinal(), peer.device().ordinal());
    return CUDA_SUCCESS;
}

CUresult current_context_even_failed(Context*& context) {
    ThreadState& thread = thread_state();
    if (thread.contexts.empty() || !thread.contexts.back()) return CUDA_ERROR_INVALID_CONTEXT;
    const NamedContext& current = thread.contexts.back();
    context = current.context.get();
    if (current.green != nullptr && !current.green->alive()) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (context->active()) return CUDA_SUCCESS;
    // A primary context that nobody has retained yet can be current and cannot be used.
    return context->ended() ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult current_context(Context*& context) {
    CU_TRY(current_context_even_failed(context));
    return context->sticky();
}

std::shared_ptr<GreenContext> current_green() {
    const ThreadState& thread = thread_state();
    return thread.contexts.empty() ? nullptr : thread.contexts.back().green;
}

}  // namespace warpline::softgpu::driver
