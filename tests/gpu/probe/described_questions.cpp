// Questions made of the description: each call once with arguments that should do ("plain"), and then with one of them wrong at
// a time: a null pointer or handle, a handle of another kind or of something destroyed, an enumerator that does not exist, a
// device that is not there, a size of 0 or beyond all bounds; and before cuInit and without a context.
#include <array>
#include <string>

#include "tests/gpu/probe/described_call.h"
#include "tests/gpu/probe/question.h"

namespace warpline::probe {

namespace {

constexpr size_t k_slot_bytes = 8192, k_most_params = 16;
constexpr unsigned char k_canary = 0x5a;

/// Where pointers of a call point: a slot for each parameter.
struct Slots {
    alignas(64) std::array<std::array<unsigned char, k_slot_bytes>, k_most_params> bytes;
};
Slots& slots() {
    static Slots s_slots;
    return s_slots;
}

void nothing() {}

bool is(const Param& param, std::string_view type) { return param.type == type; }
bool named(const Param& param, std::string_view part) {
    return std::string_view(param.name).find(part) != std::string_view::npos;
}

/// Structures that a call reads, filled so that it can do something with them.
void fill(const Param& param, unsigned char* at, Asker& asker) {
    auto put = [&](const auto& value) { std::memcpy(at, &value, sizeof value); };
    std::string_view type = param.type;
    if (type.starts_with("const ")) type.remove_prefix(6);
    if (type.ends_with("*")) type.remove_suffix(1);
    const CUmemLocation here{.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
    if (type == "CUlaunchConfig") {
        CUlaunchConfig config{};
        config.gridDimX = config.gridDimY = config.gridDimZ = config.blockDimX = config.blockDimY = config.blockDimZ = 1;
        put(config);
    } else if (type == "CUDA_KERNEL_NODE_PARAMS") {
        CUDA_KERNEL_NODE_PARAMS node{};
        node.func = asker.fixtures.function("empty");
        node.gridDimX = node.gridDimY = node.gridDimZ = node.blockDimX = node.blockDimY = node.blockDimZ = 1;
        put(node);
    } else if (type == "CUDA_MEMSET_NODE_PARAMS") {
        CUDA_MEMSET_NODE_PARAMS node{};
        node.dst = asker.fixtures.device_memory();
        node.elementSize = 1;
        node.width = 64;
        node.height = 1;
        put(node);
    } else if (type == "CUDA_HOST_NODE_PARAMS") {
        put(CUDA_HOST_NODE_PARAMS{.fn = reinterpret_cast<CUhostFn>(&nothing), .userData = nullptr});
    } else if (type == "CUDA_ARRAY_DESCRIPTOR") {
        put(CUDA_ARRAY_DESCRIPTOR{.Width = 16, .Height = 16, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1});
    } else if (type == "CUDA_ARRAY3D_DESCRIPTOR") {
        put(CUDA_ARRAY3D_DESCRIPTOR{
            .Width = 16, .Height = 16, .Depth = 0, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1, .Flags = 0});
    } else if (type == "CUmemAllocationProp") {
        CUmemAllocationProp props{};
        props.type = CU_MEM_ALLOCATION_TYPE_PINNED;
        props.location = here;
        put(props);
    } else if (type == "CUmemPoolProps") {
        CUmemPoolProps props{};
        props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
        props.location = here;
        put(props);
    } else if (type == "CUmemAccessDesc") {
        put(CUmemAccessDesc{.location = here, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE});
    } else if (type == "CUmemLocation") {
        put(here);
    } else if (type == "CUDA_MEMCPY2D") {
        CUDA_MEMCPY2D copy{};
        copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
        copy.srcDevice = asker.fixtures.device_memory();
        copy.dstDevice = asker.fixtures.device_memory() + 4096;
        copy.WidthInBytes = 64;
        copy.Height = 1;
        put(copy);
    } else if (type == "CUDA_MEMCPY3D") {
        CUDA_MEMCPY3D copy{};
        copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
        copy.srcDevice = asker.fixtures.device_memory();
        copy.dstDevice = asker.fixtures.device_memory() + 4096;
        copy.WidthInBytes = 64;
        copy.Height = copy.Depth = 1;
        put(copy);
    }
}

Argument scalar(const Param& param) {
    if (is(param, "CUpointer_attribute") || is(param, "CUmoduleLoadingMode")) return 2;
    if (is(param, "CUdevice_attribute") || is(param, "CUmemPool_attribute") || is(param, "CUmem_advise")) return 1;
    if (is(param, "CUmem_range_attribute") || is(param, "CUmemAccess_flags")) return 1;
    if (is(param, "CUarray_format")) return CU_AD_FORMAT_UNSIGNED_INT8;
    if (param.shape == Shape::enumeration || is(param, "CUdevice")) return 0;
    if (named(param, "lag") || named(param, "ffset") || named(param, "level") || named(param, "haredMem")) return 0;
    if (named(param, "alue") || named(param, "priority") || named(param, "addr")) return 0;
    if (is(param, "size_t")) return 64;
    if (named(param, "ElementSize")) return 4;
    return 1;
}

/// An argument that should do.
Argument good(const DescribedCall& call, size_t index, Asker& asker) {
    const Param& param = call.params[index];
    unsigned char* slot = slots().bytes[index].data();
    if (is(param, "CUoccupancyB2DSize")) return 0;  // no function: the size does not depend on the block
    if (is(param, "CUdeviceptr")) return asker.fixtures.device_memory() + (named(param, "src") ? 4096 : 0);
    if (is(param, "CUhostFn") || is(param, "CUstreamCallback")) return reinterpret_cast<Argument>(&nothing);
    if (!param.handle.empty() && param.dir == "in") {
        std::string kind(param.handle);
        if (is(param, "CUkernel")) kind = "kernel";
        const bool of_its_own = param.destroys;
        Argument handle = of_its_own ? asker.fixtures.fresh(kind, call.name) : asker.fixtures.handle(kind, call.name);
        if (param.shape != Shape::pointer || param.type.find('*') == std::string_view::npos) return handle;
        std::memcpy(slot, &handle, sizeof handle);
        return reinterpret_cast<Argument>(slot);
    }
    if (param.shape == Shape::integer || param.shape == Shape::enumeration || param.shape == Shape::real) return scalar(param);
    if (is(param, "void**") && named(param, "data")) {
        // Places for values, as many as anybody asks for here.
        unsigned char* place = slot + 64;
        for (size_t i = 0; i < 8; ++i) std::memcpy(slot + i * sizeof place, &place, sizeof place);
        return reinterpret_cast<Argument>(slot);
    }
    if (param.dir == "out") {
        std::memset(slot, k_canary, k_slot_bytes);
        return reinterpret_cast<Argument>(slot);
    }
    std::memset(slot, 0, k_slot_bytes);
    if (param.string || named(param, "fname") || named(param, "fileName") || is(param, "const char*")) {
        const bool file = named(param, "fname") || named(param, "ath") || named(param, "ile");
        std::strcpy(reinterpret_cast<char*>(slot), file ? "/nonexistent/warpline" : "empty");
    } else if (named(param, "image") || named(param, "code") || named(param, "atCubin")) {
        std::strncpy(reinterpret_cast<char*>(slot), k_ptx, k_slot_bytes - 1);
    } else if (named(param, "attributes")) {
        const CUpointer_attribute type = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
        std::memcpy(slot, &type, sizeof type);
    } else if (named(param, "kernelParams") || named(param, "extra") || named(param, "ependencies") ||
               named(param, "edgeData")) {
        return 0;
    } else {
        fill(param, slot, asker);
    }
    return reinterpret_cast<Argument>(slot);
}

std::vector<Argument> good_arguments(const DescribedCall& call, Asker& asker) {
    std::vector<Argument> arguments;
    for (size_t i = 0; i < call.params.size(); ++i) arguments.push_back(good(call, i, asker));
    return arguments;
}

int answer(const DescribedCall& call, const std::vector<Argument>& arguments, Asker& asker) {
    void* function = asker.driver.find(call.name);
    if (!function) throw Missing{call.name};
    const int result = call.make(function, arguments.data());
    std::vector<std::string> written;
    for (size_t i = 0; i < call.params.size(); ++i) {
        const auto* slot = slots().bytes[i].data();
        if (call.params[i].dir != "out" || arguments[i] != reinterpret_cast<Argument>(slot)) continue;
        for (size_t byte = 0; byte < k_slot_bytes; ++byte) {
            if (slot[byte] == k_canary) continue;
            written.emplace_back(call.params[i].name);
            break;
        }
    }
    if (!written.empty()) asker.list("written", written);
    return result;
}

/// A wrong argument, by the name that it has in the question's id.
struct Wrong {
    const char* name;
    std::function<Argument(Asker&)> make;
};

Wrong constant(const char* name, Argument value) {
    return {name, [value](Asker&) { return value; }};
}

bool is_length(const DescribedCall& call, const Param& param) {
    for (const Param& other : call.params) {
        if (other.len == param.name && other.type != "void*" && other.type != "const void*") return true;
    }
    return false;
}

std::vector<Wrong> wrongs(const DescribedCall& call, const Param& param) {
    if (is(param, "CUdevice")) return {constant("-1", static_cast<uint32_t>(-1)), constant("4096", 4096)};
    if (is(param, "CUdeviceptr")) return {constant("null", 0), constant("unknown", 0x10)};
    const bool by_value = param.type.find('*') == std::string_view::npos;
    if (!param.handle.empty() && param.dir == "in" && by_value) {
        std::string kind(param.handle);
        std::vector<Wrong> all = {constant("null", 0)};
        if (kind != "surf_ref") all.push_back({"destroyed", [kind](Asker& asker) { return asker.fixtures.destroyed(kind); }});
        all.push_back(
            {"foreign", [kind](Asker& asker) { return asker.fixtures.handle(kind == "event" ? "stream" : "event"); }});
        return all;
    }
    if (param.shape == Shape::pointer) return {constant("null", 0)};
    if (param.shape == Shape::enumeration) return {constant("9999", 9999)};
    if (param.shape != Shape::integer) return {};
    std::vector<Wrong> all = {constant("0", 0)};
    if (named(param, "lag") && param.bytes == 4) return {constant("max", UINT32_MAX)};
    if (param.type == "size_t" && !is_length(call, param)) all.push_back(constant("max", UINT64_MAX));
    return all;
}

void ask_about(const DescribedCall& call, Questions& before_init, Questions& no_context, Questions& all, Questions& foreign) {
    const std::string name = call.name;
    const std::string area = std::string("calls of ") + call.area;
    auto with = [&call](size_t index, const std::function<Argument(Asker&)>& wrong) {
        return [&call, index, wrong](Asker& asker) {
            std::vector<Argument> arguments = good_arguments(call, asker);
            arguments[index] = wrong(asker);
            return answer(call, arguments, asker);
        };
    };
    // Without a driver that has been initialised there are no objects: arguments that are not looked at, or null.
    auto bare = [&call](Asker& asker) {
        std::vector<Argument> arguments;
        for (size_t i = 0; i < call.params.size(); ++i) {
            const Param& param = call.params[i];
            const bool handle = !param.handle.empty() && param.dir == "in";
            arguments.push_back(handle || is(param, "CUdeviceptr") ? 0 : good(call, i, asker));
        }
        return answer(call, arguments, asker);
    };
    const bool waits_for_files = name.find("Coredump") != std::string::npos || name.find("Checkpoint") != std::string::npos;
    if (waits_for_files) return;
    bool needs_objects = false;
    for (const Param& param : call.params)
        needs_objects |=
            param.type.find("NODE_PARAMS") != std::string_view::npos || param.type.find("MEMCPY") != std::string_view::npos;
    if (!call.before_init && !needs_objects)
        before_init.push_back({name + "/before-init", Stage::loaded, "before cuInit", bare});
    if (!needs_objects) no_context.push_back({name + "/no-context", Stage::initialised, "without a context", bare});
    all.push_back({name + "/plain", Stage::context, area, [&call](Asker& asker) {
                       const int result = answer(call, good_arguments(call, asker), asker);
                       asker.fixtures.forget();
                       return result;
                   }});
    for (size_t i = 0; i < call.params.size(); ++i) {
        for (const Wrong& wrong : wrongs(call, call.params[i])) {
            const bool last = std::string_view(wrong.name) == "foreign" || std::string_view(wrong.name) == "destroyed";
            (last ? foreign : all)
                .push_back({name + "/" + call.params[i].name + "=" + wrong.name, Stage::context,
                            last ? area + ", wrong handles" : area, with(i, wrong.make)});
        }
    }
}

}  // namespace

void add_generated(Questions& all) {
    Questions before_init, no_context, wrong_handles;
    for (const DescribedCall& call : described_calls()) ask_about(call, before_init, no_context, all, wrong_handles);
    for (Questions* part : {&before_init, &no_context, &wrong_handles}) all.insert(all.end(), part->begin(), part->end());
}

}  // namespace warpline::probe
