// Linking at run time: the server's driver links; files are read here.
#include <algorithm>

#include "client/code/images.h"
#include "client/code/jit_options.h"
#include "client/gen/link_calls.gen.h"
#include "cuda/abi/link_options.h"

namespace warpline::client {

namespace {

/// What an answer tells of a compilation.
template <typename Values>
JitResults results_of(Values& answer) {
    return {std::move(answer.infoLog), std::move(answer.errorLog), answer.infoBytes, answer.errorBytes, answer.wallTime};
}

CUresult add(Call& call, CUlinkState state, CUjitInputType type, BytesView data, const char* name, unsigned count,
             CUjit_option* options, void** values) {
    Link* link = call.state.links.find(to_token(state));
    if (!link) return CUDA_ERROR_INVALID_HANDLE;
    JitOptions jit;
    if (CUresult refused = jit.read(count, options, values); refused != CUDA_SUCCESS) return refused;
    if (std::any_of(options, options + count, cuda::abi::is_of_whole_link)) return CUDA_ERROR_INVALID_VALUE;
    gen::CuLinkAddDataV2Values answer;
    CUresult result = gen::request_cuLinkAddData_v2(call, to_token(state), static_cast<uint32_t>(type), text_or_empty(name),
                                                    jit.options(), jit.values(), data, answer);
    link->outputs.write(results_of(answer));
    return result;
}

}  // namespace

CUresult hook_client_cuLinkCreate_v2(Call& call, unsigned int numOptions, CUjit_option* options, void** optionValues,
                                     CUlinkState* stateOut) {
    JitOptions jit;
    if (CUresult refused = jit.read(numOptions, options, optionValues); refused != CUDA_SUCCESS) return refused;
    auto made = make_object<HandleKind::link>(call);
    if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
    made.object->outputs = jit.outputs();
    CUresult result = gen::issue_cuLinkCreate_v2(call, made.token, jit.options(), jit.values());
    if (result != CUDA_SUCCESS) {
        call.state.links.remove(made.token);
        return result;
    }
    *stateOut = to_handle<CUlinkState>(made.token);
    return CUDA_SUCCESS;
}

CUresult hook_client_cuLinkAddData_v2(Call& call, CUlinkState state, CUjitInputType type, void* data, size_t size,
                                      const char* name, unsigned int numOptions, CUjit_option* options, void** optionValues) {
    const auto begin = reinterpret_cast<uintptr_t>(data);
    if (size == 0 || begin + size < begin) return CUDA_ERROR_INVALID_VALUE;  // more than there can be
    return add(call, state, type, as_bytes(data, size), name, numOptions, options, optionValues);
}

CUresult hook_client_cuLinkAddFile_v2(Call& call, CUlinkState state, CUjitInputType type, const char* path,
                                      unsigned int numOptions, CUjit_option* options, void** optionValues) {
    if (!call.state.links.find(to_token(state))) return CUDA_ERROR_INVALID_HANDLE;
    JitOptions checked;
    if (CUresult refused = checked.read(numOptions, options, optionValues); refused != CUDA_SUCCESS) return refused;
    Bytes bytes;
    if (CUresult result = read_file(path, bytes); result != CUDA_SUCCESS) return result;
    // The zero that read_file puts behind the last byte belongs to PTX text only.
    BytesView data = type == CU_JIT_INPUT_PTX ? BytesView(bytes) : BytesView(bytes).first(bytes.size() - 1);
    return add(call, state, type, data, path, numOptions, options, optionValues);
}

CUresult hook_client_cuLinkComplete(Call& call, CUlinkState state, void** cubinOut, size_t* sizeOut) {
    Link* link = call.state.links.find(to_token(state));
    if (!link) return CUDA_ERROR_INVALID_HANDLE;
    link->cubin.clear();
    gen::CuLinkCompleteValues answer;
    CUresult result = gen::request_cuLinkComplete(call, to_token(state), CopyTarget::into(link->cubin), answer);
    link->outputs.write(results_of(answer));
    if (result != CUDA_SUCCESS) return result;
    *cubinOut = link->cubin.data();
    if (sizeOut) *sizeOut = link->cubin.size();
    return CUDA_SUCCESS;
}

CUresult hook_client_cuLinkDestroy(Call& call, CUlinkState state) {
    Link* link = call.state.links.find(to_token(state));
    if (!link) return CUDA_ERROR_INVALID_HANDLE;
    CUresult result = gen::issue_cuLinkDestroy(call, to_token(state));
    link->cubin = {};
    call.state.links.remove(to_token(state));
    return result;
}

}  // namespace warpline::client
