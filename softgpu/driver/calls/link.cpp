// Linking at run time.
#include <algorithm>
#include <fstream>
#include <iterator>

#include "common/log/log.h"
#include "cuda/abi/link_options.h"
#include "cuda/image/image.h"
#include "softgpu/driver/code/link_state.h"
#include "softgpu/driver/code/module.h"
#include "softgpu/driver/context/context.h"
#include "softgpu/driver/device/device.h"
#include "softgpu/driver/process/process.h"

namespace warpline::softgpu::driver {

namespace {

using StatePtr = std::shared_ptr<LinkState>;

CUresult find_state(CUlinkState handle, StatePtr& state) {
    state = process().link_states.find(handle);
    return state != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/// The options of an input mean nothing here.
CUresult check_options(unsigned count, CUjit_option* options, void** values) {
    JitOptions ignored;
    if (count != 0 && options != nullptr && std::any_of(options, options + count, cuda::abi::is_of_whole_link)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return JitOptions::read(count, options, values, ignored);
}

/// libcudadevrt.a, of machine code: what can be had of it kernels have anyway, and of the rest loading them tells.
bool is_device_runtime(BytesView data) {
    const std::string_view archive = as_text(data);
    return archive.starts_with("!<arch>\n") && archive.find("cuda_device_runtime.o/") != std::string_view::npos;
}

CUresult add(LinkState& state, CUjitInputType type, BytesView data) {
    switch (type) {
        case CU_JIT_INPUT_PTX: {
            std::string_view text = as_text(data);
            while (!text.empty() && text.back() == 0) text.remove_suffix(1);
            if (text.empty()) return CUDA_ERROR_INVALID_IMAGE;
            state.ptx.emplace_back(text);
            return CUDA_SUCCESS;
        }
        case CU_JIT_INPUT_CUBIN:
        case CU_JIT_INPUT_FATBINARY: {
            auto image = cuda::image::Image::from_bytes(data);
            if (!image) return CUDA_ERROR_INVALID_IMAGE;
            std::shared_ptr<const Code> code;
            CU_TRY(read_code(*image, code));
            if (code->ptx.empty()) return CUDA_ERROR_NO_BINARY_FOR_GPU;
            state.ptx.insert(state.ptx.end(), code->ptx.begin(), code->ptx.end());
            return CUDA_SUCCESS;
        }
        case CU_JIT_INPUT_LIBRARY:
            if (is_device_runtime(data)) return CUDA_SUCCESS;
            [[fallthrough]];
        case CU_JIT_INPUT_OBJECT:
        case CU_JIT_INPUT_NVVM:
            WL_LOG(error, "softgpu",
                   "cuLink: host objects, NVVM, and libraries other than libcudadevrt.a are not linked; pass PTX or a fatbin "
                   "with PTX");
            return CUDA_ERROR_NOT_SUPPORTED;
        default: return CUDA_ERROR_INVALID_VALUE;
    }
}

}  // namespace

CUresult cuLinkCreate_v2(unsigned int numOptions, CUjit_option* options, void** optionValues, CUlinkState* stateOut) {
    if (stateOut == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Context* context = nullptr;
    CU_TRY(current_context(context));
    auto state = std::make_shared<LinkState>();
    CU_TRY(JitOptions::read(numOptions, options, optionValues, state->jit));
    *stateOut = as_handle<CUlinkState>(process().link_states.add(std::move(state)));
    return CUDA_SUCCESS;
}

CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void* data, size_t size, const char* name,
                          unsigned int numOptions, CUjit_option* options, void** optionValues) {
    (void)name;
    StatePtr found;
    CU_TRY(find_state(state, found));
    if (data == nullptr || size == 0) return CUDA_ERROR_INVALID_VALUE;
    CU_TRY(check_options(numOptions, options, optionValues));
    return add(*found, type, as_bytes(data, size));
}

CUresult cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char* path, unsigned int numOptions,
                          CUjit_option* options, void** optionValues) {
    StatePtr found;
    CU_TRY(find_state(state, found));
    if (path == nullptr) return CUDA_ERROR_INVALID_VALUE;
    CU_TRY(check_options(numOptions, options, optionValues));
    std::ifstream file(path, std::ios::binary);
    if (!file) return CUDA_ERROR_FILE_NOT_FOUND;
    std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    return add(*found, type, as_bytes(bytes));
}

CUresult cuLinkComplete(CUlinkState state, void** cubinOut, size_t* sizeOut) {
    if (cubinOut == nullptr) return CUDA_ERROR_INVALID_VALUE;
    StatePtr found;
    CU_TRY(find_state(state, found));
    Context* context = nullptr;
    CU_TRY(current_context(context));
    if (found->ptx.empty()) return CUDA_ERROR_INVALID_VALUE;
    auto code = std::make_shared<Code>();
    code->ptx = found->ptx;
    std::shared_ptr<Module> tried;
    CU_TRY(Module::load(context->shared_from_this(), std::move(code), &found->jit, tried));
    found->image = cuda::image::make_linked_ptx(found->ptx);
    *cubinOut = found->image.data();
    if (sizeOut != nullptr) *sizeOut = found->image.size();
    return CUDA_SUCCESS;
}

CUresult cuLinkDestroy(CUlinkState state) {
    return process().link_states.remove(state) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

}  // namespace warpline::softgpu::driver
