// Attributes: asked for once, and known here from then on.
#include "client/code/functions.h"

#include <algorithm>

#include "client/code/images.h"
#include "client/gen/internal_calls.gen.h"
#include "cuda/abi/newer_values.h"

namespace warpline::client {

namespace {

/// True for attributes that a program can set, so that what was fetched may be out of date.
bool is_settable(CUfunction_attribute attribute) {
    if (attribute == cuda::abi::k_function_shared_memory_mode) return true;
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

/// Names of kernels as they travel: none has a line's end in it, but for those that are asked for by themselves then.
std::string joined(const std::vector<std::string_view>& names) {
    std::string text;
    for (std::string_view name : names) text.append(text.empty() ? "" : "\n").append(name);
    return text;
}

FunctionAttributes read_attributes(const std::vector<uint64_t>& values, const std::vector<uint64_t>& results, size_t from,
                                   size_t count) {
    FunctionAttributes attributes;
    for (size_t i = from; i < from + std::min(count, Function::k_attributes); ++i)
        attributes.push_back({static_cast<int>(values[i]), static_cast<int>(results[i])});
    return attributes;
}

/// Keeps what was told of further kernels. A server that is older than this tells nothing of them.
void keep_ahead(CodeImage& code, const AttributesAhead::Place& place, const std::vector<std::string_view>& names,
                const gen::WlFunctionAttributesValues& answer) {
    const size_t each = answer.values.size();
    const size_t told = names.size() * each;
    if (answer.otherValues.size() != told || answer.otherResults.size() != told) return;
    MutexLock lock(code.mutex);
    for (size_t i = 0; i < names.size(); ++i) {
        // What cannot be told now, for whatever reason, is asked for when the program asks.
        if (each == 0 || answer.otherResults[i * each] != CUDA_SUCCESS) continue;
        code.attributes_ahead.keep(place, names[i], read_attributes(answer.otherValues, answer.otherResults, i * each, each));
    }
}

CUresult ask_attributes(Call& call, uint64_t token, const Function& function, FunctionAttributes& attributes) {
    CodeImage& code = *function.code;
    const AttributesAhead::Place place{function.owner, static_cast<int>(function.place_of(call.device()))};
    std::vector<std::string_view> names;
    {
        MutexLock lock(code.mutex);
        if (auto told = code.attributes_ahead.take(place, function.kernel->name)) {
            attributes = std::move(*told);
            return CUDA_SUCCESS;
        }
        names = code.attributes_ahead.next(place, code.info.kernels, *function.kernel);
    }
    gen::WlFunctionAttributesValues answer;
    const uint64_t image = names.empty() ? 0 : function.owner;
    if (CUresult result = gen::request_wlFunctionAttributes(call, token, image, joined(names), answer); result != CUDA_SUCCESS)
        return result;
    if (answer.values.size() != answer.results.size()) return CUDA_ERROR_UNKNOWN;
    attributes = read_attributes(answer.values, answer.results, 0, answer.values.size());
    if (!names.empty()) keep_ahead(code, place, names, answer);
    return CUDA_SUCCESS;
}

/// Asks for all attributes, and keeps them if the program has set none meanwhile.
CUresult fetch_attributes(Call& call, uint64_t token, Function& function, FunctionAttributes& attributes) {
    if (CUresult result = ensure_announced(call, token, function); result != CUDA_SUCCESS) return result;
    const size_t place = function.place_of(call.device());
    FunctionSetup::Moment asked;
    {
        MutexLock lock(function.mutex);
        asked = function.setups[place].now(call.session.failures());
    }
    if (CUresult result = ask_attributes(call, token, function, attributes); result != CUDA_SUCCESS) return result;
    MutexLock lock(function.mutex);
    FunctionSetup& setup = function.setups[place];
    const bool is_true = setup.is_same(asked);
    setup.holds(asked, call.session.failures());
    // Also if something was refused before: this is what holds in spite of it.
    if (is_true) setup.attributes = attributes;
    return CUDA_SUCCESS;
}

CUresult pick(const FunctionAttributes& attributes, CUfunction_attribute attribute, int& value) {
    const auto index = static_cast<size_t>(attribute);
    if (index >= attributes.size()) return CUDA_ERROR_INVALID_VALUE;
    const FunctionAttribute& found = attributes[index];
    if (found.result == CUDA_SUCCESS) value = found.value;
    return static_cast<CUresult>(found.result);
}

/// True if the attribute reads back as it was set, whatever else is set, and nothing else changes with it.
bool reads_back(const Function& function, const Device& device, int attribute, int value) {
    if (attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT) return true;
    if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) return false;
    // As long as the driver takes it, also if it counts the kernel's own in pieces (DB-60).
    constexpr int k_piece = 16;
    const int own = static_cast<int>((function.static_shared_bytes + k_piece - 1) / k_piece * k_piece);
    return value <= device.attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN) - own;
}

/// A call that sets something has been sent.
void note_set(Function& function, size_t place, const Device& device, int what, int value, uint64_t number)
    WL_REQUIRES(function.mutex) {
    const bool keeps = what < 0 || reads_back(function, device, what, value);
    const bool is_shared_bytes = what == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    FunctionSetup& setup = function.setups[place];
    if (!setup.sent(what, value, number, keeps || is_shared_bytes)) return;
    if (is_shared_bytes && place < function.shared_limits.size()) function.shared_limits[place].store(value);
    if (what < 0 || !setup.attributes) return;
    const auto attribute = static_cast<size_t>(what);
    const bool is_known = attribute < setup.attributes->size() && (*setup.attributes)[attribute].result == CUDA_SUCCESS;
    // As a rule programs set what they have set before: libraries do at each launch.
    if (is_known && (*setup.attributes)[attribute].value == value) return;
    if (is_known && keeps)
        (*setup.attributes)[attribute].value = value;
    else  // of the others the driver may make something else: that is asked for again
        setup.attributes.reset();
}

}  // namespace

CUresult function_attribute(Call& call, uint64_t token, CUfunction_attribute attribute, int& value) {
    Function* function = call.state.functions.find(token);
    if (!function) return CUDA_ERROR_INVALID_HANDLE;
    if (attribute < 0 || static_cast<size_t>(attribute) >= Function::k_attributes) return CUDA_ERROR_INVALID_VALUE;
    {
        MutexLock lock(function->mutex);
        FunctionSetup& setup = function->setups[function->place_of(call.device())];
        setup.drop_if_refused(call.session.failures());
        if (setup.attributes) return pick(*setup.attributes, attribute, value);
    }
    FunctionAttributes fetched;
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

bool driver_judges(CUfunction_attribute attribute) {
    switch (attribute) {
        case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
        case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
        case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
        case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE: return true;
        default: return false;
    }
}

CUresult set_up_function(Call& call, Function& function, const Device& device, int what, int value,
                         FunctionRef<CUresult()> issue) {
    const size_t place = function.place_of(device.ordinal);
    {
        MutexLock lock(function.mutex);
        function.setups[place].begin(call.session.failures());
    }
    const CUresult result = issue();
    if (result == CUDA_SUCCESS && what >= 0) {
        CodeImage& code = *function.code;
        MutexLock lock(code.mutex);
        code.attributes_ahead.set_up(static_cast<int>(place), function.kernel->name);
    }
    MutexLock lock(function.mutex);
    if (result != CUDA_SUCCESS) {
        function.setups[place].not_sent();
        return result;
    }
    note_set(function, place, device, what, value, call.number);
    return result;
}

}  // namespace warpline::client
