// Loading a driver and finding its functions.
#include "server/driver/driver.h"

#include <dlfcn.h>

#include <cstring>

#include "common/log/log.h"
#include "cuda/abi/error_names.h"

namespace warpline::server {

namespace {

using GetProcAddress = decltype(&::cuGetProcAddress_v2);

/// By its exported name first: the name says the exact prototype, which is what the table was compiled with. What is newer than
/// the driver says to be does not exist, although a library might export it: cuGetProcAddress would give an older form, of
/// another prototype.
void* find_function(void* library, int driver_version, GetProcAddress get_proc_address, const DriverSymbol& symbol) {
    if (symbol.version > driver_version) return symbol.older != nullptr ? dlsym(library, symbol.older) : nullptr;
    if (void* found = dlsym(library, symbol.symbol)) return found;
    if (get_proc_address != nullptr) {
        void* found = nullptr;
        CUdriverProcAddressQueryResult status{};
        const CUresult result = get_proc_address(symbol.function, &found, symbol.version, CU_GET_PROC_ADDRESS_DEFAULT, &status);
        if (result == CUDA_SUCCESS && status == CU_GET_PROC_ADDRESS_SUCCESS) return found;
    }
    return symbol.older != nullptr ? dlsym(library, symbol.older) : nullptr;
}

bool ask_version(void* library, int& version) {
    const auto ask = reinterpret_cast<decltype(&::cuDriverGetVersion)>(dlsym(library, "cuDriverGetVersion"));
    return ask != nullptr && ask(&version) == CUDA_SUCCESS;
}

/// In its dry mode only: it executes nothing then.
bool software_takes_machine_code(void* library) {
    const auto ask = reinterpret_cast<int (*)()>(dlsym(library, "warpline_softgpu_takes_machine_code"));
    return ask != nullptr && ask() != 0;
}

}  // namespace

std::unique_ptr<Driver> Driver::load(const std::string& path, std::string& problem) {
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        const char* why = dlerror();
        problem = log::format("the CUDA driver cannot be loaded: {}", why != nullptr ? why : path.c_str());
        return nullptr;
    }
    std::unique_ptr<Driver> driver(new Driver);
    driver->m_path = path;
    if (dlsym(library, "warpline_client_marker") != nullptr) {
        problem = log::format("{} is Warpline's client library, not a CUDA driver; name the driver with --driver", path);
        return nullptr;
    }
    driver->m_kind = dlsym(library, "warpline_softgpu_marker") != nullptr ? DriverKind::software : DriverKind::nvidia;
    if (driver->m_kind == DriverKind::software) driver->m_takes_machine_code = software_takes_machine_code(library);
    if (!ask_version(library, driver->m_version)) {
        problem = log::format("{} is not a CUDA driver: it does not tell its version", path);
        return nullptr;
    }
    driver->resolve(library);
    if (!driver->initialise(problem)) return nullptr;
    return driver;
}

void Driver::resolve(void* library) {
    auto get_proc_address = reinterpret_cast<GetProcAddress>(dlsym(library, "cuGetProcAddress_v2"));
    for (const DriverSymbol& symbol : driver_symbols()) {
        void* function = find_function(library, m_version, get_proc_address, symbol);
        std::memcpy(reinterpret_cast<char*>(&m_table) + symbol.offset, &function, sizeof function);
        if (function == nullptr) {
            ++m_missing;
            WL_LOG(debug, "driver", "{} has no {}: calls of it give CUDA_ERROR_NOT_SUPPORTED", m_path, symbol.symbol);
        }
    }
}

bool Driver::initialise(std::string& problem) {
    if (m_table.cuInit == nullptr || m_table.cuDeviceGetCount == nullptr) {
        problem = log::format("{} is not a CUDA driver: it lacks cuInit or cuDeviceGetCount", m_path);
        return false;
    }
    const CUresult result = m_table.cuInit(0);
    if (result != CUDA_SUCCESS) {
        problem = log::format("cuInit of {} failed: {} ({})", m_path, cuda::abi::error_name_for_log(result),
                              static_cast<int>(result));
        return false;
    }
    return true;
}

}  // namespace warpline::server
