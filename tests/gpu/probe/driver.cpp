// Loads the driver that is probed.
#include "tests/gpu/probe/driver.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

namespace warpline::probe {

Driver::Driver(const std::string& path) : m_library(::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (m_library) return;
    std::fprintf(stderr, "%s\n", ::dlerror());
    std::exit(2);
}

void* Driver::find(const char* symbol) const { return ::dlsym(m_library, symbol); }

void* Driver::found(const char* symbol) const {
    void* address = find(symbol);
    if (!address) throw Missing{symbol};
    return address;
}

}  // namespace warpline::probe
