// SPDX-License-Identifier: Apache-2.0
// Functions that run on each device with its shards, as jax.shard_map. In such a function, tensors have local shapes,
// and collectives over axes of the mesh exchange data. The results are global tensors. All of these functions are
// differentiable.
//
//   auto product = shard_map([](const Tensor& x, const Tensor& w) { return psum(matmul(x, w), "model"); }, mesh,
//                            {{"data", "model"}, {"model", {}}}, {{"data", {}}});
//   Tensor y = product(x, w);
#pragma once

#include <array>
#include <cstdint>
#include <source_location>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tessera/frontend/control/const_callable.h"
#include "tessera/frontend/tensor/tensor.h"

namespace tessera {

struct ShardMapOptions {
  /// The axes along which the function is per-device code. The partitioner handles the other axes. Empty: all axes.
  std::vector<std::string> axis_names{};
  /// Check that a result is equal on all devices along the axes that its spec does not name.
  bool check = true;
};

namespace detail {

/// One call of a function of shard_map. It turns global arguments into shards, and shards of results into global
/// tensors. Collectives refer to the innermost call.
class ShardMapCall {
 public:
  ShardMapCall(const Mesh& mesh, const std::vector<PartitionSpec>& in_specs,
               const std::vector<PartitionSpec>& out_specs, const ShardMapOptions& options, std::source_location where);
  ~ShardMapCall();
  ShardMapCall(const ShardMapCall&) = delete;
  ShardMapCall& operator=(const ShardMapCall&) = delete;

  /// The shard of the next argument.
  [[nodiscard]] Tensor enter(const Tensor& argument);
  /// The global tensor of the next result.
  [[nodiscard]] Tensor leave(const Tensor& result);
  /// Errors: fewer arguments or results than specs.
  void check_arguments() const;
  void check_results() const;

 private:
  const std::vector<PartitionSpec>& in_specs_;
  const std::vector<PartitionSpec>& out_specs_;
  bool check_;
  std::source_location where_;
  int arguments_ = 0;
  int results_ = 0;
};

/// Applies `visit` to every tensor in a tensor, vector, array, pair or tuple.
template <class T, class Visit>
void for_each_tensor(T& value, Visit&& visit) {
  if constexpr (std::is_same_v<T, Tensor>)
    visit(value);
  else if constexpr (requires { value.begin(); })
    for (auto& element : value) for_each_tensor(element, visit);
  else
    std::apply([&](auto&... elements) { (for_each_tensor(elements, visit), ...); }, value);
}

}  // namespace detail

/// Returns a function of the global arguments that calls `f` with their shards. Arguments and results of `f` are
/// tensors, or vectors, arrays, pairs and tuples of them. There is one spec for each of these tensors, in order, or one
/// spec for all. The spec `{}` means that a tensor is replicated.
///
/// A tensor that `f` uses but does not take as an argument is replicated in `f`. Along axes that an out_spec does not
/// name, the result must be equal on all devices. Errors of the call: a size that does not divide evenly; another
/// number of specs than tensors; an axis that is not in the mesh or not in axis_names; a result that may differ along
/// an axis that its spec does not name. Source: https://docs.jax.dev/en/latest/notebooks/shard_map.html
template <class F>
auto shard_map(F f, const Mesh& mesh, std::vector<PartitionSpec> in_specs, std::vector<PartitionSpec> out_specs,
               ShardMapOptions options = {}, std::source_location where = std::source_location::current()) {
  return [f = detail::ConstCallable(std::move(f)), mesh, in_specs = std::move(in_specs),
          out_specs = std::move(out_specs), options = std::move(options), where](auto... arguments) {
    detail::ShardMapCall call(mesh, in_specs, out_specs, options, where);
    const auto enter = [&](Tensor& tensor) { tensor = call.enter(tensor); };
    (detail::for_each_tensor(arguments, enter), ...);
    call.check_arguments();
    auto results = f(arguments...);
    const auto leave = [&](Tensor& tensor) { tensor = call.leave(tensor); };
    detail::for_each_tensor(results, leave);
    call.check_results();
    return results;
  };
}

// ---- collectives: only in functions of shard_map, over its axes -----------------------------------------------------

/// One axis, or several; the first is the major one.
class AxisNames {
 public:
  // NOLINTBEGIN(google-explicit-constructor): arguments of collectives
  AxisNames(const char* axis) : names_{axis} {}
  AxisNames(std::string axis) : names_{std::move(axis)} {}
  AxisNames(std::initializer_list<const char*> axes) : names_(axes.begin(), axes.end()) {}
  AxisNames(std::vector<std::string> axes) : names_(std::move(axes)) {}
  // NOLINTEND(google-explicit-constructor)
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }

 private:
  std::vector<std::string> names_;
};

/// Returns the elementwise sum, mean, maximum or minimum of the devices' values, on every device. If several devices
/// have the maximum or minimum, they get equal parts of its gradient.
Tensor psum(Operand x, const AxisNames& axes);
Tensor pmean(Operand x, const AxisNames& axes);
Tensor pmax(Operand x, const AxisNames& axes);
Tensor pmin(Operand x, const AxisNames& axes);

struct AllGatherOptions {
  int axis = 0;        // the new dim, or with `tiled` the dim that grows
  bool tiled = false;  // concatenate along an existing dim
};
/// The values of all devices, stacked or concatenated, on every device.
Tensor all_gather(Operand x, const AxisNames& axes, AllGatherOptions options = {});
struct PsumScatterOptions {
  int scatter_dimension = 0;
  bool tiled = false;  // true: the size is divided by the devices; false: the dim is removed; its size is `devices`
};
/// Returns this device's part of the sum. Device k gets part k of the dim.
Tensor psum_scatter(Operand x, const AxisNames& axes, PsumScatterOptions options = {});
struct AllToAllOptions {
  int split_axis = 0;
  int concat_axis = 0;
  bool tiled = false;  // true: keep split_axis, concatenate along concat_axis; false: move the dim
};
/// Device k receives part k of split_axis from every device and concatenates the parts along concat_axis. Without
/// `tiled`, split_axis has one element for each device. It is removed, and the received parts are stacked along a new
/// dim concat_axis.
Tensor all_to_all(Operand x, const AxisNames& axes, AllToAllOptions options);
/// Sends the value of device `first` to device `second` for each pair of coordinates along the axes. A device that
/// receives nothing gets zeros. Error: a coordinate occurs twice as a source or as a target.
Tensor ppermute(Operand x, const AxisNames& axes,
                const std::vector<std::pair<std::int64_t, std::int64_t>>& permutation);
/// The coordinate of this device along the axes: a scalar s32.
Tensor axis_index(const AxisNames& axes, std::source_location where = std::source_location::current());
/// The number of devices along the axes.
std::int64_t axis_size(const AxisNames& axes);

// ---- PyTorch/XLA's names --------------------------------------------------------------------------------------------

/// Returns the shard of a tensor. Ops on it are per-device code until disable_manual_sharding(). Errors: those of
/// shard_map().
Tensor enable_manual_sharding(const Tensor& tensor, const PartitionSpec& spec, const Mesh& mesh,
                              std::source_location where = std::source_location::current());
/// Returns the global tensor of the shards. Error if full_shape does not fit the shards.
Tensor disable_manual_sharding(const Tensor& tensor, const PartitionSpec& spec, const Dims& full_shape,
                               const Mesh& mesh, std::source_location where = std::source_location::current());

}  // namespace tessera
