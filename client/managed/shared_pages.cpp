// Finding regions.
#include "client/managed/shared_pages.h"

#include <algorithm>

#include "client/managed/faults.h"

namespace warpline::client {

void SharedRegion::attach(AddressRange range, const Attachment* with) {
    std::erase_if(attached, [&](const Attachment& one) { return meet(one.range, range); });
    if (!with) return;
    const auto behind =
        std::find_if(attached.begin(), attached.end(), [&](const Attachment& one) { return one.range.base > range.base; });
    attached.insert(behind, *with);
}

Attachment* SharedRegion::attachment_at(uint64_t address) {
    for (Attachment& one : attached) {
        if (address - one.range.base < one.range.size_bytes) return &one;
    }
    return nullptr;
}

void SharedRegion::let_work_use(AddressRange range, std::optional<uint64_t> stream) {
    if (attachment_at(range.base) == nullptr) host_only = false;
    for (Attachment& one : attached) {
        if (!meet(one.range, range)) continue;
        one.host_only = false;
        if (stream && *stream != one.stream) one.stream = 0;
    }
}

SharedPages& SharedPages::instance() {
    static auto* pages = new SharedPages;
    return *pages;
}

SharedRegion* SharedPages::find(uint64_t address) {
    auto it = regions.upper_bound(address);
    if (it == regions.begin()) return nullptr;
    --it;
    return address - it->first < it->second.region->range().size_bytes ? &it->second : nullptr;
}

void SharedPages::expect(AddressRange range) {
    faults::watch(range.base, range.size_bytes);
    faults::install();
}

SharedRegion& SharedPages::add(std::shared_ptr<PageRegion> region, uint64_t context) {
    const AddressRange range = region->range();
    expect(range);
    SharedRegion& added = regions[range.base];
    added.region = std::move(region);
    added.context = context;
    return added;
}

void SharedPages::remove(uint64_t base) {
    const auto found = regions.find(base);
    if (found == regions.end()) return;
    found->second.region->withdraw();
    regions.erase(found);
}

void SharedPages::note_busy(uint64_t context) {
    if (std::find(busy_contexts.begin(), busy_contexts.end(), context) == busy_contexts.end()) busy_contexts.push_back(context);
}

}  // namespace warpline::client
