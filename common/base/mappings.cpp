// What is mapped in this process, as the kernel lists it (/proc/self/maps).
#include "common/base/mappings.h"

#include <cstdio>
#include <memory>

namespace warpline {

bool is_readable(uint64_t address, uint64_t size_bytes) {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> maps(std::fopen("/proc/self/maps", "re"), std::fclose);
    if (!maps) return true;
    const uint64_t end = address + size_bytes;
    bool starts_line = true;
    char line[256];  // of longer ones the beginning is all that counts
    while (address < end && std::fgets(line, sizeof line, maps.get())) {
        unsigned long long from = 0, to = 0;
        char access = 0;
        const bool is_range = starts_line && std::sscanf(line, "%llx-%llx %c", &from, &to, &access) == 3;
        starts_line = false;
        for (const char* at = line; *at != 0; ++at) starts_line = *at == '\n';
        if (!is_range || to <= address) continue;
        if (from > address || access != 'r') return false;
        address = to;
    }
    return address >= end;
}

}  // namespace warpline
