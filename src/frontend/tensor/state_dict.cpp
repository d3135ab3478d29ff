// SPDX-License-Identifier: Apache-2.0
#include "tessera/frontend/tensor/state_dict.h"

#include <fmt/format.h>

#include <algorithm>

#include "execution/execute.h"
#include "tensor/stack_views.h"
#include "tessera/base/options.h"
#include "tessera/base/text.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/frontend/tensor/stack.h"
#include "tessera/frontend/tracing/inner.h"

namespace tessera {
namespace {

constexpr std::size_t kMostListed = 8;

// A line for each key, such as `  missing a; did you mean "b"?`. `others` are the keys that may be the same ones, misspelled.
std::string key_lines(const char* problem, const std::vector<std::string>& keys,
                      const std::vector<std::string>& others) {
  std::string out;
  for (std::size_t i = 0; i < std::min(keys.size(), kMostListed); ++i) {
    const std::string near = escape_controls(nearest_name(keys[i], others));
    out += fmt::format("\n  {} {}{}", problem, escape_controls(keys[i]),
                       near.empty() ? "" : fmt::format("; did you mean \"{}\"?", near));
  }
  if (keys.size() > kMostListed) out += fmt::format("\n  and {} more {} names", keys.size() - kMostListed, problem);
  return out;
}

std::string mismatch_lines(const std::vector<std::string>& mismatches) {
  std::string out;
  for (std::size_t i = 0; i < std::min(mismatches.size(), kMostListed); ++i) out += "\n  " + mismatches[i];
  if (mismatches.size() > kMostListed)
    out += fmt::format("\n  and {} more shapes or element types", mismatches.size() - kMostListed);
  return out;
}

// Returns "" if a value of the given type can be loaded.
std::string mismatch(const NamedTensor& entry, const NamedType& given) {
  const bool same_dims = given.type.dims() == entry.exported_dims || given.type.dims() == entry.tensor.dims();
  const Type wanted = entry.tensor.type().with_dims(entry.exported_dims);
  if (!same_dims)
    return fmt::format("shape of {}: {} is needed, the source has {}", entry.name, wanted.str(), given.type.str());
  const DType to = entry.tensor.dtype();
  const bool converts = given.type.dtype() == to || (is_float(to) && is_float(given.type.dtype()));
  return converts ? ""
                  : fmt::format("element type of {}: {} is needed, the source has {}", entry.name, wanted.str(),
                                given.type.str());
}

// `AdamW is needed, the source has that of Lion`, or "" if the classes are equal or not known.
std::string other_class(const std::string& wanted, std::string_view given) {
  if (wanted.empty() || given.empty() || wanted == given) return "";
  return fmt::format(" the state of {} is needed, the source has that of {}:", wanted, escape_controls(given));
}

}  // namespace

void StateDict::add(NamedTensor entry) {
  if (stack_count(entry.tensor) > 0) {
    for (NamedTensor& view : stack_entries(entry)) add(std::move(view));
    return;
  }
  require(index_.emplace(entry.name, entries_.size()).second, "the state has two entries named {}", entry.name);
  if (entry.exported_dims.empty()) entry.exported_dims = entry.tensor.dims();
  entries_.push_back(std::move(entry));
}

void StateDict::add_number(const std::string& name, StateNumber number) {
  const Tensor scalar = Tensor::from_host(Literal::scalar(number.get().value_or(0)));
  scalar.impl().number = std::make_shared<const StateNumber>(std::move(number));
  add({name, scalar, {}});
}

Tensor current_value(const Tensor& variable) {
  const auto& number = variable.impl().number;
  const auto current = number ? number->get() : std::nullopt;
  return current ? Tensor::from_host(Literal::scalar(*current)) : variable;
}

void StateDict::add_alias(const std::string& name, const std::string& alias) {
  require(index_.emplace(alias, index_.at(name)).second, "the state has two entries named {}", alias);
}

const NamedTensor* StateDict::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &entries_[found->second];
}

std::vector<int> match_state(const StateDict& state, const std::vector<NamedType>& given, std::string_view what,
                             const LoadStateOptions& options, LoadStateResult& result, std::string_view given_class) {
  std::vector<int> sources(state.entries().size(), -1);
  std::vector<std::string> mismatches;
  for (int i = 0; i < isize(given); ++i) {
    const NamedType& one = at(given, i);
    const NamedTensor* entry = state.find(one.name);
    if (entry == nullptr) {
      if (!options.ignores || !options.ignores(one.name)) result.unexpected_keys.push_back(one.name);
      continue;
    }
    int& source = sources[static_cast<std::size_t>(entry - state.entries().data())];
    if (source >= 0 && one.name != entry->name) continue;  // the first name of a tied parameter has priority
    source = i;
    if (std::string problem = mismatch(*entry, one); !problem.empty()) mismatches.push_back(std::move(problem));
  }
  for (std::size_t i = 0; i < sources.size(); ++i)
    if (sources[i] < 0) result.missing_keys.push_back(state.entries()[i].name);
  const std::string class_problem = other_class(state.class_name(), given_class);
  std::string problems = mismatch_lines(mismatches);
  if (options.strict) {
    const bool may_be_misspelled = class_problem.empty();  // otherwise similar names stand for other quantities
    const std::vector<std::string> none;
    problems += key_lines("missing", result.missing_keys, may_be_misspelled ? result.unexpected_keys : none);
    problems += key_lines("unexpected", result.unexpected_keys, may_be_misspelled ? result.missing_keys : none);
  }
  if (!problems.empty()) fail("{} does not fit the state that it loads:{}{}", what, class_problem, problems);
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const DType own = state.entries()[i].tensor.dtype();
    if (sources[i] >= 0 && at(given, sources[i]).type.dtype() != own)
      result.converted_from.insert(at(given, sources[i]).type.dtype());
  }
  return sources;
}

LoadStateResult load_state(const StateDict& state, const StateDict& source, std::string_view what,
                           const LoadStateOptions& options) {
  std::vector<NamedType> given;
  for (const auto& entry : source.entries())
    given.push_back({entry.name, entry.tensor.type().with_dims(entry.exported_dims)});
  LoadStateResult result;
  const auto sources = match_state(state, given, what, options, result, source.class_name());
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (sources[i] < 0) continue;
    Tensor variable = state.entries()[i].tensor;
    const Tensor value = current_value(at(source.entries(), sources[i]).tensor);
    if (const auto& number = variable.impl().number) {
      number->set(static_cast<std::int64_t>(value.item()));
      continue;
    }
    if (same_variable(variable, value)) continue;
    const auto& reader = value.impl().node->reader;
    if (reader && value.dtype() == variable.dtype())
      read_when_needed(variable, reader, value.impl().node->given_hash.value_or(0));  // a rank reads only its shard
    else
      variable.assign(value.detach().reshape(variable.dims()).to(variable.dtype()));
  }
  return result;
}

void read_when_needed(const Tensor& variable, ShardReader reader, std::uint64_t content) {
  TensorImpl& impl = variable.impl();
  if (impl.stack) return read_row_when_needed(impl, std::move(reader), content);
  auto node = trace().make_node(variable.type(), impl.node->name);
  node->sharding = impl.node->sharding;
  node->reader = std::move(reader);
  if (content != 0 && options().flag("TESSERA_CHECK_INPUTS")) {
    node->is_given = node->is_from_file = true;
    node->given_hash = content;
  }
  impl.node = std::move(node);
}

void read_now(const StateDict& state) {
  for (const NamedTensor& entry : state.entries()) {
    const TensorImpl& impl = entry.tensor.impl();
    const std::shared_ptr<Node> node = impl.stack ? impl.stack->node : impl.node;
    if (node->reader) materialize({node}, "read_now()");
  }
}

std::int64_t bytes_in_memory(const StateDict& state) {
  std::int64_t out = 0;
  for (const NamedTensor& entry : state.entries()) {
    const TensorImpl& impl = entry.tensor.impl();
    if ((impl.stack ? impl.stack->node : impl.node)->has_data()) out += entry.tensor.type().byte_size();
  }
  return out;
}

std::function<void()> restorer_of(const StateDict& state) {
  std::vector<std::pair<Tensor, std::shared_ptr<Node>>> values;
  for (const NamedTensor& entry : state.entries()) {
    const TensorImpl& impl = entry.tensor.impl();
    const Tensor variable = impl.stack ? Tensor(impl.stack) : entry.tensor;
    values.emplace_back(variable, variable.impl().node);
  }
  return [values = std::move(values)] {
    for (const auto& [variable, node] : values) variable.impl().node = node;
  };
}

void set_numbers(const StateDict& state, const std::vector<int>& sources) {
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const Tensor& variable = state.entries()[i].tensor;
    if (const auto& number = variable.impl().number; number && sources[i] >= 0)
      number->set(static_cast<std::int64_t>(variable.item()));
  }
}

StoredShard stored_shard(const Tensor& variable) {
  if (variable.impl().stack) return stored_row(variable.impl());
  const std::shared_ptr<Node> node = variable.impl().node;
  if (node->is_deferred()) materialize({node}, fmt::format("the stored value of {}", node->name));
  require(node->has_data() || node->is_under_way, "{} has not been computed yet; call mark_step() first", node->name);
  DeviceArray shard = device_shard(*node);
  Sharding sharding = storage_of(*node);
  require(sharding.is_tiled() && !sharding.is_partial(), "{} is {}; only sharded and replicated values can be saved",
          node->name, sharding);
  return {std::move(sharding), std::move(shard)};
}

}  // namespace tessera
