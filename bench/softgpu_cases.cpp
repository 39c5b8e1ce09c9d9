// Kernels on the software GPU's engine alone: five shapes of work, each against a scalar loop of the same run.

#include "bench/case.h"

namespace warpline::bench {

std::vector<Case> softgpu_cases() { return {}; }

}  // namespace warpline::bench
