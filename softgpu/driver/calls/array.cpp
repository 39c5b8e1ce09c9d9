// Arrays and mipmapped arrays.
#include "softgpu/driver/memory/array.h"

#include <algorithm>

#include "softgpu/driver/device/device.h"
#include "softgpu/driver/graph/capture.h"
#include "softgpu/driver/process/process.h"

namespace warpline::softgpu::driver {

namespace {

using ArrayPtr = std::shared_ptr<ArrayObject>;

CUresult find_array(CUarray handle, ArrayPtr& array) {
    array = process().arrays.find(handle);
    return array != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult find_mipmapped(CUmipmappedArray handle, std::shared_ptr<MipmappedArray>& array) {
    array = process().mipmapped_arrays.find(handle);
    return array != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/// What the planes of a format are that has several; of others there are none. cuda.h, cuArrayGetPlane: one "of the same size …
/// with one channel", one of "half the height and width … with two channels".
std::vector<CUDA_ARRAY3D_DESCRIPTOR> planes_of(const CUDA_ARRAY3D_DESCRIPTOR& d) {
    if (d.Format != CU_AD_FORMAT_NV12) return {};
    return {{d.Width, d.Height, 0, CU_AD_FORMAT_UNSIGNED_INT8, 1, d.Flags},
            {d.Width / 2, d.Height / 2, 0, CU_AD_FORMAT_UNSIGNED_INT8, 2, d.Flags}};
}

/// The planes are arrays that live as long as the whole, which nothing can be done with but to ask for them.
CUresult create_planar(CUarray* out, Context& context, const CUDA_ARRAY3D_DESCRIPTOR& whole,
                       const std::vector<CUDA_ARRAY3D_DESCRIPTOR>& planes) {
    const bool is_plain = whole.Width % 2 == 0 && whole.Height % 2 == 0 && whole.Height != 0 && whole.Depth == 0;
    if (whole.NumChannels != 3 || !is_plain || (whole.Flags & CUDA_ARRAY3D_CUBEMAP) != 0) return CUDA_ERROR_INVALID_VALUE;
    std::vector<uint64_t> offsets, elements(planes.size());
    uint64_t bytes = 0;
    for (size_t i = 0; i < planes.size(); ++i) {
        CU_TRY(ArrayObject::check(context.device(), planes[i], &elements[i]));
        offsets.push_back(bytes);
        bytes += round_up(ArrayObject::bytes_of(planes[i], elements[i]), 64);
    }
    auto memory = ArrayMemory::create(context.device(), bytes);
    if (memory == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    auto array = std::make_shared<ArrayObject>(context.shared_from_this(), whole, 0, memory, 0);
    std::vector<uint64_t> handles;
    for (size_t i = 0; i < planes.size(); ++i) {
        auto plane = std::make_shared<ArrayObject>(context.shared_from_this(), planes[i], elements[i], memory, offsets[i]);
        plane->set_part();
        handles.push_back(process().arrays.add(std::move(plane)));
    }
    array->set_planes(std::move(handles));
    *out = as_handle<CUarray>(process().arrays.add(std::move(array)));
    return CUDA_SUCCESS;
}

CUresult create(CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR& descriptor) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Context* context = nullptr;
    CU_TRY(current_context(context));
    CU_TRY(check_unsafe_call());
    if (const auto planes = planes_of(descriptor); !planes.empty()) return create_planar(out, *context, descriptor, planes);
    uint64_t element = 0;
    CU_TRY(ArrayObject::check(context->device(), descriptor, &element));
    auto memory = ArrayMemory::create(context->device(), ArrayObject::bytes_of(descriptor, element));
    if (memory == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    auto array = std::make_shared<ArrayObject>(context->shared_from_this(), descriptor, element, std::move(memory), 0);
    *out = as_handle<CUarray>(process().arrays.add(std::move(array)));
    return CUDA_SUCCESS;
}

/// A level's size: halved, rounded down, never below one; layers and faces are not halved.
CUDA_ARRAY3D_DESCRIPTOR level_of(CUDA_ARRAY3D_DESCRIPTOR d, unsigned int level) {
    auto halved = [level](size_t size) { return size != 0 ? std::max<size_t>(size >> level, 1) : 0; };
    bool slices_stay = (d.Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)) != 0;
    d.Width = halved(d.Width);
    d.Height = halved(d.Height);
    if (!slices_stay) d.Depth = halved(d.Depth);
    return d;
}

unsigned int most_levels(const CUDA_ARRAY3D_DESCRIPTOR& d) {
    bool slices_stay = (d.Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)) != 0;
    size_t largest = std::max({d.Width, d.Height, slices_stay ? size_t{0} : d.Depth});
    unsigned int levels = 1;
    while (largest >>= 1) ++levels;
    return levels;
}

void wait_for(const Context& context) {
    for (const FencePtr& fence : Scheduler::instance().pending(*context.group())) fence->wait();
}

}  // namespace

CUresult cuArrayCreate_v2(CUarray* pHandle, const CUDA_ARRAY_DESCRIPTOR* pAllocateArray) {
    if (pAllocateArray == nullptr) return CUDA_ERROR_INVALID_VALUE;
    CUDA_ARRAY3D_DESCRIPTOR descriptor{};
    descriptor.Width = pAllocateArray->Width;
    descriptor.Height = pAllocateArray->Height;
    descriptor.Format = pAllocateArray->Format;
    descriptor.NumChannels = pAllocateArray->NumChannels;
    return create(pHandle, descriptor);
}

CUresult cuArray3DCreate_v2(CUarray* pHandle, const CUDA_ARRAY3D_DESCRIPTOR* pAllocateArray) {
    return pAllocateArray != nullptr ? create(pHandle, *pAllocateArray) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR* pArrayDescriptor, CUarray hArray) {
    if (pArrayDescriptor == nullptr) return CUDA_ERROR_INVALID_VALUE;
    ArrayPtr array;
    CU_TRY(find_array(hArray, array));
    const CUDA_ARRAY3D_DESCRIPTOR& d = array->descriptor();
    *pArrayDescriptor = {d.Width, d.Height, d.Format, d.NumChannels};
    return CUDA_SUCCESS;
}

CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR* pArrayDescriptor, CUarray hArray) {
    if (pArrayDescriptor == nullptr) return CUDA_ERROR_INVALID_VALUE;
    ArrayPtr array;
    CU_TRY(find_array(hArray, array));
    *pArrayDescriptor = array->descriptor();
    return CUDA_SUCCESS;
}

CUresult cuArrayDestroy(CUarray hArray) {
    ArrayPtr array;
    CU_TRY(find_array(hArray, array));
    if (array->is_part()) return CUDA_ERROR_INVALID_HANDLE;
    wait_for(array->context());
    for (uint64_t plane : array->planes()) process().arrays.remove(plane);
    process().arrays.remove(hArray);
    return CUDA_SUCCESS;
}

CUresult cuArrayGetPlane(CUarray* pPlaneArray, CUarray hArray, unsigned int planeIdx) {
    if (pPlaneArray == nullptr) return CUDA_ERROR_INVALID_VALUE;
    ArrayPtr array;
    CU_TRY(find_array(hArray, array));
    if (planeIdx >= array->planes().size()) return CUDA_ERROR_INVALID_VALUE;
    *pPlaneArray = as_handle<CUarray>(array->planes()[planeIdx]);
    return CUDA_SUCCESS;
}

CUresult cuArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES* sparseProperties, CUarray array) {
    if (sparseProperties == nullptr) return CUDA_ERROR_INVALID_VALUE;
    ArrayPtr found;
    if (array != nullptr) CU_TRY(find_array(array, found));
    return CUDA_ERROR_INVALID_VALUE;  // no array is sparse here
}

// Only arrays whose memory is mapped later, or in parts, have requirements: no array is such a one here.
CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS*, CUarray array, CUdevice) {
    ArrayPtr found;
    if (array != nullptr) CU_TRY(find_array(array, found));
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray* pHandle, const CUDA_ARRAY3D_DESCRIPTOR* pMipmappedArrayDesc,
                                unsigned int numMipmapLevels) {
    if (pHandle == nullptr || pMipmappedArrayDesc == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Context* context = nullptr;
    CU_TRY(current_context(context));
    CU_TRY(check_unsafe_call());
    uint64_t element = 0, bytes = 0;
    CU_TRY(ArrayObject::check(context->device(), *pMipmappedArrayDesc, &element));
    const unsigned int count = std::clamp(numMipmapLevels, 1U, most_levels(*pMipmappedArrayDesc));
    std::vector<uint64_t> offsets;
    for (unsigned int i = 0; i < count; ++i) {
        offsets.push_back(bytes);
        bytes += round_up(ArrayObject::bytes_of(level_of(*pMipmappedArrayDesc, i), element), 64);
    }
    auto memory = ArrayMemory::create(context->device(), bytes);
    if (memory == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    std::vector<ArrayPtr> levels;
    std::vector<uint64_t> handles;
    for (unsigned int i = 0; i < count; ++i) {
        levels.push_back(std::make_shared<ArrayObject>(context->shared_from_this(), level_of(*pMipmappedArrayDesc, i), element,
                                                       memory, offsets[i]));
        levels.back()->set_part();
        handles.push_back(process().arrays.add(levels.back()));
    }
    auto made = std::make_shared<MipmappedArray>(context->shared_from_this(), *pMipmappedArrayDesc, std::move(levels),
                                                 std::move(handles));
    *pHandle = as_handle<CUmipmappedArray>(process().mipmapped_arrays.add(std::move(made)));
    return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayGetLevel(CUarray* pLevelArray, CUmipmappedArray hMipmappedArray, unsigned int level) {
    if (pLevelArray == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::shared_ptr<MipmappedArray> array;
    CU_TRY(find_mipmapped(hMipmappedArray, array));
    if (level >= array->handles().size()) return CUDA_ERROR_INVALID_VALUE;
    *pLevelArray = as_handle<CUarray>(array->handles()[level]);
    return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray hMipmappedArray) {
    std::shared_ptr<MipmappedArray> array;
    CU_TRY(find_mipmapped(hMipmappedArray, array));
    wait_for(array->context());
    for (uint64_t level : array->handles()) process().arrays.remove(level);
    process().mipmapped_arrays.remove(hMipmappedArray);
    return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES* sparseProperties, CUmipmappedArray mipmap) {
    if (sparseProperties == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::shared_ptr<MipmappedArray> array;
    if (mipmap != nullptr) CU_TRY(find_mipmapped(mipmap, array));
    return CUDA_ERROR_INVALID_VALUE;  // no array is sparse here
}

CUresult cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS*, CUmipmappedArray mipmap, CUdevice) {
    std::shared_ptr<MipmappedArray> array;
    if (mipmap != nullptr) CU_TRY(find_mipmapped(mipmap, array));
    return CUDA_ERROR_INVALID_VALUE;
}

}  // namespace warpline::softgpu::driver
