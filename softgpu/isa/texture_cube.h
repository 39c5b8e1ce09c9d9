// Faces of cube maps. Source: CUDA C++ Programming Guide, "Cubemap Textures".
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace warpline::softgpu::isa {

struct CubePlace {
    uint32_t face = 0;   ///< +x -x +y -y +z -z
    float s = 0, t = 0;  ///< 0 … 1 on the face
};

inline CubePlace cube_place(const float* direction) {
    const float x = direction[0], y = direction[1], z = direction[2];
    const float ax = std::fabs(x), ay = std::fabs(y), az = std::fabs(z);
    CubePlace out;
    float major, s, t;
    if (ax > ay && ax > az) {
        out.face = x >= 0 ? 0 : 1;
        major = ax;
        s = x >= 0 ? -z : z;
        t = -y;
    } else if (ay > az) {
        out.face = y >= 0 ? 2 : 3;
        major = ay;
        s = x;
        t = y >= 0 ? z : -z;
    } else {
        out.face = std::signbit(z) ? 5 : 4;
        major = az;
        s = std::signbit(z) ? -x : x;
        t = -y;
    }
    out.s = major > 0 ? (s / major + 1) / 2 : 0.5f;
    out.t = major > 0 ? (t / major + 1) / 2 : 0.5f;
    return out;
}

/// The direction of a place on a face whose edges lie at s, t = -1 and 1.
inline void cube_direction(uint32_t face, float s, float t, float* out) {
    const float k_table[6][3] = {{1, -t, -s}, {-1, -t, s}, {s, 1, t}, {s, -1, -t}, {s, -t, 1}, {-s, -t, -1}};
    for (int d = 0; d < 3; ++d) out[d] = k_table[face][d];
}

/// A texel beyond the edge of a face is one of the next face: the one in the direction of its centre.
inline void cross_edge(uint32_t& face, int64_t& i, int64_t& j, uint32_t size) {
    const auto n = int64_t{size};
    if (i >= 0 && i < n && j >= 0 && j < n) return;
    float direction[3];
    cube_direction(face, float(2 * i + 1 - n) / float(n), float(2 * j + 1 - n) / float(n), direction);
    CubePlace place = cube_place(direction);
    face = place.face;
    auto index = [n](float at) { return std::min(std::max<int64_t>(int64_t(std::floor(at * float(n))), 0), n - 1); };
    i = index(place.s);
    j = index(place.t);
}

}  // namespace warpline::softgpu::isa
