// Chunks in files, so that they outlive the server.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "common/base/bytes.h"
#include "common/net/keyed_hash.h"
#include "server/cache/chunk_index.h"

namespace warpline::server {

/// A folder with a file for each chunk, FOLDER/TENANT/HASH, within a bound. A file is written under another name first. What is
/// read is checked by its hash: what a disk, or somebody, has changed is thrown away. The secret that all hashes depend on is
/// in the folder, too.
///
/// @thread one at a time
class DiskChunks {
public:
    /// Looks through the folder, which is made if need be.
    /// @param problem  set when it fails: one sentence for the server's owner
    /// @errors  io (the folder cannot be used, or others may read it)
    static Result<std::unique_ptr<DiskChunks>> open(const std::string& folder, uint64_t most_bytes, std::string& problem);
    ~DiskChunks();

    const net::HashKey& secret() const { return m_secret; }
    const ChunkIndex& index() const { return m_index; }
    uint64_t damaged() const { return m_damaged; }

    /// Writes a chunk, if it is not there. A disk that is full or broken costs a line in the log.
    void add(const std::string& tenant, const net::Digest& digest, BytesView bytes, double ns_per_byte);
    bool has(const std::string& tenant, const net::Digest& digest) const { return m_index.has(tenant, digest); }
    /// The bytes of a chunk. Nothing if there is none, or it is not what it was. @param hash  the tenant's
    std::optional<Bytes> read(const std::string& tenant, const net::Digest& digest, const net::KeyedHash& hash);

private:
    DiskChunks(std::string folder, int fd, uint64_t most_bytes);
    Result<void> read_secret(std::string& problem);
    void scan();
    void scan_tenant(const std::string& tenant);
    void delete_file(const std::string& tenant, const net::Digest& digest);
    bool write_file(const std::string& tenant, const net::Digest& digest, BytesView bytes);

    const std::string m_folder;
    const int m_fd;
    ChunkIndex m_index;
    net::HashKey m_secret{};
    uint64_t m_damaged = 0;
    bool m_told = false;  // that the disk takes nothing
};

}  // namespace warpline::server
