// SPDX-License-Identifier: Apache-2.0
// FSDP units: modules whose parameters are gathered together.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tessera/fsdp/options.h"
#include "tessera/nn/module.h"

namespace tessera {

/// The content of one unit.
struct FsdpUnit {
  std::string name;  // module path; "root" for the root unit
  std::string class_name;
  std::vector<std::string> parameters;
  std::int64_t elements = 0;
  std::int64_t bytes = 0;             // gathered, on one device, in the type of computation
  std::int64_t bytes_per_device = 0;  // stored
  std::int64_t frozen = 0;            // elements of parameters that are not trained
  std::int64_t padding = 0;           // bytes of padding in the shards of all devices together
  std::vector<std::string> notes{};   // of the root unit: remarks about sizes, and options without effect
};

/// Divides `module` into units by marking its parameters and submodules. A parameter that several modules use (a tied
/// head) belongs to the innermost unit that contains all of them. Submodules that an earlier call of fully_shard() made
/// units stay units, with their own options. `module` then is the root unit with the remaining parameters. Its first call
/// in training mode checks that every unit is used. Errors: the module is already a unit, or wraps one; it is a part of
/// a module that is sharded already (parts come first); an auto_wrap_policy is given although a submodule is already a
/// unit; the module is a list or dict of modules; an optimizer exists already; the axis does not exist; an option does
/// not fit the mesh.
std::vector<FsdpUnit> fully_shard(nn::Module& module, const FsdpOptions& options = {});
struct RecursiveWrapOptions {
  /// False: `module` itself becomes a unit, too, if the policy selects it.
  bool only_wrap_children = false;
};
/// Makes the modules in `module` units that options.auto_wrap_policy selects, but not `module` itself, unless the
/// policy selects it. For parts of a model that need different policies or options. A call of fully_shard() for the
/// model afterwards, without a policy, makes the root unit of all other parameters. Returns the number of elements of
/// the parameters in the units (in PyTorch/XLA: recursive_wrap). Errors: there is no policy; those of fully_shard().
std::int64_t recursive_wrap(nn::Module& module, const FsdpOptions& options, const RecursiveWrapOptions& how = {});
/// The units of a module that fully_shard() has sharded; the root unit is the first one.
std::vector<FsdpUnit> fsdp_units(nn::Module& module);

/// Returns a table of the units with sizes and totals, followed by their notes.
std::string unit_report(const std::vector<FsdpUnit>& units);
/// Returns the tree of modules. A line of a parameter contains its shape, its sharding, its bytes, and the bytes on one
/// device. Units, frozen parameters and tied parameters are marked.
std::string fsdp_tree(nn::Module& module);

/// True if materialize_module() should compute the values of the parameters and buffers of a module.
using MaterializeCheck = std::function<bool(const nn::Module& module)>;
/// Computes the values of the deferred parameters and buffers of a module, one unit after the other, as shards. A rank
/// never needs more memory than for its shards and one unit. Values are the same on every mesh. Only applies to modules
/// for which `check` is true; null: all modules. This call is optional, because the first step materializes all
/// remaining values, but with more memory. Collective.
void materialize_module(nn::Module& module, const MaterializeCheck& check = {});

/// Shards the rows of an input over `data`, `fsdp` and FsdpOptions::axis, if the input has data and no sharding.
void shard_input(const Tensor& input, const FsdpOptions& options);
/// The input in the type in which the module computes (MixedPrecision::cast_forward_inputs).
Tensor cast_input(const Tensor& input, const FsdpOptions& options);

/// One parameter of a unit, with its name in the wrapped module.
struct OriginalParameter {
  std::string name;
  Tensor tensor;  // stored as shards
};
/// The parameters of the unit `unit` ("root", or a path), without those of units below it. Error for an unknown unit,
/// with the nearest name.
std::vector<OriginalParameter> get_original_names_and_sharded_parameters(nn::Module& module,
                                                                         const std::string& unit = "root");

/// How a parameter is stored, for code that reads shards.
struct ShardMetadata {
  std::string name;
  Dims dims;                 // complete
  std::string storage;       // the sharding: {fsdp,-}
  Dims shard_dims;           // on one device
  std::vector<Dims> starts;  // by device: the first element of its shard along each dim
};
/// The shards of all parameters of a module.
std::vector<ShardMetadata> get_shard_metadata(nn::Module& module);

}  // namespace tessera
