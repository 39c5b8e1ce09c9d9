// What modules, libraries and functions have in common: an image, and when the server is told of it.
#pragma once

#include <algorithm>
#include <span>

#include "client/call/common.h"

namespace warpline::client {

/// Reads the container behind a `code` argument and chooses what the device will take of it.
///
/// @param device  ordinal; -1: the first one
/// @errors        invalid value or image, no binary for GPU
CUresult make_code(const void* code, int device, std::shared_ptr<CodeImage>& out);

/// What a load call says: an image, and the options of its compilation.
struct LoadRequest {
    const void* bytes;
    unsigned option_count = 0;
    CUjit_option* options = nullptr;
    void** values = nullptr;
};

/// Uploads and compiles a new image at once, and waits, if it cannot be put off: the program passed options and wants them
/// obeyed, or answers to them; or loading is eager; or only the server's driver can judge the image.
CUresult compile_unless_later(Call& call, CodeImage& code, const LoadRequest& request);

/// Makes a module of the current context, or a library, which belongs to no context.
template <HandleKind kind, typename Handle>
CUresult load_code(Call& call, const LoadRequest& request, Handle* handle) {
    static_assert(kind == HandleKind::module || kind == HandleKind::library);
    std::shared_ptr<CodeImage> code;
    if (CUresult result = make_code(request.bytes, call.device(), code); result != CUDA_SUCCESS) return result;
    auto made = call.state.table<kind>().make();
    if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
    code->owner = made.token;
    code->library = kind == HandleKind::library;
    code->context = code->library ? 0 : call.context;
    made.object->context = code->context;
    made.object->code = code;
    if (CUresult result = compile_unless_later(call, *code, request); result != CUDA_SUCCESS) {
        call.state.table<kind>().remove(made.token);
        return result;
    }
    *handle = to_handle<Handle>(made.token);
    return CUDA_SUCCESS;
}

/// Queues the upload of an image if nobody has yet.
CUresult ensure_uploaded(Call& call, CodeImage& code);

/// Makes the server know a function's token: to be called before each call that names it.
CUresult ensure_announced(Call& call, uint64_t token, Function& function);

/// A token for the kernel of this name, the same for each question.
///
/// @param owner  token of the module or library that is asked
/// @errors       CUDA_ERROR_NOT_FOUND
CUresult function_of(Call& call, CodeImage& code, uint64_t owner, std::string_view name, uint64_t& token);

/// The same as a handle: of a module (CUfunction) or a library (CUkernel).
template <typename Handle>
CUresult get_function(Call& call, CodeImage& code, uint64_t owner, const char* name, Handle* handle) {
    uint64_t token = 0;
    CUresult result = function_of(call, code, owner, name, token);
    if (result == CUDA_SUCCESS) *handle = to_handle<Handle>(token);
    return result;
}

/// Handles of the first kernels of a module (CUfunction) or a library (CUkernel), as many as there are and have room.
template <typename Handle>
CUresult list_functions(Call& call, CodeImage& code, uint64_t owner, std::span<Handle> out) {
    const auto& kernels = code.info.kernels;
    for (size_t i = 0; i < std::min(out.size(), kernels.size()); ++i) {
        uint64_t token = 0;
        if (CUresult result = function_of(call, code, owner, kernels[i].name, token); result != CUDA_SUCCESS) return result;
        out[i] = to_handle<Handle>(token);
    }
    return CUDA_SUCCESS;
}

/// A variable's address in the current context (or its module's); asked for once. Either answer may be unwanted (null).
CUresult get_variable(Call& call, CodeImage& code, uint64_t owner, const char* name, CUdeviceptr* address, size_t* size_bytes);

/// The module of a library in the current context.
CUresult module_of_library(Call& call, CUlibrary library, CUmodule* module);

/// Ends the functions and variables of an image that is being unloaded. True if the server has to be told: it has the image.
bool forget_code(Call& call, CodeImage& code);

/// The bytes of a file, with a zero behind the last.
///
/// @errors  file not found, invalid image (not a file, or too long)
CUresult read_file(const char* path, Bytes& out);

}  // namespace warpline::client
