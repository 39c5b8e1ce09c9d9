#include "server/hooks/images.h"

#include <algorithm>

#include "cuda/image/container.h"
#include "cuda/image/image.h"
#include "server/hooks/common.h"

namespace warpline::server {

namespace {

constexpr size_t k_max_options = 64;

enum class OptionUse : uint8_t { ours, passed_on, unknown };

/// What the driver is told of an option: something of ours for those whose value is a pointer into the client's memory, or the
/// size of a buffer there; and nothing that this server does not know, because its value could be a pointer.
OptionUse use_of(CUjit_option option) {
    switch (option) {
        case CU_JIT_MAX_REGISTERS:
        case CU_JIT_THREADS_PER_BLOCK:
        case CU_JIT_OPTIMIZATION_LEVEL:
        case CU_JIT_TARGET_FROM_CUCONTEXT:
        case CU_JIT_TARGET:
        case CU_JIT_FALLBACK_STRATEGY:
        case CU_JIT_GENERATE_DEBUG_INFO:
        case CU_JIT_LOG_VERBOSE:
        case CU_JIT_GENERATE_LINE_INFO:
        case CU_JIT_CACHE_MODE:
        case CU_JIT_NEW_SM3X_OPT:
        case CU_JIT_FAST_COMPILE:
        case CU_JIT_LTO:
        case CU_JIT_FTZ:
        case CU_JIT_PREC_DIV:
        case CU_JIT_PREC_SQRT:
        case CU_JIT_FMA:
        case CU_JIT_OPTIMIZE_UNUSED_DEVICE_VARIABLES:
        case CU_JIT_POSITION_INDEPENDENT_CODE:
        case CU_JIT_MIN_CTA_PER_SM:
        case CU_JIT_MAX_THREADS_PER_BLOCK:
        case CU_JIT_OVERRIDE_DIRECTIVE_VALUES:
        case CU_JIT_SPLIT_COMPILE: return OptionUse::passed_on;
        case CU_JIT_INFO_LOG_BUFFER:
        case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
        case CU_JIT_ERROR_LOG_BUFFER:
        case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
        case CU_JIT_GLOBAL_SYMBOL_NAMES:
        case CU_JIT_GLOBAL_SYMBOL_ADDRESSES:
        case CU_JIT_GLOBAL_SYMBOL_COUNT:
        case CU_JIT_WALL_TIME:
        case CU_JIT_REFERENCED_KERNEL_NAMES:
        case CU_JIT_REFERENCED_KERNEL_COUNT:
        case CU_JIT_REFERENCED_VARIABLE_NAMES:
        case CU_JIT_REFERENCED_VARIABLE_COUNT: return OptionUse::ours;
        default: return OptionUse::unknown;
    }
}

/// An image of -rdc=true consists of a linked fatbin and of those of its translation units, which a driver takes only through a
/// wrapper that points at them.
class FatbinWrapper {
public:
    /// Reads the upload form; it must stay where it is. False if there is nothing to wrap.
    bool read(BytesView upload) {
        auto image = cuda::image::Image::from_bytes(upload);
        if (!image.ok() || image->parts().size() < 2) return false;
        for (size_t i = 1; i < image->parts().size(); ++i) m_units.push_back(image->parts()[i].data());
        m_units.push_back(nullptr);
        m_wrapper.data = image->bytes().data();
        m_wrapper.units = m_units.data();
        return true;
    }
    const void* pointer() const { return &m_wrapper; }

private:
    struct Wrapper {
        uint32_t magic = 0x466243B1;
        uint32_t version = 2;
        const void* data = nullptr;
        const void* const* units = nullptr;
    };
    Wrapper m_wrapper;
    std::vector<const void*> m_units;
};

}  // namespace

void JitLog::add(CUjit_option option, uint64_t value) {
    m_options.push_back(option);
    m_values.push_back(reinterpret_cast<void*>(value));
}

bool JitLog::prepare(const std::vector<uint64_t>& options, const std::vector<uint64_t>& values) {
    if (options.size() != values.size() || options.size() > k_max_options) return false;
    for (size_t i = 0; i < options.size(); ++i) {
        const auto option = static_cast<CUjit_option>(options[i]);
        const OptionUse use = options[i] < CU_JIT_NUM_OPTIONS ? use_of(option) : OptionUse::unknown;
        if (use == OptionUse::unknown) {
            WL_LOG(warn, "image", "option {} of a compilation is unknown here and refused", options[i]);
            return false;
        }
        if (use == OptionUse::passed_on) {
            add(option, values[i]);
        } else {
            add_ours(option, values[i]);
        }
    }
    return true;
}

void JitLog::add_ours(CUjit_option option, uint64_t value) {
    auto buffer = [&](std::string& log) {
        if (value == 0) return add(option, 0);
        log.assign(k_log_bytes, '\0');
        add(option, reinterpret_cast<uint64_t>(log.data()));
    };
    switch (option) {
        case CU_JIT_INFO_LOG_BUFFER: buffer(m_info); break;
        case CU_JIT_ERROR_LOG_BUFFER: buffer(m_error); break;
        // The last byte of a log of ours stays zero, whatever the driver writes.
        case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
        case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES: add(option, std::min<uint64_t>(value, k_log_bytes - 1)); break;
        case CU_JIT_WALL_TIME: add(option, 0); break;
        default: break;  // lists of symbols, which the client refuses
    }
}

uint32_t JitLog::number(CUjit_option option) const {
    for (size_t i = 0; i < m_options.size(); ++i) {
        if (m_options[i] == option) return static_cast<uint32_t>(reinterpret_cast<uint64_t>(m_values[i]));
    }
    return 0;
}

bool is_sound(BytesView bytes, ImageKind kind) {
    using cuda::image::Container;
    const auto image = cuda::image::Image::from_bytes(bytes);
    if (!image.ok()) return false;
    const Container found = image->container();
    if (kind == ImageKind::ptx) return found == Container::ptx;
    if (kind == ImageKind::cubin ? found != Container::cubin : found != Container::fatbin) return false;
    // Machine code inside of a fatbin has headers of its own. That which is compressed the driver unpacks, by the sizes that it
    // finds itself.
    return std::all_of(image->entries().begin(), image->entries().end(), [](const cuda::image::Entry& entry) {
        const bool plain = entry.kind == cuda::image::EntryKind::cubin && entry.compression == cuda::image::Compression::none;
        return !plain || cuda::image::elf_size(entry.stored.data(), entry.stored.size()).ok();
    });
}

CUresult load_image(ServerCall& call, uint64_t token, bool library, ImageKind kind, const std::vector<uint64_t>& options,
                    const std::vector<uint64_t>& values, JitLog& log) {
    const HandleKind handle_kind = library ? HandleKind::library : HandleKind::module;
    if (!call.may_bind(handle_kind, token)) return CUDA_ERROR_INVALID_HANDLE;
    if (kind < ImageKind::fatbin || kind > ImageKind::ptx || !log.prepare(options, values)) return CUDA_ERROR_INVALID_VALUE;
    const auto payload = call.whole_payload();
    if (!payload.ok()) return result_of(payload.error());
    if (!is_sound(*payload, kind)) return CUDA_ERROR_INVALID_IMAGE;
    // PTX is text that ends with a zero, which need not have travelled; 8 bytes of alignment suit every container.
    std::vector<uint64_t> image(payload->size() / sizeof(uint64_t) + 1);
    std::memcpy(image.data(), payload->data(), payload->size());
    FatbinWrapper wrapper;
    const bool wrapped = kind == ImageKind::fatbin && wrapper.read(as_bytes(image.data(), payload->size()));
    const void* code = wrapped ? wrapper.pointer() : image.data();

    if (library) {
        const auto load = WL_DRIVER(call, cuLibraryLoadData);
        CUlibrary loaded = nullptr;
        WL_CUDA(load(&loaded, code, log.options(), log.values(), log.count(), nullptr, nullptr, 0));
        call.bind(handle_kind, token, loaded, 0);
        call.session().functions().note_image(token, *payload);
        return CUDA_SUCCESS;
    }
    const auto load = WL_DRIVER(call, cuModuleLoadDataEx);
    CUmodule loaded = nullptr;
    WL_CUDA(load(&loaded, code, log.count(), log.options(), log.values()));
    call.bind(handle_kind, token, loaded, call.context());
    call.session().functions().note_image(token, *payload);
    return CUDA_SUCCESS;
}

}  // namespace warpline::server
