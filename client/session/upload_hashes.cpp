// Chunk after chunk.
#include "client/session/upload_hashes.h"

#include <pthread.h>

#include <chrono>
#include <vector>

#include "common/base/quiet_thread.h"
#include "common/log/log.h"
#include "common/net/keyed_hash.h"

namespace warpline::client {

void UploadHashes::begin(const UploadInfo& info) {
    if (info.chunk_bytes == 0) return;
    m_info = info;
    m_is_due.store(true, std::memory_order_release);
}

void UploadHashes::expect() {
    if (!m_is_due.load(std::memory_order_acquire) || !m_is_due.exchange(false, std::memory_order_acq_rel)) return;
    auto started = make_quiet_thread([this] { run(); });
    // Without it everything is sent.
    if (!started.ok()) {
        WL_LOG(warn, "client", "what the server has is not asked for: {}", started.error().what);
        return;
    }
    m_outbox.begin_offers(m_info.chunk_bytes, m_info.stored_bytes);
    MutexLock lock(m_mutex);
    m_thread = std::move(*started);
}

void UploadHashes::join() {
    std::thread thread;
    {
        MutexLock lock(m_mutex);
        thread.swap(m_thread);
    }
    if (thread.joinable()) thread.join();
}

void UploadHashes::run() {
    (void)::pthread_setname_np(::pthread_self(), "wl-client-hash");
    m_runs.store(true, std::memory_order_relaxed);
    using Clock = std::chrono::steady_clock;
    const auto hash = net::KeyedHash::create(m_info.key);
    protocol::Outbox::HashWork work;
    std::vector<net::Digest> digests;
    while (m_outbox.next_to_hash(work)) {
        const auto begin = Clock::now();
        digests.clear();
        for (const BytesView chunk : work.chunks) {
            const auto digest = hash.ok() ? hash->digest(chunk) : Result<net::Digest>(hash.error());
            if (!digest.ok()) break;
            digests.push_back(*digest);
        }
        // What cannot be hashed is sent.
        const double took_ns = std::chrono::duration<double, std::nano>(Clock::now() - begin).count();
        (void)m_outbox.offer(work, as_bytes(digests.data(), digests.size() * sizeof(net::Digest)), took_ns);
        work = {};
    }
    m_runs.store(false, std::memory_order_relaxed);
}

}  // namespace warpline::client
