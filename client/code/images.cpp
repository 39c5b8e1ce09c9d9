// Images are uploaded only when something of them is used on the server (docs/session.md, Modules).
#include "client/code/images.h"

#include "client/call/load_turn.h"
#include "client/call/managed.h"
#include "client/code/jit_options.h"
#include "client/gen/internal_calls.gen.h"
#include "client/gen/library_calls.gen.h"
#include "client/gen/managed_calls.gen.h"
#include "client/gen/module_calls.gen.h"
#include "client/session/environment.h"
#include "common/log/log.h"

namespace warpline::client {

namespace {

namespace image = cuda::image;

uint32_t upload_kind(const CodeImage& code) { return static_cast<uint32_t>(code.image.container()) + 1; }

/// All of an image's bytes in one piece, in the form that the other side reads.
BytesView upload_bytes(const CodeImage& code, Bytes& joined) {
    if (code.image.parts().size() == 1) return code.image.bytes();
    joined.reserve(code.image.upload_bytes());
    for (BytesView part : code.image.parts()) joined.insert(joined.end(), part.begin(), part.end());
    return joined;
}

/// A call on behalf of an image: modules belong to a context, whichever is current.
Call for_code(const Call& call, const CodeImage& code) {
    Call own = call;
    if (code.context != 0) own.context = code.context;
    return own;
}

CUresult ask_variable(Call& call, const CodeImage& code, uint64_t owner, const char* name, bool managed,
                      CodeImage::Variable& variable) {
    Call own = for_code(call, code);
    if (token_is(HandleKind::library, owner) && managed) {
        gen::CuLibraryGetManagedValues answer;
        CUresult result = gen::request_cuLibraryGetManaged(own, owner, name, answer);
        variable = {answer.dptr, answer.bytes};
        return result;
    }
    if (token_is(HandleKind::library, owner)) {
        gen::CuLibraryGetGlobalValues answer;
        CUresult result = gen::request_cuLibraryGetGlobal(own, owner, name, answer);
        variable = {answer.dptr, answer.bytes};
        return result;
    }
    gen::CuModuleGetGlobalV2Values answer;
    CUresult result = gen::request_cuModuleGetGlobal_v2(own, owner, name, answer);
    variable = {answer.dptr, answer.bytes};
    return result;
}

CUresult variable_of(Call& call, CodeImage& code, uint64_t owner, const char* name, CodeImage::Variable& variable) {
    const image::Global* global = code.info.find_global(name);
    // The name of a function is no variable's, and known all the same.
    if (!global) return code.info.find_kernel(name) ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_FOUND;
    const uint64_t context = code.context ? code.context : call.context;
    const auto key = std::make_pair(context, std::string(name));
    {
        MutexLock lock(code.mutex);
        if (auto it = code.variables.find(key); it != code.variables.end()) {
            variable = it->second;
            return CUDA_SUCCESS;
        }
    }
    if (CUresult result = ensure_uploaded(call, code); result != CUDA_SUCCESS) return result;
    CUresult result = ask_variable(call, code, owner, name, global->managed, variable);
    if (result != CUDA_SUCCESS) return result;
    if (global->managed) {
        if (result = share_variable(call, context, variable.address, variable.size_bytes); result != CUDA_SUCCESS)
            return result;
    }
    DeviceRange range;
    range.base = variable.address;
    range.size_bytes = variable.size_bytes;
    range.context = context;
    range.owner = code.owner;
    range.kind = MemoryKind::global;
    range.managed_variable = global->managed;
    if (const Context* found = call.state.contexts.find(context)) range.device = found->device;
    call.state.memory.register_range(range);
    MutexLock lock(code.mutex);
    code.variables.emplace(key, variable);
    return CUDA_SUCCESS;
}

void fill_function(Function& function, const image::Kernel& kernel, size_t devices) {
    function.kernel = &kernel;
    function.shared_limits = std::vector<std::atomic<int>>(function.context == 0 ? devices : 1);
    for (std::atomic<int>& limit : function.shared_limits) limit.store(-1, std::memory_order_relaxed);
    std::vector<uint32_t> sizes;
    for (const image::Param& param : kernel.params) {
        function.pieces.push_back({function.block_bytes, param.size_bytes});
        function.block_bytes += param.size_bytes;
        sizes.push_back(param.size_bytes);
    }
    BytesView bytes = as_bytes(sizes.data(), sizes.size() * sizeof(uint32_t));
    function.sizes.assign(bytes.begin(), bytes.end());
    function.static_shared_bytes = kernel.static_shared_bytes;
    function.max_threads = kernel.max_threads_per_block();
    function.registers = kernel.registers;
}

}  // namespace

CUresult compile_unless_later(Call& call, CodeImage& code, const LoadRequest& request) {
    if (!code.ask_driver && request.option_count == 0 && !loads_eagerly()) return CUDA_SUCCESS;
    JitOptions jit;
    if (CUresult result = jit.read(request.option_count, request.options, request.values); result != CUDA_SUCCESS)
        return result;
    // Which part of another container the driver takes is its own choice, and machine code keeps its bound.
    code.max_threads = jit.max_threads();
    if (code.max_threads && code.image.container() != image::Container::ptx) code.max_threads = 0;
    Bytes joined;
    Call own = for_code(call, code);
    const LoadTurn loading(own);
    gen::WlImageCompileValues answer;
    CUresult result = gen::request_wlImageCompile(own, code.owner, upload_kind(code), code.library, jit.options(), jit.values(),
                                                  upload_bytes(code, joined), answer);
    jit.outputs().write(
        {std::move(answer.infoLog), std::move(answer.errorLog), answer.infoBytes, answer.errorBytes, answer.wallTime});
    MutexLock lock(code.mutex);
    code.uploaded = result == CUDA_SUCCESS;
    if (result == CUDA_ERROR_NO_BINARY_FOR_GPU) {
        WL_LOG(warn, "client",
               "the server's driver has no use for an image: it is SASS-only, and the software GPU needs PTX; rebuild with "
               "-gencode arch=compute_XX,code=compute_XX");
    }
    return result;
}

CUresult ensure_uploaded(Call& call, CodeImage& code) {
    LoadTurn loading;
    MutexLock lock(code.mutex);
    if (code.uploaded) return CUDA_SUCCESS;
    Bytes joined;
    Call own = for_code(call, code);
    loading.begin(own);
    CUresult result = gen::issue_wlImageLoad(own, code.owner, upload_kind(code), code.library, upload_bytes(code, joined));
    if (result == CUDA_SUCCESS) code.uploaded = true;
    return result;
}

CUresult ensure_announced(Call& call, uint64_t token, Function& function) {
    if (function.announced.load(std::memory_order_acquire)) return CUDA_SUCCESS;
    if (CUresult result = ensure_uploaded(call, *function.code); result != CUDA_SUCCESS) return result;
    Call own = for_code(call, *function.code);
    const LoadTurn loading(own);
    MutexLock lock(function.code->mutex);
    if (function.announced.load(std::memory_order_relaxed)) return CUDA_SUCCESS;
    CUresult result = gen::issue_wlFunctionGet(own, token, function.owner, function.kernel->name);
    if (result == CUDA_SUCCESS) function.announced.store(true, std::memory_order_release);
    return result;
}

CUresult function_of(Call& call, CodeImage& code, uint64_t owner, std::string_view name, uint64_t& token) {
    const image::Kernel* kernel = code.info.find_kernel(name);
    if (!kernel) return CUDA_ERROR_NOT_FOUND;
    MutexLock lock(code.mutex);
    auto& functions = code.functions[owner];
    if (auto it = functions.find(name); it != functions.end()) {
        token = it->second;
        return CUDA_SUCCESS;
    }
    auto made = call.state.functions.make();
    if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
    // Whoever has the owner has the code: modules that are views of a library share it.
    made.object->code = code.shared_from_this();
    made.object->owner = owner;
    made.object->context = code.context;
    fill_function(*made.object, *kernel, call.session.info().devices.size());
    if (code.max_threads) made.object->max_threads = *code.max_threads;
    functions.emplace(name, made.token);
    token = made.token;
    return CUDA_SUCCESS;
}

CUresult module_of_library(Call& call, CUlibrary library, CUmodule* module) {
    Library* found = call.state.libraries.find(to_token(library));
    if (!found) return CUDA_ERROR_INVALID_HANDLE;
    if (CUresult result = ensure_uploaded(call, *found->code); result != CUDA_SUCCESS) return result;
    MutexLock lock(found->mutex);
    if (auto it = found->modules.find(call.context); it != found->modules.end()) {
        *module = to_handle<CUmodule>(it->second);
        return CUDA_SUCCESS;
    }
    auto made = make_object<HandleKind::module>(call);
    if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
    made.object->code = found->code;
    made.object->library = to_token(library);
    CUresult result = gen::issue_cuLibraryGetModule(call, made.token, to_token(library));
    if (result != CUDA_SUCCESS) {
        call.state.modules.remove(made.token);
        return result;
    }
    found->modules.emplace(call.context, made.token);
    *module = to_handle<CUmodule>(made.token);
    return CUDA_SUCCESS;
}

CUresult get_variable(Call& call, CodeImage& code, uint64_t owner, const char* name, CUdeviceptr* address, size_t* size_bytes) {
    CodeImage::Variable variable;
    if (CUresult result = variable_of(call, code, owner, name, variable); result != CUDA_SUCCESS) return result;
    if (address) *address = variable.address;
    if (size_bytes) *size_bytes = variable.size_bytes;
    return CUDA_SUCCESS;
}

bool forget_code(Call& call, CodeImage& code) {
    MutexLock lock(code.mutex);
    code.unloaded = true;
    for (const auto& [owner, functions] : code.functions) {
        for (const auto& [name, token] : functions) call.state.functions.remove(token);
    }
    code.functions.clear();
    for (const DeviceRange& range : call.state.memory.forget_owner(code.owner))
        if (range.managed_variable) unshare_variable(range.base, range.size_bytes);
    return code.uploaded;
}

}  // namespace warpline::client
