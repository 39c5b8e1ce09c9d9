// Which pages are valid where, and what has to be written to the device.
#include "client/managed/page_region.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "common/base/differences.h"
#include "common/base/file_size.h"
#include "common/log/log.h"

namespace warpline::client {

namespace {

constexpr uint64_t k_page = 4096;
/// Each change of access makes an entry in the kernel's list of mappings, of which a process has 65,530.
constexpr uint64_t k_most_units = 16384;

uint64_t unit_bytes_for(uint64_t size_bytes) {
    uint64_t unit = k_page;
    while (size_bytes / unit > k_most_units) unit *= 2;
    return unit;
}

std::byte* map_file(int file, uint64_t size_bytes, void* at, bool inherited) {
    const int flags = MAP_SHARED | MAP_NORESERVE | (at ? MAP_FIXED : 0);
    void* mapped = ::mmap(at, size_bytes, PROT_READ | PROT_WRITE, flags, file, 0);
    if (mapped == MAP_FAILED) return nullptr;
    // A child of fork() has none of CUDA's memory, and must not write into its parent's, but for what is page-locked.
    if (!inherited) ::madvise(mapped, size_bytes, MADV_DONTFORK);
    return static_cast<std::byte*>(mapped);
}

void append(std::vector<AddressRange>& ranges, uint64_t begin, uint64_t end) {
    if (begin >= end) return;
    if (!ranges.empty() && ranges.back().end() == begin)
        ranges.back().size_bytes += end - begin;
    else
        ranges.push_back({begin, end - begin});
}

}  // namespace

PageRegion::PageRegion(AddressRange range, const Options& options)
    : m_range(range),
      m_unit_bytes(unit_bytes_for(range.size_bytes)),
      m_sharing(options.sharing),
      m_inherited(options.sharing == Sharing::concurrent) {
    const uint64_t units = (range.size_bytes + m_unit_bytes - 1) / m_unit_bytes;
    m_states.assign(units, options.valid_here ? uint8_t{k_valid | k_dirty | k_fresh} : uint8_t{k_wait});
    m_valid_units = options.valid_here ? units : 0;
}

std::shared_ptr<PageRegion> PageRegion::make(AddressRange range, const Options& options) {
    std::shared_ptr<PageRegion> region(new PageRegion(range, options));
    return region->map(options.adopts) ? region : nullptr;
}

/// Pages of zeros are left out: nobody has touched them.
void PageRegion::adopt() {
    static constexpr std::byte k_zeros[k_page]{};
    protect(0, m_states.size(), PROT_READ);
    for (uint64_t offset = 0; offset < m_range.size_bytes; offset += k_page) {
        const void* page = reinterpret_cast<const void*>(m_range.base + offset);
        if (std::memcmp(page, k_zeros, k_page) != 0) std::memcpy(m_alias + offset, page, k_page);
    }
}

bool PageRegion::map(bool adopts) {
    m_file = ::memfd_create(k_file_name, MFD_CLOEXEC);
    struct stat about {};
    if (m_file < 0 || !resize_file(m_file, m_range.size_bytes) || ::fstat(m_file, &about) != 0) {
        WL_LOG(warn, "client", "{} bytes of memory that program and device share cannot be had: {}{}", m_range.size_bytes,
               std::generic_category().message(errno), errno == EFBIG ? " (the limit that `ulimit -f` tells)" : "");
        return false;
    }
    m_inode = about.st_ino;
    m_alias = map_file(m_file, m_range.size_bytes, nullptr, false);
    void* twins =
        ::mmap(nullptr, m_range.size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (twins != MAP_FAILED) m_twins = static_cast<std::byte*>(twins);
    if (!m_alias || !m_twins) return false;
    if (adopts) adopt();
    if (!map_file(m_file, m_range.size_bytes, reinterpret_cast<void*>(m_range.base), m_inherited)) return false;
    return m_valid_units != 0 || protect(0, m_states.size(), PROT_NONE);
}

void PageRegion::withdraw() {
    if (m_withdrawn) return;
    m_withdrawn = true;
    ::mmap(reinterpret_cast<void*>(m_range.base), m_range.size_bytes, PROT_NONE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

PageRegion::~PageRegion() {
    withdraw();
    if (m_alias) ::munmap(m_alias, m_range.size_bytes);
    if (m_twins) ::munmap(m_twins, m_range.size_bytes);
    if (file_is_ours()) ::close(m_file);
}

/// Programs close descriptors that they do not know, and have something else there.
bool PageRegion::file_is_ours() const {
    struct stat about {};
    return m_file >= 0 && ::fstat(m_file, &about) == 0 && about.st_ino == m_inode;
}

void PageRegion::add_extent(AddressRange extent) {
    m_has_extents = true;
    const auto at = std::lower_bound(m_extents.begin(), m_extents.end(), std::pair(extent.base, uint64_t{0}));
    if (at != m_extents.end() && at->first == extent.base) {
        at->second = extent.end();
    } else {
        m_extents.insert(at, {extent.base, extent.end()});
    }
}

void PageRegion::remove_extent(uint64_t base) {
    std::erase_if(m_extents, [base](const auto& extent) { return extent.first == base; });
}

void PageRegion::set(size_t unit, uint8_t state) {
    uint8_t& is = m_states[unit];
    m_valid_units += ((state & k_valid) != 0) - ((is & k_valid) != 0);
    m_busy_units += ((state & k_busy) != 0) - ((is & k_busy) != 0);
    m_seen_units += ((state & k_seen) != 0) - ((is & k_seen) != 0);
    is = state;
}

bool PageRegion::protect(size_t first, size_t last, int protection) {
    const uint64_t begin = address_of(first), end = std::min(address_of(last), m_range.end());
    return m_withdrawn || begin >= end || ::mprotect(reinterpret_cast<void*>(begin), end - begin, protection) == 0;
}

AddressRange PageRegion::units_of(AddressRange what) const {
    const uint64_t begin = std::max(what.base, m_range.base), end = std::min(what.end(), m_range.end());
    if (begin >= end) return {m_range.base, 0};
    const uint64_t first = address_of(index_of(begin)), last = std::min(address_of(index_of(end - 1) + 1), m_range.end());
    return {first, last - first};
}

AddressRange PageRegion::pages_of(AddressRange what) const {
    const uint64_t begin = std::max(what.base / k_page * k_page, m_range.base);
    const uint64_t end = std::min((what.end() + k_page - 1) / k_page * k_page, m_range.end());
    return {begin, begin < end ? end - begin : 0};
}

std::vector<AddressRange> PageRegion::hand_over(AddressRange what, bool in_order) {
    ++m_epoch;
    const AddressRange units = units_of(what);
    if (units.size_bytes == 0) return {};
    const uint8_t after = in_order || m_sharing == Sharing::in_turns ? k_wait : 0;
    return hand_over_units(index_of(units.base), index_of(units.end() - 1) + 1, after);
}

std::vector<AddressRange> PageRegion::hand_over_units(size_t first, size_t last, uint8_t after) {
    std::vector<AddressRange> out;
    for_runs(
        first, last, [](uint8_t state) { return (state & k_valid) != 0; },
        [&](size_t begin, size_t end) {
            // First nobody writes there any more, then it is read.
            protect(begin, end, PROT_NONE);
            changes(begin, end, out);
            for (size_t unit = begin; unit < end; ++unit) {
                note_changed(unit);
                set(unit, m_states[unit] & (k_used | k_valid));
            }
        });
    for (const AddressRange& changed : out)
        for (size_t unit = index_of(changed.base); unit <= index_of(changed.end() - 1); ++unit) note_used(address_of(unit));
    for (size_t unit = first; unit < last; ++unit) {
        const bool seen =
            (m_states[unit] & k_seen) != 0 || ((m_states[unit] & k_valid) != 0 && m_sharing == Sharing::concurrent);
        set(unit, static_cast<uint8_t>((m_states[unit] & k_used) | (seen ? k_seen : 0) | after));
    }
    return out;
}

std::vector<AddressRange> PageRegion::write_back(AddressRange what) {
    std::vector<AddressRange> out;
    ++m_arrivals;  // what is asked for already does not know of it
    const AddressRange units = units_of(what);
    if (units.size_bytes == 0) return out;
    for_runs(
        index_of(units.base), index_of(units.end() - 1) + 1, [](uint8_t state) { return (state & k_dirty) != 0; },
        [&](size_t begin, size_t end) {
            protect(begin, end, PROT_READ);
            changes(begin, end, out);
            for (size_t unit = begin; unit < end; ++unit) set(unit, m_states[unit] & ~(k_dirty | k_fresh));
        });
    return out;
}

void PageRegion::changes(size_t first, size_t last, std::vector<AddressRange>& out) const {
    const auto is_dirty = [](uint8_t state) { return (state & k_dirty) != 0; };
    for_runs(first, last, is_dirty, [&](size_t begin, size_t end) {
        for (size_t unit = begin; unit < end;) {
            const bool fresh = (m_states[unit] & k_fresh) != 0;
            size_t until = unit;
            while (until < end && ((m_states[until] & k_fresh) != 0) == fresh) ++until;
            const uint64_t from = address_of(unit), to = std::min(address_of(until), m_range.end());
            if (fresh)
                touched_bytes(from, to, out);
            else
                differing_bytes(from, to, out);
            unit = until;
        }
    });
}

/// What was never written has no page in the file.
void PageRegion::touched_bytes(uint64_t begin, uint64_t end, std::vector<AddressRange>& out) const {
    if (!file_is_ours()) return within_extents(begin, end, out);
    uint64_t at = begin;
    while (at < end) {
        const off_t data = ::lseek(m_file, static_cast<off_t>(at - m_range.base), SEEK_DATA);
        if (data < 0) return;
        const uint64_t from = std::max(at, m_range.base + static_cast<uint64_t>(data));
        if (from >= end) return;
        const off_t hole = ::lseek(m_file, static_cast<off_t>(from - m_range.base), SEEK_HOLE);
        const uint64_t to = hole < 0 ? end : std::min(end, m_range.base + static_cast<uint64_t>(hole));
        within_extents(from, to, out);
        at = to;
    }
}

void PageRegion::differing_bytes(uint64_t begin, uint64_t end, std::vector<AddressRange>& out) const {
    // In turns, what lies between two changes is the same on both sides, and few ranges travel better than many.
    constexpr uint64_t k_gap = 64;
    const std::byte* twin = m_twins + (begin - m_range.base);
    const auto add = [&](uint64_t first, uint64_t last) { within_extents(begin + first, begin + last, out); };
    if (m_sharing == Sharing::concurrent && !m_still)
        for_each_change(at(begin), twin, end - begin, begin, add);
    else
        for_each_difference(at(begin), twin, end - begin, k_gap, add);
}

void PageRegion::within_extents(uint64_t begin, uint64_t end, std::vector<AddressRange>& out) const {
    if (!m_has_extents) return append(out, begin, end);
    for (const auto& [from, to] : m_extents) append(out, std::max(begin, from), std::min(end, to));
}

bool PageRegion::is_in_place(AddressRange what, bool writable) const {
    const AddressRange units = units_of(what);
    const uint8_t wanted = writable ? k_valid | k_dirty : k_valid;
    for (uint64_t at = units.base; at < units.end(); at += m_unit_bytes)
        if ((state(at) & wanted) != wanted) return false;
    return true;
}

bool PageRegion::must_wait(AddressRange what) const {
    const AddressRange units = units_of(what);
    for (uint64_t at = units.base; at < units.end(); at += m_unit_bytes)
        if ((state(at) & k_wait) != 0) return true;
    return false;
}

std::vector<AddressRange> PageRegion::not_here(AddressRange what) const {
    std::vector<AddressRange> out;
    const AddressRange units = units_of(what);
    if (units.size_bytes == 0) return out;
    for_runs(
        index_of(units.base), index_of(units.end() - 1) + 1, [](uint8_t state) { return (state & k_valid) == 0; },
        [&](size_t begin, size_t end) { append(out, address_of(begin), std::min(address_of(end), m_range.end())); });
    return out;
}

std::vector<AddressRange> PageRegion::missing(AddressRange what) const {
    std::vector<AddressRange> out;
    for (const AddressRange& range : not_here(what)) within_extents(range.base, range.end(), out);
    return out;
}

bool PageRegion::fetched(AddressRange what, bool while_busy) {
    const AddressRange units = units_of(what);
    if (units.size_bytes == 0) return true;
    ++m_arrivals;
    bool ok = true;
    for_runs(
        index_of(units.base), index_of(units.end() - 1) + 1, [](uint8_t state) { return (state & k_valid) == 0; },
        [&](size_t begin, size_t end) {
            ok = protect(begin, end, PROT_READ) && ok;
            for (size_t unit = begin; ok && unit < end; ++unit)
                set(unit, static_cast<uint8_t>((m_states[unit] & k_used) | k_valid | (while_busy ? k_busy : 0)));
        });
    return ok;
}

bool PageRegion::make_writable(AddressRange what) {
    const AddressRange units = units_of(what);
    if (units.size_bytes == 0) return true;
    bool ok = true;
    for_runs(
        index_of(units.base), index_of(units.end() - 1) + 1,
        [](uint8_t state) { return (state & (k_valid | k_dirty)) == k_valid; },
        [&](size_t begin, size_t end) {
            const uint64_t from = address_of(begin), to = std::min(address_of(end), m_range.end());
            std::memcpy(m_twins + (from - m_range.base), at(from), to - from);
            ok = protect(begin, end, PROT_READ | PROT_WRITE) && ok;
            for (size_t unit = begin; ok && unit < end; ++unit) set(unit, m_states[unit] | k_dirty);
        });
    return ok;
}

}  // namespace warpline::client
