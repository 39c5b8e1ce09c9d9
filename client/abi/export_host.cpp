#include "client/abi/export_host.h"

#include "client/abi/process.h"
#include "client/abi/shim.h"
#include "client/hooks/code.h"
#include "client/state/thread_state.h"
#include "cuda/abi/export_tables.h"

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

    CUcontext current_context() override { return to_handle<CUcontext>(this_thread().current_context()); }

    CUresult context_id(CUcontext context, uint64_t* id) override {
        if (CUresult status = Process::instance().status(); status != CUDA_SUCCESS) return status;
        uint64_t token = context ? to_token(context) : this_thread().current_context();
        const Context* found = Process::instance().state().contexts.find(token);
        if (!id || !found) return id ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_INVALID_VALUE;
        *id = found->id;
        return CUDA_SUCCESS;
    }

    CUresult stream_id(CUcontext context, CUstream stream, bool per_thread, uint64_t* id) override {
        if (CUresult status = Process::instance().status(); status != CUDA_SUCCESS) return status;
        if (!id) return CUDA_ERROR_INVALID_VALUE;
        uint64_t token = context ? to_token(context) : this_thread().current_context();
        return id_of_stream(Process::instance().state(), token, per_thread ? per_thread_stream(stream) : stream, *id);
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

}  // namespace

void serve_export_tables() {
    // Never destroyed: slots are called after static destructors have run.
    static Host* host = [] {
        auto* made = new Host;
        cuda::abi::set_export_table_host(made);
        return made;
    }();
    (void)host;
}

}  // namespace warpline::client
