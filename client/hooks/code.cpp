// Images: read here, and uploaded only when something of them is used on the server (docs/session.md, Modules).
#include "client/hooks/code.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "client/gen/internal_calls.gen.h"
#include "client/gen/library_calls.gen.h"
#include "client/gen/module_calls.gen.h"
#include "client/hooks/jit_options.h"
#include "client/session/environment.h"
#include "common/log/log.h"
#include "cuda/abi/driver_settings.h"
#include "cuda/image/ptx_version.h"

namespace warpline::client {

namespace {

namespace image = cuda::image;

CUresult image_error(const Error& error) {
    switch (error.code) {
        case Code::alloc_failed: return CUDA_ERROR_OUT_OF_MEMORY;
        case Code::bad_argument: return CUDA_ERROR_INVALID_VALUE;
        default: return CUDA_ERROR_INVALID_IMAGE;
    }
}

/// The software GPU executes PTX of any architecture, whichever it reports.
constexpr uint32_t k_any_ptx = 999;

/// What the driver behind the session will take of an image on a device.
struct Choice {
    std::vector<const image::Entry*> units;  ///< several if it is to be linked; empty: there is nothing for this device
    bool doubtful = false;                   ///< only the driver knows whether it can take it
};

/// Whether the environment lets a driver take the image for a device: CUDA_DISABLE_PTX_JIT, CUDA_FORCE_PTX_JIT and the like.
CUresult check_environment(const image::Image& from, const Device& device) {
    namespace abi = cuda::abi;
    if (abi::takes_ptx(driver_settings()) && !abi::takes_ptx_only(driver_settings())) return CUDA_SUCCESS;
    const uint32_t capability = device.compute_capability();
    const image::Entry* best = from.select(capability);
    const bool has_code = best && best->kind == image::EntryKind::cubin;
    const bool has_ptx = from.select_ptx(capability) || !from.select_linkable_ptx(capability).empty();
    if (abi::takes_ptx_only(driver_settings()) && !has_ptx) {
        WL_LOG(warn, "client", "an image has no PTX for {}, and the environment forbids its machine code (CUDA_FORCE_PTX_JIT)",
               device.name);
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    }
    if (!abi::takes_ptx(driver_settings()) && !has_code) {
        WL_LOG(warn, "client",
               "an image has no machine code for {}, and the environment forbids to compile (CUDA_DISABLE_PTX_JIT)",
               device.name);
        return CUDA_ERROR_JIT_COMPILATION_DISABLED;
    }
    return CUDA_SUCCESS;
}

Choice choose(const image::Image& from, const Device& device) {
    const bool software = Process::instance().server().driver_kind == DriverKind::software;
    const uint32_t capability = software ? k_any_ptx : device.compute_capability();
    if (const image::Entry* entry = software ? from.select_ptx(capability) : from.select(capability)) return {{entry}, false};
    // Relocatable code without a linked cubin: the driver links its PTX.
    if (auto units = from.select_linkable_ptx(capability); !units.empty()) return {std::move(units), false};
    // The software GPU accepts cubins when it is told to execute nothing.
    const image::Entry* cubin = software ? from.select(device.compute_capability()) : nullptr;
    if (!cubin) return {};
    return {{cubin}, true};
}

/// What several linked units contain together.
Result<image::ImageInfo> read_units(const std::vector<const image::Entry*>& units) {
    image::ImageInfo all;
    for (const image::Entry* unit : units) {
        image::ImageInfo one = WL_TRY(image::read_info(*unit));
        all.arch = one.arch;
        all.ptx_version = std::max(all.ptx_version, one.ptx_version);
        all.uses_printf |= one.uses_printf;
        std::move(one.kernels.begin(), one.kernels.end(), std::back_inserter(all.kernels));
        std::move(one.globals.begin(), one.globals.end(), std::back_inserter(all.globals));
    }
    auto by_name = [](const auto& a, const auto& b) { return a.name < b.name; };
    std::sort(all.kernels.begin(), all.kernels.end(), by_name);
    std::sort(all.globals.begin(), all.globals.end(), by_name);
    return all;
}

/// What a GPU executes without compiling, if it is in the image.
const image::Entry* machine_code(const image::Image& from, const Device& device) {
    const image::Entry* taken = from.select(device.compute_capability());
    return taken != nullptr && taken->kind == image::EntryKind::cubin ? taken : nullptr;
}

/// The server's driver would have to compile PTX that is newer than it is. Said here, because images are uploaded late, and
/// nobody waits.
bool is_too_new(const CodeImage& code, const Device& device) {
    const int driver = Process::instance().server().driver_version;
    const uint32_t newest = image::newest_ptx_version(driver), version = code.info.ptx_version;
    if (version <= newest) return false;
    if (machine_code(code.image, device) != nullptr) return false;
    WL_LOG(warn, "client",
           "PTX {}.{} is newer than the server's driver, which is of CUDA {}.{} and takes PTX up to {}.{}: compile for {}.{} "
           "itself, or with an "
           "older toolkit",
           version / 10, version % 10, driver / 1000, driver % 1000 / 10, newest / 10, newest % 10, device.major, device.minor);
    return true;
}

CUresult read_contents(CodeImage& code, const Device& device) {
    if (CUresult refused = check_environment(code.image, device); refused != CUDA_SUCCESS) return refused;
    Choice choice = choose(code.image, device);
    if (choice.units.empty()) {
        WL_LOG(warn, "client", "an image has no code for {} (compute capability {}.{}){}", device.name, device.major,
               device.minor,
               Process::instance().server().driver_kind == DriverKind::software
                   ? ": it is SASS-only, and the software GPU needs PTX; rebuild with -gencode arch=compute_XX,code=compute_XX"
                   : "");
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    }
    bool is_ptx = choice.units.front()->kind == image::EntryKind::ptx;
    Result<image::ImageInfo> info = read_units(choice.units);
    if (const image::Entry* cubin = info.ok() ? nullptr : machine_code(code.image, device)) {
        // PTX that cannot be read is no reason to refuse what need not be compiled: the driver may not look at it.
        is_ptx = false;
        choice.doubtful = true;
        info = read_units({cubin});
    }
    if (!info.ok()) {
        WL_LOG(warn, "client", "an image cannot be read: {}", info.error().what);
        return is_ptx ? CUDA_ERROR_INVALID_PTX : image_error(info.error());
    }
    code.info = std::move(*info);
    if (is_ptx && is_too_new(code, device)) return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
    code.ask_driver = choice.doubtful || code.image.container() == image::Container::ptx;
    return CUDA_SUCCESS;
}

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

CUresult ask_variable(Call& call, const CodeImage& code, uint64_t owner, const char* name, CodeImage::Variable& variable) {
    Call own = for_code(call, code);
    if (token_kind(owner) == HandleKind::library) {
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

void fill_function(Function& function, const image::Kernel& kernel) {
    function.kernel = &kernel;
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

CUresult make_code(const void* bytes, int device, std::shared_ptr<CodeImage>& out) {
    if (!bytes) return CUDA_ERROR_INVALID_VALUE;
    Result<image::Image> container = image::Image::from_pointer(bytes);
    if (!container.ok()) {
        WL_LOG(warn, "client", "an image cannot be read: {}", container.error().what);
        return image_error(container.error());
    }
    // The program may free its copy after the call.
    if (auto owned = container->own(); !owned.ok()) return image_error(owned.error());
    auto code = std::make_shared<CodeImage>(std::move(*container));
    CUresult result = read_contents(*code, *find_device(std::max(device, 0)));
    if (result == CUDA_SUCCESS) out = std::move(code);
    return result;
}

CUresult compile_now(Call& call, CodeImage& code, unsigned option_count, CUjit_option* options, void** values) {
    JitOptions jit;
    if (CUresult result = jit.read(option_count, options, values); result != CUDA_SUCCESS) return result;
    Bytes joined;
    Call own = for_code(call, code);
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
    MutexLock lock(code.mutex);
    if (code.uploaded) return CUDA_SUCCESS;
    Bytes joined;
    Call own = for_code(call, code);
    CUresult result = gen::issue_wlImageLoad(own, code.owner, upload_kind(code), code.library, upload_bytes(code, joined));
    if (result == CUDA_SUCCESS) code.uploaded = true;
    return result;
}

CUresult ensure_announced(Call& call, uint64_t token, Function& function) {
    if (function.announced.load(std::memory_order_acquire)) return CUDA_SUCCESS;
    if (CUresult result = ensure_uploaded(call, *function.code); result != CUDA_SUCCESS) return result;
    MutexLock lock(function.code->mutex);
    if (function.announced.load(std::memory_order_relaxed)) return CUDA_SUCCESS;
    Call own = for_code(call, *function.code);
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
    fill_function(*made.object, *kernel);
    functions.emplace(name, made.token);
    token = made.token;
    return CUDA_SUCCESS;
}

CUresult read_file(const char* path, Bytes& out) {
    int fd = ::open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return CUDA_ERROR_FILE_NOT_FOUND;
    struct stat status {};
    CUresult result = CUDA_ERROR_INVALID_IMAGE;
    if (::fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size >= 0 &&
        static_cast<uint64_t>(status.st_size) <= image::k_max_image_bytes) {
        out.assign(static_cast<size_t>(status.st_size) + 1, std::byte{0});
        size_t have = 0;
        while (have + 1 < out.size()) {
            ssize_t count = ::read(fd, out.data() + have, out.size() - 1 - have);
            if (count <= 0) break;
            have += static_cast<size_t>(count);
        }
        if (have + 1 == out.size()) result = CUDA_SUCCESS;
    }
    ::close(fd);
    return result;
}

CUresult variable_of(Call& call, CodeImage& code, uint64_t owner, const char* name, CodeImage::Variable& variable) {
    const image::Global* global = code.info.find_global(name);
    if (!global) return CUDA_ERROR_NOT_FOUND;
    if (global->managed)
        return WL_REFUSE_CALL("cuModuleGetGlobal", "managed variables need one address space for the program and the GPU");
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
    CUresult result = ask_variable(call, code, owner, name, variable);
    if (result != CUDA_SUCCESS) return result;
    DeviceRange range;
    range.base = variable.address;
    range.size_bytes = variable.size_bytes;
    range.context = context;
    range.owner = code.owner;
    range.kind = MemoryKind::global;
    if (const Context* found = call.state.contexts.find(context)) range.device = found->device;
    call.state.memory.register_range(range);
    MutexLock lock(code.mutex);
    code.variables.emplace(key, variable);
    return CUDA_SUCCESS;
}

void forget_code(Call& call, CodeImage& code) {
    MutexLock lock(code.mutex);
    code.unloaded = true;
    for (const auto& [owner, functions] : code.functions) {
        for (const auto& [name, token] : functions) call.state.functions.remove(token);
    }
    code.functions.clear();
    call.state.memory.forget_owner(code.owner);
}

}  // namespace warpline::client
