// A hundred kernels as a graph, and one by one.
#include <memory>

#include "bench/case.h"
#include "bench/report/measure.h"

namespace warpline::bench {

namespace {

constexpr int k_graph_kernels = 100;

/// A graph of kernels that each add one, captured from a stream.
class CountingGraph {
public:
    static Result<std::unique_ptr<CountingGraph>> create() {
        Driver* driver = WL_TRY(Driver::instance());
        Kernels* kernels = WL_TRY(Kernels::instance(*driver));
        auto graph = std::unique_ptr<CountingGraph>(new CountingGraph(*driver, *kernels));
        if (CUresult r = driver->set_words(kernels->counter, 0, 1); r != CUDA_SUCCESS) return refused("cuMemsetD32", r);
        if (CUresult r = driver->stream_create(&graph->stream, CU_STREAM_DEFAULT); r != CUDA_SUCCESS)
            return refused("cuStreamCreate", r);
        if (CUresult r = graph->capture(); r != CUDA_SUCCESS) return refused("capturing a graph", r);
        return graph;
    }
    ~CountingGraph() {
        if (m_graph != nullptr) static_cast<void>(m_driver.graph_destroy(m_graph));
    }
    CountingGraph(const CountingGraph&) = delete;
    CountingGraph& operator=(const CountingGraph&) = delete;

    CUresult instantiate(CUgraphExec& executable) { return m_driver.instantiate(&executable, m_graph, 0); }
    CUresult launch_and_wait(CUgraphExec executable) {
        const CUresult r = m_driver.graph_launch(executable, stream);
        return r == CUDA_SUCCESS ? m_driver.stream_synchronize(stream) : r;
    }
    CUresult one_by_one() {
        CUresult r = CUDA_SUCCESS;
        for (int i = 0; i < k_graph_kernels && r == CUDA_SUCCESS; ++i) r = m_kernels.add_one(m_driver, stream);
        return r == CUDA_SUCCESS ? m_driver.stream_synchronize(stream) : r;
    }
    Result<std::string> counted(int rounds) {
        uint32_t got = 0;
        if (CUresult r = m_driver.to_host(&got, m_kernels.counter, sizeof got); r != CUDA_SUCCESS)
            return refused("cuMemcpyDtoH", r);
        if (got != static_cast<uint32_t>(rounds * k_graph_kernels))
            return Error{Code::internal, "not every kernel was executed", got};
        return std::to_string(got) + " kernels counted on the device";
    }
    void destroy(CUgraphExec executable) { static_cast<void>(m_driver.graph_exec_destroy(executable)); }

    CUstream stream = nullptr;

private:
    CountingGraph(Driver& driver, Kernels& kernels) : m_driver(driver), m_kernels(kernels) {}
    CUresult capture() {
        CUresult r = m_driver.begin_capture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
        for (int i = 0; i < k_graph_kernels && r == CUDA_SUCCESS; ++i) r = m_kernels.add_one(m_driver, stream);
        return r == CUDA_SUCCESS ? m_driver.end_capture(stream, &m_graph) : r;
    }
    Driver& m_driver;
    Kernels& m_kernels;
    CUgraph m_graph = nullptr;
};

Result<Samples> instantiations(int count) {
    const auto graph = WL_TRY(CountingGraph::create());
    Samples samples;
    for (int i = 0; i < count; ++i) {
        CUgraphExec executable = nullptr;
        const uint64_t began = now_ns();
        CUresult r = graph->instantiate(executable);
        samples.values.push_back(static_cast<double>(now_ns() - began) / 1e3);
        if (r == CUDA_SUCCESS) r = graph->launch_and_wait(executable);
        if (r != CUDA_SUCCESS) return refused("cuGraphInstantiate", r);
        graph->destroy(executable);
    }
    samples.verified = WL_TRY(graph->counted(count));
    return samples;
}

Result<Samples> rounds(int count, bool as_graph) {
    const auto graph = WL_TRY(CountingGraph::create());
    CUgraphExec executable = nullptr;
    if (CUresult r = graph->instantiate(executable); r != CUDA_SUCCESS) return refused("cuGraphInstantiate", r);
    Samples samples;
    for (int i = 0; i < count; ++i) {
        const uint64_t began = now_ns();
        const CUresult r = as_graph ? graph->launch_and_wait(executable) : graph->one_by_one();
        samples.values.push_back(static_cast<double>(now_ns() - began) / 1e3);
        if (r != CUDA_SUCCESS) return refused("cuGraphLaunch", r);
    }
    graph->destroy(executable);
    samples.verified = WL_TRY(graph->counted(count));
    return samples;
}

}  // namespace

std::vector<Measure> graph_measures(const Effort& effort) {
    const int count = effort.calls / 10;
    const auto measure = [](const char* id, const char* title, std::function<Result<Samples>()> take) {
        return Measure{{.id = std::string("graphs/") + id, .section = "graphs", .title = title, .unit = "us"}, std::move(take)};
    };
    return {
        measure("instantiate", "instantiating a graph of 100 kernels", [=] { return instantiations(count); }),
        measure("launch", "its launch and the wait", [=] { return rounds(count, true); }),
        measure("one-by-one", "100 launches and the wait", [=] { return rounds(count, false); }),
    };
}

}  // namespace warpline::bench
