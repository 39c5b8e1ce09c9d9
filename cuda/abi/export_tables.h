// What both stand-in drivers (the client's libcuda.so.1 and the software GPU) serve to libcudart and NVIDIA's libraries
// through cuGetExportTable: tables of functions without names. No header describes them; every slot was found by experiment.
#pragma once

#include <cstdint>

#include "cuda/abi/cuda_types.h"

namespace warpline::cuda::abi {

/// What identifies a device in the integrity answer. It must be what cuDeviceGetUuid and cuDeviceGetAttribute (50, 33, 34)
/// report in this process, because libcudart recomputes the answer from those.
struct DeviceIdentity {
    CUuuid uuid{};
    int32_t pci_domain = 0;
    int32_t pci_bus = 0;
    int32_t pci_device = 0;
};

/// What the tables need to know from the driver that serves them. All calls may come from any thread, before cuInit and after
/// main; none may throw.
class ExportTableHost {
public:
    /// The primary context of a device, the same handle for ever, without retaining it. [CUDART_INTERFACE slot 2]
    virtual CUresult primary_context(CUcontext* context, CUdevice device) = 0;
    /// The calling thread's current context, nullptr if it has none. Called on every runtime call: must be quick.
    virtual CUcontext current_context() = 0;
    /// A number that no other context of the process has. `context` nullptr: the current one. [CONTEXT slot 4]
    virtual CUresult context_id(CUcontext context, uint64_t* id) = 0;
    /// A number that no other stream of the process has. `stream` may be nullptr, CU_STREAM_LEGACY or CU_STREAM_PER_THREAD;
    /// `per_thread` says what nullptr means. [CONTEXT slots 51 and 39: cuBLAS keys its workspaces by it]
    virtual CUresult stream_id(CUcontext context, CUstream stream, bool per_thread, uint64_t* id) = 0;
    /// Whether a context is a green one's (cuCtxFromGreenCtx). False for what is no context. [CONTEXT_CHECKS slot 2]
    virtual bool is_green(CUcontext context) = 0;
    /// Calls `visit` for each function of a module. [FUNCTION slot 7]
    virtual CUresult functions_of_module(CUmodule module, void (*visit)(void* user, CUfunction function), void* user) = 0;
    /// cuModuleLoadData. [CUDART_INTERFACE slot 6]
    virtual CUresult load_module(CUmodule* module, const void* image) = 0;
    /// As cuDriverGetVersion reports it.
    virtual int driver_version() = 0;
    /// As cuDeviceGetCount reports it.
    virtual int device_count() = 0;
    virtual CUresult device_identity(int ordinal, DeviceIdentity* identity) = 0;

protected:
    ~ExportTableHost() = default;
};

/// Names the driver behind the tables, once, before the first get_export_table (at load or at its first call). The host is
/// never destroyed: slots are called after static destructors have run.
void set_export_table_host(ExportTableHost* host);

/// The body of cuGetExportTable. Unknown tables are refused with CUDA_ERROR_NOT_FOUND, *table = nullptr and one log line each.
///
/// @errors  invalid value (null arguments), not found (unknown table)
/// @blocks  no
/// @thread  any; also before cuInit
CUresult get_export_table(const void** table, const CUuuid* id) noexcept;

/// Runs and forgets the destructors that libraries attached to a context [CONTEXT_LOCAL_STORAGE]. To be called by the driver
/// when a context is destroyed or the primary context is reset, without locks held: destructors call back into the driver.
void context_storage_clear(CUcontext context) noexcept;

}  // namespace warpline::cuda::abi
