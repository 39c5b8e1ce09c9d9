// The two locks of the process.
#include "softgpu/driver/space/memory_in_use.h"

namespace warpline::softgpu::driver {

std::shared_mutex& memory_use_mutex() {
    static auto* mutex = new std::shared_mutex;  // leaked on purpose: calls come after static destructors
    return *mutex;
}

std::shared_mutex& kernel_mutex() {
    static auto* mutex = new std::shared_mutex;  // leaked on purpose, as above
    return *mutex;
}

}  // namespace warpline::softgpu::driver
