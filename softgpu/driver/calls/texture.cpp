// Texture and surface objects.
#include "softgpu/driver/texture/texture.h"

#include <unordered_map>

#include "softgpu/driver/context/context.h"
#include "softgpu/driver/device/device.h"
#include "softgpu/driver/process/process.h"

namespace warpline::softgpu::driver {

namespace {

/// Objects by the handles that device code uses, which the engine gives out.
template <typename Object>
class Objects {
public:
    static Objects& instance() {
        static auto* made = new Objects;  // leaked on purpose: calls come after static destructors
        return *made;
    }
    void add(uint64_t handle, std::shared_ptr<Object> object) {
        MutexLock lock(m_mutex);
        m_by_handle[handle] = std::move(object);
    }
    std::shared_ptr<Object> find(uint64_t handle) const {
        MutexLock lock(m_mutex);
        auto found = m_by_handle.find(handle);
        return found != m_by_handle.end() ? found->second : nullptr;
    }
    std::shared_ptr<Object> remove(uint64_t handle) {
        MutexLock lock(m_mutex);
        auto found = m_by_handle.find(handle);
        if (found == m_by_handle.end()) return nullptr;
        auto object = std::move(found->second);
        m_by_handle.erase(found);
        return object;
    }

private:
    mutable Mutex m_mutex;
    std::unordered_map<uint64_t, std::shared_ptr<Object>> m_by_handle WL_GUARDED_BY(m_mutex);
};

using Textures = Objects<TextureObject>;
using Surfaces = Objects<SurfaceObject>;

CUresult find_texture_object(CUtexObject handle, std::shared_ptr<TextureObject>& object) {
    Context* context = nullptr;
    CU_TRY(current_context(context));
    object = Textures::instance().find(handle);
    return object != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/// Lets go of an object when no launch that was made before can use it any more. The call does not wait for that.
template <typename Object>
void retire(std::shared_ptr<Object> object, uint64_t handle, void (*remove)(uint64_t)) {
    auto before = Scheduler::instance().pending(*object->context->group());
    Scheduler::instance().submit_free([object, handle, remove] { remove(handle); }, before, 0);
}

}  // namespace

CUresult cuTexObjectCreate(CUtexObject* pTexObject, const CUDA_RESOURCE_DESC* pResDesc, const CUDA_TEXTURE_DESC* pTexDesc,
                           const CUDA_RESOURCE_VIEW_DESC* pResViewDesc) {
    if (pTexObject == nullptr || pResDesc == nullptr || pTexDesc == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Context* context = nullptr;
    CU_TRY(current_context(context));
    auto object = std::make_shared<TextureObject>();
    exec::TextureDescriptor descriptor;
    CU_TRY(describe_texture(context->device(), *pResDesc, *pTexDesc, pResViewDesc, descriptor, object->memory));
    object->resource = *pResDesc;
    object->texture = *pTexDesc;
    object->has_view = pResViewDesc != nullptr;
    if (pResViewDesc != nullptr) object->view = *pResViewDesc;
    object->context = context->shared_from_this();
    uint64_t handle = exec::add_texture(descriptor);
    if (handle == 0) return CUDA_ERROR_OUT_OF_MEMORY;
    Textures::instance().add(handle, std::move(object));
    *pTexObject = handle;
    return CUDA_SUCCESS;
}

CUresult cuTexObjectDestroy(CUtexObject texObject) {
    Context* context = nullptr;
    CU_TRY(current_context_even_failed(context));
    auto object = Textures::instance().remove(texObject);
    if (object == nullptr) return CUDA_SUCCESS;  // nobody looks whether it is there
    retire(std::move(object), texObject, &exec::remove_texture);
    return CUDA_SUCCESS;
}

CUresult cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC* pResDesc, CUtexObject texObject) {
    if (pResDesc == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::shared_ptr<TextureObject> object;
    CU_TRY(find_texture_object(texObject, object));
    *pResDesc = object->resource;
    return CUDA_SUCCESS;
}

CUresult cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC* pTexDesc, CUtexObject texObject) {
    if (pTexDesc == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::shared_ptr<TextureObject> object;
    CU_TRY(find_texture_object(texObject, object));
    *pTexDesc = object->texture;
    return CUDA_SUCCESS;
}

CUresult cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC* pResViewDesc, CUtexObject texObject) {
    if (pResViewDesc == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::shared_ptr<TextureObject> object;
    CU_TRY(find_texture_object(texObject, object));
    *pResViewDesc = object->has_view ? object->view : CUDA_RESOURCE_VIEW_DESC{};  // DB-61
    return CUDA_SUCCESS;
}

CUresult cuSurfObjectCreate(CUsurfObject* pSurfObject, const CUDA_RESOURCE_DESC* pResDesc) {
    if (pSurfObject == nullptr || pResDesc == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Context* context = nullptr;
    CU_TRY(current_context(context));
    auto object = std::make_shared<SurfaceObject>();
    exec::SurfaceDescriptor descriptor;
    CU_TRY(describe_surface(*pResDesc, descriptor, object->memory));
    object->resource = *pResDesc;
    object->context = context->shared_from_this();
    uint64_t handle = exec::add_surface(descriptor);
    if (handle == 0) return CUDA_ERROR_OUT_OF_MEMORY;
    Surfaces::instance().add(handle, std::move(object));
    *pSurfObject = handle;
    return CUDA_SUCCESS;
}

CUresult cuSurfObjectDestroy(CUsurfObject surfObject) {
    Context* context = nullptr;
    CU_TRY(current_context_even_failed(context));
    auto object = Surfaces::instance().remove(surfObject);
    if (object == nullptr) return CUDA_SUCCESS;  // nobody looks whether it is there
    retire(std::move(object), surfObject, &exec::remove_surface);
    return CUDA_SUCCESS;
}

CUresult cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC* pResDesc, CUsurfObject surfObject) {
    if (pResDesc == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Context* context = nullptr;
    CU_TRY(current_context(context));
    auto object = Surfaces::instance().find(surfObject);
    if (object == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *pResDesc = object->resource;
    return CUDA_SUCCESS;
}

}  // namespace warpline::softgpu::driver
