// The CUDA driver that executes the calls.
#pragma once

#include <memory>
#include <string>

#include "common/base/result.h"
#include "server/gen/driver_table.gen.h"

namespace warpline::server {

enum class DriverKind : uint8_t { unknown, nvidia, software };

/// A CUDA driver, loaded by path: NVIDIA's, or the software GPU. NVML (nvml.h) is the server's only
/// other dlopen.
class Driver {
public:
    /// Loads the library, finds its functions and initialises it (cuInit). The library is never unloaded: drivers have threads.
    ///
    /// @param problem  receives one line for the user if it fails
    /// @blocks         as long as the driver's initialisation takes (a GPU: up to seconds)
    /// @thread         one; before any session
    static std::unique_ptr<Driver> load(const std::string& path, std::string& problem);

    const DriverTable& table() const { return m_table; }
    const DriverTable* operator->() const { return &m_table; }
    int version() const { return m_version; }  ///< as cuDriverGetVersion
    DriverKind kind() const { return m_kind; }
    /// Images without PTX: all but the software GPU, which executes PTX.
    bool takes_machine_code() const { return m_takes_machine_code; }
    const std::string& path() const { return m_path; }
    uint32_t missing_functions() const { return m_missing; }

    /// For tests: a driver made of the functions given.
    Driver(const DriverTable& table, DriverKind kind, int version) : m_table(table), m_kind(kind), m_version(version) {}

private:
    Driver() = default;
    void resolve(void* library);
    bool initialise(std::string& problem);

    DriverTable m_table;
    std::string m_path;
    DriverKind m_kind = DriverKind::unknown;
    int m_version = 0;
    bool m_takes_machine_code = true;
    uint32_t m_missing = 0;
};

}  // namespace warpline::server
