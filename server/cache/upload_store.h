// What tenants have uploaded, in memory and, if there is a folder for it, on disk.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "common/net/keyed_hash.h"
#include "server/cache/chunk_index.h"
#include "server/cache/disk_chunks.h"
#include "server/control/chunk_file.h"

namespace warpline::server {

/// What the store has done since it was opened.
struct StoreCounters {
    uint64_t hits = 0, hit_bytes = 0, misses = 0;
    uint64_t from_disk = 0;  ///< of the hits
    uint64_t added = 0, refused = 0;
};

/// Chunks by tenant and keyed hash. In memory each is a file of its own (memfd, sealed): whoever gets its descriptor can read
/// it and change nothing. The tenants' keys come from one secret, and each tenant finds its own chunks only.
///
/// @thread one at a time
class UploadStore {
public:
    struct Limits {
        uint64_t memory_bytes = 0;
        uint64_t chunks = 0;  ///< in memory: each is a descriptor
        std::string folder;   ///< empty: nothing on disk
        uint64_t disk_bytes = 0;
    };
    /// A tenant, for as long as the store lives.
    struct Tenant {
        std::string id;  ///< for names of files: says nothing about the tenant's own
        net::HashKey key;
        net::KeyedHash hash;
    };
    static constexpr uint64_t k_least_chunk_bytes = 4096;
    static constexpr uint64_t k_most_chunk_bytes = k_chunk_file_bytes;

    /// @param problem  set when it fails @errors io, alloc_failed
    static Result<std::unique_ptr<UploadStore>> open(const Limits& limits, std::string& problem);
    ~UploadStore();

    /// @errors alloc_failed
    Result<const Tenant*> tenant(const std::string& name);
    /// In memory or on disk.
    uint64_t bytes_of(const Tenant& tenant) const;

    /// The descriptor of a chunk, which stays ours; -1: there is none. What is on disk only is read, checked, and kept in
    /// memory.
    int find(const Tenant& tenant, const net::Digest& digest);
    /// Keeps what is in a sealed memfd, under the hash of what is in it. The descriptor is ours from now on, whatever happens.
    /// @errors malformed (no memfd of a chunk's size that is sealed), alloc_failed
    Result<void> add_file(const Tenant& tenant, int fd, double ns_per_byte);
    /// Keeps these bytes. @errors bad_argument (a wrong size), io, alloc_failed
    Result<void> add(const Tenant& tenant, BytesView bytes, double ns_per_byte);

    const ChunkIndex& memory() const { return m_memory; }
    const DiskChunks* disk() const { return m_disk.get(); }
    const StoreCounters& counters() const { return m_counters; }

private:
    UploadStore(const Limits& limits, std::unique_ptr<DiskChunks> disk, const net::HashKey& secret);
    Result<void> keep(const Tenant& tenant, const net::Digest& digest, BytesView bytes, int fd, double ns_per_byte);

    const net::HashKey m_secret;
    ChunkIndex m_memory;
    std::unique_ptr<DiskChunks> m_disk;
    std::map<std::string, Tenant> m_tenants;
    StoreCounters m_counters;
};

}  // namespace warpline::server
