// Waiting at a context's gate, and which calls hold it.
#include "softgpu/driver/context/call_gate.h"

#include "softgpu/driver/context/context.h"
#include "softgpu/driver/process/process.h"

namespace warpline::softgpu::driver {

namespace {
const Profile& profile() { return process().config().profile; }
}  // namespace

CallGate::Part CallGate::while_queueing() { return profile().calls_hold_context ? Part::making : Part::nothing; }

CallGate::Part CallGate::while_waiting() { return profile().calls_hold_context ? Part::everything : Part::nothing; }

CallGate::Part CallGate::while_loading() {
    return profile().loading != Profile::Loading::free ? Part::everything : Part::nothing;
}

void CallGate::pass(uint32_t bits) const {
    for (uint32_t held = m_held.load(); (held & bits) != 0; held = m_held.load()) m_held.wait(held);
}

void CallGate::hold(Part part) {
    if (part == Part::nothing) return;
    for (uint32_t held = m_held.load();;) {
        const bool free = part == Part::everything ? held == 0 : (held & k_everything) == 0;
        if (!free) {
            m_held.wait(held);
            held = m_held.load();
        } else if (m_held.compare_exchange_weak(held, part == Part::everything ? k_everything : held + 1)) {
            return;
        }
    }
}

void CallGate::let_go(Part part) {
    if (part == Part::nothing) return;
    m_held.fetch_sub(part == Part::everything ? k_everything : 1);
    m_held.notify_all();
}

CallGate::Held::Held(Context& context, Part part) : m_gate(context.gate()), m_part(part) { m_gate.hold(part); }

CallGate::Held::~Held() { m_gate.let_go(m_part); }

}  // namespace warpline::softgpu::driver
