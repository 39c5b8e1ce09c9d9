// Chooses the CPU level, and registers its handlers.
#include <cstdlib>
#include <string_view>

#include "common/log/log.h"
#include "softgpu/isa/families.h"
#include "softgpu/isa/level/tables.h"

namespace warpline::softgpu::isa {

namespace {

enum class Level { none, base, v2, v3, v4 };

/// The best level that the CPU has. SOFTGPU_CPU_LEVEL (v2, v3, v4) asks for a lower one, so that all of them can be tested
/// anywhere.
Level cpu_level() {
#if defined(__x86_64__)
    Level best = Level::v2;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2")) {
        best = Level::v3;
        if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
            __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd")) {
            best = Level::v4;
        }
    }
    const char* asked = std::getenv("SOFTGPU_CPU_LEVEL");
    if (asked == nullptr) return best;
    std::string_view name = asked;
    Level wanted = name == "v2" ? Level::v2 : name == "v3" ? Level::v3 : Level::v4;
    return wanted < best ? wanted : best;
#else
    return Level::base;
#endif
}

template <typename... Tables>
void add_all(Registry& registry, Tables... tables) {
    (registry.add(tables), ...);
}

#define WL_ADD_LEVEL(level)                                                                                                  \
    add_all(registry, level::integer_rows(), level::compare_rows(), level::float_rows(), level::convert_rows(),              \
            level::memory_rows(), level::half_rows(), level::half_convert_rows(), level::half_compare_rows(),                \
            level::matrix_rows(), level::collective_rows(), level::divide_rows(), level::texture_rows(), level::bits_rows(), \
            level::carry_rows(), level::rounding_rows())

}  // namespace

void register_level_families(Registry& registry) {
    Level best = cpu_level();
    // From low to high: a name that comes again replaces the earlier one.
#if defined(WL_HAVE_LEVEL_base)
    WL_ADD_LEVEL(base);
#endif
#if defined(WL_HAVE_LEVEL_v2)
    if (best == Level::v2) WL_ADD_LEVEL(v2);
#endif
#if defined(WL_HAVE_LEVEL_v3)
    if (best == Level::v3) WL_ADD_LEVEL(v3);
#if !defined(WL_HAVE_LEVEL_v4)
    if (best == Level::v4) WL_ADD_LEVEL(v3);
#endif
#endif
#if defined(WL_HAVE_LEVEL_v4)
    if (best == Level::v4) WL_ADD_LEVEL(v4);
#endif
    WL_LOG(debug, "softgpu", "handlers for x86-64-v{}", int(best) - int(Level::base) + 1);
}

}  // namespace warpline::softgpu::isa
