// Chunks found, and taken in by their own hash.
#include "server/cache/upload_store.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "common/base/scope_guard.h"
#include "common/log/log.h"

namespace warpline::server {

namespace {

std::string id_text(const net::HashKey& key) {
    std::string text;
    for (const uint8_t byte : key) text += log::format("{:02x}", byte);
    return text;
}

constexpr auto k_close_chunk = [](const ChunkIndex::Name&, const ChunkIndex::Chunk& chunk) { close(chunk.slot); };

/// Of a chunk that comes from disk, when it comes into memory.
constexpr double k_disk_ns_per_byte = 2;

}  // namespace

Result<std::unique_ptr<UploadStore>> UploadStore::open(const Limits& limits, std::string& problem) {
    std::unique_ptr<DiskChunks> disk;
    if (!limits.folder.empty()) disk = WL_TRY(DiskChunks::open(limits.folder, limits.disk_bytes, problem));
    // Without files nothing outlives this process, and so need not its secret.
    const net::HashKey secret = disk ? disk->secret() : WL_TRY(net::random_key());
    return std::unique_ptr<UploadStore>(new UploadStore(limits, std::move(disk), secret));
}

UploadStore::UploadStore(const Limits& limits, std::unique_ptr<DiskChunks> disk, const net::HashKey& secret)
    : m_secret(secret), m_memory(limits.memory_bytes, limits.chunks), m_disk(std::move(disk)) {}

UploadStore::~UploadStore() { m_memory.for_each(k_close_chunk); }

Result<const UploadStore::Tenant*> UploadStore::tenant(const std::string& name) {
    if (const auto known = m_tenants.find(name); known != m_tenants.end()) return &known->second;
    const net::HashKey id = WL_TRY(net::derive_key(m_secret, "tenant's folder", name));
    const net::HashKey key = WL_TRY(net::derive_key(m_secret, "tenant's key", name));
    net::KeyedHash hash = WL_TRY(net::KeyedHash::create(key));
    return &m_tenants.emplace(name, Tenant{id_text(id), key, std::move(hash)}).first->second;
}

uint64_t UploadStore::bytes_of(const Tenant& tenant) const {
    const uint64_t in_memory = m_memory.bytes_of(tenant.id);
    return m_disk ? std::max(in_memory, m_disk->index().bytes_of(tenant.id)) : in_memory;
}

int UploadStore::find(const Tenant& tenant, const net::Digest& digest) {
    if (const auto chunk = m_memory.want(tenant.id, digest)) {
        ++m_counters.hits;
        m_counters.hit_bytes += chunk->bytes;
        return chunk->slot;
    }
    if (auto bytes = m_disk ? m_disk->read(tenant.id, digest, tenant.hash) : std::nullopt) {
        const auto file = make_chunk_file(*bytes);
        if (file.ok() && m_memory.add(tenant.id, digest, {bytes->size(), *file}, k_disk_ns_per_byte, k_close_chunk)) {
            ++m_counters.hits;
            ++m_counters.from_disk;
            m_counters.hit_bytes += bytes->size();
            return *file;
        }
        if (file.ok()) close(*file);
    }
    ++m_counters.misses;
    return -1;
}

Result<void> UploadStore::keep(const Tenant& tenant, const net::Digest& digest, BytesView bytes, int fd, double ns_per_byte) {
    if (m_disk) m_disk->add(tenant.id, digest, bytes, ns_per_byte);
    if (m_memory.add(tenant.id, digest, {bytes.size(), fd}, ns_per_byte, k_close_chunk)) {
        ++m_counters.added;
    } else {
        close(fd);  // it is there already
    }
    return {};
}

Result<void> UploadStore::add_file(const Tenant& tenant, int fd, double ns_per_byte) {
    ScopeGuard close_it([fd] { close(fd); });
    constexpr int k_seals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
    struct stat status {};
    const bool is_sealed = fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && (fcntl(fd, F_GET_SEALS) & k_seals) == k_seals;
    const auto size = static_cast<uint64_t>(status.st_size);
    if (!is_sealed || size < k_least_chunk_bytes || size > k_most_chunk_bytes) {
        ++m_counters.refused;
        return Error{Code::malformed, "what is to be kept is no sealed chunk"};
    }
    void* const memory = mmap(nullptr, size, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
    if (memory == MAP_FAILED) return Error{Code::alloc_failed, "a chunk cannot be mapped", static_cast<uint32_t>(errno)};
    const ScopeGuard unmap_it([=] { munmap(memory, size); });
    const BytesView bytes = as_bytes(memory, size);
    const net::Digest digest = WL_TRY(tenant.hash.digest(bytes));
    close_it.dismiss();
    return keep(tenant, digest, bytes, fd, ns_per_byte);
}

Result<void> UploadStore::add(const Tenant& tenant, BytesView bytes, double ns_per_byte) {
    if (bytes.size() < k_least_chunk_bytes || bytes.size() > k_most_chunk_bytes)
        return Error{Code::bad_argument, "this is no chunk's size"};
    const net::Digest digest = WL_TRY(tenant.hash.digest(bytes));
    if (m_memory.has(tenant.id, digest)) return {};
    const int fd = WL_TRY(make_chunk_file(bytes));
    return keep(tenant, digest, bytes, fd, ns_per_byte);
}

}  // namespace warpline::server
