// Launches that are refused for their arguments: which code, and that nothing of it stays.
#include "tests/gpu/probe/question.h"

namespace warpline::probe {

namespace {

struct Shape3 {
    unsigned gx, gy, gz, bx, by, bz;
};

/// A launch of `empty` in this shape; then a launch that is in order, and a wait, tell that the first left nothing behind.
int launch(Asker& a, const Shape3& s, unsigned shared_bytes = 0) {
    const CUfunction function = a.fixtures.function("empty");
    const int result =
        WL_CU(a.driver, cuLaunchKernel)(function, s.gx, s.gy, s.gz, s.bx, s.by, s.bz, shared_bytes, nullptr, nullptr, nullptr);
    a.value("later_launch", WL_CU(a.driver, cuLaunchKernel)(function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
    a.value("later_wait", WL_CU(a.driver, cuCtxSynchronize)());
    return result;
}

int launch_ex(Asker& a, const Shape3& s, CUlaunchAttribute* attributes = nullptr, unsigned count = 0) {
    CUlaunchConfig config{};
    config.gridDimX = s.gx, config.gridDimY = s.gy, config.gridDimZ = s.gz;
    config.blockDimX = s.bx, config.blockDimY = s.by, config.blockDimZ = s.bz;
    config.attrs = attributes;
    config.numAttrs = count;
    const int result = WL_CU(a.driver, cuLaunchKernelEx)(&config, a.fixtures.function("empty"), nullptr, nullptr);
    a.value("later_wait", WL_CU(a.driver, cuCtxSynchronize)());
    return result;
}

void add_shapes(const Group& ask) {
    const std::pair<const char*, Shape3> shapes[] = {
        {"grid-x=0", {0, 1, 1, 1, 1, 1}},         {"grid-y=0", {1, 0, 1, 1, 1, 1}},
        {"grid-z=0", {1, 1, 0, 1, 1, 1}},         {"block-x=0", {1, 1, 1, 0, 1, 1}},
        {"block-y=0", {1, 1, 1, 1, 0, 1}},        {"block-z=0", {1, 1, 1, 1, 1, 0}},
        {"block-x=2048", {1, 1, 1, 2048, 1, 1}},  {"block-x=4096", {1, 1, 1, 4096, 1, 1}},
        {"block-z=65", {1, 1, 1, 1, 1, 65}},      {"block=32x32x2", {1, 1, 1, 32, 32, 2}},
        {"grid-y=65536", {1, 65536, 1, 1, 1, 1}}, {"grid-z=65536", {1, 1, 65536, 1, 1, 1}},
    };
    for (const auto& [name, shape] : shapes) {
        ask(std::string("launch/") + name, [s = shape](Asker& a) { return launch(a, s); });
        ask(std::string("launch-ex/") + name, [s = shape](Asker& a) { return launch_ex(a, s); });
    }
}

}  // namespace

void add_launches(Questions& all) {
    const Group ask(all, Stage::context, "launches");
    add_shapes(ask);
    ask("launch/shared-too-large", [](Asker& a) { return launch(a, {1, 1, 1, 1, 1, 1}, 1 << 28); });
    ask("launch/above-maxntid", [](Asker& a) {
        const int result =
            WL_CU(a.driver, cuLaunchKernel)(a.fixtures.function("bounded"), 1, 1, 1, 128, 1, 1, 0, nullptr, nullptr, nullptr);
        a.value("later_wait", WL_CU(a.driver, cuCtxSynchronize)());
        return result;
    });
    ask("launch/null-parameter", [](Asker& a) {
        CUdeviceptr where = a.fixtures.device_memory();
        void* parameters[] = {&where, nullptr};
        const int result =
            WL_CU(a.driver, cuLaunchKernel)(a.fixtures.function("add"), 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr);
        a.value("later_wait", WL_CU(a.driver, cuCtxSynchronize)());
        return result;
    });
    ask("launch/null-parameters", [](Asker& a) {
        const int result =
            WL_CU(a.driver, cuLaunchKernel)(a.fixtures.function("add"), 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr);
        a.value("later_wait", WL_CU(a.driver, cuCtxSynchronize)());
        return result;
    });
    ask("launch/parameters-and-extra", [](Asker& a) {
        CUdeviceptr where = a.fixtures.device_memory();
        unsigned what = 1;
        void* parameters[] = {&where, &what};
        unsigned char packed[12] = {};
        size_t size = sizeof packed;
        void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
        const int result =
            WL_CU(a.driver, cuLaunchKernel)(a.fixtures.function("add"), 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, extra);
        a.value("later_wait", WL_CU(a.driver, cuCtxSynchronize)());
        return result;
    });
    ask("launch/extra-alone", [](Asker& a) {
        struct {
            CUdeviceptr where;
            unsigned what;
        } packed = {a.fixtures.device_memory(), 1};
        size_t size = 12;
        void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
        const int result =
            WL_CU(a.driver, cuLaunchKernel)(a.fixtures.function("add"), 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra);
        a.value("later_wait", WL_CU(a.driver, cuCtxSynchronize)());
        return result;
    });
    ask("launch-ex/null-config", [](Asker& a) {
        return static_cast<int>(WL_CU(a.driver, cuLaunchKernelEx)(nullptr, a.fixtures.function("empty"), nullptr, nullptr));
    });
    ask("launch-ex/cluster-0", [](Asker& a) {
        CUlaunchAttribute attribute{};
        attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
        attribute.value.clusterDim.x = 0, attribute.value.clusterDim.y = attribute.value.clusterDim.z = 1;
        const int result = launch_ex(a, {1, 1, 1, 1, 1, 1}, &attribute, 1);
        a.value("refused", result != CUDA_SUCCESS);
        return result;
    });
    ask("launch-ex/cluster-does-not-divide", [](Asker& a) {
        CUlaunchAttribute attribute{};
        attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
        attribute.value.clusterDim.x = 2, attribute.value.clusterDim.y = attribute.value.clusterDim.z = 1;
        const int result = launch_ex(a, {3, 1, 1, 1, 1, 1}, &attribute, 1);
        a.value("refused", result != CUDA_SUCCESS);
        return result;
    });
    ask("launch-ex/unknown-attribute-15", [](Asker& a) {
        CUlaunchAttribute attribute{};
        attribute.id = static_cast<CUlaunchAttributeID>(15);
        const int result = launch_ex(a, {1, 1, 1, 1, 1, 1}, &attribute, 1);
        a.value("refused", result != CUDA_SUCCESS);
        return result;
    });
    ask("launch-ex/unknown-attribute-9999", [](Asker& a) {
        CUlaunchAttribute attribute{};
        attribute.id = static_cast<CUlaunchAttributeID>(9999);
        return launch_ex(a, {1, 1, 1, 1, 1, 1}, &attribute, 1);
    });
    ask("launch-ex/null-attributes", [](Asker& a) { return launch_ex(a, {1, 1, 1, 1, 1, 1}, nullptr, 1); });
    ask("launch/cooperative-too-large", [](Asker& a) {
        const int result = WL_CU(a.driver, cuLaunchCooperativeKernel)(a.fixtures.function("empty"), 1 << 24, 1, 1, 1024, 1, 1,
                                                                      0, nullptr, nullptr);
        a.value("later_wait", WL_CU(a.driver, cuCtxSynchronize)());
        return result;
    });
    ask("launch/null-function", [](Asker& a) {
        return static_cast<int>(WL_CU(a.driver, cuLaunchKernel)(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
    });
}

}  // namespace warpline::probe
