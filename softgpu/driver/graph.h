#pragma once

namespace warpline::softgpu::driver {
class GraphNode {};
class Graph {};
class GraphExec {};
class UserObject {};
}  // namespace warpline::softgpu::driver
