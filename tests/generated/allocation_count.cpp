// Replaces operator new by one that counts.
#include "tests/generated/allocation_count.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<size_t> g_allocated_bytes{0};  // relaxed: a sum, nothing is published with it

}  // namespace

namespace warpline::tests {

size_t allocated_bytes() { return g_allocated_bytes.load(std::memory_order_relaxed); }

}  // namespace warpline::tests

// In a file of their own, so that no caller sees their bodies: compilers warn about new and free that meet by inlining.
void* operator new(size_t size_bytes) {
    g_allocated_bytes.fetch_add(size_bytes, std::memory_order_relaxed);
    if (void* memory = std::malloc(size_bytes)) return memory;
    throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
