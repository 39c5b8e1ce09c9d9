// Functions: what the program asks and sets of them, and the search for a block size.
#include <algorithm>

#include "client/call/load_turn.h"
#include "client/code/functions.h"
#include "client/code/images.h"
#include "client/code/launch_params.h"
#include "client/gen/function_calls.gen.h"
#include "client/session/environment.h"

namespace warpline::client {

namespace {

Function* find_function(const Call& call, CUfunction function) { return call.state.functions.find(to_token(function)); }

}  // namespace

CUresult hook_client_cuFuncGetAttribute(Call& call, int* pi, CUfunction_attribute attrib, CUfunction hfunc) {
    if (CUresult failed = failure_of(call); failed != CUDA_SUCCESS) return failed;
    return function_attribute(call, to_token(hfunc), attrib, *pi);
}

CUresult hook_client_cuFuncSetAttribute(Call& call, CUfunction hfunc, CUfunction_attribute attrib, int value) {
    Function* function = find_function(call, hfunc);
    if (!function) return CUDA_ERROR_INVALID_HANDLE;
    if (CUresult refused = check_settable(*function, find_device(call.device()), attrib, value); refused != CUDA_SUCCESS)
        return refused;
    if (CUresult result = ensure_announced(call, to_token(hfunc), *function); result != CUDA_SUCCESS) return result;
    return set_up_function(call, *function, *find_device(call.device()), attrib, value, [&] {
        const auto set = driver_judges(attrib) ? gen::request_cuFuncSetAttribute : gen::issue_cuFuncSetAttribute;
        return set(call, to_token(hfunc), static_cast<uint32_t>(attrib), value);
    });
}

CUresult hook_client_cuFuncSetCacheConfig(Call& call, CUfunction hfunc, CUfunc_cache config) {
    Function* function = find_function(call, hfunc);
    if (!function) return CUDA_ERROR_INVALID_HANDLE;
    if (CUresult result = ensure_announced(call, to_token(hfunc), *function); result != CUDA_SUCCESS) return result;
    return set_up_function(call, *function, *find_device(call.device()), FunctionSetup::k_cache_config, config, [&] {
        return gen::issue_cuFuncSetCacheConfig(call, to_token(hfunc), static_cast<uint32_t>(config));
    });
}

CUresult hook_client_cuFuncSetSharedMemConfig(Call& call, CUfunction hfunc, CUsharedconfig config) {
    Function* function = find_function(call, hfunc);
    if (!function) return CUDA_ERROR_INVALID_HANDLE;
    if (CUresult result = ensure_announced(call, to_token(hfunc), *function); result != CUDA_SUCCESS) return result;
    return set_up_function(call, *function, *find_device(call.device()), FunctionSetup::k_shared_config, config, [&] {
        return gen::issue_cuFuncSetSharedMemConfig(call, to_token(hfunc), static_cast<uint32_t>(config));
    });
}

CUresult hook_client_cuFuncGetName(Call& call, const char** name, CUfunction hfunc) {
    if (!hfunc) return CUDA_ERROR_INVALID_VALUE;
    const Function* function = find_function(call, hfunc);
    if (!function) return CUDA_ERROR_INVALID_HANDLE;
    *name = function->kernel->name.c_str();
    return CUDA_SUCCESS;
}

CUresult hook_client_cuFuncGetParamInfo(Call& call, CUfunction func, size_t paramIndex, size_t* paramOffset,
                                        size_t* paramSize) {
    const Function* function = find_function(call, func);
    if (!function) return CUDA_ERROR_INVALID_HANDLE;
    if (paramIndex >= function->kernel->params.size()) return CUDA_ERROR_INVALID_VALUE;
    *paramOffset = function->kernel->params[paramIndex].offset_bytes;
    if (paramSize) *paramSize = function->kernel->params[paramIndex].size_bytes;
    return CUDA_SUCCESS;
}

CUresult hook_client_cuFuncGetParamCount(Call& call, CUfunction func, size_t* paramCount) {
    const Function* function = find_function(call, func);
    if (!function) return CUDA_ERROR_INVALID_HANDLE;
    *paramCount = function->kernel->params.size();
    return CUDA_SUCCESS;
}

CUresult hook_client_cuFuncGetModule(Call& call, CUmodule* hmod, CUfunction hfunc) {
    const Function* function = find_function(call, hfunc);
    if (!function) return CUDA_ERROR_INVALID_HANDLE;
    if (token_is(HandleKind::module, function->owner)) {
        *hmod = to_handle<CUmodule>(function->owner);
        return CUDA_SUCCESS;
    }
    if (CUresult refused = check_context(call); refused != CUDA_SUCCESS) return refused;
    return module_of_library(call, to_handle<CUlibrary>(function->owner), hmod);
}

CUresult hook_client_cuFuncIsLoaded(Call& call, CUfunctionLoadingState* state, CUfunction function) {
    const Function* found = find_function(call, function);
    if (!found) return CUDA_ERROR_INVALID_HANDLE;
    *state = found->announced.load() || loads_eagerly() ? CU_FUNCTION_LOADING_STATE_LOADED : CU_FUNCTION_LOADING_STATE_UNLOADED;
    return CUDA_SUCCESS;
}

CUresult hook_client_cuFuncLoad(Call& call, CUfunction function) {
    Function* found = find_function(call, function);
    if (!found) return CUDA_ERROR_INVALID_HANDLE;
    if (CUresult result = ensure_announced(call, to_token(function), *found); result != CUDA_SUCCESS) return result;
    const LoadTurn loading(call);
    return gen::issue_cuFuncLoad(call, to_token(function));
}

CUresult hook_client_cuOccupancyMaxActiveBlocksPerMultiprocessor(Call& call, int* numBlocks, CUfunction func, int blockSize,
                                                                 size_t dynamicSMemSize) {
    return ask_blocks(call, numBlocks, func, blockSize, dynamicSMemSize, 0);
}

CUresult hook_client_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(Call& call, int* numBlocks, CUfunction func,
                                                                          int blockSize, size_t dynamicSMemSize,
                                                                          unsigned int flags) {
    return ask_blocks(call, numBlocks, func, blockSize, dynamicSMemSize, flags);
}

CUresult hook_client_cuOccupancyAvailableDynamicSMemPerBlock(Call& call, size_t* dynamicSmemSize, CUfunction func,
                                                             int numBlocks, int blockSize) {
    return ask_shared_bytes(call, dynamicSmemSize, func, numBlocks, blockSize);
}

CUresult hook_client_cuOccupancyMaxPotentialBlockSize(Call& call, int* minGridSize, int* blockSize, CUfunction func,
                                                      CUoccupancyB2DSize blockSizeToDynamicSMemSize, size_t dynamicSMemSize,
                                                      int blockSizeLimit) {
    return hook_client_cuOccupancyMaxPotentialBlockSizeWithFlags(call, minGridSize, blockSize, func, blockSizeToDynamicSMemSize,
                                                                 dynamicSMemSize, blockSizeLimit, 0);
}

CUresult hook_client_cuOccupancyMaxPotentialBlockSizeWithFlags(Call& call, int* minGridSize, int* blockSize, CUfunction func,
                                                               CUoccupancyB2DSize blockSizeToDynamicSMemSize,
                                                               size_t dynamicSMemSize, int blockSizeLimit, unsigned int flags) {
    // The search is the one that CUDA's headers describe: the callback is the program's, so it runs here.
    const Device* device = find_device(call.device());
    int function_limit = 0;
    if (CUresult result = function_attribute(call, to_token(func), CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function_limit);
        result != CUDA_SUCCESS) {
        return result;
    }
    const int warp = device->attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
    const int per_sm = device->attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
    int limit = device->attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    if (blockSizeLimit > 0) limit = std::min(limit, blockSizeLimit);
    limit = std::min(limit, function_limit);
    int best_threads = 0, best_block = 0, best_blocks = 0;
    for (int aligned = (limit + warp - 1) / warp * warp; aligned > 0 && best_threads < per_sm; aligned -= warp) {
        int block = std::min(limit, aligned);
        size_t shared = blockSizeToDynamicSMemSize ? blockSizeToDynamicSMemSize(block) : dynamicSMemSize;
        int blocks = 0;
        if (CUresult result = ask_blocks(call, &blocks, func, block, shared, flags); result != CUDA_SUCCESS) return result;
        if (block * blocks <= best_threads) continue;
        best_threads = block * blocks;
        best_block = block;
        best_blocks = blocks;
    }
    *blockSize = best_block;
    *minGridSize = best_blocks * device->attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    return CUDA_SUCCESS;
}

CUresult hook_client_cuOccupancyMaxPotentialClusterSize(Call& call, int* clusterSize, CUfunction func,
                                                        const CUlaunchConfig* config) {
    return ask_largest_cluster(call, clusterSize, func, *config);
}

CUresult hook_client_cuOccupancyMaxActiveClusters(Call& call, int* numClusters, CUfunction func, const CUlaunchConfig* config) {
    return ask_clusters(call, numClusters, func, *config);
}

}  // namespace warpline::client
