// SPDX-License-Identifier: Apache-2.0
#include "tessera/optim/optimizer_state.h"

#include <algorithm>

#include "int8_blocks.h"
#include "stochastic_rounding.h"
#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/frontend/tracing/inner.h"
#include "tessera/ops/structural.h"

namespace tessera::optim {
namespace {

Sharding without(Sharding sharding, const std::vector<int>& dims) {
  for (auto dim = dims.rbegin(); dim != dims.rend(); ++dim) sharding.dims.erase(sharding.dims.begin() + *dim);
  return sharding;
}

std::optional<Sharding> state_sharding(std::optional<Sharding> of_parameter, const std::vector<int>& without_dims) {
  if (!of_parameter || !of_parameter->is_tiled()) return without_dims.empty() ? of_parameter : std::nullopt;
  return without(std::move(*of_parameter), without_dims);
}

// One scale stands for many columns, so only the other dims are sharded.
std::optional<Sharding> scale_sharding(std::optional<Sharding> of_values) {
  if (of_values && of_values->is_tiled() && !of_values->dims.empty()) of_values->dims.back().axes.clear();
  return of_values;
}

Tensor state_for(const Tensor& parameter, const Type& type, double initial, std::optional<Sharding> sharding,
                 std::string name) {
  Tensor out = Tensor::deferred(
      type, [initial](Builder& builder, const Type& full) { return ops::full(builder, full, initial); },
      std::move(name));
  out.impl().node->sharding = std::move(sharding);
  out.impl().stack_count = parameter.impl().stack_count;
  return out;
}

void place_variable(const Tensor& variable, const std::optional<Sharding>& sharding) {
  if (Node& node = *variable.impl().node; node.is_deferred())
    node.sharding = sharding;
  else if (sharding && sharding->is_tiled())
    shard_complete_value(variable, *sharding);  // of a checkpoint that was loaded before the first gradient
}

void assign_where(Tensor variable, const Tensor& value, const Tensor& applies) {
  variable.assign(applies.is_null() ? value : where(applies, value, stored_tensor(variable)));
}

}  // namespace

StateFormat state_format_from_name(const std::string& name) {
  if (name == "f32" || name == "float32") return StateFormat::kFull;
  if (name == "bf16" || name == "bfloat16") return StateFormat::kBF16;
  if (name == "int8") return StateFormat::kInt8;
  fail("unknown format of optimizer state {}{}", name,
       suggest_name(name, {"f32", "float32", "bf16", "bfloat16", "int8"}));
}

DType update_dtype(const Tensor& parameter) { return parameter.dtype() == DType::kF64 ? DType::kF64 : DType::kF32; }

StateQuantity::StateQuantity(const std::string& prefix, const std::vector<Tensor>& parameters, StateOptions options)
    : options_(std::move(options)) {
  for (const Tensor& parameter : parameters) {
    Entry entry;
    entry.dtype = update_dtype(parameter);
    if (!options_.has_state || options_.has_state(parameter)) {
      if (options_.without_dims) entry.without_dims = options_.without_dims(parameter);
      std::sort(entry.without_dims.begin(), entry.without_dims.end());
      Dims dims = parameter.dims();
      for (auto dim = entry.without_dims.rbegin(); dim != entry.without_dims.rend(); ++dim)
        dims.erase(dims.begin() + *dim);
      const bool is_quantized = options_.format == StateFormat::kInt8 && is_worth_quantizing(dims);
      DType dtype = entry.dtype;
      if (options_.format == StateFormat::kBF16) dtype = DType::kBF16;
      if (is_quantized) dtype = options_.is_signed ? DType::kS8 : DType::kU8;
      const std::string name = prefix + "." + parameter.name();
      const auto sharding = state_sharding(parameter.impl().node->sharding, entry.without_dims);
      // With the largest code, an element has the value of the scale.
      const double code = options_.initial > 0 ? largest_code(options_.is_signed) : 0;
      entry.values =
          state_for(parameter, Type::array(dtype, dims), is_quantized ? code : options_.initial, sharding, name);
      if (is_quantized)
        entry.scales = state_for(parameter, Type::array(DType::kF32, block_dims(dims)), options_.initial,
                                 scale_sharding(sharding), prefix + ".scale." + parameter.name());
    }
    entries_.push_back(std::move(entry));
  }
}

bool StateQuantity::has(int index) const { return !at(entries_, index).values.is_null(); }

Tensor StateQuantity::read(int index) const {
  const Entry& entry = at(entries_, index);
  const Tensor values = stored_tensor(entry.values);
  if (entry.scales.is_null()) return values.to(entry.dtype);
  return dequantize({values, stored_tensor(entry.scales)}).to(entry.dtype);
}

void StateQuantity::write(int index, const Tensor& value, const Tensor& applies) {
  const Entry& entry = at(entries_, index);
  if (!entry.scales.is_null()) {
    const Int8Blocks blocks = quantize(value.to(DType::kF32), options_.is_signed);
    assign_where(entry.values, blocks.codes, applies);
    assign_where(entry.scales, blocks.scales, applies);
  } else if (entry.values.dtype() == DType::kBF16) {
    assign_where(entry.values, stochastically_rounded(value.to(DType::kF32)), applies);
  } else {
    assign_where(entry.values, value, applies);
  }
}

void StateQuantity::append_to(std::vector<NamedState>& out, int index) const {
  const Entry& entry = at(entries_, index);
  for (const Tensor& variable : {entry.values, entry.scales})
    if (!variable.is_null()) out.push_back({variable.name(), variable});
}

void StateQuantity::count_formats(FormatCounts& counts) const {
  for (const Entry& entry : entries_) {
    if (entry.values.is_null()) continue;
    const bool is_full = is_float(entry.values.dtype()) && entry.values.dtype() != DType::kBF16;
    const bool is_other = is_full && counts.format != StateFormat::kFull;
    ++(is_other ? counts.others : counts.as_asked);
    (is_other ? counts.other_elements : counts.elements) += entry.values.element_count();
  }
}

void StateQuantity::place(int index, const Tensor& parameter) {
  Entry& entry = at(entries_, index);
  if (entry.is_placed || entry.values.is_null()) return;
  entry.is_placed = true;
  const auto sharding = state_sharding(parameter.impl().gradient_storage, entry.without_dims);
  place_variable(entry.values, sharding);
  if (!entry.scales.is_null()) place_variable(entry.scales, scale_sharding(sharding));
}

}  // namespace tessera::optim
