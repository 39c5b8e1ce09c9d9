// The round trips that `warpline ping` measures and prints.
#include <algorithm>
#include <cstdio>

#include "client/cli/devices.h"
#include "client/cli/survey.h"

namespace warpline::cli {

int ping(const std::vector<std::string>& servers, int count) {
    bool all_reached = !servers.empty();
    for (const std::string& server : servers) {
        Survey found = survey(server, count);
        all_reached &= found.reached;
        if (!found.reached) {
            std::printf("%s: unreachable (CUDA error %d)\n", server.c_str(), found.cuda_error);
            continue;
        }
        auto& trips = found.round_trips_us;
        std::sort(trips.begin(), trips.end());
        std::printf("%s: connected in %.1f ms, driver %d.%d, %zu device%s\n", server.c_str(), found.connect_ms,
                    found.driver_version / 1000, found.driver_version % 1000 / 10, found.devices.size(),
                    found.devices.size() == 1 ? "" : "s");
        if (!trips.empty())
            std::printf("  %zu round trips: min %.1f us, median %.1f us, max %.1f us\n", trips.size(), trips.front(),
                        trips[trips.size() / 2], trips.back());
    }
    return all_reached ? 0 : 1;
}

}  // namespace warpline::cli
