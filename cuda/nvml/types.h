// NVML's binary interface, as far as we speak it: return values, constants and structs. nvml.h is no part of the toolkit that
// we build with; tests/e2e/test_nvml.py holds the sizes against it and against its bindings for Python.
#pragma once

#include <cstdint>

/// @source  NVML API reference (r580 and later): nvmlReturn_t, device structs, field values
namespace warpline::cuda::nvml {

/// nvmlReturn_t.
enum Return : int {
    k_success = 0,
    k_uninitialized = 1,
    k_invalid_argument = 2,
    k_not_supported = 3,
    k_no_permission = 4,
    k_not_found = 6,
    k_insufficient_size = 7,
    k_driver_not_loaded = 9,
    k_timeout = 10,
    k_function_not_found = 13,
    k_gpu_is_lost = 15,
    k_memory = 20,
    k_argument_version_mismatch = 25,
    k_unknown = 999,
};

/// The first word of a versioned struct.
template <typename Struct>
constexpr uint32_t version_tag(uint32_t version) {
    return static_cast<uint32_t>(sizeof(Struct)) | version << 24;
}
constexpr uint32_t version_tag(uint32_t version, uint32_t bytes) { return bytes | version << 24; }

constexpr uint32_t k_bus_id_bytes = 32, k_legacy_bus_id_bytes = 16;
/// Of a text with its end: what the library itself never exceeds.
constexpr uint32_t k_uuid_bytes = 96, k_name_bytes = 96;

struct PciInfoV2 {
    char bus_id_legacy[k_legacy_bus_id_bytes];
    uint32_t domain, bus, device, device_id, subsystem_id;
    uint32_t reserved[4];
};
struct PciInfo {
    char bus_id_legacy[k_legacy_bus_id_bytes];
    uint32_t domain, bus, device, device_id, subsystem_id;
    char bus_id[k_bus_id_bytes];
};
struct PciInfoExt {
    uint32_t version, domain, bus, device, device_id, subsystem_id, base_class, sub_class;
    char bus_id[k_bus_id_bytes];
};
struct Memory {
    uint64_t total, free, used;
};
struct MemoryV2 {
    uint32_t version;
    uint64_t total, reserved, free, used;
};
struct Utilization {
    uint32_t gpu, memory;  ///< percent
};
struct ProcessInfoV1 {
    uint32_t pid;
    uint64_t used_bytes;
};
struct ProcessInfo {
    uint32_t pid;
    uint64_t used_bytes;
    uint32_t gpu_instance, compute_instance;
};
struct ProcessDetail {
    uint32_t pid;
    uint64_t used_bytes;
    uint32_t gpu_instance, compute_instance;
    uint64_t used_protected_bytes;
};
struct ProcessDetailList {
    uint32_t version, mode, count;
    ProcessDetail* processes;
};
struct Temperature {
    uint32_t version, sensor;
    int32_t degrees;
};
struct Uuid {
    uint32_t version, type;  ///< 1: text, 2: binary
    union {
        char text[41];
        unsigned char bytes[16];
    };
};
struct DriverBranch {
    uint32_t version;
    char branch[80];
};
struct FieldValue {
    uint32_t field, scope;
    int64_t timestamp_us, latency_us;
    uint32_t type;
    int32_t result;
    uint64_t value;
};
/// The kinds of values that we make.
enum ValueType : uint32_t { k_unsigned_int = 1, k_unsigned_long_long = 3 };
struct Sample {
    uint64_t timestamp_us;
    uint64_t value;
};
struct EventData {
    void* device;
    uint64_t type, data;
    uint32_t gpu_instance, compute_instance;
};
struct GpmSupport {
    uint32_t version, is_supported;
};
struct DeviceAttributes {
    uint32_t multiprocessors, copy_engines, decoders, encoders, jpegs, ofas, gpu_slices, compute_slices;
    uint64_t memory_mib;
};

static_assert(sizeof(PciInfoV2) == 52 && sizeof(PciInfo) == 68 && sizeof(PciInfoExt) == 64);
static_assert(sizeof(Memory) == 24 && sizeof(MemoryV2) == 40 && sizeof(ProcessInfoV1) == 16 && sizeof(ProcessInfo) == 24);
static_assert(sizeof(ProcessDetail) == 32 && sizeof(ProcessDetailList) == 24 && sizeof(Temperature) == 12);
static_assert(sizeof(Uuid) == 52 && sizeof(DriverBranch) == 84 && sizeof(FieldValue) == 40 && sizeof(DeviceAttributes) == 40);
static_assert(sizeof(Sample) == 16 && sizeof(EventData) == 32 && sizeof(GpmSupport) == 8);

/// What stands for "does not apply" in a process's instances.
constexpr uint32_t k_no_instance = 0xffffffff;
/// … and for memory that is not known.
constexpr uint64_t k_memory_not_known = ~uint64_t{0};

/// nvmlErrorString.
const char* error_text(int result);

}  // namespace warpline::cuda::nvml
