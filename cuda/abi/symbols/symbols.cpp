// Chooses the form of a function that a program of some CUDA version is to get.
#include "cuda/abi/symbols/symbols.h"

#include <algorithm>
#include <cstring>

namespace warpline::cuda::abi {

namespace {

/// The last of `forms` (sorted by version) whose version is not above the one asked for.
const Symbol* newest(std::span<const Symbol> forms, int version) {
    const Symbol* found = nullptr;
    for (const Symbol& form : forms) {
        if (form.version <= version) found = &form;
    }
    return found;
}

constexpr cuuint64_t k_flags = CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;

/// The function itself is there, whatever the driver's version: libcudart 12 finds it by its exported name, and gives up if it
/// then is not found by its own help, before it asks how old the driver is.
int version_for(const char* name, int driver_version) {
    return name != nullptr && std::strcmp(name, "cuGetProcAddress") == 0 ? k_newest_version : driver_version;
}

bool is_sound(int driver_version, const char* name, void* const* function, int version, cuuint64_t flags) {
    return name != nullptr && function != nullptr && (flags & ~k_flags) == 0 && flags != k_flags && version <= driver_version;
}

}  // namespace

const Symbol* find_symbol(std::span<const Symbol> symbols, int driver_version, const char* name, int version, bool per_thread,
                          CUdriverProcAddressQueryResult* status) noexcept {
    auto first = std::lower_bound(symbols.begin(), symbols.end(), name, [](const Symbol& symbol, const char* wanted) {
        return std::strcmp(symbol.name, wanted) < 0;
    });
    auto last =
        std::find_if(first, symbols.end(), [name](const Symbol& symbol) { return std::strcmp(symbol.name, name) != 0; });
    if (newest({first, last}, driver_version) == nullptr) {
        *status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
        return nullptr;
    }
    version = std::min(version, driver_version);
    auto middle = std::find_if(first, last, [](const Symbol& symbol) { return symbol.per_thread; });
    const Symbol* found = per_thread ? newest({middle, last}, version) : nullptr;
    if (found == nullptr) found = newest({first, middle}, version);
    if (found != nullptr && found->address == nullptr) {
        *status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
        return nullptr;
    }
    *status = found != nullptr ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
    return found;
}

CUresult get_proc_address(std::span<const Symbol> symbols, int driver_version, const char* name, void** function, int version,
                          cuuint64_t flags, CUdriverProcAddressQueryResult* status, UnknownSymbol unknown) noexcept {
    driver_version = version_for(name, driver_version);
    if (!is_sound(driver_version, name, function, version, flags)) return CUDA_ERROR_INVALID_VALUE;
    CUdriverProcAddressQueryResult outcome = CU_GET_PROC_ADDRESS_SUCCESS;
    const bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
    const Symbol* found = find_symbol(symbols, driver_version, name, version, per_thread, &outcome);
    *function = found != nullptr ? found->address : nullptr;
    if (status != nullptr) *status = outcome;
    return found != nullptr || unknown == UnknownSymbol::success ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult get_proc_address_v1(std::span<const Symbol> symbols, int driver_version, const char* name, void** function,
                             int version, cuuint64_t flags) noexcept {
    driver_version = version_for(name, driver_version);
    if (!is_sound(driver_version, name, function, version, flags)) return CUDA_ERROR_INVALID_VALUE;
    CUdriverProcAddressQueryResult outcome = CU_GET_PROC_ADDRESS_SUCCESS;
    const bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
    const Symbol* found = find_symbol(symbols, driver_version, name, version, per_thread, &outcome);
    if (found == nullptr) return CUDA_ERROR_NOT_FOUND;
    *function = found->address;
    return CUDA_SUCCESS;
}

}  // namespace warpline::cuda::abi
