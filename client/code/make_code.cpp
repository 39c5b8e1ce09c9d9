// What of an image a device can take: decided when the program loads it, so that an image that is of no use is refused then.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "client/code/images.h"
#include "client/session/environment.h"
#include "common/log/log.h"
#include "cuda/abi/driver_settings.h"
#include "cuda/image/ptx_version.h"

namespace warpline::client {

namespace {

namespace image = cuda::image;

CUresult image_error(const Error& error) {
    switch (error.code) {
        case Code::alloc_failed: return CUDA_ERROR_OUT_OF_MEMORY;
        case Code::bad_argument: return CUDA_ERROR_INVALID_VALUE;
        default: return CUDA_ERROR_INVALID_IMAGE;
    }
}

/// The software GPU executes PTX of any architecture, whichever it reports.
constexpr uint32_t k_any_ptx = 999;
bool takes_any_ptx() { return Process::instance().server().driver_kind == DriverKind::software; }
bool takes_machine_code() { return Process::instance().server().takes_machine_code; }

/// What the driver behind the session will take of an image on a device.
struct Choice {
    std::vector<const image::Entry*> units;  ///< several if it is to be linked; empty: there is nothing for this device
    bool doubtful = false;                   ///< only the driver knows whether it can take it
};

/// Whether the environment lets a driver take the image for a device: CUDA_DISABLE_PTX_JIT, CUDA_FORCE_PTX_JIT and the like.
CUresult check_environment(const image::Image& from, const Device& device) {
    namespace abi = cuda::abi;
    if (abi::takes_ptx(driver_settings()) && !abi::takes_ptx_only(driver_settings())) return CUDA_SUCCESS;
    const uint32_t capability = device.compute_capability();
    const image::Entry* best = from.select(capability);
    const bool has_code = best && best->kind == image::EntryKind::cubin;
    const bool has_ptx = from.select_ptx(capability) || !from.select_linkable_ptx(capability).empty();
    if (abi::takes_ptx_only(driver_settings()) && !has_ptx) {
        WL_LOG(warn, "client", "an image has no PTX for {}, and the environment forbids its machine code (CUDA_FORCE_PTX_JIT)",
               device.name);
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    }
    if (!abi::takes_ptx(driver_settings()) && !has_code) {
        WL_LOG(warn, "client",
               "an image has no machine code for {}, and the environment forbids to compile (CUDA_DISABLE_PTX_JIT)",
               device.name);
        return CUDA_ERROR_JIT_COMPILATION_DISABLED;
    }
    return CUDA_SUCCESS;
}

Choice choose(const image::Image& from, const Device& device) {
    if (takes_machine_code())
        if (const image::Entry* entry = from.select(device.compute_capability())) return {{entry}, false};
    const bool any_ptx = takes_any_ptx();
    const uint32_t capability = any_ptx ? k_any_ptx : device.compute_capability();
    if (const image::Entry* entry = any_ptx ? from.select_ptx(capability, true) : nullptr) return {{entry}, false};
    // Relocatable code without a linked cubin that fits: the driver links its units.
    auto units = any_ptx ? from.select_linkable_ptx(capability, true) : from.select_linkable(capability);
    if (!units.empty()) return {std::move(units), false};
    // The PTX of machine code that was compiled with line information is executed.
    const image::Entry* cubin = any_ptx ? from.select(device.compute_capability()) : nullptr;
    if (!cubin) return {};
    return {{cubin}, true};
}

/// What several linked units contain together.
Result<image::ImageInfo> read_units(const std::vector<const image::Entry*>& units) {
    image::ImageInfo all;
    for (const image::Entry* unit : units) {
        image::ImageInfo one = WL_TRY(image::read_info(*unit));
        all.arch = one.arch;
        all.ptx_version = std::max(all.ptx_version, one.ptx_version);
        all.uses_printf |= one.uses_printf;
        std::move(one.kernels.begin(), one.kernels.end(), std::back_inserter(all.kernels));
        std::move(one.globals.begin(), one.globals.end(), std::back_inserter(all.globals));
    }
    auto by_name = [](const auto& a, const auto& b) { return a.name < b.name; };
    std::sort(all.kernels.begin(), all.kernels.end(), by_name);
    std::sort(all.globals.begin(), all.globals.end(), by_name);
    return all;
}

/// What a GPU executes without compiling, if it is in the image.
const image::Entry* machine_code(const image::Image& from, const Device& device) {
    const image::Entry* taken = from.select(device.compute_capability());
    return taken != nullptr && taken->kind == image::EntryKind::cubin ? taken : nullptr;
}

/// The server's driver would have to compile PTX that is newer than it is. Said here, because images are uploaded late, and
/// nobody waits.
bool is_too_new(const CodeImage& code, const Device& device) {
    const int driver = Process::instance().server().driver_version;
    const uint32_t newest = image::newest_ptx_version(driver), version = code.info.ptx_version;
    if (version <= newest) return false;
    if (machine_code(code.image, device) != nullptr) return false;
    WL_LOG(warn, "client",
           "PTX {}.{} is newer than the server's driver, which is of CUDA {}.{} and takes PTX up to {}.{}: compile for {}.{} "
           "itself, or with an "
           "older toolkit",
           version / 10, version % 10, driver / 1000, driver % 1000 / 10, newest / 10, newest % 10, device.major, device.minor);
    return true;
}

CUresult read_contents(CodeImage& code, const Device& device) {
    if (CUresult refused = check_environment(code.image, device); refused != CUDA_SUCCESS) return refused;
    Choice choice = choose(code.image, device);
    if (choice.units.empty()) {
        WL_LOG(warn, "client", "an image has no code for {} (compute capability {}.{}){}", device.name, device.major,
               device.minor,
               takes_any_ptx()
                   ? ": it is SASS-only, and the software GPU needs PTX; rebuild with -gencode arch=compute_XX,code=compute_XX"
                   : "");
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    }
    bool is_ptx = choice.units.front()->kind == image::EntryKind::ptx;
    Result<image::ImageInfo> info = read_units(choice.units);
    if (const image::Entry* cubin = info.ok() ? nullptr : machine_code(code.image, device)) {
        // PTX that cannot be read is no reason to refuse what need not be compiled: the driver may not look at it.
        is_ptx = false;
        choice.doubtful = true;
        info = read_units({cubin});
    }
    if (!info.ok()) {
        WL_LOG(warn, "client", "an image cannot be read: {}", info.error().what);
        return is_ptx ? CUDA_ERROR_INVALID_PTX : image_error(info.error());
    }
    code.info = std::move(*info);
    if (is_ptx && is_too_new(code, device)) return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
    code.ask_driver = choice.doubtful || code.image.container() == image::Container::ptx;
    return CUDA_SUCCESS;
}

}  // namespace

CUresult make_code(const void* bytes, int device, std::shared_ptr<CodeImage>& out) {
    if (!bytes) return CUDA_ERROR_INVALID_VALUE;
    Result<image::Image> container = image::Image::from_pointer(bytes);
    if (!container.ok()) {
        WL_LOG(warn, "client", "an image cannot be read: {}", container.error().what);
        return image_error(container.error());
    }
    // The program may free its copy after the call.
    if (auto owned = container->own(); !owned.ok()) return image_error(owned.error());
    auto code = std::make_shared<CodeImage>(std::move(*container));
    CUresult result = read_contents(*code, *find_device(std::max(device, 0)));
    if (result == CUDA_SUCCESS) out = std::move(code);
    return result;
}

CUresult read_file(const char* path, Bytes& out) {
    int fd = ::open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return CUDA_ERROR_FILE_NOT_FOUND;
    struct stat status {};
    CUresult result = CUDA_ERROR_INVALID_IMAGE;
    if (::fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size >= 0 &&
        static_cast<uint64_t>(status.st_size) <= image::k_max_image_bytes) {
        out.assign(static_cast<size_t>(status.st_size) + 1, std::byte{0});
        size_t have = 0;
        while (have + 1 < out.size()) {
            ssize_t count = ::read(fd, out.data() + have, out.size() - 1 - have);
            if (count <= 0) break;
            have += static_cast<size_t>(count);
        }
        if (have + 1 == out.size()) result = CUDA_SUCCESS;
    }
    ::close(fd);
    return result;
}

}  // namespace warpline::client
