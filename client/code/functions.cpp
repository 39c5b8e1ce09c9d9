// Attributes: asked for once, and known here from then on.
#include "client/code/functions.h"

#include "client/code/images.h"
#include "client/gen/internal_calls.gen.h"

namespace warpline::client {

namespace {

/// True for attributes that a program can set, so that what was fetched may be out of date.
bool is_settable(CUfunction_attribute attribute) {
    switch (attribute) {
        case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
        case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
        case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
        case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
        case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE: return true;
        default: return false;
    }
}

using Attributes = std::vector<Function::Attribute>;

/// Asks for all attributes, and keeps them if the program has set none meanwhile.
CUresult fetch_attributes(Call& call, uint64_t token, Function& function, Attributes& attributes) {
    if (CUresult result = ensure_announced(call, token, function); result != CUDA_SUCCESS) return result;
    uint64_t times_set = 0;
    {
        MutexLock lock(function.mutex);
        times_set = function.times_set;
    }
    gen::WlFunctionAttributesValues answer;
    if (CUresult result = gen::request_wlFunctionAttributes(call, token, answer); result != CUDA_SUCCESS) return result;
    if (answer.values.size() != answer.results.size()) return CUDA_ERROR_UNKNOWN;
    for (size_t i = 0; i < answer.values.size() && i < Function::k_attributes; ++i) {
        attributes.push_back({static_cast<int>(answer.values[i]), static_cast<int>(answer.results[i])});
    }
    MutexLock lock(function.mutex);
    if (function.times_set == times_set) function.attributes = attributes;
    return CUDA_SUCCESS;
}

CUresult pick(const Attributes& attributes, CUfunction_attribute attribute, int& value) {
    const auto index = static_cast<size_t>(attribute);
    if (index >= attributes.size()) return CUDA_ERROR_INVALID_VALUE;
    const Function::Attribute& found = attributes[index];
    if (found.result == CUDA_SUCCESS) value = found.value;
    return static_cast<CUresult>(found.result);
}

}  // namespace

CUresult function_attribute(Call& call, uint64_t token, CUfunction_attribute attribute, int& value) {
    Function* function = call.state.functions.find(token);
    if (!function) return CUDA_ERROR_INVALID_HANDLE;
    if (attribute < 0 || static_cast<size_t>(attribute) >= Function::k_attributes) return CUDA_ERROR_INVALID_VALUE;
    {
        MutexLock lock(function->mutex);
        if (function->attributes) return pick(*function->attributes, attribute, value);
    }
    Attributes fetched;
    if (CUresult result = fetch_attributes(call, token, *function, fetched); result != CUDA_SUCCESS) return result;
    return pick(fetched, attribute, value);
}

CUresult check_settable(const Function& function, const Device* device, CUfunction_attribute attribute, int value) {
    if (!is_settable(attribute)) return CUDA_ERROR_INVALID_VALUE;
    if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
        int limit = device->attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
        if (value < 0 || value > limit - static_cast<int>(function.static_shared_bytes)) return CUDA_ERROR_INVALID_VALUE;
    }
    if (attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT && (value < -1 || value > 100))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

void note_attribute(const Call& call, Function& function, CUfunction_attribute attribute, int value) {
    const bool is_shared_bytes = attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    if (is_shared_bytes) function.max_dynamic_shared_bytes.store(value);
    MutexLock lock(function.mutex);
    // A kernel of a library has attributes for each device, and what is known here is of one.
    const bool is_known = function.attributes && static_cast<size_t>(attribute) < function.attributes->size() &&
                          (function.context != 0 || call.session.info().devices.size() == 1);
    if (is_known) {
        Function::Attribute& known = (*function.attributes)[static_cast<size_t>(attribute)];
        // As a rule programs set what they have set before: libraries do at each launch.
        if (known.result == CUDA_SUCCESS && known.value == value) return;
        if (is_shared_bytes) known = {value, CUDA_SUCCESS};
    }
    // Of the others the driver may make something else, and occupancy follows from all of them: that is asked for again.
    if (!is_known || !is_shared_bytes) function.attributes.reset();
    ++function.times_set;
    function.occupancy.forget();
}

}  // namespace warpline::client
