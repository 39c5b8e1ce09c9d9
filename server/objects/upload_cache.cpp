// Asking the keeper, and handing in.
#include "server/objects/upload_cache.h"

#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>

#include "common/log/log.h"
#include "server/control/chunk_file.h"

namespace warpline::server {

namespace {

/// For the greeting, which was sent before the session's first lane came.
constexpr int k_greeting_ms = 100;
/// For an answer. A keeper that takes longer hangs, or its disk does.
constexpr int k_cache_answer_ms = 2000;
/// Smaller chunks are not worth a descriptor.
constexpr uint64_t k_least_kept_bytes = 4096;
/// Chunks that come further apart were not waiting for the link.
constexpr std::chrono::milliseconds k_pause{1000};
/// Payloads that are offered are longer than a chunk, and the shortest take two offers. What is only asked costs no credit.
constexpr size_t k_offers_of_payload = 2, k_offers_without_credit = 64;
constexpr double k_weight_of_new_cost = 0.25;

void close_all(std::vector<int>& files) {
    for (const int fd : files) close(fd);
    files.clear();
}

}  // namespace

std::unique_ptr<UploadCache> UploadCache::open(int fd) {
    CacheChannel channel(dup(fd));
    std::vector<int> files;
    const auto greeting = channel.receive<CacheGreeting>(files, k_greeting_ms);
    close_all(files);
    if (greeting.ok()) return std::unique_ptr<UploadCache>(new UploadCache(fd, *greeting));
    WL_LOG(warn, "cache", "the session goes without what was uploaded before: {}", greeting.error().what);
    close(fd);
    return nullptr;
}

UploadCache::~UploadCache() { stop(); }

void UploadCache::start(Owner& owner, uint64_t credit_bytes) {
    m_owner = &owner;
    m_most_offers = k_offers_without_credit + k_offers_of_payload * static_cast<size_t>(credit_bytes / k_chunk_file_bytes);
    m_thread = std::thread([this] { run(); });
}

void UploadCache::stop() {
    {
        MutexLock lock(m_mutex);
        m_stopping = true;
    }
    m_changed.notify_all();
    if (m_thread.joinable()) m_thread.join();
}

bool UploadCache::ask(UploadOffer offer) {
    {
        MutexLock lock(m_mutex);
        if (m_offers.size() >= m_most_offers) return false;
        m_offers.push_back(std::move(offer));
    }
    m_changed.notify_all();
    return true;
}

void UploadCache::run() {
    pthread_setname_np(pthread_self(), "uploads");
    std::vector<int> files;
    for (;;) {
        UploadOffer offer;
        {
            MutexLock lock(m_mutex);
            while (m_offers.empty() && !m_stopping) m_changed.wait(m_mutex);
            if (m_stopping) return;
            offer = std::move(m_offers.front());
            m_offers.pop_front();
        }
        const uint64_t has = look_up(offer, files);
        m_owner->offer_answered(offer, has, files);
        close_all(files);
    }
}

uint64_t UploadCache::look_up(const UploadOffer& offer, std::vector<int>& files) {
    if (m_is_silent.load(std::memory_order_relaxed)) return 0;
    CacheRequest request{};
    request.kind = CacheRequest::lookup;
    request.count = static_cast<uint32_t>(offer.digests.size());
    request.number = ++m_lookups;
    std::copy(offer.digests.begin(), offer.digests.end(), request.digests.begin());
    const auto sent = m_channel.send(request);
    auto answer = sent.ok() ? m_channel.receive<CacheAnswer>(files, k_cache_answer_ms) : Result<CacheAnswer>(sent.error());
    if (answer.ok() && answer->number == request.number && static_cast<size_t>(std::popcount(answer->has)) == files.size()) {
        // Each is as long as it has to be: its hash says so, and sealed files do not change.
        size_t next = 0;
        for (size_t i = 0; i < offer.digests.size(); ++i) {
            if ((answer->has >> i & 1) == 0) continue;
            const uint64_t offset = offer.offset + i * k_chunk_file_bytes;
            struct stat status {};
            const bool fits = next < files.size() && fstat(files[next++], &status) == 0 &&
                              static_cast<uint64_t>(status.st_size) == std::min(k_chunk_file_bytes, offer.total - offset);
            if (!fits) return 0;
        }
        if (next == files.size()) return answer->has;
        return 0;
    }
    m_is_silent.store(true, std::memory_order_relaxed);
    WL_LOG(warn, "cache", "the session goes on without what was uploaded before: the keeper does not answer");
    return 0;
}

/// What a byte takes on its way here, as the times between chunks say.
double UploadCache::cost_of(uint64_t bytes) {
    const auto now = std::chrono::steady_clock::now();
    MutexLock lock(m_mutex);
    const auto since = now - std::exchange(m_last_kept, now);
    if (since < k_pause) {
        const double ns = std::chrono::duration<double, std::nano>(since).count() / static_cast<double>(bytes);
        m_ns_per_byte += k_weight_of_new_cost * (ns - m_ns_per_byte);
    }
    return m_ns_per_byte;
}

void UploadCache::keep(BytesView chunk) {
    if (chunk.size() < k_least_kept_bytes || m_is_silent.load(std::memory_order_relaxed)) return;
    const auto file = make_chunk_file(chunk);
    if (!file.ok()) return;
    CacheRequest request{};
    request.kind = CacheRequest::keep;
    request.ns_per_byte = cost_of(chunk.size());
    const int files[] = {*file};
    static_cast<void>(m_channel.send(request, files));
    close(*file);
}

void ChunkGatherer::part(UploadCache& cache, uint64_t offset, uint64_t total, BytesView bytes, bool keep) {
    while (!bytes.empty()) {
        const uint64_t inside = offset % k_chunk_file_bytes;
        const uint64_t chunk_bytes = std::min(k_chunk_file_bytes, total - (offset - inside));
        const BytesView here = bytes.first(std::min<uint64_t>(bytes.size(), chunk_bytes - inside));
        // All of a chunk, or none of it.
        if (keep && (inside == 0 || m_chunk.size() == inside)) {
            piece(cache, offset, chunk_bytes, here);
        } else {
            m_chunk.clear();
        }
        offset += here.size();
        bytes = bytes.subspan(here.size());
    }
}

void ChunkGatherer::piece(UploadCache& cache, uint64_t offset, uint64_t chunk_bytes, BytesView bytes) {
    const uint64_t inside = offset % k_chunk_file_bytes;
    if (inside == 0) m_chunk.clear();
    if (bytes.size() == chunk_bytes) return cache.keep(bytes);
    if (!m_chunk.append(bytes)) return m_chunk.clear();
    if (m_chunk.size() != chunk_bytes) return;
    cache.keep(m_chunk.view());
    m_chunk.clear();
}

}  // namespace warpline::server
