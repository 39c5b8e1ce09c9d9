// Sleeping and waking by a futex of our own.
#include "client/managed/parking.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace warpline::client::parking {

struct Place {
    std::atomic<uint32_t> wakes{0};
    std::atomic<uint32_t> visitors{0};
};

namespace {

constexpr size_t k_places = 256;
std::array<Place, k_places> g_places;

uint64_t hash(const void* address) { return reinterpret_cast<uint64_t>(address) * 0x9e3779b97f4a7c15; }
Place& place_of(const void* address) { return g_places[hash(address) >> 56]; }
uint32_t bit_of(const void* address) { return uint32_t{1} << (hash(address) >> 51 & 31); }

void wake_at(Place& place, uint32_t bits) {
    place.wakes.fetch_add(1);
    const int error = errno;
    ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&place.wakes), FUTEX_WAKE_BITSET | FUTEX_PRIVATE_FLAG, INT_MAX, nullptr,
              nullptr, bits);
    errno = error;
}

}  // namespace

uint32_t seen(const void* address) { return place_of(address).wakes.load(); }

Visit::Visit(const void* address) : m_place(place_of(address)), m_bit(bit_of(address)) { m_place.visitors.fetch_add(1); }
Visit::~Visit() { m_place.visitors.fetch_sub(1); }

int Visit::sleep(uint32_t seen, const Deadline* until) {
    if (until && until->time.tv_sec < 0) return ETIMEDOUT;
    const int operation =
        FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG | (until && until->clock == CLOCK_REALTIME ? FUTEX_CLOCK_REALTIME : 0);
    const int error = errno;
    const long result = ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&m_place.wakes), operation, seen,
                                  until ? &until->time : nullptr, nullptr, m_bit);
    const int said = result == 0 || errno == EAGAIN ? 0 : errno;
    errno = error;
    return said;
}

bool wake(const void* address) {
    // What was done to the lock comes before the look at the visitors: they look at it in the opposite order.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    Place& place = place_of(address);
    const bool any = place.visitors.load() != 0;
    if (any) wake_at(place, bit_of(address));
    return any;
}

void wake_all() {
    for (Place& place : g_places) wake_at(place, ~uint32_t{0});
}

}  // namespace warpline::client::parking
