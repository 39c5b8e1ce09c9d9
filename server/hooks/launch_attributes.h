#pragma once

// Attributes of launches, streams and kernel nodes: one union, in which some members are handles.

#include "server/hooks/common.h"

namespace warpline::server {

/// Replaces the client's tokens in an attribute's value by the driver's handles. What is a pointer of the client's is refused,
/// as is every attribute that is not known here; memory that one names must be the session's.
/// Errors: CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NOT_SUPPORTED.
CUresult resolve_launch_attribute(ServerCall& call, CUlaunchAttributeID id, CUlaunchAttributeValue& value);

/// The value of a stream's or node's attribute as it travelled, with its handles looked up. Errors: the above, and
/// CUDA_ERROR_INVALID_VALUE.
CUresult read_attribute(ServerCall& call, CUlaunchAttributeID id, BytesView bytes, CUlaunchAttributeValue& value);

}  // namespace warpline::server
