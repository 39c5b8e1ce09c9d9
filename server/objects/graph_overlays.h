// Host memory of which a graph has written a part before it reads it.
#pragma once

#include <vector>

#include "server/objects/host_copy.h"

namespace warpline::server {

/// A copy from the client's memory, some of which the graph itself has copied there before it reads it, without a host node in
/// between to tell of it. In its staging memory lie the client's bytes of before the launch: over those the ones that the
/// graph has written are laid, which are in the staging memory of the copies that did it.
///
/// Lives as long as the copy that reads, which owns it.
class Overlay {
public:
    /// @param written  in the order in which the graph writes
    Overlay(HostCopy& reads, std::vector<HostCopyPtr> written) : m_reads(reads), m_written(std::move(written)) {}

    /// The one of this copy with these writers, which is made if there is none. @thread the executor's
    static Overlay& of(HostCopy& reads, const std::vector<HostCopyPtr>& written);
    /// A host node's function. @param overlay an Overlay @thread the driver's
    static void CUDA_CB run(void* overlay);

private:
    HostCopy& m_reads;
    const std::vector<HostCopyPtr> m_written;
};

/// Copies what two copies have in common in the client's memory from where one has it to where the other one has it; of both it
/// is known how their rows lie.
void lay_over(const HostCopy& written, HostCopy& reads);

}  // namespace warpline::server
