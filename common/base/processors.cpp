// The scheduler's answer, and the control group's.
#include "common/base/processors.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>

namespace warpline {

namespace {

/// The second version's; the first one, and groups above our own, are not asked.
unsigned allowed_by_control_group() {
    std::ifstream file("/sys/fs/cgroup/cpu.max");
    double quota = 0, period = 0;
    if (!(file >> quota >> period) || period <= 0) return std::numeric_limits<unsigned>::max();  // "max", or there is none
    return static_cast<unsigned>(std::ceil(quota / period));
}

}  // namespace

unsigned processors() {
    cpu_set_t set;
    CPU_ZERO(&set);
    const unsigned allowed = sched_getaffinity(0, sizeof set, &set) == 0 ? static_cast<unsigned>(CPU_COUNT(&set)) : 1;
    return std::max(1u, std::min(allowed, allowed_by_control_group()));
}

}  // namespace warpline
