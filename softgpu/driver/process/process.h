// What the driver has in this process: its devices, and all objects.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "common/base/mutex.h"
#include "cuda/abi/cuda_types.h"
#include "cuda/abi/memory_advice.h"
#include "softgpu/check/checker.h"
#include "softgpu/driver/config/config.h"
#include "softgpu/driver/device/device.h"
#include "softgpu/driver/process/cu_try.h"
#include "softgpu/driver/process/handle_table.h"
#include "softgpu/driver/space/address_map.h"
#include "softgpu/driver/space/visible_ranges.h"

namespace warpline::softgpu::driver {

class Context;
class Stream;
class Event;
class Module;
class Function;
class Library;
class MemoryPool;
class PhysicalMemory;
class ArrayObject;
class MipmappedArray;
class TextureReference;
class SurfaceReference;
struct LinkState;
class Graph;
class GraphNode;
class GraphExec;
class UserObject;
class GreenContext;
struct ResourceDescriptor;

/// Everything that the driver has in this process. Never destroyed: calls come after static destructors have run.
class Process {
public:
    static Process& instance();

    /// Reads the configuration, makes the devices and has `furnish` put into them what is above this room; once, and success
    /// any number of times. Errors: invalid value (flags, a mistake in the configuration), no device, operating system, not
    /// initialised (in the child of a fork).
    CUresult initialise(unsigned int flags, void (*furnish)(Process& self));
    bool initialised() const { return m_state.load(std::memory_order_acquire) == State::ready; }

    const Config& config() const { return m_config; }
    int device_count() const { return static_cast<int>(m_devices.size()); }
    /// Null if there is no such device.
    Device* device(int ordinal) const;
    /// The same by the name that other processes know. Null if this process does not have it.
    Device* device(const CUuuid& uuid) const;

    /// SOFTGPU_CHECK; null if nothing is checked.
    check::Checker* checker() const { return m_checker.get(); }

    AddressMap addresses;
    VisibleRanges ranges;
    /// Changes nothing but what programs are told of it: host and devices share managed memory.
    cuda::abi::MemoryAdvice advice;
    Mutex primary_mutex;  // retain counts of primary contexts

    HandleTable<Context> contexts{HandleKind::context};
    HandleTable<Stream> streams{HandleKind::stream};
    HandleTable<Event> events{HandleKind::event};
    HandleTable<Module> modules{HandleKind::module};
    HandleTable<Function> functions{HandleKind::function};
    HandleTable<Library> libraries{HandleKind::library};
    HandleTable<MemoryPool> pools{HandleKind::pool};
    HandleTable<PhysicalMemory> physical{HandleKind::physical_memory};
    HandleTable<ArrayObject> arrays{HandleKind::array};
    HandleTable<MipmappedArray> mipmapped_arrays{HandleKind::mipmapped_array};
    HandleTable<TextureReference> texrefs{HandleKind::texref};
    HandleTable<SurfaceReference> surfrefs{HandleKind::surfref};
    HandleTable<LinkState> link_states{HandleKind::link_state};
    HandleTable<Graph> graphs{HandleKind::graph};
    HandleTable<GraphNode> nodes{HandleKind::node};
    HandleTable<GraphExec> graph_execs{HandleKind::graph_exec};
    HandleTable<UserObject> user_objects{HandleKind::user_object};
    HandleTable<GreenContext> green_contexts{HandleKind::green_context};
    HandleTable<ResourceDescriptor> resource_descriptors{HandleKind::resource_descriptor};

private:
    enum class State : int { fresh, ready, forked };
    Process() = default;
    static void on_fork_child();

    std::atomic<State> m_state{State::fresh};  // released in initialise, acquired in initialised
    Mutex m_init_mutex;
    Config m_config;
    std::unique_ptr<check::Checker> m_checker;
    std::vector<std::unique_ptr<Device>> m_devices;
};

inline Process& process() { return Process::instance(); }

/// A device by ordinal. Errors: invalid device.
CUresult find_device(CUdevice ordinal, Device*& device);

}  // namespace warpline::softgpu::driver
