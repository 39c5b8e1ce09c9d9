// What is known of images, modules, libraries and functions.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/state/answers.h"
#include "client/state/attributes_ahead.h"
#include "client/state/function_setup.h"
#include "common/base/mutex.h"
#include "cuda/abi/cuda_types.h"
#include "cuda/abi/legacy_launch.h"
#include "cuda/image/image.h"

namespace warpline::client {

/// The image behind a module or a library: its bytes, kept because it is uploaded only when something of it is used, and what
/// it contains. Shared by the module or library and its functions: a function outlives its module as a token, not as a kernel.
struct CodeImage : std::enable_shared_from_this<CodeImage> {
    explicit CodeImage(cuda::image::Image&& container) : image(std::move(container)) {}

    cuda::image::Image image;
    cuda::image::ImageInfo info;  ///< of the code that the device will take; constant once the CodeImage is shared
    uint64_t owner = 0;           ///< token of the module or library
    uint64_t context = 0;         ///< of a module; 0 for a library
    bool library = false;
    bool ask_driver =
        false;  ///< loading waits for the driver's judgement: PTX that the program wrote, or what only it can judge
    std::optional<uint32_t> max_threads;  ///< in a block, as options bound them in place of the code; 0: the server knows

    Mutex mutex;  // protects what follows; held while the upload is queued, so that it is queued once and before its users
    bool uploaded WL_GUARDED_BY(mutex) = false;
    bool unloaded WL_GUARDED_BY(mutex) = false;
    std::map<uint64_t, std::map<std::string, uint64_t, std::less<>>> functions
        WL_GUARDED_BY(mutex);  ///< tokens by owner and name
    struct Variable {
        uint64_t address = 0;
        uint64_t size_bytes = 0;
    };
    std::map<std::pair<uint64_t, std::string>, Variable> variables
        WL_GUARDED_BY(mutex);  ///< by context and name, as the server told
    AttributesAhead attributes_ahead WL_GUARDED_BY(mutex);
};

struct Module {
    std::shared_ptr<CodeImage> code;
    uint64_t context = 0;
    uint64_t library = 0;  ///< made by cuLibraryGetModule
};

struct Library {
    std::shared_ptr<CodeImage> code;
    uint64_t context = 0;                                       // libraries belong to none
    Mutex mutex;                                                // protects the modules
    std::map<uint64_t, uint64_t> modules WL_GUARDED_BY(mutex);  ///< module token by context (cuLibraryGetModule)
};

class LaunchImage;

/// A kernel: a CUfunction or a CUkernel, which share one kind.
struct Function {
    static constexpr size_t k_attributes = 32;  // CUfunction_attribute values are smaller

    std::shared_ptr<CodeImage> code;
    const cuda::image::Kernel* kernel = nullptr;  ///< lives in code->info
    uint64_t context = 0;                         ///< of its module; 0: of a library
    uint64_t owner = 0;                           ///< token of its module or library

    // The parameters travel back to back; where a kernel has them depends on the architecture, so the server lays them out.
    struct Piece {
        uint32_t offset_bytes = 0;
        uint32_t size_bytes = 0;
    };
    std::vector<Piece> pieces;
    uint32_t block_bytes = 0;  ///< of all pieces
    Bytes sizes;               ///< of each parameter as u32: travels with each launch

    uint32_t static_shared_bytes = 0;
    uint32_t max_threads = 0;            ///< as the image bounds them; 0: the device's bound
    uint32_t registers = 0;              ///< per thread; 0: the image does not say
    std::atomic<bool> announced{false};  ///< the server knows the token: released after wlFunctionGet is queued

    /// A kernel of a library is set up for each device, a function of a module for that of its context.
    size_t place_of(int device) const { return context == 0 ? static_cast<size_t>(device) : 0; }
    std::atomic<uint64_t> launched{0};  ///< by place, as bits: launches of it have been queued
    bool was_launched(int device) const { return (launched.load(std::memory_order_acquire) & bit_of(device)) != 0; }
    void note_launched(int device) { launched.fetch_or(bit_of(device), std::memory_order_release); }
    uint64_t bit_of(int device) const { return uint64_t{1} << (place_of(device) % 64); }
    /// By place: how much dynamic shared memory a launch may have, as the program has set it; -1: the default.
    std::vector<std::atomic<int>> shared_limits;
    int shared_limit(int device) const {
        const size_t place = place_of(device);
        return place < shared_limits.size() ? shared_limits[place].load(std::memory_order_relaxed) : -1;
    }

    Answers<uint64_t> occupancy;  ///< how many of its blocks and clusters fit: also by how it is set up

    std::atomic<const LaunchImage*> launch_image{nullptr};  ///< what its launches are made of: released once it is made

    /// What has been set for its next cuLaunch: few programs do.
    cuda::abi::LegacyLaunch& legacy_launch() WL_EXCLUDES(mutex) {
        MutexLock lock(mutex);
        if (!legacy) legacy = std::make_unique<cuda::abi::LegacyLaunch>();
        return *legacy;
    }

    Mutex mutex;                                                           // protects what follows
    std::unique_ptr<cuda::abi::LegacyLaunch> legacy WL_GUARDED_BY(mutex);  ///< made at its first use
    std::shared_ptr<const LaunchImage> image WL_GUARDED_BY(mutex);         ///< the same; null if there is to be none
    bool image_is_made WL_GUARDED_BY(mutex) = false;                       ///< or was tried
    std::map<size_t, FunctionSetup> setups WL_GUARDED_BY(mutex);           ///< by place
};

}  // namespace warpline::client
