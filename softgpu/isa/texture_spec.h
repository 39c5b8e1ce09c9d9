// What tex and tld4 do, decoded. Read by handlers that are compiled once per CPU level: plain data, no C++ library.
#pragma once

#include "softgpu/isa/row.h"

namespace warpline::softgpu::isa {

/// The first operand of texture and surface instructions: a row of handles; or the address of a variable (a .texref or
/// .surfref) that holds one.
struct HandleOperand {
    int32_t slot = 0;
    bool is_variable = false;
};

/// Geometry of an instruction.
struct TextureGeometry {
    uint8_t dimensions = 2;  ///< coordinates within a layer; 3 for cubes
    bool layered = false, cube = false;
};

enum class TextureResult : uint8_t { words, halves, pairs };

struct TextureSpec {
    HandleOperand handle;
    TextureGeometry geometry;
    bool integer_coordinates = false;
    bool gathers = false;
    uint32_t component = 0;
    TextureResult result = TextureResult::words;
    int32_t layer = 0;
    int32_t coordinates[3] = {};
    uint32_t coordinate_count = 0;
    bool has_level = false, has_gradients = false, has_offset = false, has_predicate = false;
    int32_t level = 0, along_x[3] = {}, along_y[3] = {}, offset[3] = {};
    int32_t d[4] = {};
    int32_t predicate = 0;
};

/// The general case, lane by lane; extra is a TextureSpec.
Flow fetch_lanes(Warp& warp, const Instr& instr, uint32_t mask);

}  // namespace warpline::softgpu::isa
