// What calls of a context wait for while another thread's call holds it.
#pragma once

#include <atomic>
#include <cstdint>

namespace warpline::softgpu::driver {

class Context;

/// Where calls of a context's threads wait for each other, as they do in NVIDIA's driver (DB-15, DB-50). Queries, waits and
/// most other calls do not come by.
class CallGate {
public:
    enum class Part : uint8_t { nothing, making, everything };

    /// For calls that give a stream work: blocks while somebody holds everything.
    void pass_to_queue() const { pass(k_everything); }
    /// For calls that make or destroy something, and those that queue host functions: blocks while somebody holds any part.
    void pass_to_make() const { pass(k_everything | k_making); }

    /// Holds a part of a context, everything beside nobody else, for as long as it lives. Blocks until it can.
    class Held {
    public:
        Held(Context& context, Part part);
        ~Held();
        Held(const Held&) = delete;
        Held& operator=(const Held&) = delete;

    private:
        CallGate& m_gate;
        const Part m_part;
    };

    /// What a call holds that waits for a stream to take its work: nothing where the profile's calls do not hold up each other.
    static Part while_queueing();
    /// The same of synchronous copies and frees.
    static Part while_waiting();
    /// The same of loads.
    static Part while_loading();

private:
    static constexpr uint32_t k_everything = 1u << 31, k_making = k_everything - 1;  // a bit; and how many hold the other part

    void pass(uint32_t bits) const;
    void hold(Part part);
    void let_go(Part part);

    std::atomic<uint32_t> m_held{0};
};

}  // namespace warpline::softgpu::driver
