// Handlers by level.
#pragma once

#include "softgpu/isa/row.h"

/// The tables of the files in this folder, one set per CPU level.
#define WL_DECLARE_LEVEL(level)               \
    namespace warpline::softgpu::isa::level { \
    Rows integer_rows();                      \
    Rows compare_rows();                      \
    Rows float_rows();                        \
    Rows convert_rows();                      \
    Rows memory_rows();                       \
    Rows half_rows();                         \
    Rows half_convert_rows();                 \
    Rows half_compare_rows();                 \
    Rows matrix_rows();                       \
    Rows collective_rows();                   \
    Rows divide_rows();                       \
    Rows texture_rows();                      \
    Rows bits_rows();                         \
    Rows carry_rows();                        \
    Rows rounding_rows();                     \
    }
WL_DECLARE_LEVEL(v2)
WL_DECLARE_LEVEL(v3)
WL_DECLARE_LEVEL(v4)
WL_DECLARE_LEVEL(base)
