// Programs of their own: how they start, how many share a server, and a loop such as a training's.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <sstream>

#include "bench/case.h"
#include "bench/report/child.h"
#include "bench/report/measure.h"
#include "bench/transport.h"

namespace warpline::bench {

namespace {

/// The four steps of one fresh process.
Result<StartTimes> started() {
    Child child = WL_TRY(Child::start({"--start-process"}));
    StartTimes times;
    std::istringstream words(child.read_line());
    words >> times.initialise >> times.context >> times.module >> times.kernel;
    if (!words || !child.ended_well()) return Error{Code::internal, "a fresh process failed: see above"};
    return times;
}

using Starts = std::optional<Result<std::vector<StartTimes>>>;

Result<std::vector<StartTimes>> all_starts(int count) {
    std::vector<StartTimes> all;
    for (int i = 0; i < count; ++i) all.push_back(WL_TRY(started()));
    return all;
}

std::vector<Measure> start_measures(int count) {
    struct Step {
        const char *id, *title;
        double (*of)(const StartTimes&);
    };
    static constexpr Step k_steps[] = {
        {"initialise", "cuInit: connecting, TLS, a worker", [](const StartTimes& t) { return t.initialise; }},
        {"context", "the context", [](const StartTimes& t) { return t.context; }},
        {"module", "loading a module and its kernel", [](const StartTimes& t) { return t.module; }},
        {"kernel", "the first launch and its result", [](const StartTimes& t) { return t.kernel; }},
        {"total", "until the first result", [](const StartTimes& t) { return t.initialise + t.context + t.module + t.kernel; }},
    };
    const auto starts = std::make_shared<Starts>();
    std::vector<Measure> measures;
    for (const Step& step : k_steps) {
        Figure figure{.id = std::string("start/") + step.id, .section = "start", .title = step.title, .unit = "ms"};
        measures.push_back({std::move(figure), [=, of = step.of]() -> Result<Samples> {
                                if (!*starts) *starts = all_starts(count);
                                if (!(*starts)->ok()) return (*starts)->error();
                                Samples samples{{}, "the first kernel's result"};
                                for (const StartTimes& times : (*starts)->value()) samples.values.push_back(of(times));
                                return samples;
                            }});
    }
    return measures;
}

/// What so many processes measure that begin together.
struct Clients {
    Samples rates;  ///< launches per second of all, for each run
    Samples steps;  ///< what each step of each client took, in microseconds
};

/// @param launches  of each step, before its wait
Result<Clients> clients(int count, int steps, int launches, int runs) {
    Clients measured;
    for (int run = 0; run < runs; ++run) {
        std::vector<Child> children;
        for (int i = 0; i < count; ++i)
            children.push_back(WL_TRY(
                Child::start({"--client-process", std::to_string(steps), "--client-launches", std::to_string(launches)})));
        for (Child& child : children)
            if (child.read_line() != "ready") return Error{Code::internal, "a client failed: see above"};
        const uint64_t began = now_ns();
        for (Child& child : children) child.write_line("go");
        bool good = true;
        for (Child& child : children) good &= child.read_line() == "done";
        const double took = static_cast<double>(now_ns() - began) * 1e-9;
        for (Child& child : children) {
            std::istringstream each(child.read_line());
            for (double us = 0; each >> us;) measured.steps.values.push_back(us);
            good &= child.ended_well();
        }
        if (!good) return Error{Code::internal, "a client failed: see above"};
        measured.rates.values.push_back(count * steps * launches / took);
    }
    measured.rates.verified = std::to_string(steps * launches) + " launches counted on the device by each client";
    measured.steps.verified = measured.rates.verified;
    return measured;
}

std::vector<Measure> clients_measures(int count, const Effort& effort) {
    const std::string number = std::to_string(count);
    Figure figure{.id = "clients/" + number,
                  .section = "clients",
                  .title = count == 1 ? "1 client" : number + " clients",
                  .unit = "steps/s",
                  .higher_is_better = true,
                  .series = "steps of all clients",
                  .x = static_cast<double>(count)};
    Figure step{.id = "sharing/" + number, .section = "sharing", .title = figure.title, .unit = "us"};
    const auto measured = std::make_shared<std::optional<Result<Clients>>>();
    const auto part = [=, steps = effort.steps, runs = effort.copies](Samples Clients::*wanted) -> Result<Samples> {
        if (!*measured) *measured = clients(count, steps, 1, runs);
        if (!(*measured)->ok()) return (*measured)->error();
        return (*measured)->value().*wanted;
    };
    return {{std::move(figure), [part] { return part(&Clients::rates); }},
            {std::move(step), [part] { return part(&Clients::steps); }}};
}

/// Programs whose steps are many launches and a wait.
Measure burst_measure(int count, const Effort& effort) {
    constexpr int k_launches = 1000;
    const int steps = std::max(2, effort.steps / 10);
    Figure figure{.id = "bursts/" + std::to_string(count),
                  .section = "bursts",
                  .title = count == 1 ? "1 client" : std::to_string(count) + " clients",
                  .unit = "k/s",
                  .higher_is_better = true,
                  .series = "launches of all clients",
                  .x = static_cast<double>(count)};
    return {std::move(figure), [=, runs = effort.copies]() -> Result<Samples> {
                Samples rates = WL_TRY(clients(count, steps, k_launches, runs)).rates;
                for (double& rate : rates.values) rate /= 1e3;
                return rates;
            }};
}

/// A loop such as a training's: each step a batch goes up, each layer is a kernel, and one word comes back.
class Training {
public:
    static constexpr uint32_t k_layers = 32, k_batch = 16384;  // words; a batch is 64 KiB

    static Result<std::unique_ptr<Training>> create() {
        Driver* driver = WL_TRY(Driver::instance());
        auto training = std::unique_ptr<Training>(new Training(*driver, *WL_TRY(Kernels::instance(*driver))));
        for (CUdeviceptr* memory : {&training->m_input, &training->m_state})
            if (CUresult r = driver->mem_alloc(memory, k_batch * 4); r != CUDA_SUCCESS) return refused("cuMemAlloc", r);
        if (CUresult r = driver->set_words(training->m_state, 0, k_batch); r != CUDA_SUCCESS) return refused("cuMemsetD32", r);
        return training;
    }
    ~Training() {
        for (const CUdeviceptr memory : {m_input, m_state})
            if (memory != 0) static_cast<void>(m_driver.mem_free(memory));
    }
    Training(const Training&) = delete;
    Training& operator=(const Training&) = delete;

    /// @return nanoseconds @errors internal, also for a wrong result
    Result<uint64_t> step(uint32_t number) {
        const std::vector<uint32_t> batch = random_words(k_batch * 4, number);
        uint32_t loss = 0;
        const uint64_t began = now_ns();
        CUresult r = m_driver.to_device(m_input, batch.data(), k_batch * 4);
        for (uint32_t layer = 1; layer <= k_layers && r == CUDA_SUCCESS; ++layer) r = launch_layer(layer);
        if (r == CUDA_SUCCESS) r = m_driver.to_host(&loss, m_state, sizeof loss);
        const uint64_t took = now_ns() - began;
        if (r != CUDA_SUCCESS) return refused("a training step", r);
        for (uint32_t i = 0; i < k_batch; ++i) m_expected[i] += batch[i] * (k_layers * (k_layers + 1) / 2);
        if (loss != m_expected[0]) return Error{Code::internal, "the loss of a step is wrong", number};
        return took;
    }

    Result<void> verify() {
        std::vector<uint32_t> got(k_batch);
        if (CUresult r = m_driver.to_host(got.data(), m_state, k_batch * 4); r != CUDA_SUCCESS)
            return refused("cuMemcpyDtoH", r);
        if (got != m_expected) return Error{Code::internal, "the state at the end is wrong"};
        return {};
    }

private:
    Training(Driver& driver, Kernels& kernels) : m_driver(driver), m_kernels(kernels), m_expected(k_batch) {}

    CUresult launch_layer(uint32_t layer) {
        constexpr unsigned k_threads = 256;
        uint32_t count = k_batch;
        void* arguments[] = {&m_state, &m_input, &layer, &count};
        return m_driver.launch(m_kernels.multiply_add, k_batch / k_threads, 1, 1, k_threads, 1, 1, 0, nullptr, arguments,
                               nullptr);
    }

    Driver& m_driver;
    Kernels& m_kernels;
    std::vector<uint32_t> m_expected;
    CUdeviceptr m_input = 0, m_state = 0;
};

Result<Samples> training(int steps) {
    const auto loop = WL_TRY(Training::create());
    WL_TRY(loop->step(0));  // does not count
    Samples samples;
    for (int i = 1; i <= steps; ++i)
        samples.values.push_back(static_cast<double>(WL_TRY(loop->step(static_cast<uint32_t>(i)))) / 1e6);
    WL_TRY(loop->verify());
    samples.verified = "the loss of each step, and 16,384 words at the end";
    return samples;
}

}  // namespace

std::vector<Measure> program_measures(const Effort& effort) {
    std::vector<Measure> measures = start_measures(effort.starts);
    for (int count = 1; count <= effort.clients; count *= 2)
        for (Measure& measure : clients_measures(count, effort)) measures.push_back(std::move(measure));
    for (int count = 1; count <= effort.clients; count *= 2) measures.push_back(burst_measure(count, effort));
    Figure step{.id = "training/step", .section = "training", .title = "64 KiB up, 32 kernels, a word back", .unit = "ms"};
    measures.push_back({std::move(step), [steps = effort.steps] { return training(steps); }});
    return measures;
}

std::vector<Measure> all_measures(const Effort& effort) {
    std::vector<Measure> all = limit_measures(effort);
    for (auto& more : {call_measures(effort), copy_measures(effort), graph_measures(effort), program_measures(effort)})
        all.insert(all.end(), more.begin(), more.end());
    return all;
}

int measure_process(const std::vector<std::string>& ids, const Effort& effort) {
    std::vector<Measure> all = all_measures(effort);
    for (const std::string& id : ids) {
        const auto found = std::find_if(all.begin(), all.end(), [&](const Measure& m) { return m.figure.id == id; });
        if (found == all.end()) return 2;
        Result<Samples> samples = found->take();
        if (!samples.ok()) {
            std::fprintf(stderr, "%s: %s (%u)\n", id.c_str(), samples.error().what, samples.error().detail);
            return 1;
        }
        found->figure.values = percentiles(std::move(samples->values));
        std::printf("%.9g\n", found->figure.median());
    }
    return 0;
}

int start_process() {
    const auto fail = [](const Error& error) {
        std::fprintf(stderr, "a fresh process: %s (%u)\n", error.what, error.detail);
        return 1;
    };
    const auto driver = Driver::instance();
    if (!driver.ok()) return fail(driver.error());
    const uint64_t began = now_ns();
    const auto kernels = Kernels::instance(**driver);
    if (!kernels.ok()) return fail(kernels.error());
    const uint64_t loaded = now_ns();
    uint32_t counted = 0;
    CUresult r = (*kernels)->add_one(**driver, nullptr);
    if (r == CUDA_SUCCESS) r = (*driver)->to_host(&counted, (*kernels)->counter, sizeof counted);
    const uint64_t done = now_ns();
    if (r != CUDA_SUCCESS) return fail(refused("the first launch", r));
    if (counted != 1) return fail({Code::internal, "the first kernel's result is wrong", counted});
    const Driver::Start& start = (*driver)->start_times();
    constexpr double k_ms = 1e6;
    std::printf("%.6f %.6f %.6f %.6f\n", static_cast<double>(start.initialise) / k_ms,
                static_cast<double>(start.context) / k_ms, static_cast<double>(loaded - began) / k_ms,
                static_cast<double>(done - loaded) / k_ms);
    return 0;
}

int client_process(int steps, int launches) {
    const auto driver = Driver::instance();
    if (!driver.ok()) return 1;
    const auto kernels = Kernels::instance(**driver);
    if (!kernels.ok()) return 1;
    CUresult r = (*driver)->synchronize();
    std::puts("ready");
    std::fflush(stdout);
    char line[8];
    if (r != CUDA_SUCCESS || std::fgets(line, sizeof line, stdin) == nullptr) return 1;
    std::string each;
    for (int i = 0; i < steps && r == CUDA_SUCCESS; ++i) {
        const uint64_t began = now_ns();
        for (int launch = 0; launch < launches && r == CUDA_SUCCESS; ++launch) r = (*kernels)->add_one(**driver, nullptr);
        if (r == CUDA_SUCCESS) r = (*driver)->synchronize();
        each += std::to_string(static_cast<double>(now_ns() - began) / 1e3) + ' ';
    }
    std::printf("done\n%s\n", each.c_str());
    std::fflush(stdout);
    uint32_t counted = 0;
    if (r == CUDA_SUCCESS) r = (*driver)->to_host(&counted, (*kernels)->counter, sizeof counted);
    return r == CUDA_SUCCESS && counted == static_cast<uint32_t>(steps * launches) ? 0 : 1;
}

}  // namespace warpline::bench
