// SPDX-License-Identifier: Apache-2.0
#include "control/traced_values.h"

#include "tessera/ops/structural.h"

namespace tessera::control {

std::vector<Value> values_of(const std::vector<Tensor>& tensors) {
  std::vector<Value> out;
  out.reserve(tensors.size());
  for (const Tensor& tensor : tensors) out.push_back(trace().use(tensor));
  return out;
}

std::vector<Tensor> tensors_of(const std::vector<Value>& values) {
  std::vector<Tensor> out;
  out.reserve(values.size());
  for (const Value& value : values) out.push_back(trace().wrap(value));
  return out;
}

std::vector<Value> add_arguments(FunctionTrace& function, const std::vector<Value>& like, const std::string& name) {
  std::vector<Value> out;
  for (const Value& value : like) {
    const Type type = value.type();  // a copy: emitting reallocates
    out.push_back(function.argument(type, name));
  }
  return out;
}

void check_types(std::string_view function, std::string_view what, const std::vector<Value>& expected,
                 const std::vector<Value>& results) {
  require(expected.size() == results.size(), "{}: {} has {} tensors, but the function returns {}", function, what,
          expected.size(), results.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    require(expected[i].type() == results[i].type(), "{}: the function returns {} for tensor {} of {}, which is {}",
            function, results[i].type(), i, what, expected[i].type());
}

Value s32(Builder& builder, std::int64_t value) {
  return ops::scalar(builder, DType::kS32, static_cast<double>(value));
}

Type stacked_type(const Type& row, std::int64_t length) {
  Dims dims = row.dims();
  dims.insert(dims.begin(), length);
  return Type::array(row.dtype(), std::move(dims));
}

}  // namespace tessera::control
