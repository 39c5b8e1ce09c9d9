// What the management library (NVML) of the driver says of the devices.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cuda/nvml/sheet.h"
#include "server/control/control.h"

namespace warpline::server {

/// NVML, loaded and initialised. It makes no context, and takes no device memory.
///
/// @thread  one
/// @source  NVML API reference (vR550): nvmlDeviceGetUtilizationRates, nvmlDeviceGetMemoryInfo
class Nvml {
public:
    /// @param choice   the option `nvml`: a library, or `auto` for the one that came with the driver
    /// @param offer    of which driver; NVML is looked for beside it first, and beside the software GPU only
    /// @param problem  receives one line for the server's owner if there is none
    /// @blocks         while the kernel's driver is initialised: up to seconds for each GPU that nobody uses
    static std::unique_ptr<Nvml> load(const std::string& choice, const ReadyMessage& offer, std::string& problem);
    ~Nvml();
    Nvml(const Nvml&) = delete;
    Nvml& operator=(const Nvml&) = delete;

    /// What it does not tell, a MIG device's utilisation for one, is told as not known. @blocks milliseconds
    DeviceFigures read(const DeviceRow& device) const;

    /// Everything of cuda/nvml/calls.yaml, and who uses the device. What does not change is asked once. @blocks milliseconds
    SheetMessage sheet(const ReadyMessage& offer, uint32_t device);

private:
    struct Functions;
    /// What is asked once of a device, by the places of the questions.
    using Kept = std::map<size_t, std::pair<int, Bytes>>;
    Nvml(void* library, std::unique_ptr<Functions> functions);
    struct Found {
        void* device;  // null: NVML does not know it, or does not give it
        int result;    // of the look for it
    };
    Found find(const DeviceRow& device) const;
    std::pair<int, Bytes> ask(size_t question, void* device, void* other) const;
    std::pair<int, Bytes> ask_once(size_t question, void* device, Kept& kept) const;
    void add_pairs(const ReadyMessage& offer, void* device, cuda::nvml::SheetWriter& sheet) const;
    static void add_refusals(const ReadyMessage& offer, int result, cuda::nvml::SheetWriter& sheet);
    void add_fields(void* device, cuda::nvml::SheetWriter& sheet) const;
    void add_processes(void* device, SheetMessage& message) const;

    void* const m_library;
    const std::unique_ptr<Functions> m_functions;
    std::vector<void*> m_questions;      // the functions, by place; null: this library has it not
    std::map<std::string, Kept> m_kept;  // by the devices' names
};

}  // namespace warpline::server
