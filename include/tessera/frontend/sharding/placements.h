// SPDX-License-Identifier: Apache-2.0
// Shardings as in PyTorch's DTensor: one placement for each axis of the mesh.
//
//   Tensor x = distribute_tensor(value, mesh, {Shard(0), Replicate()});    rows over the first axis
//   Tensor y = redistribute(x, mesh, {Replicate(), Shard(1)});
//   Tensor z = from_local(partial_sum, mesh, {Partial(), Shard(1)});       the sum over the first axis
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "tessera/frontend/tensor/tensor.h"

namespace tessera {

/// The axis shards this dim of the array; a negative number counts from the end.
struct Shard {
  int dim = 0;
  explicit Shard(int dim) : dim(dim) {}
  friend bool operator==(const Shard&, const Shard&) = default;
};
/// The devices along the axis hold the same elements.
struct Replicate {
  friend bool operator==(const Replicate&, const Replicate&) = default;
};
/// The value is the reduction of the arrays that the devices along the axis hold.
struct Partial {
  Reduction reduction = Reduction::kSum;
  Partial() = default;
  explicit Partial(Reduction reduction) : reduction(reduction) {}
  friend bool operator==(const Partial&, const Partial&) = default;
};
using AxisPlacement = std::variant<Shard, Replicate, Partial>;
using Placements = std::vector<AxisPlacement>;

/// `[Shard(0), Replicate(), Partial(sum)]`.
std::string placements_text(const Placements& placements);
/// Returns the sharding with these placements. If several axes shard one dim, the first of them is the major one.
/// Errors: the mesh has another number of axes; a dim that an array of `ndim` dims does not have; Partial.
Sharding sharding_of_placements(const Mesh& mesh, const Placements& placements, int ndim);
/// Returns the placements of a sharding. Error if placements cannot express it: it has sub-axes, or a dim whose major
/// axis comes after a minor one in the mesh.
Placements placements_of(const Sharding& sharding);
/// The placements of a tensor; Replicate() for every axis of the global mesh if it has no sharding.
Placements placements_of(const Tensor& tensor);

/// Returns a tensor with the elements of `tensor`, which does not change, in this sharding. It is a new variable if
/// `tensor` is one, and requires gradients if `tensor` does. Partial is an error.
[[nodiscard]] Tensor distribute_tensor(const Tensor& tensor, const Mesh& mesh, const Placements& placements,
                                       std::source_location where = std::source_location::current());
/// Returns the same value in another sharding. Differentiable. Partial is an error.
[[nodiscard]] Tensor redistribute(const Tensor& tensor, const Mesh& mesh, const Placements& placements,
                                  std::source_location where = std::source_location::current());
/// Returns the same value, fully replicated. Differentiable.
[[nodiscard]] Tensor full_tensor(const Tensor& tensor, std::source_location where = std::source_location::current());
/// Makes a tensor from the elements that each rank holds, without padding. Without `shape`, the arrays of all ranks
/// must have the same dims, and the size of a sharded dim is the local size times the number of devices along its axes.
/// Uneven sizes need `shape`. Over Partial axes, the arrays of the ranks are reduced at the first use. Errors: the
/// array does not have the dims of this rank's shard; an array that is sharded unevenly and partial.
[[nodiscard]] Tensor from_local(const Literal& local, const Mesh& mesh, const Placements& placements,
                                const std::optional<Dims>& shape = std::nullopt,
                                std::source_location where = std::source_location::current());
/// Returns the elements that this rank holds, without padding and without communication. The tensor must be in memory.
[[nodiscard]] Literal to_local(const Tensor& tensor);

}  // namespace tessera
