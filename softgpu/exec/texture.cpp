// The table of texture objects, read without a lock.
#include "softgpu/exec/texture.h"

#include <atomic>
#include <memory>
#include <vector>

#include "common/base/mutex.h"

namespace warpline::softgpu::exec {

namespace {

constexpr uint32_t k_chunk = 1024, k_chunks = 1024;

/// Objects by handle: generation << 32 | index + 1. Chunks are never freed, so that readers need no lock.
template <typename T>
class Table {
public:
    const T* find(uint64_t handle) const {
        uint32_t index = static_cast<uint32_t>(handle) - 1;
        if (index >= k_chunk * k_chunks) return nullptr;
        const Chunk* chunk = m_chunks[index / k_chunk].load(std::memory_order_acquire);
        if (chunk == nullptr) return nullptr;
        const Slot& slot = chunk->slots[index % k_chunk];
        return slot.handle.load(std::memory_order_acquire) == handle && handle != 0 ? &slot.object : nullptr;
    }

    uint64_t add(const T& object) {
        MutexLock lock(m_mutex);
        uint32_t index;
        if (!m_free.empty()) {
            index = m_free.back();
            m_free.pop_back();
        } else if (m_used < k_chunk * k_chunks) {
            index = m_used++;
        } else {
            return 0;
        }
        std::atomic<Chunk*>& chunk = m_chunks[index / k_chunk];
        if (chunk.load(std::memory_order_relaxed) == nullptr) chunk.store(new Chunk, std::memory_order_release);
        Slot& slot = chunk.load(std::memory_order_relaxed)->slots[index % k_chunk];
        slot.object = object;
        uint64_t handle = uint64_t{++slot.generation} << 32 | (index + 1);
        slot.handle.store(handle, std::memory_order_release);
        return handle;
    }

    void remove(uint64_t handle) {
        MutexLock lock(m_mutex);
        if (find(handle) == nullptr) return;
        uint32_t index = static_cast<uint32_t>(handle) - 1;
        m_chunks[index / k_chunk].load(std::memory_order_relaxed)->slots[index % k_chunk].handle.store(0);
        m_free.push_back(index);
    }

private:
    struct Slot {
        std::atomic<uint64_t> handle{0};  // released when the object is complete, acquired in find
        uint32_t generation = 0;
        T object;
    };
    struct Chunk {
        Slot slots[k_chunk];
    };

    std::atomic<Chunk*> m_chunks[k_chunks] = {};
    Mutex m_mutex;  // givers of handles
    uint32_t m_used WL_GUARDED_BY(m_mutex) = 0;
    std::vector<uint32_t> m_free WL_GUARDED_BY(m_mutex);
};

Table<TextureDescriptor>& textures() {
    static auto* table = new Table<TextureDescriptor>;  // leaked on purpose: calls come after static destructors
    return *table;
}

Table<SurfaceDescriptor>& surfaces() {
    static auto* table = new Table<SurfaceDescriptor>;
    return *table;
}

}  // namespace

const TextureDescriptor* find_texture(uint64_t handle) { return textures().find(handle); }
const SurfaceDescriptor* find_surface(uint64_t handle) { return surfaces().find(handle); }
uint64_t add_texture(const TextureDescriptor& descriptor) { return textures().add(descriptor); }
uint64_t add_surface(const SurfaceDescriptor& descriptor) { return surfaces().add(descriptor); }
void remove_texture(uint64_t handle) { textures().remove(handle); }
void remove_surface(uint64_t handle) { surfaces().remove(handle); }

}  // namespace warpline::softgpu::exec
