// This driver's answers to the functions of the export tables.
#include "softgpu/driver/life/table_host.h"

#include <mutex>

#include "cuda/abi/export_tables.h"
#include "softgpu/driver/code/module.h"
#include "softgpu/driver/config/version.h"
#include "softgpu/driver/context/context.h"
#include "softgpu/driver/context/green_context.h"
#include "softgpu/driver/context/stream.h"
#include "softgpu/driver/process/process.h"

namespace warpline::softgpu::driver {

CUresult cuModuleLoadData(CUmodule* module, const void* image);  // calls/module.cpp

namespace {

class TableHost final : public cuda::abi::ExportTableHost {
public:
    CUresult primary_context(CUcontext* context, CUdevice ordinal) override {
        Device* device = nullptr;
        CU_TRY(find_device(ordinal, device));
        *context = device->primary->handle();
        return CUDA_SUCCESS;
    }
    CUcontext current_context() override {
        ThreadState& thread = thread_state();
        return thread.contexts.empty() ? nullptr : thread.contexts.back().handle();
    }
    CUresult context_id(CUcontext handle, uint64_t* id) override {
        NamedContext named;
        CU_TRY(context_or_current(handle, named));
        *id = named.id();
        return CUDA_SUCCESS;
    }
    CUresult stream_id(CUcontext handle, CUstream stream, bool per_thread, uint64_t* id) override {
        NamedContext named;
        CU_TRY(context_or_current(handle, named));
        bool own = stream == CU_STREAM_PER_THREAD || (stream == nullptr && per_thread);
        StreamPtr found;
        if (own) {
            found = named.green != nullptr ? named.green->per_thread_stream() : named.context->per_thread_stream();
        } else if (stream == nullptr || stream == CU_STREAM_LEGACY) {
            found = named.green != nullptr ? named.green->legacy_stream() : named.context->legacy_stream();
        } else {
            found = process().streams.find(stream);
        }
        if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
        *id = found->id();
        return CUDA_SUCCESS;
    }
    bool is_green(CUcontext handle) override {
        NamedContext named;
        return find_named_context(handle, named) == CUDA_SUCCESS && named.green != nullptr;
    }
    CUresult functions_of_module(CUmodule handle, void (*visit)(void* user, CUfunction function), void* user) override {
        auto module = process().modules.find(handle);
        if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
        for (const std::string& name : module->function_names()) visit(user, module->handle_of(module, name));
        return CUDA_SUCCESS;
    }
    CUresult load_module(CUmodule* module, const void* image) override { return driver::cuModuleLoadData(module, image); }
    int driver_version() override { return driver::driver_version(); }
    int device_count() override { return process().device_count(); }
    CUresult device_identity(int ordinal, cuda::abi::DeviceIdentity* identity) override {
        Device* device = nullptr;
        CU_TRY(find_device(ordinal, device));
        identity->uuid = device->uuid();
        identity->pci_domain = device->attribute(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID);
        identity->pci_bus = device->attribute(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
        identity->pci_device = device->attribute(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID);
        return CUDA_SUCCESS;
    }

private:
    CUresult context_or_current(CUcontext handle, NamedContext& named) {
        if (handle != nullptr) return find_named_context(handle, named);
        Context* current = nullptr;
        CU_TRY(current_context_even_failed(current));
        named = thread_state().contexts.back();
        return CUDA_SUCCESS;
    }
};

}  // namespace

void provide_export_tables() {
    static std::once_flag once;
    std::call_once(once, [] { cuda::abi::set_export_table_host(new TableHost); });  // leaked: tables outlive everything
}

}  // namespace warpline::softgpu::driver
