// What instructions ask the checkers, and what becomes of their findings.
#include "softgpu/exec/checking.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "common/log/log.h"
#include "softgpu/exec/kernel.h"
#include "softgpu/exec/launch.h"

namespace warpline::softgpu::exec {

using check::Finding;
using check::Site;
using check::Strength;

namespace {

const Site& site_of(const Warp& warp, const Instr& instr) {
    const Body& body = *warp.frame->body;
    return body.sites[size_t(&instr - body.code.data())];
}

std::string coordinates(const uint32_t (&shape)[3], uint64_t number) {
    return log::format("({},{},{})", number % shape[0], number / shape[0] % shape[1], number / shape[0] / shape[1]);
}

std::string thread_text(const Warp& warp, uint32_t thread) {
    const Cta& cta = *warp.cta;
    return log::format("thread {} in block ({},{},{})", coordinates(cta.grid->block, thread), cta.id[0], cta.id[1], cta.id[2]);
}

std::string by_thread(const Warp& warp, uint32_t lane) {
    return "    by " + thread_text(warp, warp.index * k_warp_size + lane) + "\n";
}

std::string bytes_text(uint32_t bytes) { return log::format("{} byte{}", bytes, bytes == 1 ? "" : "s"); }

}  // namespace

WrittenBytes::WrittenBytes(uint64_t size_bytes)
    : m_size(size_bytes), m_marks(static_cast<uint8_t*>(std::calloc(std::max<uint64_t>(1, size_bytes), 1))) {
    if (m_marks == nullptr) throw std::bad_alloc();
}

void WrittenBytes::restart() {
    if (++m_mark != 0) return;
    if (m_size != 0) std::memset(m_marks.get(), 0, m_size);
    m_mark = 1;
}

void WrittenBytes::write(uint64_t offset, uint64_t size_bytes) {
    if (offset < m_size) std::memset(m_marks.get() + offset, m_mark, std::min(size_bytes, m_size - offset));
}

bool WrittenBytes::lacks(uint64_t offset, uint64_t size_bytes) const {
    constexpr uint64_t k_word = 4;
    const uint64_t step = std::min(size_bytes, k_word), end = std::min(offset + size_bytes, m_size);
    for (uint64_t at = offset; step != 0 && at + step <= end; at += step) {
        const uint8_t* marks = m_marks.get() + at;
        if (std::none_of(marks, marks + step, [this](uint8_t mark) { return mark == m_mark; })) return true;
    }
    return false;
}

CtaCheck::CtaCheck(check::Checker& checker, const GroupShape& shape) : m_checker(checker) {
    if (checker.has(check::check_init)) {
        m_shared_written = WrittenBytes(shape.shared_bytes);
        m_local_written = WrittenBytes(uint64_t{shape.warps} * k_warp_size * shape.local_stride);
    }
    if (checker.has(check::check_race) && shape.shared_bytes > SharedLayout::k_reserved_bytes) {
        m_race = std::make_unique<check::RaceDetector>(shape.shared_bytes, shape.threads);
    }
}

void CtaCheck::restart() {
    m_shared_written.restart();
    m_local_written.restart();
    m_shared_written.write(0, SharedLayout::k_reserved_bytes);
    if (m_race != nullptr) m_race->order_all();
}

void CtaCheck::barrier(bool whole_block, std::span<const uint32_t> arrived, std::span<const uint32_t> waited) {
    if (m_race == nullptr) return;
    if (whole_block) return m_race->order_all();
    m_race->order_some(arrived, waited);
}

bool CtaCheck::access(Warp& warp, const Instr& instr, uint32_t lane, const LaneAccess& access) {
    const auto address = reinterpret_cast<uint64_t>(access.at);
    if (address - reinterpret_cast<uint64_t>(warp.local) < uint64_t{warp.local_stride} * k_warp_size) {
        return local(warp, instr, lane, access);
    }
    const Cta& cta = *warp.cta;
    for (uint32_t rank = 0; rank < cta.cluster_size; ++rank) {
        const Cta& owner = *cta.cluster[rank];
        const uint64_t offset = address - reinterpret_cast<uint64_t>(owner.shared);
        if (offset < owner.shared_bytes) {
            shared(warp, instr, lane, access, *owner.check, uint32_t(offset));
            return true;
        }
    }
    global(warp, instr, lane, access);
    return true;
}

bool CtaCheck::local(Warp& warp, const Instr& instr, uint32_t lane, const LaneAccess& access) {
    const auto offset = uint64_t(access.at - warp.local);
    const uint64_t in_lane = offset % warp.local_stride;
    // What lies beyond the running call's variables is nobody's, although it exists.
    if (m_checker.has(check::check_memory) && in_lane + access.bytes > warp.frame->alloca_top) {
        warp.raise(instr, 700, lane, "access outside of local memory, offset", in_lane);
        return false;
    }
    if (!m_checker.has(check::check_init)) return true;
    const uint64_t at = uint64_t{warp.index} * k_warp_size * warp.local_stride + offset;
    if (access.reads && m_local_written.lacks(at, access.bytes)) {
        report_unwritten(warp, instr, lane, "local", access.bytes, log::format("offset {:#x} of local memory", in_lane));
    }
    if (access.writes) m_local_written.write(at, access.bytes);
    return true;
}

void CtaCheck::shared(Warp& warp, const Instr& instr, uint32_t lane, const LaneAccess& access, CtaCheck& owner,
                      uint32_t offset) {
    // The start of shared memory is the system's, which cooperative groups use in their own way.
    if (offset < SharedLayout::k_reserved_bytes) {
        if (&owner == this) race(warp, instr, lane, access, offset);
        return;
    }
    if (m_checker.has(check::check_init)) {
        if (access.reads && owner.m_shared_written.lacks(offset, access.bytes)) {
            report_unwritten(warp, instr, lane, "shared", access.bytes, log::format("offset {:#x} of shared memory", offset));
        }
        if (access.writes) owner.m_shared_written.write(offset, access.bytes);
    }
    if (&owner == this) race(warp, instr, lane, access, offset);
}

void CtaCheck::global(Warp& warp, const Instr& instr, uint32_t lane, const LaneAccess& access) {
    const auto address = reinterpret_cast<uint64_t>(access.at);
    if (m_race != nullptr && access.strong) {
        // A flag or lock in global memory may order what threads do to shared memory.
        const uint32_t thread = warp.index * k_warp_size + lane;
        if (access.reads) m_race->acquire(thread, address);
        if (access.writes) m_race->release(thread, address);
    }
    if (!m_checker.has(check::check_init)) return;
    if (m_block_generation != m_checker.written.generation() || m_block == nullptr || !m_block->holds(address)) {
        m_block_generation = m_checker.written.generation();
        m_block = m_checker.written.find(address);
    }
    if (m_block == nullptr) return;
    uint64_t first = 0;
    if (access.reads && m_block->lacks(address, access.bytes, first)) {
        report_unwritten(warp, instr, lane, "global", access.bytes,
                         log::format("address {:#x}, byte {} of a {}-byte allocation at {:#x}", first, first - m_block->begin(),
                                     m_block->size_bytes(), m_block->begin()));
    }
    if (access.writes) m_block->write(address, access.bytes);
}

void CtaCheck::race(Warp& warp, const Instr& instr, uint32_t lane, const LaneAccess& access, uint32_t offset) {
    if (m_race == nullptr) return;
    const uint32_t thread = warp.index * k_warp_size + lane;
    const auto address = reinterpret_cast<uint64_t>(access.at);
    if (access.strong && access.reads) m_race->acquire(thread, address);
    if (offset >= SharedLayout::k_reserved_bytes) {
        check::RaceDetector::Conflict conflict;
        const Strength strength = access.strong ? Strength::strong : Strength::plain;
        const Site& site = site_of(warp, instr);
        bool found = m_race->access(thread, offset, access.bytes, access.writes, strength, &site, conflict);
        // Nobody can tell whether a write that changes nothing came earlier or later.
        if (found && access.writes && access.value != nullptr) found = std::memcmp(access.at, access.value, access.bytes) != 0;
        if (access.value != nullptr) std::memcpy(access.at, access.value, access.bytes);
        if (found && m_checker.reporter.count(conflict.finding, site.id)) {
            const char* kind = conflict.finding == Finding::write_after_write  ? "write after write"
                               : conflict.finding == Finding::write_after_read ? "write after read"
                                                                               : "read after write";
            m_checker.reporter.print(
                log::format("Race in shared memory: {} at offset {:#x}, {}, without a barrier between\n    {}\n    by {}\n"
                            "    after {}\n    by {}\n",
                            kind, conflict.offset, bytes_text(access.bytes), site.text(), thread_text(warp, thread),
                            conflict.site->text(), thread_text(warp, conflict.thread)));
        }
    }
    if (access.strong && access.writes) m_race->release(thread, address);
}

void CtaCheck::report_unwritten(Warp& warp, const Instr& instr, uint32_t lane, const char* space, uint32_t bytes,
                                const std::string& where) {
    const Site& site = site_of(warp, instr);
    if (!m_checker.reporter.count(Finding::uninitialised, site.id)) return;
    m_checker.reporter.print(
        log::format("Read of {} of {} memory that nothing has written\n    {}\n", bytes_text(bytes), space, site.text()) +
        by_thread(warp, lane) + "    " + where + "\n");
}

void report_fault(Warp& warp, const Instr& instr, int cu_result, uint32_t lane, const char* what, uint64_t address) {
    if (warp.cta->check == nullptr || (cu_result != 700 && cu_result != 716)) return;
    check::Checker& checker = warp.cta->check->checker();
    if (!checker.has(check::check_memory)) return;
    const Site& site = site_of(warp, instr);
    const Finding finding = cu_result == 716 ? Finding::alignment : Finding::bounds;
    if (!checker.reporter.count(finding, site.id)) return;
    const bool is_offset = std::string_view(what).ends_with("offset");
    std::string where;
    if (is_offset && std::string_view(what).find("shared") != std::string_view::npos) {
        where = log::format("    offset {:#x} of shared memory, of which the block has {} bytes, from {:#x} on\n", address,
                            warp.shared_bytes - SharedLayout::k_reserved_bytes, SharedLayout::k_reserved_bytes);
    } else if (is_offset) {
        where = log::format("    offset {:#x} of local memory, of which the thread uses {} bytes\n", address,
                            warp.frame->alloca_top);
    } else if (finding == Finding::alignment) {
        where = log::format("    address {:#x} is not aligned\n", address);
    } else {
        where = log::format("    address {:#x}: {}\n", address, checker.allocations.describe(address, site.bytes));
    }
    const char* word = site.opcode.starts_with("ld") ? "read" : site.opcode.starts_with("st") ? "write" : "access";
    std::string size = site.bytes != 0 ? " of " + bytes_text(site.bytes) : std::string();
    checker.reporter.print(
        log::format("{} {}{}\n    {}\n", finding == Finding::alignment ? "Misaligned" : "Invalid", word, size, site.text()) +
        by_thread(warp, lane) + where);
}

// --- what instructions call

bool check_lane(Warp& warp, const Instr& instr, uint32_t lane, const LaneAccess& access) {
    return warp.cta->check->access(warp, instr, lane, access);
}

void check_lanes(Warp& warp, const Instr& instr, uint32_t mask, std::byte* const* lanes, uint32_t bytes, AccessKind kind) {
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        const auto lane = uint32_t(__builtin_ctz(rest));
        LaneAccess access;
        access.at = lanes[lane];
        access.bytes = bytes;
        access.reads = kind != AccessKind::write;
        access.writes = kind != AccessKind::read;
        access.strong = kind == AccessKind::atomic;
        (void)warp.cta->check->access(warp, instr, lane, access);
    }
}

void check_meeting(Warp& warp, uint32_t mask, const uint32_t* members) {
    check::RaceDetector* race = warp.cta->check->race();
    if (race == nullptr) return;
    for (uint32_t rest = mask; rest != 0;) {
        const auto lane = uint32_t(__builtin_ctz(rest));
        const uint32_t group = members[lane] & warp.live;
        race->order_warp(warp.index, group | 1u << lane);
        rest &= ~(group | 1u << lane);
    }
}

void check_barrier(Cta& cta, uint32_t number) {
    uint32_t arrived[k_warp_size] = {}, waited[k_warp_size] = {};
    bool whole = true;
    for (uint32_t w = 0; w < cta.warp_count; ++w) {
        const Warp& warp = cta.warps[w];
        arrived[w] = cta.arrived[number * cta.warp_count + w];
        for (uint32_t i = 0; i < warp.fragment_count; ++i) {
            const Fragment& fragment = warp.fragments[i];
            if (fragment.wait == Wait::barrier && fragment.barrier == number) waited[w] |= fragment.mask;
        }
        whole = whole && (warp.live & ~waited[w]) == 0;
    }
    cta.check->barrier(whole, {arrived, cta.warp_count}, {waited, cta.warp_count});
}

void check_cluster_barrier(Cta& cta) { cta.check->barrier(true, {}, {}); }

}  // namespace warpline::softgpu::exec
