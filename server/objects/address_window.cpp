// Finds a range of addresses for device memory, whatever a driver does with hints.
#include "server/objects/address_window.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <string>

#include "common/log/log.h"

namespace warpline::server {

namespace {

constexpr uint64_t k_gib = uint64_t{1} << 30;
constexpr uint64_t k_alignment = uint64_t{2} << 20;
constexpr uint64_t k_smallest_bytes = 4 * k_gib;
constexpr uint64_t k_largest_bytes = 16384 * k_gib;
constexpr uint64_t k_other_bytes = 1024 * k_gib;
// Where neither Linux nor a driver puts things of its own, should the client's proposal be taken here. Below 2^46, which every
// driver can reserve.
constexpr uint64_t k_other_hints[] = {0x240000000000, 0x280000000000, 0x2c0000000000,
                                      0x300000000000, 0x340000000000, 0x380000000000};
constexpr AddressWindow k_low_windows[] = {
    {64 * k_gib, 448 * k_gib, 0}, {128 * k_gib, 256 * k_gib, 0}, {256 * k_gib, 256 * k_gib, 0}, {64 * k_gib, 64 * k_gib, 0}};
constexpr uint64_t k_low_end = 2048 * k_gib;
/// What the driver puts somewhere ends, as a rule, where Linux put the last library of this process; in the client's process
/// that is up to 1 TiB lower or higher, and there are other libraries below. So the end of a large range is left alone.
constexpr uint64_t k_end_bytes = 2048 * k_gib;
/// A driver that puts two ranges elsewhere ignores hints.
constexpr int k_ignored_at_most = 2;

class Search {
public:
    explicit Search(const Driver& driver) : m_driver(driver) {}

    /// True if the driver has reserved exactly this.
    bool at(uint64_t hint, uint64_t bytes) {
        if (hint == 0 || m_ignored >= k_ignored_at_most) return false;
        const CUdeviceptr got = reserve(bytes, hint);
        if (got == hint) return true;
        // Wherever the driver found room, the client probably has something of its own.
        if (got != 0) release_address_window(m_driver, {got, bytes, 0});
        if (got != 0) ++m_ignored;
        return false;
    }
    CUdeviceptr reserve(uint64_t bytes, uint64_t hint) const {
        CUdeviceptr address = 0;
        return m_driver->cuMemAddressReserve(&address, bytes, k_alignment, hint, 0) == CUDA_SUCCESS ? address : 0;
    }

private:
    const Driver& m_driver;
    int m_ignored = 0;
};

bool has_virtual_memory(const Driver& driver) {
    return driver->cuMemAddressReserve != nullptr && driver->cuMemCreate != nullptr && driver->cuMemMap != nullptr &&
           driver->cuMemSetAccess != nullptr && driver->cuMemUnmap != nullptr && driver->cuMemRelease != nullptr;
}

AddressWindow search_large(const Driver& driver, AddressWindow wanted, uint64_t largest) {
    Search hints(driver);
    for (uint64_t bytes = largest; bytes >= k_smallest_bytes; bytes /= 4) {
        if (hints.at(wanted.address, bytes)) return {wanted.address, bytes, 0};
    }
    Search others(driver);
    for (const uint64_t hint : k_other_hints) {
        if (others.at(hint, std::min(largest, k_other_bytes))) return {hint, std::min(largest, k_other_bytes), 0};
    }
    return {};
}

AddressWindow search_low(const Driver& driver, AddressWindow wanted) {
    Search hints(driver);
    const bool low = wanted.address != 0 && wanted.address < k_low_end && wanted.bytes <= k_low_end - wanted.address;
    if (low && hints.at(wanted.address, wanted.bytes)) return wanted;
    for (const AddressWindow& window : k_low_windows) {
        if (hints.at(window.address, window.bytes)) return window;
    }
    return {};
}

}  // namespace

AddressSpace address_space_of_this_machine() {
    if (access("/dev/dxg", F_OK) == 0) return AddressSpace::low;
    std::string release;
    std::getline(std::ifstream("/proc/sys/kernel/osrelease"), release);
    return release.find("microsoft") != std::string::npos ? AddressSpace::low : AddressSpace::large;
}

void release_address_window(const Driver& driver, AddressWindow window) {
    if (window.bytes != 0 && driver->cuMemAddressFree != nullptr)
        driver->cuMemAddressFree(window.address, window.bytes + window.unused_bytes);
}

Result<AddressWindow> reserve_address_window(const Driver& driver, AddressWindow wanted, AddressSpace space) {
    if (!has_virtual_memory(driver)) return Error{Code::unsupported, "this driver has no virtual memory management"};
    wanted.address &= ~(k_alignment - 1);
    wanted.bytes = std::clamp(wanted.bytes, k_smallest_bytes, k_largest_bytes) & ~(k_alignment - 1);
    AddressWindow window = space == AddressSpace::low ? search_low(driver, wanted) : search_large(driver, wanted, wanted.bytes);
    const uint64_t most = space == AddressSpace::low ? k_low_windows[0].bytes : wanted.bytes;
    const Search anywhere(driver);
    for (uint64_t bytes = space == AddressSpace::low ? most : k_largest_bytes; window.bytes == 0 && bytes >= k_smallest_bytes;
         bytes /= 4) {
        const uint64_t unused = bytes > 2 * k_end_bytes ? k_end_bytes : bytes > k_end_bytes ? bytes / 2 : 0;
        if (const CUdeviceptr address = anywhere.reserve(bytes, 0); address != 0) window = {address, bytes - unused, unused};
    }
    if (window.bytes == 0) return Error{Code::alloc_failed, "no range of addresses for device memory"};
    if (window.address != wanted.address || window.bytes != wanted.bytes)
        WL_LOG(debug, "memory", "the driver gives {:#x} ({} bytes) instead of {:#x} ({} bytes)", window.address, window.bytes,
               wanted.address, wanted.bytes);
    return window;
}

}  // namespace warpline::server
