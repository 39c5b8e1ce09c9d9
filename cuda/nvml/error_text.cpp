// NVML's errors in words.
#include "cuda/nvml/types.h"

namespace warpline::cuda::nvml {

const char* error_text(int result) {
    static constexpr const char* k_texts[] = {
        "The operation was successful",
        "Uninitialized",
        "Invalid Argument",
        "Not Supported",
        "Insufficient Permissions",
        "Already Initialized",
        "Not Found",
        "Insufficient Size",
        "Insufficient External Power",
        "Driver Not Loaded",
        "Timeout",
        "Interrupt Request Issue",
        "NVML Shared Library Not Found",
        "Function Not Found",
        "Corrupted infoROM",
        "GPU is lost",
        "GPU requires restart",
        "The operating system has blocked the request.",
        "RM has detected an NVML/RM version mismatch.",
        "GPU is currently in use",
        "Insufficient Memory",
        "No data",
        "The requested vgpu operation is not available because ECC is enabled",
        "Insufficient Resources",
        "Frequency not supported",
        "Argument version mismatch",
        "Deprecated",
        "Not ready",
        "GPU not found",
        "Invalid state",
        "Reset type not supported",
    };
    if (result >= 0 && result < static_cast<int>(sizeof k_texts / sizeof *k_texts)) return k_texts[result];
    return "Unknown Error";
}

}  // namespace warpline::cuda::nvml
