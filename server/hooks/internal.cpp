// Memory, images and functions by the messages of our own.
#include <algorithm>

#include "server/gen/internal_calls.gen.h"
#include "server/hooks/common.h"
#include "server/hooks/images.h"

namespace warpline::server {

namespace {

constexpr DeviceMemory::Reach reach_of(bool every_device) {
    return every_device ? DeviceMemory::Reach::every_device : DeviceMemory::Reach::peers;
}

/// So many attributes are asked for, whatever the toolkit knows that this server was built with: drivers have more.
constexpr int k_attributes = 32;

/// What the driver answers for each attribute of a kernel (CUkernel) or function (CUfunction), or why there is none.
template <typename Handle, typename Ask>
void append_attributes(CUresult found, Handle of, const Ask& ask, std::vector<uint64_t>& values,
                       std::vector<uint64_t>& results) {
    for (int i = 0; i < k_attributes; ++i) {
        int value = 0;
        const CUresult result = found == CUDA_SUCCESS ? ask(of, static_cast<CUfunction_attribute>(i), value) : found;
        values.push_back(static_cast<uint64_t>(static_cast<int64_t>(value)));
        results.push_back(static_cast<uint64_t>(result));
    }
}

constexpr size_t k_most_others = 1024;  // kernels, in one question

/// The same of further kernels. @param names  a line each
template <typename Handle, typename Ask, typename Get>
CUresult append_others(std::string_view names, WlFunctionAttributesValues& values, const Ask& ask, const Get& get) {
    if (static_cast<size_t>(std::ranges::count(names, '\n')) >= k_most_others) return CUDA_ERROR_INVALID_VALUE;
    for (size_t at = 0; at <= names.size();) {
        const size_t end = std::min(names.find('\n', at), names.size());
        const std::string name(names.substr(at, end - at));
        at = end + 1;
        Handle other{};
        const CUresult found = get(other, name.c_str());
        append_attributes(found, other, ask, values.otherValues, values.otherResults);
    }
    return CUDA_SUCCESS;
}

/// The attributes of a kernel (CUkernel) or function (CUfunction), and of others of its image.
/// @param find  the driver's: finds one of an image by its name; null: it has none
template <typename Image, typename Handle, typename Ask, typename Find>
CUresult answer_attributes(ServerCall& call, const WlFunctionAttributesArgs& args, Handle handle, HandleKind image_kind,
                           const Ask& ask, Find find, WlFunctionAttributesValues& values) {
    append_attributes(CUDA_SUCCESS, handle, ask, values.values, values.results);
    if (args.others.empty()) return CUDA_SUCCESS;
    if (find == nullptr) return call.missing_function();
    Image image{};
    if (!call.find(image_kind, args.image, image)) return call.not_found();
    const auto get = [&](Handle& other, const char* name) { return find(&other, image, name); };
    return append_others<Handle>(args.others, values, ask, get);
}

}  // namespace

CUresult hook_server_wlMap(ServerCall& call, const WlMapArgs& args) {
    DeviceMemory& memory = call.session().memory();
    memory.credit().used(args.device, args.bytes);
    return memory.map(args.address, args.bytes, args.device, reach_of(args.everyDevice));
}

CUresult hook_server_wlMapNow(ServerCall& call, const WlMapNowArgs& args, WlMapNowValues& values) {
    DeviceMemory& memory = call.session().memory();
    const CUresult result = call.session().freed().allocate_behind(
        call.number(),
        [&](MemoryLedger::Refusal refusal) {
            return memory.map(args.address, args.bytes, args.device, reach_of(args.everyDevice), refusal);
        },
        [&] { call.release_order(); });
    CUdevice device = 0;
    // The client has given up what it had: only this call knows what is left now.
    if (call.session().contexts().device_of(call.context(), device) && device == args.device)
        values.credit = memory.credit().replace(device);
    return result;
}

CUresult hook_server_wlAlloc(ServerCall& call, const WlAllocArgs& args, WlAllocValues& values) {
    CUdevice device = 0;
    if (!call.session().contexts().device_of(call.context(), device)) return CUDA_ERROR_INVALID_CONTEXT;
    DeviceMemory& memory = call.session().memory();
    // The driver may wait for the device, and nothing later can name what is made here.
    call.release_order();
    return call.session().freed().allocate_behind(
        call.number(),
        [&](MemoryLedger::Refusal refusal) { return memory.allocate(args.bytes, device, values.address, refusal); }, [] {});
}

CUresult hook_server_wlUnmap(ServerCall& call, const WlUnmapArgs& args) {
    if (Sharing* sharing = call.session().sharing()) sharing->forget_mappings(args.address, args.bytes);
    return call.session().freed().unmap(call.number(), call.context(), args.address, args.bytes);
}

CUresult hook_server_wlImageLoad(ServerCall& call, const WlImageLoadArgs& args) {
    JitLog log;
    return load_image(call, args.image, args.library, static_cast<ImageKind>(args.kind), {}, {}, log);
}

CUresult hook_server_wlImageCompile(ServerCall& call, const WlImageCompileArgs& args, WlImageCompileValues& values) {
    const HandleTable& handles = call.session().handles();
    Links& logs = call.session().library_logs();
    if (args.library && !args.options.empty() &&
        logs.full([&](uint64_t token) { return handles.find(HandleKind::library, token).has_value(); }))
        return CUDA_ERROR_OUT_OF_MEMORY;
    // The client waits, so nothing that comes later can name the image; compiling takes long, and others need not wait for it.
    if (call.whole_payload().ok()) call.release_order();
    auto log = std::make_unique<JitLog>();
    const CUresult result =
        load_image(call, args.image, args.library, static_cast<ImageKind>(args.kind), args.options, args.values, *log);
    log->answer(values);
    // What a library has not compiled yet it will tell there later.
    if (result == CUDA_SUCCESS && args.library && log->count() != 0) logs.add(args.image, std::move(log));
    return result;
}

CUresult hook_server_wlFunctionGet(ServerCall& call, const WlFunctionGetArgs& args) {
    if (!call.may_bind(HandleKind::function, args.function)) return CUDA_ERROR_INVALID_HANDLE;
    const std::string name(args.name);
    Functions& functions = call.session().functions();
    if (token_is(HandleKind::library, args.image)) {
        const auto get = WL_DRIVER(call, cuLibraryGetKernel);
        const auto library = WL_FIND(call, CUlibrary, library, args.image);
        CUkernel kernel = nullptr;
        WL_CUDA(get(&kernel, library, name.c_str()));
        return functions.bind_kernel(args.function, kernel, args.image, name) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
    }
    const auto get = WL_DRIVER(call, cuModuleGetFunction);
    const auto module = WL_FIND(call, CUmodule, module, args.image);
    CUfunction function = nullptr;
    WL_CUDA(get(&function, module, name.c_str()));
    return functions.bind_function(args.function, function, args.image, name) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult hook_server_wlThreadEnd(ServerCall& call, const WlThreadEndArgs&) {
    call.session().freed().add(call.number(), call.context());  // as for streams that are destroyed
    call.session().streams().thread_ended(call.thread());
    return CUDA_SUCCESS;
}

CUresult hook_server_wlFunctionAttributes(ServerCall& call, const WlFunctionAttributesArgs& args,
                                          WlFunctionAttributesValues& values) {
    const CUkernel kernel = call.find_kernel(args.function);
    const CUfunction function = kernel != nullptr ? nullptr : call.find_function(args.function);
    if (kernel == nullptr && function == nullptr) return call.not_found();
    if (kernel == nullptr) {
        const auto of_function = WL_DRIVER(call, cuFuncGetAttribute);
        const auto ask = [&](CUfunction asked, CUfunction_attribute attribute, int& value) {
            return of_function(&value, attribute, asked);
        };
        const auto find = call.driver()->cuModuleGetFunction;
        return answer_attributes<CUmodule>(call, args, function, HandleKind::module, ask, find, values);
    }
    CUdevice device = 0;
    Contexts& contexts = call.session().contexts();
    if (!contexts.device_of(call.context(), device)) return CUDA_ERROR_INVALID_CONTEXT;
    if (!contexts.driver_device(device, device)) return CUDA_ERROR_INVALID_DEVICE;
    const auto of_kernel = WL_DRIVER(call, cuKernelGetAttribute);
    const auto ask = [&](CUkernel asked, CUfunction_attribute attribute, int& value) {
        return of_kernel(&value, attribute, asked, device);
    };
    const auto find = call.driver()->cuLibraryGetKernel;
    return answer_attributes<CUlibrary>(call, args, kernel, HandleKind::library, ask, find, values);
}

}  // namespace warpline::server
