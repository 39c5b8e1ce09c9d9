// Functions: attributes, settings, and how many blocks of them are resident.
#include <algorithm>

#include "softgpu/driver/code/module.h"
#include "softgpu/driver/context/green_context.h"
#include "softgpu/driver/context/stream.h"
#include "softgpu/driver/device/device.h"
#include "softgpu/driver/operations/launch.h"
#include "softgpu/driver/process/process.h"

namespace warpline::softgpu::driver {

namespace {

CUresult find(CUfunction handle, std::shared_ptr<LoadedFunction>& function) {
    Context* context = nullptr;
    CU_TRY(current_context(context));  // before the function, other than where one is asked or set
    return find_function(handle, function, context);
}

CUresult potential_block_size(int* minGridSize, int* blockSize, CUfunction handle, CUoccupancyB2DSize shared_of, size_t shared,
                              int limit) {
    if (minGridSize == nullptr || blockSize == nullptr || limit < 0) return CUDA_ERROR_INVALID_VALUE;
    std::shared_ptr<LoadedFunction> function;
    CU_TRY(find(handle, function));
    int most = static_cast<int>(function->max_threads());
    if (limit != 0) most = std::min(most, limit);
    int best_threads = 0, best_block = 0, best_blocks = 0;
    for (int block = most; block > 0; block = block % k_warp != 0 ? block / k_warp * k_warp : block - k_warp) {
        size_t bytes = shared_of != nullptr ? shared_of(block) : shared;
        int blocks = static_cast<int>(blocks_per_sm(*function, static_cast<uint32_t>(block), bytes));
        if (blocks * block <= best_threads) continue;
        best_threads = blocks * block;
        best_block = block;
        best_blocks = blocks;
    }
    *blockSize = best_block;
    *minGridSize = best_blocks * function->device().attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    return CUDA_SUCCESS;
}

/// @param function  null: of none in particular. 0: then neither that says it nor the launch
uint64_t cluster_blocks(const LoadedFunction* function, const CUlaunchConfig& config) {
    for (unsigned int i = 0; i < config.numAttrs && config.attrs != nullptr; ++i) {
        const auto& dim = config.attrs[i].value.clusterDim;
        if (config.attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) return uint64_t{dim.x} * dim.y * dim.z;
    }
    if (function == nullptr) return 0;
    auto required = function->required_cluster();
    return required[0] != 0 ? uint64_t{required[0]} * std::max(required[1], 1U) * std::max(required[2], 1U) : 1;
}

}  // namespace

CUresult cuFuncGetAttribute(int* pi, CUfunction_attribute attrib, CUfunction hfunc) {
    if (pi == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Context* context = nullptr;
    std::shared_ptr<LoadedFunction> function;
    CU_TRY(find_function(hfunc, function, context));
    return function->attribute(attrib, pi);
}

CUresult cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value) {
    Context* context = nullptr;
    std::shared_ptr<LoadedFunction> function;
    CU_TRY(find_function(hfunc, function, context));
    return function->set_attribute(attrib, value);
}

CUresult cuFuncSetCacheConfig(CUfunction hfunc, CUfunc_cache config) {
    if (config < CU_FUNC_CACHE_PREFER_NONE || config > CU_FUNC_CACHE_PREFER_EQUAL) return CUDA_ERROR_INVALID_VALUE;
    Context* context = nullptr;
    std::shared_ptr<LoadedFunction> function;
    CU_TRY(find_function(hfunc, function, context));
    function->cache_config = config;
    return CUDA_SUCCESS;
}

CUresult cuFuncSetSharedMemConfig(CUfunction hfunc, CUsharedconfig config) {
    if (config < CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE || config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    Context* context = nullptr;
    std::shared_ptr<LoadedFunction> function;
    return find_function(hfunc, function, context);
}

CUresult cuFuncGetModule(CUmodule* hmod, CUfunction hfunc) {
    if (hmod == nullptr || hfunc == nullptr) return CUDA_ERROR_INVALID_VALUE;
    auto function = process().functions.find(hfunc);
    if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    Context* context = nullptr;
    CU_TRY(current_context(context));
    std::shared_ptr<Module> module;
    CU_TRY(function->module(*context, module));
    *hmod = module->handle(module);
    return CUDA_SUCCESS;
}

CUresult cuFuncGetName(const char** name, CUfunction hfunc) {
    if (name == nullptr || hfunc == nullptr) return CUDA_ERROR_INVALID_VALUE;
    auto function = process().functions.find(hfunc);
    if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    *name = function->name().c_str();
    return CUDA_SUCCESS;
}

CUresult cuFuncGetParamInfo(CUfunction func, size_t paramIndex, size_t* paramOffset, size_t* paramSize) {
    if (paramOffset == nullptr || func == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Context* context = nullptr;
    std::shared_ptr<LoadedFunction> function;
    CU_TRY(find_function(func, function, context));
    return function->param_info(paramIndex, paramOffset, paramSize);
}

CUresult cuFuncGetParamCount(CUfunction func, size_t* paramCount) {
    if (paramCount == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Context* context = nullptr;
    std::shared_ptr<LoadedFunction> function;
    CU_TRY(find_function(func, function, context));
    *paramCount = function->info().params.size();
    return CUDA_SUCCESS;
}

CUresult cuFuncIsLoaded(CUfunctionLoadingState* state, CUfunction function) {
    if (state == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Context* context = nullptr;
    std::shared_ptr<LoadedFunction> found;
    CU_TRY(find_function(function, found, context));
    *state = found->loaded() ? CU_FUNCTION_LOADING_STATE_LOADED : CU_FUNCTION_LOADING_STATE_UNLOADED;
    return CUDA_SUCCESS;
}

CUresult cuFuncLoad(CUfunction function) {
    Context* context = nullptr;
    std::shared_ptr<LoadedFunction> found;
    CU_TRY(find_function(function, found, context));
    return found->ensure_ready();
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* numBlocks, CUfunction func, int blockSize,
                                                              size_t dynamicSMemSize, unsigned int flags) {
    if (numBlocks == nullptr || blockSize <= 0 || flags > 1) return CUDA_ERROR_INVALID_VALUE;
    std::shared_ptr<LoadedFunction> function;
    CU_TRY(find(func, function));
    *numBlocks = static_cast<int>(blocks_per_sm(*function, static_cast<uint32_t>(blockSize), dynamicSMemSize));
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* numBlocks, CUfunction func, int blockSize, size_t dynamicSMemSize) {
    return driver::cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(numBlocks, func, blockSize, dynamicSMemSize, 0);
}

CUresult cuOccupancyMaxPotentialBlockSize(int* minGridSize, int* blockSize, CUfunction func,
                                          CUoccupancyB2DSize blockSizeToDynamicSMemSize, size_t dynamicSMemSize,
                                          int blockSizeLimit) {
    return potential_block_size(minGridSize, blockSize, func, blockSizeToDynamicSMemSize, dynamicSMemSize, blockSizeLimit);
}

CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int* minGridSize, int* blockSize, CUfunction func,
                                                   CUoccupancyB2DSize blockSizeToDynamicSMemSize, size_t dynamicSMemSize,
                                                   int blockSizeLimit, unsigned int flags) {
    if (flags > 1) return CUDA_ERROR_INVALID_VALUE;
    return potential_block_size(minGridSize, blockSize, func, blockSizeToDynamicSMemSize, dynamicSMemSize, blockSizeLimit);
}

CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t* dynamicSmemSize, CUfunction func, int numBlocks, int blockSize) {
    if (dynamicSmemSize == nullptr || numBlocks <= 0 || blockSize <= 0) return CUDA_ERROR_INVALID_VALUE;
    std::shared_ptr<LoadedFunction> function;
    CU_TRY(find(func, function));
    const Device& device = function->device();
    if (blocks_per_sm(*function, static_cast<uint32_t>(blockSize), 0) < static_cast<uint32_t>(numBlocks)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    int per_block = device.attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR) / numBlocks;
    per_block -= device.attribute(CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK);
    per_block = std::min(per_block, device.attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN));
    const int left = per_block / 128 * 128 - static_cast<int>(function->static_shared_bytes());
    // What the kernel may be launched with as it is set up now.
    *dynamicSmemSize = std::min(static_cast<size_t>(std::max(left, 0)), size_t{function->max_dynamic_shared_bytes()});
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialClusterSize(int* clusterSize, CUfunction func, const CUlaunchConfig* config) {
    if (clusterSize == nullptr || func == nullptr || config == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::shared_ptr<LoadedFunction> function;
    CU_TRY(find(func, function));
    if (function->device().attribute(CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH) == 0) return CUDA_ERROR_NOT_SUPPORTED;
    // DB-70: the size that the launch has does not matter for the largest one, but has to be one.
    if (!is_cluster_size(cluster_blocks(function.get(), *config), function->non_portable_cluster())) {
        return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    }
    *clusterSize = function->non_portable_cluster() ? k_largest_cluster : k_portable_cluster;
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveClusters(int* numClusters, CUfunction func, const CUlaunchConfig* config) {
    if (numClusters == nullptr || config == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Context* context = nullptr;
    CU_TRY(current_context(context));
    std::shared_ptr<LoadedFunction> function;
    if (func != nullptr) CU_TRY(find(func, function));  // DB-74: or one that has all to itself
    if (func == nullptr && cluster_blocks(nullptr, *config) == 0) return CUDA_ERROR_INVALID_VALUE;
    const Device& device = context->device();
    if (device.attribute(CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH) == 0) return CUDA_ERROR_NOT_SUPPORTED;
    uint64_t blocks = cluster_blocks(function.get(), *config);
    const bool non_portable = function != nullptr && function->non_portable_cluster();
    if (!is_cluster_size(blocks, non_portable)) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    uint64_t threads = uint64_t{config->blockDimX} * config->blockDimY * config->blockDimZ;
    const auto most = static_cast<uint64_t>(function != nullptr ? function->max_threads()
                                                                : device.attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
    if (threads == 0 || threads > most) return CUDA_ERROR_INVALID_VALUE;
    GreenContextPtr green = current_green();
    if (StreamPtr stream; config->hStream != nullptr && find_stream(config->hStream, stream) == CUDA_SUCCESS)
        green = stream->green();
    const auto all = static_cast<uint64_t>(device.attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
    const uint32_t on_each = function != nullptr
                                 ? blocks_per_sm(*function, static_cast<uint32_t>(threads), config->sharedMemBytes)
                                 : blocks_per_sm(device, static_cast<uint32_t>(threads), config->sharedMemBytes, 0);
    uint64_t resident = on_each * (green != nullptr ? green->multiprocessors().size() : all);
    *numClusters = static_cast<int>(resident / blocks);
    return CUDA_SUCCESS;
}

}  // namespace warpline::softgpu::driver
