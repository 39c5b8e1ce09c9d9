// Exported functions: the library and the machine.
#include <algorithm>
#include <cstdio>
#include <string>

#include "client/nvml/answer.h"
#include "client/nvml/export.h"
#include "cuda/abi/symbols/symbols.h"
#include "cuda/nvml/questions.h"

namespace abi = warpline::cuda::nvml;
using namespace warpline::client::nvml;

namespace {

/// The version that libcuda.so.1 tells, as well.
int cuda_version(const Snapshot& snapshot) {
    return std::min(snapshot.status.driver_version, warpline::cuda::abi::k_newest_version);
}

/// Where the server's NVML tells none, as with the software GPU: the oldest driver of NVIDIA's that has this version of CUDA.
///
/// @source  CUDA release notes, table "CUDA Toolkit and Minimum Required Driver Version"
std::string driver_of(int version) {
    struct Row {
        int cuda;
        const char* driver;
    };
    static constexpr Row k_rows[] = {{13000, "580.65.06"}, {12090, "575.51.03"}, {12080, "570.26"},    {12060, "560.28.03"},
                                     {12050, "555.42.02"}, {12040, "550.54.14"}, {12030, "545.23.06"}, {12020, "535.54.03"},
                                     {12010, "530.30.02"}, {12000, "525.60.13"}, {11080, "520.61.05"}, {11070, "515.43.04"}};
    for (const Row& row : k_rows) {
        if (version >= row.cuda) return row.driver;
    }
    return "450.36.06";
}

}  // namespace

namespace warpline::client::nvml {

int answer_system(size_t question, char* text, uint32_t length) noexcept {
    Known first;
    if (const int result = Library::instance().snapshot(Age::answered, first.snapshot); result != abi::k_success) return result;
    const abi::Question& asked = abi::questions()[question];
    if (!first.snapshot->devices().empty()) {
        const auto found = answer_to(first, asked.id);
        if (found && found->result == abi::k_success) return give_text(as_text(found->value), text, length);
    }
    const int version = cuda_version(*first.snapshot);
    const std::string driver = driver_of(version);
    // NVML's version is that of CUDA's and of the driver: "13.580.65.06".
    const bool of_driver = std::string_view(asked.function) == "nvmlSystemGetDriverVersion";
    return give_text(of_driver ? driver : std::to_string(version / 1000) + "." + driver, text, length);
}

}  // namespace warpline::client::nvml

WL_NVML int nvmlInit_v2() { return Library::instance().initialise(); }
WL_NVML int nvmlInit() { return Library::instance().initialise(); }
/// Whether there may be no GPU, and whether they are attached, is the server's business.
WL_NVML int nvmlInitWithFlags(uint32_t) { return Library::instance().initialise(); }
WL_NVML int nvmlShutdown() { return Library::instance().shut_down(); }

WL_NVML const char* nvmlErrorString(int result) { return abi::error_text(result); }

/// What nvidia-smi asks for; it does without. A table of another library's functions could only be made up.
WL_NVML int nvmlInternalGetExportTable(const void** table, const void*) {
    if (table != nullptr) *table = nullptr;
    return abi::k_function_not_found;
}

WL_NVML int nvmlSystemGetCudaDriverVersion_v2(int* version) {
    SnapshotPtr snapshot;
    if (version == nullptr) return abi::k_invalid_argument;
    if (const int result = Library::instance().snapshot(Age::any, snapshot); result != abi::k_success) return result;
    *version = cuda_version(*snapshot);
    return abi::k_success;
}
WL_NVML int nvmlSystemGetCudaDriverVersion(int* version) { return nvmlSystemGetCudaDriverVersion_v2(version); }

WL_NVML int nvmlSystemGetDriverVersion(char* text, uint32_t length);

/// "r580_00": all drivers of a branch have the first number.
WL_NVML int nvmlSystemGetDriverBranch(abi::DriverBranch* info, uint32_t length) {
    char version[abi::k_name_bytes];
    if (info == nullptr) return abi::k_invalid_argument;
    if (const int result = nvmlSystemGetDriverVersion(version, sizeof version); result != abi::k_success) return result;
    if (info->version != abi::version_tag<abi::DriverBranch>(1)) return abi::k_argument_version_mismatch;
    const std::string text = version;
    return give_text("r" + text.substr(0, text.find('.')) + "_00", info->branch,
                     std::min<uint32_t>(length, sizeof info->branch));
}

WL_NVML int nvmlSystemGetProcessName(uint32_t pid, char* name, uint32_t length) {
    SnapshotPtr snapshot;
    if (const int result = Library::instance().snapshot(Age::any, snapshot); result != abi::k_success) return result;
    if (name == nullptr || length == 0) return abi::k_invalid_argument;
    const std::string path = "/proc/" + std::to_string(pid) + "/cmdline";
    std::FILE* file = std::fopen(path.c_str(), "re");
    if (file == nullptr) return abi::k_not_found;
    char text[4096] = {};
    const size_t got = std::fread(text, 1, sizeof text - 1, file);
    std::fclose(file);
    if (got == 0) return abi::k_not_found;
    // Cut, as NVIDIA's does it.
    const std::string first(text);
    return give_text(first.substr(0, length - 1), name, length);
}

/// There are no S-class units, no host interface cards, and nobody has excluded a GPU.
WL_NVML int nvmlUnitGetCount(uint32_t* count) {
    SnapshotPtr snapshot;
    if (const int result = Library::instance().snapshot(Age::any, snapshot); result != abi::k_success) return result;
    if (count == nullptr) return abi::k_invalid_argument;
    *count = 0;
    return abi::k_success;
}
WL_NVML int nvmlSystemGetHicVersion(uint32_t* count, void*) { return nvmlUnitGetCount(count); }
WL_NVML int nvmlGetExcludedDeviceCount(uint32_t* count) { return nvmlUnitGetCount(count); }
WL_NVML int nvmlGetBlacklistDeviceCount(uint32_t* count) { return nvmlUnitGetCount(count); }
