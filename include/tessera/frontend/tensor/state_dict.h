// SPDX-License-Identifier: Apache-2.0
// Named variables: the state of a module or of an optimizer, in memory or in files.
//
//   StateDict state = model.state_dict();         refers to the variables of the model
//   other.load_state_dict(state);                 other has the same values from now on
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/frontend/tensor/tensor.h"
#include "tessera/runtime/executable/buffer.h"

namespace tessera {

/// A variable and its name.
struct NamedTensor {
  std::string name;  // transformer.h.0.attn.c_attn.weight
  Tensor tensor;
  Dims exported_dims;  // the shape in files and other frameworks; the same elements in the same order
};

/// Named variables, in the order of their registration.
class StateDict {
 public:
  /// Error if an entry has this name or alias already.
  void add(NamedTensor entry);
  /// A further name of the entry `name`: that of a tied parameter.
  void add_alias(const std::string& name, const std::string& alias);
  /// The variable of this name or alias; null if there is none.
  [[nodiscard]] const NamedTensor* find(std::string_view name) const;
  [[nodiscard]] const std::vector<NamedTensor>& entries() const& { return entries_; }
  [[nodiscard]] std::vector<NamedTensor> entries() && { return std::move(entries_); }  // of a temporary, in a loop

 private:
  std::vector<NamedTensor> entries_;
  std::map<std::string, std::size_t, std::less<>> index_;  // of names and aliases
};

struct LoadStateOptions {
  /// Whether missing and unexpected names are errors. Other shapes and element types always are.
  bool strict = true;
  /// Names in the source that are ignored although nothing needs them.
  std::function<bool(std::string_view)> ignores{};
};
/// The names that do not match. Empty with `strict`.
struct LoadStateResult {
  std::vector<std::string> missing_keys;
  std::vector<std::string> unexpected_keys;
};

/// A name and a type in the source of a load.
struct NamedType {
  std::string name;
  Type type;
};
/// For each entry of `state` the index of its source in `given`, or -1. The shape of a source is exported_dims or that
/// of the variable; element types are equal, or both are floats. Error, headed by `what`, that lists all problems:
/// missing and unexpected names with the nearest one, and other shapes.
std::vector<int> match_state(const StateDict& state, const std::vector<NamedType>& given, std::string_view what,
                             const LoadStateOptions& options, LoadStateResult& result);

/// Gives the variables of `state` the values of `source`, with match_state(). Values are converted to the element types
/// of the variables; shardings do not change.
LoadStateResult load_state(const StateDict& state, const StateDict& source, std::string_view what,
                           const LoadStateOptions& options = {});

/// Fills the shard of rank `device`: `shard` has the type shard_type(type, sharding), row-major, and contains zeros.
using ShardReader =
    std::function<void(const Type& type, const Sharding& sharding, std::int64_t device, std::span<std::byte> shard)>;
/// From now on the value of the variable is what `reader` reads when the value is first needed, in the sharding that the
/// variable then has. No rank holds more than its shard. Not collective.
void read_when_needed(const Tensor& variable, ShardReader reader);
/// Reads the values that read_when_needed() has left for later. Not collective.
void read_now(const StateDict& state);
/// Returns this rank's shard of a variable in memory and its sharding. Collective if the variable has no value yet. Error
/// if the value is partial or on one device only.
struct StoredShard {
  Sharding sharding;
  DeviceArray shard;
};
StoredShard stored_shard(const Tensor& variable);

}  // namespace tessera
