// Where work comes from, for threads that have none.
#pragma once

#include "common/base/function_ref.h"

namespace warpline::server {

/// What the client sends, to be read by a thread that has nothing else to do: it finds its next work itself, and no other
/// thread has to wake it. While nobody does, the connection's own thread reads.
class WorkSource {
public:
    virtual ~WorkSource() = default;
    /// The calling thread reads from now on, also while it does what it has read. False: another one does, or there is no
    /// connection.
    virtual bool begin_reading() = 0;
    /// Reads until `enough()`. False: the thread reads no more.
    virtual bool read_until(FunctionRef<bool()> enough) = 0;
    /// The connection's own thread reads, unless somebody is in read_until(). @thread any
    virtual void end_reading() = 0;
    /// `enough()` is to be asked again. @thread any @blocks no
    virtual void wake_reader() = 0;
};

}  // namespace warpline::server
