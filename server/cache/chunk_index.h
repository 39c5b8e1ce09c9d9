// Which of the chunks that tenants have uploaded are kept. Pure: no clock, no file, no lock.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "common/base/function_ref.h"
#include "common/net/keyed_hash.h"

namespace warpline::server {

/// What is kept, by tenant and hash, within a bound.
///
/// Of one tenant that chunk goes first which is worth least for each byte that it takes (GDSF: how often it was wanted, times
/// what it costs to send it again; what is not wanted for long becomes worth less than what is new). Of several tenants the one
/// gives that has the most. So who has no more than an equal part of the room loses nothing to others, whatever they do.
///
/// @thread one at a time
class ChunkIndex {
public:
    /// Something of the owner's that belongs to a chunk, such as a descriptor.
    using Slot = int;

    /// @param most_chunks  a chunk counts at least an equal part of the room, so that there are never more
    ChunkIndex(uint64_t most_bytes, uint64_t most_chunks);

    struct Chunk {
        uint64_t bytes = 0;
        Slot slot = -1;
    };
    struct Name {
        std::string tenant;
        net::Digest digest;
    };
    using Gone = FunctionRef<void(const Name&, const Chunk&)>;

    /// The chunk, which counts as wanted once more. Nothing if this tenant has none like that.
    std::optional<Chunk> want(const std::string& tenant, const net::Digest& digest);
    bool has(const std::string& tenant, const net::Digest& digest) const;

    /// Takes in a chunk that the tenant does not have, and tells what goes for it.
    /// @param ns_per_byte  what it cost to send it; bounded here
    /// @return  false if it is larger than all the room
    bool add(const std::string& tenant, const net::Digest& digest, Chunk chunk, double ns_per_byte, Gone gone);
    /// Forgets a chunk. Nothing if there is none.
    std::optional<Chunk> remove(const std::string& tenant, const net::Digest& digest);

    /// All that is kept.
    void for_each(Gone use) const;

    uint64_t bytes() const { return m_bytes; }
    uint64_t chunks() const { return m_chunks; }
    uint64_t evicted() const { return m_evicted; }
    uint64_t bytes_of(const std::string& tenant) const;
    size_t tenants() const { return m_tenants.size(); }

private:
    struct DigestHash {
        size_t operator()(const net::Digest& digest) const {
            size_t value;
            std::memcpy(&value, digest.data(), sizeof value);
            return value;
        }
    };
    struct Entry {
        Chunk chunk;
        double ns_per_byte = 0;
        unsigned wanted = 1;
        double worth = 0;
        uint64_t order = 0;  ///< among those that are worth the same
    };
    using Rank = std::pair<double, uint64_t>;
    struct Tenant {
        std::unordered_map<net::Digest, Entry, DigestHash> entries;
        std::map<Rank, net::Digest> ranked;  ///< the first goes first
        double inflation = 0;                ///< what the last one that went was worth
        uint64_t charged_bytes = 0;
        uint64_t bytes = 0;
    };
    uint64_t charge(uint64_t bytes) const { return bytes > m_least_charge ? bytes : m_least_charge; }
    void rank(Tenant& tenant, const net::Digest& digest, Entry& entry);
    Chunk take_out(Tenant& tenant, const net::Digest& digest);
    void make_room(const std::string& tenant, uint64_t charged, Gone gone);

    const uint64_t m_most_bytes;
    const uint64_t m_least_charge;
    std::map<std::string, Tenant> m_tenants;
    uint64_t m_charged_bytes = 0;
    uint64_t m_bytes = 0;
    uint64_t m_chunks = 0;
    uint64_t m_evicted = 0;
    uint64_t m_order = 0;
};

}  // namespace warpline::server
