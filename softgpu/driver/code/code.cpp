// Chooses what of an image is executed.
#include <fstream>
#include <iterator>
#include <utility>

#include "common/log/log.h"
#include "cuda/image/image.h"
#include "softgpu/driver/code/module.h"
#include "softgpu/driver/process/process.h"

namespace warpline::softgpu::driver {

namespace {

/// The newest architecture whose PTX is executed, whatever compute capability the device reports.
constexpr uint32_t k_newest_ptx = 121;

namespace image = cuda::image;

CUresult result_of(const Error& error) {
    switch (error.code) {
        case warpline::Code::alloc_failed: return CUDA_ERROR_OUT_OF_MEMORY;
        case warpline::Code::bad_argument: return CUDA_ERROR_INVALID_VALUE;
        default: return CUDA_ERROR_INVALID_IMAGE;
    }
}

CUresult add_ptx(const image::Entry& entry, Code& code) {
    auto payload = image::decompress(entry);
    if (!payload) {
        WL_LOG(error, "softgpu", "PTX of an image: {}", payload.error().what);
        return result_of(payload.error());
    }
    code.ptx.emplace_back(payload->text());
    return CUDA_SUCCESS;
}

/// In dry mode a cubin will do, and comes first, as on a GPU: its kernels can be named and are not executed.
CUresult describe_cubin(const image::Image& source, Code& code) {
    const image::Entry* entry = source.select(process().config().compute_capability);
    for (const image::Entry& candidate : source.entries()) {
        if (entry == nullptr && candidate.kind == image::EntryKind::cubin) entry = &candidate;
    }
    if (entry == nullptr || entry->kind != image::EntryKind::cubin) return CUDA_ERROR_NO_BINARY_FOR_GPU;
    auto info = image::read_info(*entry);
    if (!info) return CUDA_ERROR_INVALID_IMAGE;
    code.cubin = std::make_shared<const image::ImageInfo>(std::move(*info));
    code.machine_code = entry->arch;
    return CUDA_SUCCESS;
}

/// Of machine code that was made with line information there is the PTX too, and what its compiler knows of registers. The
/// lowest architecture, as elsewhere.
CUresult add_debug_ptx(const image::Image& source, Code& code) {
    std::vector<std::string> texts;
    std::pair best(true, k_newest_ptx + 1);  // for special architectures, and which
    for (const image::Entry& entry : source.entries()) {
        const std::pair found(entry.arch_specific || entry.family_specific, entry.arch);
        if (entry.kind != image::EntryKind::cubin || entry.relocatable || entry.arch > k_newest_ptx || found >= best) continue;
        auto payload = image::decompress(entry);
        if (!payload) return result_of(payload.error());
        auto ptx = image::read_debug_ptx(payload->view());
        if (!ptx.ok() || ptx->empty()) continue;
        auto info = image::read_info(entry);
        code.compiled = info.ok() ? std::make_shared<const image::ImageInfo>(std::move(*info)) : nullptr;
        texts = std::move(*ptx);
        best = found;
    }
    for (std::string& text : texts) code.ptx.push_back(std::move(text));
    return CUDA_SUCCESS;
}

CUresult refuse(const image::Image& source) {
    bool has_ptx = false;
    for (const image::Entry& entry : source.entries()) has_ptx = has_ptx || entry.kind == image::EntryKind::ptx;
    if (has_ptx) {
        WL_LOG(error, "softgpu",
               "image with PTX for architectures newer than 12.1 only: rebuild with "
               "-gencode arch=compute_XX,code=compute_XX for XX of 75 to 121");
    } else {
        WL_LOG(
            error, "softgpu",
            "SASS-only image: the software GPU executes PTX; rebuild with -arch=sm_XX, or add "
            "-gencode arch=compute_XX,code=compute_XX, or compile with -lineinfo, which keeps the PTX beside the machine code");
    }
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
}

}  // namespace

CUresult read_code(const image::Image& source, std::shared_ptr<const Code>& out) {
    auto code = std::make_shared<Code>();
    code->is_text = source.container() == image::Container::ptx;
    code->in_wrapper = source.in_wrapper();
    const image::Entry* taken = source.select(process().config().compute_capability);
    if (taken != nullptr && taken->kind == image::EntryKind::cubin) code->machine_code = taken->arch;
    if (!process().config().execute && code->machine_code != 0 && describe_cubin(source, *code) == CUDA_SUCCESS) {
        out = std::move(code);
        return CUDA_SUCCESS;
    }
    if (const image::Entry* entry = source.select_ptx(k_newest_ptx, true)) {
        constexpr uint32_t k_newer_ptx = 90;
        code->is_older_ptx = !code->is_text && entry->arch < k_newer_ptx;
        CU_TRY(add_ptx(*entry, *code));
    } else {
        for (const image::Entry* unit : source.select_linkable_ptx(k_newest_ptx, true)) CU_TRY(add_ptx(*unit, *code));
    }
    if (code->ptx.empty() && process().config().execute) CU_TRY(add_debug_ptx(source, *code));
    if (code->ptx.empty()) {
        if (process().config().execute || describe_cubin(source, *code) != CUDA_SUCCESS) return refuse(source);
    }
    out = std::move(code);
    return CUDA_SUCCESS;
}

CUresult read_code(const void* pointer, std::shared_ptr<const Code>& code) {
    if (pointer == nullptr) return CUDA_ERROR_INVALID_VALUE;
    auto source = image::Image::from_pointer(pointer);
    if (!source) {
        WL_LOG(error, "softgpu", "image: {}", source.error().what);
        return result_of(source.error());
    }
    return read_code(*source, code);
}

CUresult read_code_file(const char* path, std::shared_ptr<const Code>& code) {
    if (path == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::ifstream file(path, std::ios::binary);
    if (!file) return CUDA_ERROR_FILE_NOT_FOUND;
    std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    auto source = image::Image::from_bytes(as_bytes(bytes));
    if (!source) return result_of(source.error());
    return read_code(*source, code);
}

}  // namespace warpline::softgpu::driver
