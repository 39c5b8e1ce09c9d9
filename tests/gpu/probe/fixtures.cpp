// Contexts, streams, kernels and memory for the probe's questions.
#include "tests/gpu/probe/fixtures.h"

#include <cstring>

namespace warpline::probe {

const char* const k_ptx = R"(.version 6.3
.target sm_75
.address_size 64

.visible .global .align 4 .u32 counter = 7;
.visible .const .align 4 .u32 setting;
.global .texref image;
.global .surfref surface;

.visible .entry empty()
{
    ret;
}

.visible .entry add(.param .u64 where, .param .u32 what)
{
    .reg .u64 %a;
    .reg .u32 %v, %w;
    ld.param.u64 %a, [where];
    ld.param.u32 %v, [what];
    ld.global.u32 %w, [%a];
    add.u32 %w, %w, %v;
    st.global.u32 [%a], %w;
    ret;
}

.visible .entry bounded() .maxntid 64, 1, 1
{
    ret;
}
)";

void made(const char* what, int result) {
    if (result != CUDA_SUCCESS) throw NoFixture{what, result};
}

namespace {
template <typename T>
uint64_t number(T handle) {
    uint64_t bits = 0;
    static_assert(sizeof handle <= sizeof bits);
    std::memcpy(&bits, &handle, sizeof handle);
    return bits;
}

template <typename T>
T as(uint64_t bits) {
    T handle;
    static_assert(sizeof handle <= sizeof bits);
    std::memcpy(&handle, &bits, sizeof handle);
    return handle;
}

void nothing(void*) {}
}  // namespace

CUcontext Fixtures::context() {
    if (!m_context) made("context", WL_CU(m_driver, cuDevicePrimaryCtxRetain)(&m_context, 0));
    made("current context", WL_CU(m_driver, cuCtxSetCurrent)(m_context));
    return m_context;
}

int Fixtures::restore() {
    if (int result = WL_CU(m_driver, cuCtxSetCurrent)(m_context); result != CUDA_SUCCESS) return result;
    return WL_CU(m_driver, cuCtxSynchronize)();
}

CUdeviceptr Fixtures::device_memory() {
    if (m_device_memory == 0) {
        made("device memory", WL_CU(m_driver, cuMemAlloc_v2)(&m_device_memory, k_device_bytes));
        made("device memory", WL_CU(m_driver, cuMemsetD8_v2)(m_device_memory, 0, k_device_bytes));
        made("device memory", WL_CU(m_driver, cuCtxSynchronize)());  // memsets of device memory do not wait
    }
    return m_device_memory;
}

int Fixtures::attribute(CUdevice_attribute which) {
    int value = -1;
    return WL_CU(m_driver, cuDeviceGetAttribute)(&value, which, 0) == CUDA_SUCCESS ? value : -1;
}

CUmodule Fixtures::module() { return as<CUmodule>(handle("module")); }

CUfunction Fixtures::function(const char* name) {
    CUfunction function = nullptr;
    made("function", WL_CU(m_driver, cuModuleGetFunction)(&function, module(), name));
    return function;
}

uint64_t Fixtures::handle(const std::string& kind, const std::string& hint) {
    const std::string key = kind == "graph_node" ? kind + hint : kind;
    uint64_t& known = m_handles[key];
    if (known == 0) known = make(kind, hint);
    return known;
}

uint64_t Fixtures::fresh(const std::string& kind, const std::string& hint) { return make(kind, hint); }

uint64_t Fixtures::destroyed(const std::string& kind) {
    const uint64_t handle = make(kind, "");
    if (kind == "function") {
        // Its module ends: a function of a module made for this.
        CUmodule gone = nullptr;
        CUfunction function = nullptr;
        made("module", WL_CU(m_driver, cuModuleLoadData)(&gone, k_ptx));
        made("function", WL_CU(m_driver, cuModuleGetFunction)(&function, gone, "empty"));
        made("unload", WL_CU(m_driver, cuModuleUnload)(gone));
        return number(function);
    }
    if (!destroy(kind, handle)) throw NoFixture{"destroyed " + kind, 0};
    return handle;
}

bool Fixtures::destroy(const std::string& kind, uint64_t handle) {
    auto done = [&](int result) { return result == CUDA_SUCCESS; };
    if (kind == "stream") return done(WL_CU(m_driver, cuStreamDestroy_v2)(as<CUstream>(handle)));
    if (kind == "event") return done(WL_CU(m_driver, cuEventDestroy_v2)(as<CUevent>(handle)));
    if (kind == "module") return done(WL_CU(m_driver, cuModuleUnload)(as<CUmodule>(handle)));
    if (kind == "library") return done(WL_CU(m_driver, cuLibraryUnload)(as<CUlibrary>(handle)));
    if (kind == "graph") return done(WL_CU(m_driver, cuGraphDestroy)(as<CUgraph>(handle)));
    if (kind == "graph_node") return done(WL_CU(m_driver, cuGraphDestroyNode)(as<CUgraphNode>(handle)));
    if (kind == "graph_exec") return done(WL_CU(m_driver, cuGraphExecDestroy)(as<CUgraphExec>(handle)));
    if (kind == "mem_pool") return done(WL_CU(m_driver, cuMemPoolDestroy)(as<CUmemoryPool>(handle)));
    if (kind == "array") return done(WL_CU(m_driver, cuArrayDestroy)(as<CUarray>(handle)));
    if (kind == "mipmapped_array") return done(WL_CU(m_driver, cuMipmappedArrayDestroy)(as<CUmipmappedArray>(handle)));
    if (kind == "allocation") return done(WL_CU(m_driver, cuMemRelease)(handle));
    if (kind == "link") return done(WL_CU(m_driver, cuLinkDestroy)(as<CUlinkState>(handle)));
    if (kind == "tex_ref") return done(WL_CU(m_driver, cuTexRefDestroy)(as<CUtexref>(handle)));
    if (kind == "user_object") return done(WL_CU(m_driver, cuUserObjectRelease)(as<CUuserObject>(handle), 1));
    if (kind == "context") {
        const bool gone = done(WL_CU(m_driver, cuCtxDestroy_v2)(as<CUcontext>(handle)));
        WL_CU(m_driver, cuCtxSetCurrent)(m_context);
        return gone;
    }
    return false;
}

uint64_t Fixtures::make(const std::string& kind, const std::string& hint) {
    const Driver& d = m_driver;
    uint64_t out = 0;
    auto at = [&](auto handle) { return reinterpret_cast<decltype(handle)*>(&out); };
    if (kind == "stream") {
        made("stream", WL_CU(d, cuStreamCreate)(at(CUstream()), CU_STREAM_NON_BLOCKING));
    } else if (kind == "event") {
        made("event", WL_CU(d, cuEventCreate)(at(CUevent()), CU_EVENT_DEFAULT));
    } else if (kind == "context") {
        made("context", WL_CU(d, cuCtxCreate_v2)(at(CUcontext()), 0, 0));
        made("current context", WL_CU(d, cuCtxSetCurrent)(m_context));
    } else if (kind == "module") {
        made("module", WL_CU(d, cuModuleLoadData)(at(CUmodule()), k_ptx));
    } else if (kind == "function") {
        made("function", WL_CU(d, cuModuleGetFunction)(at(CUfunction()), module(), "empty"));
    } else if (kind == "kernel") {
        made("kernel", WL_CU(d, cuLibraryGetKernel)(at(CUkernel()), as<CUlibrary>(handle("library")), "empty"));
    } else if (kind == "library") {
        made("library", WL_CU(d, cuLibraryLoadData)(at(CUlibrary()), k_ptx, nullptr, nullptr, 0, nullptr, nullptr, 0));
    } else if (kind == "graph") {
        made("graph", WL_CU(d, cuGraphCreate)(at(CUgraph()), 0));
    } else if (kind == "graph_node") {
        out = make_node(hint);
    } else if (kind == "graph_exec") {
        out = make_graph_exec();
    } else if (kind == "mem_pool") {
        CUmemPoolProps props{};
        props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
        props.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
        made("pool", WL_CU(d, cuMemPoolCreate)(at(CUmemoryPool()), &props));
    } else if (kind == "array" || kind == "mipmapped_array") {
        out = make_array(kind == "mipmapped_array");
    } else if (kind == "allocation") {
        out = make_allocation();
    } else if (kind == "link") {
        made("link", WL_CU(d, cuLinkCreate_v2)(0, nullptr, nullptr, at(CUlinkState())));
    } else if (kind == "tex_ref") {
        made("texture reference", WL_CU(d, cuTexRefCreate)(at(CUtexref())));
    } else if (kind == "surf_ref") {
        made("surface reference", WL_CU(d, cuModuleGetSurfRef)(at(CUsurfref()), module(), "surface"));
    } else if (kind == "user_object") {
        made("user object",
             WL_CU(d, cuUserObjectCreate)(at(CUuserObject()), &out, nothing, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    } else {
        throw NoFixture{kind, 0};
    }
    return out;
}

uint64_t Fixtures::make_graph_exec() {
    CUgraph graph = nullptr;
    CUgraphNode node = nullptr;
    CUgraphExec exec = nullptr;
    made("graph", WL_CU(m_driver, cuGraphCreate)(&graph, 0));
    made("node", WL_CU(m_driver, cuGraphAddEmptyNode)(&node, graph, nullptr, 0));
    made("executable graph", WL_CU(m_driver, cuGraphInstantiateWithFlags)(&exec, graph, 0));
    return number(exec);
}

uint64_t Fixtures::make_node(const std::string& hint) {
    const Driver& d = m_driver;
    auto graph = as<CUgraph>(handle("graph"));
    auto has = [&](const char* part) { return hint.find(part) != std::string::npos; };
    CUgraphNode node = nullptr;
    if (has("KernelNode")) {
        CUDA_KERNEL_NODE_PARAMS params{};
        params.func = function("empty");
        params.gridDimX = params.gridDimY = params.gridDimZ = params.blockDimX = params.blockDimY = params.blockDimZ = 1;
        made("kernel node", WL_CU(d, cuGraphAddKernelNode_v2)(&node, graph, nullptr, 0, &params));
    } else if (has("MemsetNode")) {
        CUDA_MEMSET_NODE_PARAMS params{};
        params.dst = device_memory();
        params.elementSize = 1;
        params.width = 64;
        params.height = 1;
        made("memset node", WL_CU(d, cuGraphAddMemsetNode)(&node, graph, nullptr, 0, &params, m_context));
    } else if (has("MemcpyNode")) {
        CUDA_MEMCPY3D params{};
        params.srcMemoryType = params.dstMemoryType = CU_MEMORYTYPE_DEVICE;
        params.srcDevice = device_memory();
        params.dstDevice = device_memory() + 4096;
        params.WidthInBytes = 64;
        params.Height = params.Depth = 1;
        made("copy node", WL_CU(d, cuGraphAddMemcpyNode)(&node, graph, nullptr, 0, &params, m_context));
    } else if (has("HostNode")) {
        CUDA_HOST_NODE_PARAMS params{.fn = nothing, .userData = nullptr};
        made("host node", WL_CU(d, cuGraphAddHostNode)(&node, graph, nullptr, 0, &params));
    } else if (has("ChildGraphNode")) {
        made("child graph node", WL_CU(d, cuGraphAddChildGraphNode)(&node, graph, nullptr, 0, as<CUgraph>(fresh("graph"))));
    } else if (has("EventRecordNode")) {
        made("event node", WL_CU(d, cuGraphAddEventRecordNode)(&node, graph, nullptr, 0, as<CUevent>(handle("event"))));
    } else if (has("EventWaitNode")) {
        made("event node", WL_CU(d, cuGraphAddEventWaitNode)(&node, graph, nullptr, 0, as<CUevent>(handle("event"))));
    } else if (has("MemAllocNode")) {
        CUDA_MEM_ALLOC_NODE_PARAMS params{};
        params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
        params.poolProps.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
        params.bytesize = 64;
        made("allocation node", WL_CU(d, cuGraphAddMemAllocNode)(&node, graph, nullptr, 0, &params));
    } else {
        made("empty node", WL_CU(d, cuGraphAddEmptyNode)(&node, graph, nullptr, 0));
    }
    return number(node);
}

uint64_t Fixtures::make_array(bool mipmapped) {
    CUDA_ARRAY3D_DESCRIPTOR description{};
    description.Width = description.Height = 16;
    description.Format = CU_AD_FORMAT_UNSIGNED_INT8;
    description.NumChannels = 1;
    if (mipmapped) {
        CUmipmappedArray array = nullptr;
        made("mipmapped array", WL_CU(m_driver, cuMipmappedArrayCreate)(&array, &description, 2));
        return number(array);
    }
    CUarray array = nullptr;
    made("array", WL_CU(m_driver, cuArray3DCreate_v2)(&array, &description));
    return number(array);
}

uint64_t Fixtures::make_allocation() {
    CUmemAllocationProp props{};
    props.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
    CUmemGenericAllocationHandle handle = 0;
    made("memory", WL_CU(m_driver, cuMemCreate)(&handle, 2 << 20, &props, 0));
    return handle;
}

}  // namespace warpline::probe
