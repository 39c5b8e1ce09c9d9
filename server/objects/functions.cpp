// Finding functions in the driver, and what their parameters are.
#include "server/objects/functions.h"

#include <algorithm>
#include <array>

#include "common/log/log.h"
#include "cuda/image/image.h"

namespace warpline::server {

namespace {

constexpr size_t k_max_params = 4096;

/// The parameters of every kernel of an image. The same kernel has the same parameters for every architecture.
void read_layouts(BytesView bytes, std::map<std::string, std::shared_ptr<const ParamLayout>, std::less<>>& layouts) {
    const auto image = cuda::image::Image::from_bytes(bytes);
    if (!image.ok()) return;
    for (const cuda::image::Entry& entry : image->entries()) {
        const auto info = cuda::image::read_info(entry);
        if (!info.ok()) continue;
        for (const cuda::image::Kernel& kernel : info->kernels) {
            auto layout = std::make_shared<ParamLayout>();
            for (const cuda::image::Param& param : kernel.params) {
                layout->sizes.push_back(param.size_bytes);
                layout->bytes = std::max<uint64_t>(layout->bytes, uint64_t{param.offset_bytes} + param.size_bytes);
            }
            layouts.try_emplace(kernel.name, std::move(layout));
        }
    }
}

}  // namespace

struct Functions::Lately {
    uint64_t epoch = 0;
    uint64_t context = 0;
    Found found;

    static Lately& of(uint64_t token) {
        static thread_local std::array<Lately, 64> t_lately;
        // The lower bits of a token are its index.
        return t_lately[token % t_lately.size()];
    }
};

Functions::Functions(const Driver& driver, HandleTable& handles) : m_driver(driver), m_handles(handles) {
    // Another session of this process (a test's) may have used the thread before.
    static std::atomic<uint64_t> sessions{0};
    m_epoch = (sessions.fetch_add(1) + 1) << 40;
}

bool Functions::bind_kernel(uint64_t token, CUkernel kernel, uint64_t library, const std::string& name) {
    return m_handles.bind(HandleKind::function, token,
                          {reinterpret_cast<uint64_t>(kernel), library, true, false, layout_in_image(library, name)});
}

bool Functions::bind_function(uint64_t token, CUfunction function, uint64_t module, const std::string& name) {
    return m_handles.bind(HandleKind::function, token,
                          {reinterpret_cast<uint64_t>(function), module, false, false, layout_in_image(module, name)});
}

bool Functions::driver_tells() const {
    return m_driver->cuKernelGetParamInfo != nullptr && m_driver->cuFuncGetParamInfo != nullptr;
}

void Functions::note_image(uint64_t image, BytesView bytes) {
    if (driver_tells()) return;
    Layouts layouts;
    read_layouts(bytes, layouts);
    MutexLock lock(m_mutex);
    m_images[image] = std::move(layouts);
}

void Functions::images_ended() {
    MutexLock lock(m_mutex);
    std::erase_if(m_images, [this](const auto& item) {
        return !m_handles.find(HandleKind::module, item.first) && !m_handles.find(HandleKind::library, item.first);
    });
}

std::shared_ptr<const ParamLayout> Functions::layout_in_image(uint64_t image, const std::string& name) {
    if (driver_tells()) return nullptr;
    // The module of a library has no image of its own.
    const auto module = m_handles.find(HandleKind::module, image);
    MutexLock lock(m_mutex);
    auto found = m_images.find(image);
    if (found == m_images.end() && module) found = m_images.find(module->owner);
    if (found == m_images.end()) return nullptr;
    const auto layout = found->second.find(name);
    return layout != found->second.end() ? layout->second : nullptr;
}

std::shared_ptr<const ParamLayout> Functions::ask_driver(const HandleTable::Entry& entry, CUresult& why) {
    auto layout = std::make_shared<ParamLayout>();
    for (size_t i = 0; i < k_max_params; ++i) {
        size_t offset = 0, size = 0;
        why = entry.kernel ? m_driver->cuKernelGetParamInfo(reinterpret_cast<CUkernel>(entry.value), i, &offset, &size)
                           : m_driver->cuFuncGetParamInfo(reinterpret_cast<CUfunction>(entry.value), i, &offset, &size);
        if (why == CUDA_ERROR_INVALID_VALUE) return layout;  // there are no more
        if (why != CUDA_SUCCESS) return nullptr;
        layout->sizes.push_back(static_cast<uint32_t>(size));
        layout->bytes = std::max<uint64_t>(layout->bytes, offset + size);
    }
    why = CUDA_ERROR_INVALID_VALUE;
    return nullptr;
}

std::shared_ptr<const ParamLayout> Functions::layout(uint64_t token, CUresult& why) {
    why = CUDA_ERROR_INVALID_HANDLE;
    const auto entry = m_handles.find(HandleKind::function, token);
    if (!entry) return nullptr;
    if (entry->layout != nullptr) return entry->layout;
    if (!driver_tells()) {
        WL_LOG(warn, "server", "a launch is refused: neither the driver nor its image tells the parameters of the kernel");
        why = CUDA_ERROR_INVALID_VALUE;
        return nullptr;
    }
    auto layout = ask_driver(*entry, why);
    if (layout != nullptr) m_handles.set_layout(token, layout);
    return layout;
}

Functions::Found Functions::function(uint64_t token, uint64_t context, CUresult& why) {
    Lately& lately = Lately::of(token);
    const uint64_t now = epoch();
    if (lately.epoch == now && lately.found.token == token && lately.context == context) return lately.found;
    Found found = look_up(token, context, why);
    // The first launch asks for the parameters; from the second one on they are here.
    if (found.function != nullptr && found.layout != nullptr) lately = {now, context, found};
    return found;
}

Functions::Found Functions::look_up(uint64_t token, uint64_t context, CUresult& why) {
    why = CUDA_ERROR_INVALID_HANDLE;
    const auto entry = m_handles.find(HandleKind::function, token);
    if (!entry) return {};
    if (!entry->kernel) return {reinterpret_cast<CUfunction>(entry->value), entry->layout, token};
    {
        MutexLock lock(m_mutex);
        const auto known = m_found.find({token, context});
        if (known != m_found.end()) return {known->second, entry->layout, token};
    }
    // Without the lock: the driver may load the kernel's image now, which can wait for the device.
    CUfunction found = nullptr;
    const auto kernel = reinterpret_cast<CUkernel>(entry->value);
    if (m_driver->cuKernelGetFunction == nullptr) return {};
    if (const CUresult result = m_driver->cuKernelGetFunction(&found, kernel); result != CUDA_SUCCESS) {
        why = result;
        return {};
    }
    MutexLock lock(m_mutex);
    if (m_found.size() >= m_sweep_at) sweep();
    m_found[{token, context}] = found;
    return {found, entry->layout, token};
}

CUkernel Functions::kernel(uint64_t token) {
    const auto entry = m_handles.find(HandleKind::function, token);
    return entry && entry->kernel ? reinterpret_cast<CUkernel>(entry->value) : nullptr;
}

uint64_t Functions::token_of(CUkernel kernel) {
    return m_handles.token_of(HandleKind::function, reinterpret_cast<uint64_t>(kernel));
}

uint64_t Functions::token_of(CUfunction function) {
    if (function == nullptr) return 0;
    const uint64_t known = m_handles.token_of(HandleKind::function, reinterpret_cast<uint64_t>(function));
    if (known != 0) return known;
    MutexLock lock(m_mutex);
    for (const auto& [key, found] : m_found) {
        if (found == function) return key.first;
    }
    return 0;
}

void Functions::sweep() {
    std::erase_if(m_found, [this](const auto& item) { return !m_handles.find(HandleKind::function, item.first.first); });
    m_sweep_at = m_found.size() * 2 + 1024;
}

void Functions::context_ended(uint64_t context) {
    m_epoch.fetch_add(1, std::memory_order_release);
    MutexLock lock(m_mutex);
    std::erase_if(m_found, [context](const auto& item) { return item.first.second == context; });
}

}  // namespace warpline::server
