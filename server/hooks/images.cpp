// Loading images that a client has sent, once they are known to be sound.
#include "server/hooks/images.h"

#include <algorithm>
#include <cstring>

#include "cuda/image/container.h"
#include "cuda/image/image.h"
#include "server/hooks/common.h"

namespace warpline::server {

namespace {

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
