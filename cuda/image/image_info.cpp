// Reads what an entry contains, whatever it is, and looks kernels and variables up by name.
#include "cuda/image/image_info.h"

#include <algorithm>

#include "cuda/image/image.h"

namespace warpline::cuda::image {

namespace {

uint64_t product(const std::array<uint32_t, 3>& extent) {
    uint64_t total = extent[0];
    total *= extent[1] == 0 ? 1 : extent[1];
    return std::min<uint64_t>(total, UINT32_MAX) * (extent[2] == 0 ? 1 : extent[2]);
}

template <typename T>
const T* find_by_name(const std::vector<T>& sorted, std::string_view name) {
    auto found =
        std::lower_bound(sorted.begin(), sorted.end(), name, [](const T& a, std::string_view b) { return a.name < b; });
    return found != sorted.end() && found->name == name ? &*found : nullptr;
}

}  // namespace

uint32_t Kernel::max_threads_per_block() const {
    const auto& bound = required_threads[0] != 0 ? required_threads : max_threads;
    return static_cast<uint32_t>(std::min<uint64_t>(product(bound), UINT32_MAX));
}

const Kernel* ImageInfo::find_kernel(std::string_view name) const { return find_by_name(kernels, name); }
const Global* ImageInfo::find_global(std::string_view name) const { return find_by_name(globals, name); }

Result<ImageInfo> read_info(const Entry& entry) {
    if (entry.kind == EntryKind::other) return Error{Code::unsupported, "code of an unknown kind in a fatbin", entry.raw_kind};
    Payload payload = WL_TRY(decompress(entry));
    Result<ImageInfo> info = entry.kind == EntryKind::cubin ? read_cubin_info(payload.view()) : read_ptx_info(payload.text());
    if (info.ok() && entry.relocatable) info->relocatable = true;
    return info;
}

}  // namespace warpline::cuda::image
