// Texture and surface references. CUDA 12's runtime gave them up; programs on the driver interface and old PTX still have them.
#include "softgpu/driver/code/module.h"
#include "softgpu/driver/context/context.h"
#include "softgpu/driver/device/device.h"
#include "softgpu/driver/memory/memory.h"
#include "softgpu/driver/process/process.h"
#include "softgpu/driver/texture/texture.h"

namespace warpline::softgpu::driver {

namespace {

using ReferencePtr = std::shared_ptr<TextureReference>;

CUresult find(CUtexref handle, ReferencePtr& reference) {
    if (handle == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    reference = process().texrefs.find(handle);
    return reference != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

/// Changes a reference's properties and binds it anew.
template <typename Change>
CUresult change(CUtexref handle, Change apply) {
    ReferencePtr reference;
    CU_TRY(find(handle, reference));
    CU_TRY(apply(*reference));
    return reference->bind();
}

template <typename T, typename Read>
CUresult get(T* out, CUtexref handle, Read read) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    ReferencePtr reference;
    CU_TRY(find(handle, reference));
    return read(*reference, *out);
}

}  // namespace

CUresult cuTexRefCreate(CUtexref* pTexRef) {
    if (pTexRef == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Context* context = nullptr;
    CU_TRY(current_context(context));
    auto made = std::make_shared<TextureReference>(context->shared_from_this(), 0);
    *pTexRef = as_handle<CUtexref>(process().texrefs.add(std::move(made)));
    return CUDA_SUCCESS;
}

CUresult cuTexRefDestroy(CUtexref hTexRef) {
    ReferencePtr reference;
    CU_TRY(find(hTexRef, reference));
    process().texrefs.remove(hTexRef);
    return CUDA_SUCCESS;
}

CUresult cuTexRefSetArray(CUtexref hTexRef, CUarray hArray, unsigned int Flags) {
    if ((Flags & ~static_cast<unsigned int>(CU_TRSA_OVERRIDE_FORMAT)) != 0) return CUDA_ERROR_INVALID_VALUE;
    auto array = process().arrays.find(hArray);
    if (array == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    return change(hTexRef, [&](TextureReference& reference) {
        reference.resource = {};
        reference.resource.resType = CU_RESOURCE_TYPE_ARRAY;
        reference.resource.res.array.hArray = hArray;
        reference.format = array->descriptor().Format;
        reference.channels = static_cast<int>(array->descriptor().NumChannels);
        reference.has_resource = true;
        return CUDA_SUCCESS;
    });
}

CUresult cuTexRefSetMipmappedArray(CUtexref hTexRef, CUmipmappedArray hMipmappedArray, unsigned int Flags) {
    if ((Flags & ~static_cast<unsigned int>(CU_TRSA_OVERRIDE_FORMAT)) != 0) return CUDA_ERROR_INVALID_VALUE;
    auto array = process().mipmapped_arrays.find(hMipmappedArray);
    if (array == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    return change(hTexRef, [&](TextureReference& reference) {
        reference.resource = {};
        reference.resource.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
        reference.resource.res.mipmap.hMipmappedArray = hMipmappedArray;
        reference.format = array->descriptor().Format;
        reference.channels = static_cast<int>(array->descriptor().NumChannels);
        reference.has_resource = true;
        return CUDA_SUCCESS;
    });
}

CUresult cuTexRefSetAddress_v2(size_t* ByteOffset, CUtexref hTexRef, CUdeviceptr dptr, size_t bytes) {
    return change(hTexRef, [&](TextureReference& reference) {
        Context* context = nullptr;
        CU_TRY(current_context(context));
        auto alignment = static_cast<uint64_t>(context->device().attribute(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT));
        size_t offset = dptr % alignment;
        if (ByteOffset == nullptr && offset != 0) return CUDA_ERROR_INVALID_VALUE;
        if (ByteOffset != nullptr) *ByteOffset = offset;
        reference.resource = {};
        reference.resource.resType = CU_RESOURCE_TYPE_LINEAR;
        reference.resource.res.linear = {dptr - offset, reference.format, static_cast<unsigned int>(reference.channels),
                                         bytes + offset};
        reference.has_resource = dptr != 0;
        return CUDA_SUCCESS;
    });
}

CUresult cuTexRefSetAddress2D_v3(CUtexref hTexRef, const CUDA_ARRAY_DESCRIPTOR* desc, CUdeviceptr dptr, size_t Pitch) {
    if (desc == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return change(hTexRef, [&](TextureReference& reference) {
        reference.resource = {};
        reference.resource.resType = CU_RESOURCE_TYPE_PITCH2D;
        reference.resource.res.pitch2D = {dptr, desc->Format, desc->NumChannels, desc->Width, desc->Height, Pitch};
        reference.format = desc->Format;
        reference.channels = static_cast<int>(desc->NumChannels);
        reference.has_resource = true;
        return CUDA_SUCCESS;
    });
}

CUresult cuTexRefSetFormat(CUtexref hTexRef, CUarray_format fmt, int NumPackedComponents) {
    return change(hTexRef, [&](TextureReference& reference) {
        reference.format = fmt;
        reference.channels = NumPackedComponents;
        if (reference.resource.resType == CU_RESOURCE_TYPE_LINEAR) {
            reference.resource.res.linear.format = fmt;
            reference.resource.res.linear.numChannels = static_cast<unsigned int>(NumPackedComponents);
        }
        return CUDA_SUCCESS;
    });
}

CUresult cuTexRefSetAddressMode(CUtexref hTexRef, int dim, CUaddress_mode am) {
    if (dim < 0 || dim > 2) return CUDA_ERROR_INVALID_VALUE;
    return change(hTexRef, [&](TextureReference& reference) {
        reference.texture.addressMode[dim] = am;
        return CUDA_SUCCESS;
    });
}

CUresult cuTexRefSetFilterMode(CUtexref hTexRef, CUfilter_mode fm) {
    return change(hTexRef, [&](TextureReference& reference) {
        reference.texture.filterMode = fm;
        return CUDA_SUCCESS;
    });
}

CUresult cuTexRefSetMipmapFilterMode(CUtexref hTexRef, CUfilter_mode fm) {
    if (fm != CU_TR_FILTER_MODE_POINT && fm != CU_TR_FILTER_MODE_LINEAR) return CUDA_ERROR_INVALID_VALUE;
    return change(hTexRef, [&](TextureReference& reference) {
        reference.texture.mipmapFilterMode = fm;
        return CUDA_SUCCESS;
    });
}

CUresult cuTexRefSetMipmapLevelBias(CUtexref hTexRef, float bias) {
    return change(hTexRef, [&](TextureReference& reference) {
        reference.texture.mipmapLevelBias = bias;
        return CUDA_SUCCESS;
    });
}

CUresult cuTexRefSetMipmapLevelClamp(CUtexref hTexRef, float minMipmapLevelClamp, float maxMipmapLevelClamp) {
    return change(hTexRef, [&](TextureReference& reference) {
        reference.texture.minMipmapLevelClamp = minMipmapLevelClamp;
        reference.texture.maxMipmapLevelClamp = maxMipmapLevelClamp;
        return CUDA_SUCCESS;
    });
}

CUresult cuTexRefSetMaxAnisotropy(CUtexref hTexRef, unsigned int maxAniso) {
    return change(hTexRef, [&](TextureReference& reference) {
        reference.texture.maxAnisotropy = maxAniso;
        return CUDA_SUCCESS;
    });
}

CUresult cuTexRefSetBorderColor(CUtexref hTexRef, float* pBorderColor) {
    if (pBorderColor == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return change(hTexRef, [&](TextureReference& reference) {
        std::copy_n(pBorderColor, 4, reference.texture.borderColor);
        return CUDA_SUCCESS;
    });
}

CUresult cuTexRefSetFlags(CUtexref hTexRef, unsigned int Flags) {
    constexpr unsigned int k_flags = CU_TRSF_READ_AS_INTEGER | CU_TRSF_NORMALIZED_COORDINATES | CU_TRSF_SRGB |
                                     CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION | CU_TRSF_SEAMLESS_CUBEMAP;
    if ((Flags & ~k_flags) != 0) return CUDA_ERROR_INVALID_VALUE;
    return change(hTexRef, [&](TextureReference& reference) {
        reference.texture.flags = Flags;
        return CUDA_SUCCESS;
    });
}

CUresult cuTexRefGetAddress_v2(CUdeviceptr* pdptr, CUtexref hTexRef) {
    return get(pdptr, hTexRef, [](TextureReference& reference, CUdeviceptr& out) {
        if (!reference.has_resource) return CUDA_ERROR_INVALID_VALUE;
        if (reference.resource.resType == CU_RESOURCE_TYPE_LINEAR) {
            out = reference.resource.res.linear.devPtr;
        } else if (reference.resource.resType == CU_RESOURCE_TYPE_PITCH2D) {
            out = reference.resource.res.pitch2D.devPtr;
        } else {
            return CUDA_ERROR_INVALID_VALUE;
        }
        return CUDA_SUCCESS;
    });
}

CUresult cuTexRefGetArray(CUarray* phArray, CUtexref hTexRef) {
    return get(phArray, hTexRef, [](TextureReference& reference, CUarray& out) {
        bool bound = reference.has_resource && reference.resource.resType == CU_RESOURCE_TYPE_ARRAY;
        if (!bound) return CUDA_ERROR_INVALID_VALUE;
        out = reference.resource.res.array.hArray;
        return CUDA_SUCCESS;
    });
}

CUresult cuTexRefGetMipmappedArray(CUmipmappedArray* phMipmappedArray, CUtexref hTexRef) {
    return get(phMipmappedArray, hTexRef, [](TextureReference& reference, CUmipmappedArray& out) {
        bool bound = reference.has_resource && reference.resource.resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
        if (!bound) return CUDA_ERROR_INVALID_VALUE;
        out = reference.resource.res.mipmap.hMipmappedArray;
        return CUDA_SUCCESS;
    });
}

CUresult cuTexRefGetAddressMode(CUaddress_mode* pam, CUtexref hTexRef, int dim) {
    if (dim < 0 || dim > 2) return CUDA_ERROR_INVALID_VALUE;
    return get(pam, hTexRef, [dim](TextureReference& reference, CUaddress_mode& out) {
        out = reference.texture.addressMode[dim];
        return CUDA_SUCCESS;
    });
}

CUresult cuTexRefGetFilterMode(CUfilter_mode* pfm, CUtexref hTexRef) {
    return get(pfm, hTexRef, [](TextureReference& reference, CUfilter_mode& out) {
        out = reference.texture.filterMode;
        return CUDA_SUCCESS;
    });
}

CUresult cuTexRefGetFormat(CUarray_format* pFormat, int* pNumChannels, CUtexref hTexRef) {
    ReferencePtr reference;
    CU_TRY(find(hTexRef, reference));
    if (pFormat != nullptr) *pFormat = reference->format;
    if (pNumChannels != nullptr) *pNumChannels = reference->channels;
    return CUDA_SUCCESS;
}

CUresult cuTexRefGetMipmapFilterMode(CUfilter_mode* pfm, CUtexref hTexRef) {
    return get(pfm, hTexRef, [](TextureReference& reference, CUfilter_mode& out) {
        out = reference.texture.mipmapFilterMode;
        return CUDA_SUCCESS;
    });
}

CUresult cuTexRefGetMipmapLevelBias(float* pbias, CUtexref hTexRef) {
    return get(pbias, hTexRef, [](TextureReference& reference, float& out) {
        out = reference.texture.mipmapLevelBias;
        return CUDA_SUCCESS;
    });
}

CUresult cuTexRefGetMipmapLevelClamp(float* pminMipmapLevelClamp, float* pmaxMipmapLevelClamp, CUtexref hTexRef) {
    if (pmaxMipmapLevelClamp == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return get(pminMipmapLevelClamp, hTexRef, [&](TextureReference& reference, float& out) {
        out = reference.texture.minMipmapLevelClamp;
        *pmaxMipmapLevelClamp = reference.texture.maxMipmapLevelClamp;
        return CUDA_SUCCESS;
    });
}

CUresult cuTexRefGetMaxAnisotropy(int* pmaxAniso, CUtexref hTexRef) {
    return get(pmaxAniso, hTexRef, [](TextureReference& reference, int& out) {
        out = static_cast<int>(reference.texture.maxAnisotropy);
        return CUDA_SUCCESS;
    });
}

CUresult cuTexRefGetBorderColor(float* pBorderColor, CUtexref hTexRef) {
    return get(pBorderColor, hTexRef, [](TextureReference& reference, float& out) {
        std::copy_n(reference.texture.borderColor, 4, &out);
        return CUDA_SUCCESS;
    });
}

CUresult cuTexRefGetFlags(unsigned int* pFlags, CUtexref hTexRef) {
    return get(pFlags, hTexRef, [](TextureReference& reference, unsigned int& out) {
        out = reference.texture.flags;
        return CUDA_SUCCESS;
    });
}

CUresult cuSurfRefSetArray(CUsurfref hSurfRef, CUarray hArray, unsigned int Flags) {
    if (Flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (hSurfRef == nullptr || hArray == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    auto reference = process().surfrefs.find(hSurfRef);
    return reference != nullptr ? reference->bind(hArray) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuSurfRefGetArray(CUarray* phArray, CUsurfref hSurfRef) {
    if (phArray == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (hSurfRef == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    auto reference = process().surfrefs.find(hSurfRef);
    if (reference == nullptr || reference->array() == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *phArray = reference->array();
    return CUDA_SUCCESS;
}

}  // namespace warpline::softgpu::driver
