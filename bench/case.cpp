#include "bench/case.h"

#include <algorithm>

namespace warpline::bench {

double quantile(std::vector<uint64_t>& samples, double fraction) {
    if (samples.empty()) return 0;
    auto at = samples.begin() + static_cast<ptrdiff_t>(fraction * static_cast<double>(samples.size() - 1));
    std::nth_element(samples.begin(), at, samples.end());
    return static_cast<double>(*at);
}

std::vector<Metric> distribution(std::vector<uint64_t>& samples, const char* unit, double scale) {
    return {{"median", quantile(samples, 0.5) / scale, unit}, {"p99", quantile(samples, 0.99) / scale, unit}};
}

}  // namespace warpline::bench
