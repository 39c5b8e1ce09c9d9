// What is mapped in this process, as the kernel lists it (/proc/self/maps).
#include "common/base/mappings.h"

#include <cstdio>
#include <memory>

namespace warpline {

namespace {

/// @param wanted  which letter of a line's access, and what it has to be
bool has_access(uint64_t address, uint64_t size_bytes, size_t letter, char wanted) {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> maps(std::fopen("/proc/self/maps", "re"), std::fclose);
    if (!maps) return true;
    const uint64_t end = address + size_bytes;
    bool starts_line = true;
    char line[256];  // of longer ones the beginning is all that counts
    while (address < end && std::fgets(line, sizeof line, maps.get())) {
        unsigned long long from = 0, to = 0;
        char access[5] = {};
        const bool is_range = starts_line && std::sscanf(line, "%llx-%llx %4c", &from, &to, access) == 3;
        starts_line = false;
        for (const char* at = line; *at != 0; ++at) starts_line = *at == '\n';
        if (!is_range || to <= address) continue;
        if (from > address || access[letter] != wanted) return false;
        address = to;
    }
    return address >= end;
}

}  // namespace

bool is_readable(uint64_t address, uint64_t size_bytes) { return has_access(address, size_bytes, 0, 'r'); }
bool is_writable(uint64_t address, uint64_t size_bytes) { return has_access(address, size_bytes, 1, 'w'); }

}  // namespace warpline
