// Finding and keeping a range of addresses that nothing else in the process uses.
#include "client/session/address_window.h"

#include <sys/mman.h>

#include <set>

#include "common/base/mutex.h"

namespace warpline::client {

namespace {

constexpr uint64_t k_gib = 1ull << 30;

// Away from where Linux places programs, libraries, heaps and stacks, from the shadow memory of the sanitizers, and from where
// the software GPU has its own memory (0x200000000000); the ones below 2^40 are what the thread sanitizer leaves. All are below
// 2^46, which NVIDIA's driver can reserve as well.
// Programs reserve many times the memory of a GPU (PyTorch's expandable segments: 9/8 of it for each stream and pool), and
// addresses cost nothing: the first has room for a hundred such reservations of the largest GPU.
constexpr AddressWindow k_candidates[] = {
    {0x300000000000, 16384 * k_gib}, {0x300000000000, 1024 * k_gib}, {0x340000000000, 1024 * k_gib},
    {0x280000000000, 1024 * k_gib},  {0x380000000000, 1024 * k_gib}, {0x300000000000, 256 * k_gib},
    {0x340000000000, 256 * k_gib},   {0x002000000000, 256 * k_gib},  {0x001000000000, 128 * k_gib},
    {0x300000000000, 64 * k_gib},    {0x001000000000, 32 * k_gib},
};

}  // namespace

bool reserve_window_at(const AddressWindow& window) {
    auto* wanted = reinterpret_cast<void*>(window.base);
    void* got =
        ::mmap(wanted, window.size_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (got == MAP_FAILED) return false;
    if (got == wanted) return true;
    // A kernel or a sanitizer that does not know the flag takes the address as a hint.
    ::munmap(got, window.size_bytes);
    return false;
}

AddressWindow reserve_window(unsigned skip) {
    for (const AddressWindow& candidate : k_candidates) {
        if (!reserve_window_at(candidate)) continue;
        if (skip == 0) return candidate;
        --skip;
        release_window(candidate);
    }
    return {};
}

bool claim_server_range(uint64_t address, uint64_t size_bytes) {
    constexpr uint64_t k_block = 2ull << 20;
    struct Claimed {
        Mutex mutex;
        std::set<uint64_t> blocks WL_GUARDED_BY(mutex);
    };
    static auto* claimed = new Claimed;  // never destroyed: like the process's one session
    MutexLock lock(claimed->mutex);
    for (uint64_t block = address / k_block * k_block; block < address + size_bytes; block += k_block) {
        if (claimed->blocks.contains(block)) continue;
        if (!reserve_window_at({block, k_block})) return false;
        claimed->blocks.insert(block);
    }
    return true;
}

void release_window(const AddressWindow& window) {
    if (window.size_bytes != 0) ::munmap(reinterpret_cast<void*>(window.base), window.size_bytes);
}

}  // namespace warpline::client
