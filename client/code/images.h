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

/// Uploads PTX at once and waits, because compiling may fail and the program may have asked for the log.
CUresult compile_now(Call& call, CodeImage& code, unsigned option_count, CUjit_option* options, void** values);

/// Queues the upload of an image if nobody has yet.
CUresult ensure_uploaded(Call& call, CodeImage& code);

/// Makes the server know a function's token: to be called before each call that names it.
CUresult ensure_announced(Call& call, uint64_t token, Function& function);

/// A token for the kernel of this name, the same for each question.
///
/// @param owner  token of the module or library that is asked
/// @errors       CUDA_ERROR_NOT_FOUND
CUresult function_of(Call& call, CodeImage& code, uint64_t owner, std::string_view name, uint64_t& token);

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

/// A variable's address in the current context (or its module's); asked for once.
CUresult variable_of(Call& call, CodeImage& code, uint64_t owner, const char* name, CodeImage::Variable& variable);

/// The module of a library in the current context.
CUresult module_of_library(Call& call, CUlibrary library, CUmodule* module);

/// Ends the functions and variables of an image that is being unloaded.
void forget_code(Call& call, CodeImage& code);

/// The bytes of a file, with a zero behind the last.
///
/// @errors  file not found, invalid image (not a file, or too long)
CUresult read_file(const char* path, Bytes& out);

}  // namespace warpline::client
