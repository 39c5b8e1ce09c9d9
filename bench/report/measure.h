// What a report measures: each entry of a list is a figure, and how to take it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/driver.h"
#include "bench/report/figure.h"

namespace warpline::bench {

/// How much is done for each figure.
struct Effort {
    int calls;           ///< of those that take microseconds
    int copies;          ///< of each kind and size
    size_t most_bytes;   ///< of a copy
    int starts;          ///< of fresh processes
    int clients;         ///< the most at the same time
    int steps;           ///< of each client, and of the training-like loop
    size_t limit_bytes;  ///< of the limits' transfers

    static Effort quick() { return {200, 3, size_t{4} << 20, 3, 2, 50, size_t{16} << 20}; }
    static Effort whole() { return {2000, 7, size_t{256} << 20, 15, 8, 300, size_t{256} << 20}; }
};

/// What was measured, in the figure's unit, and what was compared.
struct Samples {
    std::vector<double> values;
    std::string verified;
};

struct Measure {
    Figure figure;  ///< without values
    std::function<Result<Samples>()> take;
};

/// @name The measures of a report, in its order. @{
std::vector<Measure> limit_measures(const Effort& effort);
std::vector<Measure> call_measures(const Effort& effort);
std::vector<Measure> copy_measures(const Effort& effort);
std::vector<Measure> graph_measures(const Effort& effort);
/// Measures of processes of their own, and of a loop such as theirs.
std::vector<Measure> program_measures(const Effort& effort);
/// @}

/// All of them.
std::vector<Measure> all_measures(const Effort& effort);

/// The kernels of all measures, and a counter that one of them adds to. They exist once in a process.
struct Kernels {
    CUfunction count = nullptr;         ///< (counter): adds 1, in its only thread
    CUfunction multiply_add = nullptr;  ///< (y, x, k, n): y[i] += x[i] * k, modulo 2^32
    CUdeviceptr counter = 0;

    static Result<Kernels*> instance(Driver& driver);
    /// Launches `count`.
    CUresult add_one(Driver& driver, CUstream stream);
};

/// The steps of a fresh process that began with its first call, in milliseconds.
struct StartTimes {
    double initialise = 0, context = 0, module = 0, kernel = 0;
};

/// @name What the processes do that program_measures() and sweep() start; each speaks on its standard output. @return the exit
/// code @{
int start_process();
/// Says that it is ready, waits for a line, and steps.
int client_process(int steps, int launches);
/// Takes the figures of these ids and says their medians, a line for each.
int measure_process(const std::vector<std::string>& ids, const Effort& effort);
/// @}

}  // namespace warpline::bench
