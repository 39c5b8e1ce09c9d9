// Initialisation, version, entry points, error texts: everything that may be called before cuInit.
#include "client/abi/process.h"
#include "client/call/common.h"
#include "client/code/images.h"
#include "client/gen/driver_calls.gen.h"
#include "client/gen/internal_calls.gen.h"
#include "client/graph/capture.h"
#include "client/state/thread_state.h"
#include "cuda/abi/error_names.h"
#include "cuda/abi/export_tables.h"
#include "cuda/abi/symbols/symbols.h"

namespace warpline::client {

namespace {

/// Answers the tables from the state of the process. Before cuInit there are no devices and no contexts.
class Host final : public cuda::abi::ExportTableHost {
public:
    CUresult primary_context(CUcontext* context, CUdevice device) override {
        if (CUresult status = Process::instance().status(); status != CUDA_SUCCESS) return status;
        const Device* found = find_device(device);
        if (!context || !found) return found ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_DEVICE;
        *context = to_handle<CUcontext>(found->primary_context);
        return CUDA_SUCCESS;
    }

    CUcontext current_context() override { return to_handle<CUcontext>(this_thread().current().handle()); }

    CUresult context_id(CUcontext context, uint64_t* id) override {
        if (CUresult status = Process::instance().status(); status != CUDA_SUCCESS) return status;
        uint64_t token = context ? to_token(context) : this_thread().current().handle();
        const Context* found = Process::instance().state().contexts.find(token);
        if (!id || !found) return id ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_INVALID_VALUE;
        *id = found->id;
        return CUDA_SUCCESS;
    }

    CUresult stream_id(CUcontext context, CUstream stream, bool per_thread, uint64_t* id) override {
        if (CUresult status = Process::instance().status(); status != CUDA_SUCCESS) return status;
        if (!id) return CUDA_ERROR_INVALID_VALUE;
        uint64_t token = context ? to_token(context) : this_thread().current().handle();
        return id_of_stream(Process::instance().state(), token, per_thread ? per_thread_stream(stream) : stream, *id);
    }

    bool is_green(CUcontext context) override {
        if (Process::instance().status() != CUDA_SUCCESS) return false;
        const Context* found = Process::instance().state().contexts.find(to_token(context));
        return found && found->green != 0;
    }

    CUresult functions_of_module(CUmodule module, void (*visit)(void* user, CUfunction function), void* user) override {
        if (CUresult status = Process::instance().status(); status != CUDA_SUCCESS) return status;
        Process& process = Process::instance();
        ThreadState& thread = this_thread();
        Call call{CallId::cuModuleEnumerateFunctions, thread, process.session(), process.state(), thread.current_context()};
        const Module* found = call.state.modules.find(to_token(module));
        if (!found) return CUDA_ERROR_INVALID_HANDLE;
        for (const auto& kernel : found->code->info.kernels) {
            uint64_t function = 0;
            if (CUresult result = function_of(call, *found->code, to_token(module), kernel.name, function);
                result != CUDA_SUCCESS) {
                return result;
            }
            visit(user, to_handle<CUfunction>(function));
        }
        return CUDA_SUCCESS;
    }

    CUresult load_module(CUmodule* module, const void* image) override { return ::cuModuleLoadData(module, image); }

    int driver_version() override { return Process::instance().driver_version(); }

    int device_count() override {
        if (Process::instance().status() != CUDA_SUCCESS) return 0;
        return static_cast<int>(Process::instance().server().devices.size());
    }

    CUresult device_identity(int ordinal, cuda::abi::DeviceIdentity* identity) override {
        if (CUresult status = Process::instance().status(); status != CUDA_SUCCESS) return status;
        const Device* device = find_device(ordinal);
        if (!device) return CUDA_ERROR_INVALID_DEVICE;
        identity->uuid = device->uuid;
        identity->pci_domain = device->attribute(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID);
        identity->pci_bus = device->attribute(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
        identity->pci_device = device->attribute(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID);
        return CUDA_SUCCESS;
    }
};

/// Names this library as the driver behind the export tables; the first call does it.
void serve_export_tables() {
    // Never destroyed: slots are called after static destructors have run.
    static Host* host = [] {
        auto* made = new Host;
        cuda::abi::set_export_table_host(made);
        return made;
    }();
    (void)host;
}

/// A thread of the program has ended: what the server keeps for it is given up.
void end_thread_on_server(ThreadState& thread) {
    Process& process = Process::instance();
    if (!thread.used_own_stream || process.status() != CUDA_SUCCESS) return;
    Call call{cuda::CallId::wlThreadEnd, thread, process.session(), process.state(), thread.current_context()};
    forget_capture(call, 2, thread.own_stream);
    gen::issue_wlThreadEnd(call);
}

}  // namespace

CUresult hook_client_cuInit(unsigned int Flags) {
    const CUresult result = Process::instance().initialise(Flags);
    if (result == CUDA_SUCCESS) set_thread_end_handler(&end_thread_on_server);
    return result;
}

CUresult hook_client_cuDriverGetVersion(int* driverVersion) {
    if (!driverVersion) return CUDA_ERROR_INVALID_VALUE;
    *driverVersion = Process::instance().driver_version();
    return CUDA_SUCCESS;
}

CUresult hook_client_cuGetProcAddress_v2(const char* symbol, void** pfn, int cudaVersion, cuuint64_t flags,
                                         CUdriverProcAddressQueryResult* symbolStatus) {
    return cuda::abi::get_proc_address(cuda::abi::driver_symbols(), Process::instance().driver_version(), symbol, pfn,
                                       cudaVersion, flags, symbolStatus);
}

CUresult hook_client_cuGetProcAddress(const char* symbol, void** pfn, int cudaVersion, cuuint64_t flags) {
    return cuda::abi::get_proc_address_v1(cuda::abi::driver_symbols(), Process::instance().driver_version(), symbol, pfn,
                                          cudaVersion, flags);
}

CUresult hook_client_cuGetExportTable(const void** ppExportTable, const CUuuid* pExportTableId) {
    serve_export_tables();
    return cuda::abi::get_export_table(ppExportTable, pExportTableId);
}

CUresult hook_client_cuGetErrorString(CUresult error, const char** pStr) { return cuda::abi::get_error_string(error, pStr); }

CUresult hook_client_cuGetErrorName(CUresult error, const char** pStr) { return cuda::abi::get_error_name(error, pStr); }

}  // namespace warpline::client
