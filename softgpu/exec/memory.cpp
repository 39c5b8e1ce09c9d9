// The device's window of addresses, and the table of ranges in it.
#include "softgpu/exec/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "softgpu/exec/rounding.h"

namespace warpline::softgpu::exec {

namespace {

constexpr uint64_t k_window_bytes = 1ull << 40;
constexpr uint64_t k_smallest_window_bytes = 1ull << 33;
// Away from where Linux puts heaps, libraries and stacks, so that addresses of the device are easy to tell in a debugger.
constexpr uint64_t k_first_candidate = 0x2000'0000'0000;
constexpr int k_candidates = 16;

void* reserve_addresses(uint64_t address, uint64_t size_bytes) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (address != 0 ? MAP_FIXED_NOREPLACE : 0);
    void* got = mmap(reinterpret_cast<void*>(address), size_bytes, PROT_NONE, flags, -1, 0);
    if (got == MAP_FAILED) return nullptr;
    if (address != 0 && got != reinterpret_cast<void*>(address)) {  // a kernel that does not know MAP_FIXED_NOREPLACE
        munmap(got, size_bytes);
        return nullptr;
    }
    return got;
}

bool overflows(uint64_t address, uint64_t size_bytes) { return size_bytes == 0 || address + size_bytes < address; }

}  // namespace

MemoryImpl::MemoryImpl() : m_table(nullptr) {
    for (uint64_t size = k_window_bytes; m_base == 0 && size >= k_smallest_window_bytes; size /= 4) {
#if !defined(WARPLINE_THREAD_SANITIZER)
        for (int i = 0; m_base == 0 && i < k_candidates; ++i) {
            uint64_t wanted = k_first_candidate + uint64_t(i) * k_window_bytes;
            m_base = reinterpret_cast<uint64_t>(reserve_addresses(wanted, size));
        }
#endif
        if (m_base == 0) m_base = reinterpret_cast<uint64_t>(reserve_addresses(0, size));
        m_size = size;
    }
    if (m_base == 0) m_size = 0;
    MutexLock lock(m_mutex);
    if (m_size > k_code_window_bytes) m_free[m_base + k_code_window_bytes] = m_base + m_size;
    publish();
}

MemoryImpl::~MemoryImpl() {
    if (m_size != 0) munmap(reinterpret_cast<void*>(m_base), m_size);
    for (auto [begin, end] : m_outside) munmap(reinterpret_cast<void*>(begin), end - begin);
    delete m_table.load(std::memory_order_relaxed);
}

bool MemoryImpl::in_window(uint64_t address, uint64_t size_bytes) const {
    return address >= m_base + k_code_window_bytes && address + size_bytes <= m_base + m_size;
}

Result<uint64_t> MemoryImpl::reserve(uint64_t size_bytes, uint64_t alignment_bytes, uint64_t hint) {
    if (size_bytes == 0 || size_bytes > k_window_bytes) return Error{Code::bad_argument, "size of a reservation"};
    size_bytes = round_up(size_bytes, k_page_bytes);
    uint64_t alignment = std::max(alignment_bytes, k_page_bytes);
    if ((alignment & (alignment - 1)) != 0) return Error{Code::bad_argument, "alignment of a reservation"};
    MutexLock lock(m_mutex);
    if (hint != 0) {
        if (hint % alignment != 0) return Error{Code::bad_argument, "alignment of a reservation"};
        if (!in_window(hint, size_bytes)) {
            if (hint < m_base + m_size && hint + size_bytes > m_base) return Error{Code::alloc_failed, "addresses are taken"};
            if (reserve_addresses(hint, size_bytes) == nullptr) return Error{Code::alloc_failed, "addresses are taken"};
            m_outside[hint] = hint + size_bytes;
            return hint;
        }
        auto free = m_free.upper_bound(hint);
        if (free == m_free.begin() || (--free)->second < hint + size_bytes) {
            return Error{Code::alloc_failed, "addresses are taken"};
        }
        auto [begin, end] = *free;
        m_free.erase(free);
        if (begin < hint) m_free[begin] = hint;
        if (hint + size_bytes < end) m_free[hint + size_bytes] = end;
        return hint;
    }
    for (auto [begin, end] : m_free) {
        uint64_t start = round_up(begin, alignment);
        if (start < begin || start >= end || end - start < size_bytes) continue;
        m_free.erase(begin);
        if (begin < start) m_free[begin] = start;
        if (start + size_bytes < end) m_free[start + size_bytes] = end;
        return start;
    }
    return Error{Code::alloc_failed, "no addresses left"};
}

Result<void> MemoryImpl::release(uint64_t address, uint64_t size_bytes) {
    size_bytes = round_up(size_bytes, k_page_bytes);
    if (overflows(address, size_bytes)) return Error{Code::bad_argument, "not a reservation"};
    MutexLock lock(m_mutex);
    if (!in_window(address, size_bytes)) {
        auto found = m_outside.find(address);
        if (found == m_outside.end() || found->second != address + size_bytes) {
            return Error{Code::bad_argument, "not a reservation"};
        }
        munmap(reinterpret_cast<void*>(address), size_bytes);
        m_outside.erase(found);
        return {};
    }
    auto next = m_free.lower_bound(address);
    if (next != m_free.end() && next->first < address + size_bytes) return Error{Code::bad_argument, "not a reservation"};
    uint64_t begin = address, end = address + size_bytes;
    if (next != m_free.begin()) {
        auto before = std::prev(next);
        if (before->second > begin) return Error{Code::bad_argument, "not a reservation"};
        if (before->second == begin) {
            begin = before->first;
            m_free.erase(before);
        }
    }
    if (next != m_free.end() && next->first == end) {
        end = next->second;
        m_free.erase(next);
    }
    m_free[begin] = end;
    return {};
}

Result<void> MemoryImpl::map(uint64_t address, uint64_t size_bytes) {
    if (address % k_page_bytes != 0 || overflows(address, size_bytes)) return Error{Code::bad_argument, "address to map"};
    void* got = mmap(reinterpret_cast<void*>(address), round_up(size_bytes, k_page_bytes), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    if (got == MAP_FAILED) return Error{Code::alloc_failed, "no memory to map", uint32_t(errno)};
    return {};
}

Result<void> MemoryImpl::unmap(uint64_t address, uint64_t size_bytes) {
    if (address % k_page_bytes != 0 || overflows(address, size_bytes)) return Error{Code::bad_argument, "address to unmap"};
    void* got = mmap(reinterpret_cast<void*>(address), round_up(size_bytes, k_page_bytes), PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    if (got == MAP_FAILED) return Error{Code::alloc_failed, "cannot unmap", uint32_t(errno)};
    return {};
}

Result<void> MemoryImpl::add_range(uint64_t address, uint64_t size_bytes) {
    if (overflows(address, size_bytes)) return Error{Code::bad_argument, "empty range"};
    MutexLock lock(m_mutex);
    auto next = m_ranges.lower_bound(address);
    if (next != m_ranges.end() && next->first < address + size_bytes) return Error{Code::bad_argument, "ranges overlap"};
    if (next != m_ranges.begin() && std::prev(next)->second > address) return Error{Code::bad_argument, "ranges overlap"};
    m_ranges[address] = address + size_bytes;
    publish();
    return {};
}

Result<void> MemoryImpl::remove_range(uint64_t address, uint64_t size_bytes) {
    MutexLock lock(m_mutex);
    auto found = m_ranges.find(address);
    if (found == m_ranges.end() || found->second != address + size_bytes) return Error{Code::bad_argument, "not a range"};
    m_ranges.erase(found);
    publish();
    m_epoch.fetch_add(1);
    wait_for_readers();
    m_retired.clear();
    return {};
}

bool MemoryImpl::contains(uint64_t address, uint64_t size_bytes) const {
    if (overflows(address, size_bytes)) return false;
    MutexLock lock(m_mutex);
    auto next = m_ranges.upper_bound(address);
    return next != m_ranges.begin() && std::prev(next)->second >= address + size_bytes;
}

bool MemoryImpl::find(uint64_t address, RangeCache& out) const {
    const Table& table = *m_table.load(std::memory_order_acquire);
    auto after = std::upper_bound(table.begin(), table.end(), address,
                                  [](uint64_t value, const Range& range) { return value < range.begin; });
    if (after == table.begin() || std::prev(after)->end <= address) return false;
    out.begin = std::prev(after)->begin;
    out.end = std::prev(after)->end;
    return true;
}

void MemoryImpl::publish() {
    auto table = std::make_unique<Table>();
    table->reserve(m_ranges.size());
    for (auto [begin, end] : m_ranges) table->push_back({begin, end});
    const Table* old = m_table.exchange(table.release(), std::memory_order_acq_rel);
    bool busy = std::any_of(m_readers.begin(), m_readers.end(), [](const RangeReader* reader) {
        return reader->epoch.load(std::memory_order_seq_cst) != RangeReader::k_idle;
    });
    if (!busy) m_retired.clear();
    if (old == nullptr) return;
    std::unique_ptr<const Table> owned(old);
    // A reader that turned active after the exchange sees the new table; one that was active keeps the old one alive.
    if (busy) m_retired.push_back(std::move(owned));
}

void MemoryImpl::wait_for_readers() {
    uint64_t epoch = m_epoch.load();
    m_waiters.fetch_add(1);
    auto moved_on = [&](const RangeReader* reader) { return reader->epoch.load() >= epoch; };
    while (!std::all_of(m_readers.begin(), m_readers.end(), moved_on)) m_reader_moved.wait(m_mutex);
    m_waiters.fetch_sub(1);
}

void MemoryImpl::add_reader(RangeReader& reader) {
    MutexLock lock(m_mutex);
    m_readers.push_back(&reader);
}

void MemoryImpl::remove_reader(RangeReader& reader) {
    MutexLock lock(m_mutex);
    std::erase(m_readers, &reader);
    m_reader_moved.notify_all();
}

bool MemoryImpl::refresh(RangeReader& reader) {
    uint64_t epoch = m_epoch.load();
    if (reader.epoch.load(std::memory_order_relaxed) == epoch) return false;
    reader.epoch.store(epoch);
    if (m_waiters.load() != 0) {
        MutexLock lock(m_mutex);
        m_reader_moved.notify_all();
    }
    return true;
}

void MemoryImpl::set_idle(RangeReader& reader) {
    reader.epoch.store(RangeReader::k_idle);
    if (m_waiters.load() != 0) {
        MutexLock lock(m_mutex);
        m_reader_moved.notify_all();
    }
}

uint64_t MemoryImpl::allocate(uint64_t size_bytes, uint64_t alignment_bytes) {
    auto address = reserve(std::max<uint64_t>(size_bytes, 1), alignment_bytes, 0);
    if (!address.ok()) return 0;
    if (!map(*address, size_bytes).ok()) {
        (void)release(*address, size_bytes);
        return 0;
    }
    (void)add_range(*address, size_bytes);
    return *address;
}

void MemoryImpl::free(uint64_t address, uint64_t size_bytes) {
    (void)remove_range(address, size_bytes);
    (void)unmap(address, size_bytes);
    (void)release(address, size_bytes);
}

}  // namespace warpline::softgpu::exec
