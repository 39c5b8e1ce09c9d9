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

}  // namespace

const Symbol* find_symbol(std::span<const Symbol> symbols, const char* name, int version, bool per_thread,
                          CUdriverProcAddressQueryResult* status) noexcept {
    auto first = std::lower_bound(symbols.begin(), symbols.end(), name, [](const Symbol& symbol, const char* wanted) {
        return std::strcmp(symbol.name, wanted) < 0;
    });
    auto last =
        std::find_if(first, symbols.end(), [name](const Symbol& symbol) { return std::strcmp(symbol.name, name) != 0; });
    if (first == last) {
        *status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
        return nullptr;
    }
    auto middle = std::find_if(first, last, [](const Symbol& symbol) { return symbol.per_thread; });
    const Symbol* found = per_thread ? newest({middle, last}, version) : nullptr;
    if (found == nullptr) found = newest({first, middle}, version);
    *status = found != nullptr ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
    return found;
}

CUresult get_proc_address(std::span<const Symbol> symbols, const char* name, void** function, int version, cuuint64_t flags,
                          CUdriverProcAddressQueryResult* status) noexcept {
    if (name == nullptr || function == nullptr) return CUDA_ERROR_INVALID_VALUE;
    constexpr cuuint64_t k_known = CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    if ((flags & ~k_known) != 0 || flags == k_known) return CUDA_ERROR_INVALID_VALUE;
    CUdriverProcAddressQueryResult outcome = CU_GET_PROC_ADDRESS_SUCCESS;
    const Symbol* found =
        find_symbol(symbols, name, version, (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0, &outcome);
    *function = found != nullptr ? found->address : nullptr;
    if (status != nullptr) *status = outcome;
    return found != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

}  // namespace warpline::cuda::abi
