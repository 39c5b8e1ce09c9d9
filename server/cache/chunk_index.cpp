// Worth, and who gives.
#include "server/cache/chunk_index.h"

#include <algorithm>

namespace warpline::server {

namespace {

/// What each chunk costs beside its bytes: asking, and a part of its own.
constexpr double k_ns_per_chunk = 100'000;
/// 8 Tb/s to 8 Mb/s: what is told of a link is not believed beyond.
constexpr double k_least_ns_per_byte = 0.001, k_most_ns_per_byte = 1000;
/// What was wanted more often than that is worth no more: it must be able to age.
constexpr unsigned k_most_wanted = 16;

}  // namespace

ChunkIndex::ChunkIndex(uint64_t most_bytes, uint64_t most_chunks)
    : m_most_bytes(most_bytes),
      m_least_charge(std::max<uint64_t>(most_bytes / std::max<uint64_t>(most_chunks, 1) + (most_bytes % most_chunks != 0), 1)) {
}

void ChunkIndex::rank(Tenant& tenant, const net::Digest& digest, Entry& entry) {
    const double cost = entry.ns_per_byte + k_ns_per_chunk / static_cast<double>(std::max<uint64_t>(entry.chunk.bytes, 1));
    entry.worth = tenant.inflation + cost * std::min(entry.wanted, k_most_wanted);
    entry.order = ++m_order;
    tenant.ranked.emplace(Rank{entry.worth, entry.order}, digest);
}

bool ChunkIndex::has(const std::string& tenant, const net::Digest& digest) const {
    const auto owner = m_tenants.find(tenant);
    return owner != m_tenants.end() && owner->second.entries.contains(digest);
}

uint64_t ChunkIndex::bytes_of(const std::string& tenant) const {
    const auto owner = m_tenants.find(tenant);
    return owner == m_tenants.end() ? 0 : owner->second.bytes;
}

std::optional<ChunkIndex::Chunk> ChunkIndex::want(const std::string& tenant, const net::Digest& digest) {
    const auto owner = m_tenants.find(tenant);
    if (owner == m_tenants.end()) return std::nullopt;
    const auto found = owner->second.entries.find(digest);
    if (found == owner->second.entries.end()) return std::nullopt;
    Entry& entry = found->second;
    owner->second.ranked.erase({entry.worth, entry.order});
    ++entry.wanted;
    rank(owner->second, digest, entry);
    return entry.chunk;
}

ChunkIndex::Chunk ChunkIndex::take_out(Tenant& tenant, const net::Digest& digest) {
    const auto found = tenant.entries.find(digest);
    const Entry entry = found->second;
    tenant.ranked.erase({entry.worth, entry.order});
    tenant.entries.erase(found);
    const uint64_t charged = charge(entry.chunk.bytes);
    tenant.charged_bytes -= charged;
    tenant.bytes -= entry.chunk.bytes;
    m_charged_bytes -= charged;
    m_bytes -= entry.chunk.bytes;
    --m_chunks;
    return entry.chunk;
}

/// For a tenant, who has what it is about to get already.
void ChunkIndex::make_room(const std::string& tenant_name, uint64_t charged, Gone gone) {
    const auto wealth = [&](const auto& tenant) {
        return tenant.second.charged_bytes + (tenant.first == tenant_name ? charged : 0);
    };
    while (m_charged_bytes + charged > m_most_bytes) {
        const auto richest = std::max_element(m_tenants.begin(), m_tenants.end(),
                                              [&](const auto& a, const auto& b) { return wealth(a) < wealth(b); });
        Tenant& tenant = richest->second;
        const auto [rank, digest] = *tenant.ranked.begin();
        tenant.inflation = rank.first;
        const Name name{richest->first, digest};
        const Chunk chunk = take_out(tenant, digest);
        ++m_evicted;
        if (tenant.entries.empty()) m_tenants.erase(richest);
        gone(name, chunk);
    }
}

bool ChunkIndex::add(const std::string& tenant, const net::Digest& digest, Chunk chunk, double ns_per_byte, Gone gone) {
    const uint64_t charged = charge(chunk.bytes);
    if (charged > m_most_bytes || has(tenant, digest)) return false;
    make_room(tenant, charged, gone);
    Tenant& owner = m_tenants[tenant];
    Entry& entry = owner.entries[digest];
    entry.chunk = chunk;
    // What is not a number is no cost either.
    entry.ns_per_byte = ns_per_byte > k_least_ns_per_byte ? std::min(ns_per_byte, k_most_ns_per_byte) : k_least_ns_per_byte;
    rank(owner, digest, entry);
    owner.charged_bytes += charged;
    owner.bytes += chunk.bytes;
    m_charged_bytes += charged;
    m_bytes += chunk.bytes;
    ++m_chunks;
    return true;
}

void ChunkIndex::for_each(Gone use) const {
    for (const auto& [name, tenant] : m_tenants)
        for (const auto& [digest, entry] : tenant.entries) use({name, digest}, entry.chunk);
}

std::optional<ChunkIndex::Chunk> ChunkIndex::remove(const std::string& tenant, const net::Digest& digest) {
    const auto owner = m_tenants.find(tenant);
    if (owner == m_tenants.end() || !owner->second.entries.contains(digest)) return std::nullopt;
    const Chunk chunk = take_out(owner->second, digest);
    if (owner->second.entries.empty()) m_tenants.erase(owner);
    return chunk;
}

}  // namespace warpline::server
