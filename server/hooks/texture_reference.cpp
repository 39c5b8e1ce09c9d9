// Texture references to linear memory whose extent a structure says.
#include "server/gen/texture_reference_calls.gen.h"
#include "server/hooks/common.h"
#include "server/session/regions.h"

namespace warpline::server {

CUresult hook_server_cuTexRefSetAddress2D_v3(ServerCall& call, const CuTexRefSetAddress2DV3Args& args) {
    const auto set = WL_DRIVER(call, cuTexRefSetAddress2D_v3);
    const auto reference = WL_FIND(call, CUtexref, tex_ref, args.hTexRef);
    CUDA_ARRAY_DESCRIPTOR layout{};
    if (args.desc.size() != sizeof layout) return CUDA_ERROR_INVALID_VALUE;
    std::memcpy(&layout, args.desc.data(), sizeof layout);
    Region region;
    region.address = args.dptr;
    region.row_bytes = texture_row_bytes(layout.Format, layout.NumChannels, layout.Width);
    region.rows = layout.Height;
    region.pitch = args.pitch;
    WL_CUDA(check_region(call, region, Access::read));
    return set(reference, &layout, args.dptr, args.pitch);
}

}  // namespace warpline::server
