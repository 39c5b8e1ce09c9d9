// What a process does for its children before and behind fork().
#include "client/managed/inherited_pages.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

#include "client/managed/faults.h"
#include "client/managed/held_signals.h"
#include "client/managed/shared_pages.h"

namespace warpline::client::inherited_pages {

namespace {

/// One line of /proc/self/maps: "begin-end access offset ... name".
void open_mapping(const char* line) {
    if (std::strstr(line, PageRegion::k_file_name) == nullptr) return;
    char* rest = nullptr;
    const uint64_t begin = std::strtoull(line, &rest, 16);
    const uint64_t end = *rest == '-' ? std::strtoull(rest + 1, &rest, 16) : begin;
    if (end > begin) (void)::mprotect(reinterpret_cast<void*>(begin), end - begin, PROT_READ | PROT_WRITE);
}

}  // namespace

void bring() noexcept {
    if (!SharedPages::in_use()) return;
    std::vector<AddressRange> missing;
    try {
        SharedPages& pages = SharedPages::instance();
        const held_signals::Hold hold;
        MutexLock lock(pages.mutex);
        for (const auto& [base, shared] : pages.regions) {
            const PageRegion& region = *shared.region;
            if (region.is_inherited() && !region.is_in_place(region.range(), false)) missing.push_back(region.range());
        }
    } catch (const std::bad_alloc&) {
        return;  // fork() needs more than that
    }
    for (const AddressRange& range : missing) faults::bring(range.base, range.size_bytes, false);
}

// A child may use neither its parent's locks nor what they protect, so the kernel is asked what it has.
void open() noexcept {
    if (!SharedPages::in_use()) return;
    const int maps = ::open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    char text[4096];
    size_t used = 0;
    for (ssize_t got = 0; maps >= 0 && (got = ::read(maps, text + used, sizeof text - 1 - used)) > 0;) {
        used += static_cast<size_t>(got);
        text[used] = '\0';
        char* line = text;
        for (char* end = nullptr; (end = std::strchr(line, '\n')) != nullptr; line = end + 1) {
            *end = '\0';
            open_mapping(line);
        }
        used = static_cast<size_t>(text + used - line);
        if (used == sizeof text - 1) used = 0;  // no mapping of ours has so long a name
        std::memmove(text, line, used);
    }
    if (maps >= 0) ::close(maps);
}

}  // namespace warpline::client::inherited_pages
