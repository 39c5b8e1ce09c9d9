// The variables of the program's environment that its driver heeds.
#include "client/session/environment.h"

#include <cstdlib>

#include "cuda/abi/driver_settings.h"

namespace warpline::client {

uint64_t driver_settings() {
    static const uint64_t settings =
        cuda::abi::read_driver_settings([](const char* name) -> const char* { return std::getenv(name); });
    return settings;
}

bool loads_eagerly() { return (driver_settings() & cuda::abi::k_eager_loading) != 0; }

bool launches_block() {
    static const bool wanted = [] {
        const char* value = std::getenv("CUDA_LAUNCH_BLOCKING");
        return value && std::atoi(value) != 0;
    }();
    return wanted;
}

}  // namespace warpline::client
