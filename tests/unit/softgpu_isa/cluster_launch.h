// Launches of clusters, for tests.
#pragma once

#include "tests/unit/softgpu_isa/operation.h"

namespace warpline::softgpu::exec::test {

/// A module that ptxas accepts, too.
inline std::shared_ptr<Module> load_checked(Device& device, const std::string& body, const std::string& arch = "sm_90",
                                            const std::string& version = "8.6") {
    std::string ptx = ".version " + version + "\n.target " + arch + "\n.address_size 64\n" + body, messages;
    EXPECT_TRUE(ptxas_accepts(ptx, arch, messages)) << messages;
    return device.load(ptx);
}

/// Launches a kernel whose parameters are all of 8 bytes, in clusters.
inline Fault launch_clusters(Device& device, Module& module, std::string_view kernel, uint32_t blocks, uint32_t threads,
                             uint32_t cluster, const std::vector<uint64_t>& arguments) {
    auto function = module.function(kernel);
    EXPECT_NE(function, nullptr) << kernel;
    if (function == nullptr) return {1, "no such kernel"};
    Launch launch;
    launch.function = function.get();
    launch.grid = {blocks, 1, 1};
    launch.block = {threads, 1, 1};
    launch.cluster = {cluster, 1, 1};
    launch.params = std::as_bytes(std::span(arguments));
    return device.engine().launch(launch);
}

}  // namespace warpline::softgpu::exec::test
