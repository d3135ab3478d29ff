// SPDX-License-Identifier: Apache-2.0
// Named variables: the state of a module or of an optimizer, in memory or in files.
//
//   StateDict state = model.state_dict();         refers to the variables of the model
//   other.load_state_dict(state);                 copies the values to `other`
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
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

/// For `for (const auto& [name, tensor] : model.named_parameters())`; also for `auto [name, tensor]`.
template <std::size_t I, class T>
  requires std::is_same_v<std::remove_cvref_t<T>, NamedTensor>
auto&& get(T&& named) {
  if constexpr (I == 0)
    return std::forward<T>(named).name;
  else
    return std::forward<T>(named).tensor;
}

}  // namespace tessera

#ifndef DOXYGEN  // it cannot read specializations of templates of std
template <>
struct std::tuple_size<tessera::NamedTensor> : std::integral_constant<std::size_t, 2> {};
template <std::size_t I>
struct std::tuple_element<I, tessera::NamedTensor> {
  using type = std::conditional_t<I == 0, std::string, tessera::Tensor>;
};
#endif

namespace tessera {

/// A number of the host that belongs to a state, such as the number of steps of an optimizer.
struct StateNumber {
  std::function<std::optional<std::int64_t>()> get;  // nullopt: its owner no longer exists
  std::function<void(std::int64_t)> set;             // receives the number that a load has read
};
/// Returns the variable. If it stands for a number (StateDict::add_number), returns a scalar with the current number.
Tensor current_value(const Tensor& variable);

/// Named variables and numbers, in the order of their registration. A StateDict refers to them: a save reads their
/// current values, and a load changes them.
class StateDict {
 public:
  /// Error if an entry has this name or alias already.
  void add(NamedTensor entry);
  /// Adds a number: an s64 scalar that stands for it, also in other StateDicts. Error as in add().
  void add_number(const std::string& name, StateNumber number);
  /// Adds another name of the entry `name`, for a tied parameter.
  void add_alias(const std::string& name, const std::string& alias);
  /// The variable of this name or alias; null if there is none.
  [[nodiscard]] const NamedTensor* find(std::string_view name) const;
  [[nodiscard]] const std::vector<NamedTensor>& entries() const& { return entries_; }
  [[nodiscard]] std::vector<NamedTensor> entries() && { return std::move(entries_); }  // of a temporary, in a loop

  /// The class of the object with this state, for messages and checkpoints; "" if it is not known.
  [[nodiscard]] const std::string& class_name() const { return class_name_; }
  void set_class_name(std::string name) { class_name_ = std::move(name); }

 private:
  std::string class_name_;
  std::vector<NamedTensor> entries_;
  std::map<std::string, std::size_t, std::less<>> index_;  // of names and aliases
};

struct LoadStateOptions {
  /// Missing and unexpected names are errors. Different shapes and element types are always errors.
  bool strict = true;
  /// True for names in the source that are not errors although no entry has them.
  std::function<bool(std::string_view)> ignores{};
};
/// What a load has found.
struct LoadStateResult {
  std::vector<std::string> missing_keys;     // empty with `strict`
  std::vector<std::string> unexpected_keys;  // empty with `strict`
  std::set<DType> converted_from;            // the types in the source that differ from those of the variables
};

/// A name and a type in the source of a load.
struct NamedType {
  std::string name;
  Type type;
};
/// Returns, for each entry of `state`, the index of its source in `given`, or -1. A source must have the dims
/// exported_dims or those of the variable, and the same element type, or both types must be floats. The error begins
/// with `what` and lists the problems, at most eight of each kind: different shapes, and missing and unexpected names
/// with the nearest one. If `given_class`, the class_name() of the source, is that of another class, the error says so.
std::vector<int> match_state(const StateDict& state, const std::vector<NamedType>& given, std::string_view what,
                             const LoadStateOptions& options, LoadStateResult& result,
                             std::string_view given_class = {});

/// Gives the variables of `state` the values of `source`, with match_state(). Values are converted to the element types
/// of the variables; shardings do not change.
LoadStateResult load_state(const StateDict& state, const StateDict& source, std::string_view what,
                           const LoadStateOptions& options = {});

/// Writes all elements of the shard of rank `device`: `shard` has the type shard_type(type, sharding), row-major. Its
/// padding contains zeros.
using ShardReader =
    std::function<void(const Type& type, const Sharding& sharding, std::int64_t device, std::span<std::byte> shard)>;
/// Defers the value of a variable: when it is first needed, `reader` reads it, in the sharding that the variable has
/// then. No rank holds more than its shard. Not collective. `content` is a hash of the source: the next program that
/// uses the variable is an error unless all ranks pass the same (TESSERA_CHECK_INPUTS); 0: it is not compared.
void read_when_needed(const Tensor& variable, ShardReader reader, std::uint64_t content = 0);
/// Reads the values that read_when_needed() deferred. Not collective.
void read_now(const StateDict& state);
/// The bytes of the complete variables whose values are in memory. Others are computed or read when they are needed.
std::int64_t bytes_in_memory(const StateDict& state);
/// Returns a function that gives the variables the values that they have now. They stay in memory as long as the
/// function exists.
std::function<void()> restorer_of(const StateDict& state);
/// Gives the numbers of `state` the values of the tensors that stand for them, which are read if they are deferred.
/// Numbers without a source do not change. `sources` is the result of match_state().
void set_numbers(const StateDict& state, const std::vector<int>& sources);
/// The shard of this rank of a variable, and the sharding of the variable.
struct StoredShard {
  Sharding sharding;
  DeviceArray shard;
};
/// Returns the shard of a variable and its sharding. Collective if the variable has no value yet. Error if the value is
/// partial or on one device only.
StoredShard stored_shard(const Tensor& variable);

}  // namespace tessera
