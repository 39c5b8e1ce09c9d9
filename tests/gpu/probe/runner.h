#pragma once

// Asks questions in child processes, so that a driver that crashes or hangs takes nothing down but one answer.

#include <map>
#include <string>

#include "tests/gpu/probe/question.h"

namespace warpline::probe {

struct RunOptions {
    std::string driver = "libcuda.so.1";
    int seconds = 10;          ///< that one question may take
    bool keep_stderr = false;  ///< of the driver: what it says on stderr is thrown away by default
};

/// Answers by id, each a JSON object {"result": …, "values": {…}}. `result` is the CUresult, or one of the words
///   "crash"       the process died; values.signal says of what
///   "exit"        the process ended by itself; values.code
///   "hang"        no answer within the limit
///   "missing"     the driver does not export values.symbol
///   "no fixture"  what the question is about could not be made: values.what, values.error
/// True if the driver can be loaded; else a line on stderr says why. In a process of its own, as everything that a driver does.
bool driver_loads(const RunOptions& options);

using Answers = std::map<std::string, std::string>;
Answers ask(const Questions& questions, const RunOptions& options);

}  // namespace warpline::probe
