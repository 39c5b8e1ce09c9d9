// The two ends of a copy, of which CUDA's descriptions say the same under different names.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/abi/cuda_types.h"

namespace warpline::cuda::abi {

/// One end of a copy as the program describes it.
struct CopyEnd {
    enum class Which : uint8_t { source, destination };
    CUmemorytype type = CU_MEMORYTYPE_HOST;
    const void* host = nullptr;
    CUdeviceptr device = 0;
    CUarray array = nullptr;
    size_t x = 0, y = 0, z = 0, level = 0, pitch = 0, height = 0;
    CUcontext context = nullptr;
};

/// Where a description says it. Those of two dimensions say nothing of the third.
template <typename Copy, typename Host>
struct EndMembers {
    CUmemorytype Copy::*type;
    Host Copy::*host;
    CUdeviceptr Copy::*device;
    CUarray Copy::*array;
    size_t Copy::*x;
    size_t Copy::*y;
    size_t Copy::*pitch;
    size_t Copy::*z = nullptr;
    size_t Copy::*level = nullptr;
    size_t Copy::*height = nullptr;
};

template <typename Copy>
constexpr auto source_members() {
    EndMembers<Copy, const void*> at{&Copy::srcMemoryType, &Copy::srcHost, &Copy::srcDevice, &Copy::srcArray,
                                     &Copy::srcXInBytes,   &Copy::srcY,    &Copy::srcPitch};
    if constexpr (requires { &Copy::srcZ; }) at.z = &Copy::srcZ, at.level = &Copy::srcLOD, at.height = &Copy::srcHeight;
    return at;
}

template <typename Copy>
constexpr auto destination_members() {
    EndMembers<Copy, void*> at{&Copy::dstMemoryType, &Copy::dstHost, &Copy::dstDevice, &Copy::dstArray,
                               &Copy::dstXInBytes,   &Copy::dstY,    &Copy::dstPitch};
    if constexpr (requires { &Copy::dstZ; }) at.z = &Copy::dstZ, at.level = &Copy::dstLOD, at.height = &Copy::dstHeight;
    return at;
}

template <typename Copy, typename Visit>
auto with_members(CopyEnd::Which which, Visit visit) {
    return which == CopyEnd::Which::source ? visit(source_members<Copy>()) : visit(destination_members<Copy>());
}

/// What the description says of that end, contexts aside.
template <typename Copy>
CopyEnd end_of(const Copy& copy, CopyEnd::Which which) {
    return with_members<Copy>(which, [&](const auto& at) {
        CopyEnd end{copy.*at.type, copy.*at.host, copy.*at.device, copy.*at.array, copy.*at.x, copy.*at.y};
        end.pitch = copy.*at.pitch;
        if (at.z) end.z = copy.*at.z, end.level = copy.*at.level, end.height = copy.*at.height;
        return end;
    });
}

/// Has the description say so, contexts aside.
template <typename Copy>
void put_end(Copy& copy, CopyEnd::Which which, const CopyEnd& end) {
    with_members<Copy>(which, [&](const auto& at) {
        copy.*at.type = end.type, copy.*at.host = const_cast<void*>(end.host), copy.*at.device = end.device;
        copy.*at.array = end.array, copy.*at.x = end.x, copy.*at.y = end.y, copy.*at.pitch = end.pitch;
        if (at.z) copy.*at.z = end.z, copy.*at.level = end.level, copy.*at.height = end.height;
    });
}

}  // namespace warpline::cuda::abi
