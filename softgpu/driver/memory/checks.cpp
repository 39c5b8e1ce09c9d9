// Tells the checkers about memory that comes and goes.
#include "softgpu/driver/memory/checks.h"

#include "common/log/log.h"
#include "softgpu/driver/process/process.h"

namespace warpline::softgpu::driver {

using check::Checker;

namespace {

constexpr uint64_t k_red_zone_bytes = 4096;

const char* kind_text(MemoryKind kind) {
    switch (kind) {
        case MemoryKind::host: return "page-locked host";
        case MemoryKind::managed: return "managed";
        default: return "device";
    }
}

bool can_leak(MemoryKind kind) {
    return kind == MemoryKind::device || kind == MemoryKind::pool || kind == MemoryKind::host || kind == MemoryKind::managed;
}

}  // namespace

Checker* checker_for(check::Check check) {
    Checker* checker = process().checker();
    return checker != nullptr && checker->has(check) ? checker : nullptr;
}

uint64_t with_red_zone(const Device& device, uint64_t size_bytes) {
    if (!device.config().exact_bounds || size_bytes > UINT64_MAX - k_red_zone_bytes) return size_bytes;
    return size_bytes + k_red_zone_bytes;
}

void note_uninitialised(uint64_t address, uint64_t size_bytes) {
    if (Checker* checker = checker_for(check::check_init)) checker->written.track(address, size_bytes);
}

void note_freed(uint64_t address) {
    if (Checker* checker = checker_for(check::check_init)) checker->written.forget(address);
}

void note_shared(uint64_t address) { note_freed(address); }

void note_write(uint64_t address, uint64_t size_bytes) {
    Checker* checker = checker_for(check::check_init);
    if (checker == nullptr) return;
    if (auto block = checker->written.find(address)) block->write(address, size_bytes);
}

void report_leaks(const std::vector<AllocationPtr>& left) {
    Checker* checker = checker_for(check::check_leak);
    if (checker == nullptr) return;
    for (const AllocationPtr& allocation : left) {
        if (!can_leak(allocation->kind) || allocation->freed.load()) continue;
        if (!checker->reporter.count(check::Finding::leak, allocation->id)) continue;
        checker->reporter.print(log::format("Leaked {} bytes of {} memory at {:#x}", allocation->size_bytes,
                                            kind_text(allocation->kind), allocation->address));
    }
}

void report_at_exit() {
    if (!process().initialised()) return;  // a child that has not used the driver
    report_leaks(process().addresses.in_range(0, UINT64_MAX));
    process().checker()->reporter.print_summary();
}

}  // namespace warpline::softgpu::driver
