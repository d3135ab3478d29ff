// SPDX-License-Identifier: Apache-2.0
// FsdpDebugOptions::dummy_forward_pass. The real forward pass is traced, which takes little time and gives the types of
// the results. Nothing reads its values, so the compiler removes them. The dummy computes, for some rows on each device,
// one number from each parameter:
//
//   numbers * p   [rows, a, b] {fsdp,-,-}, from numbers [rows] {fsdp} and p [a, b] {-,-}
//
// The gradient of its square needs p, and is partial. So parameters are gathered in the forward and in the backward pass,
// and their gradients are reduced, as usual.
#include <memory>
#include <numeric>

#include "debug_options.h"
#include "tessera/base/error.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/frontend/tracing/inner.h"

namespace tessera::fsdp {
namespace {

// [rows]: different numbers in (0, 1]. With one row for each device, an exchange of rows would take as few bytes as the
// reduction of a gradient.
Tensor numbers_of_rows(const ShardAxes& axes) {
  constexpr std::int64_t kRowsOfDevice = 2;
  const SpecEntry names = axes.rows();
  std::int64_t count = kRowsOfDevice;
  for (const std::string& axis : names) count *= axes.mesh.full_axis(axis).size;
  const Tensor numbers = (Tensor::iota(Type::array(DType::kF32, {count}), 0) + 1.0) / static_cast<double>(count);
  return with_sharding_constraint(numbers, axes.mesh, PartitionSpec({PartitionSpec::Entry(names)}));
}

// [rows]: each depends on all elements of the parameter. The products stay sharded by rows. Otherwise the elements of a
// large parameter would be sharded and its gather omitted, because the sums of a few rows take fewer bytes.
Tensor of_parameter(const Tensor& numbers, const Tensor& parameter, const ShardAxes& axes) {
  Dims weights(static_cast<std::size_t>(parameter.ndim()) + 1, 1);
  weights.front() = numbers.dim(0);
  Dims one_row = parameter.dims();
  one_row.insert(one_row.begin(), 1);
  std::vector<PartitionSpec::Entry> by_row(weights.size());
  by_row.front() = PartitionSpec::Entry(axes.rows());
  const Tensor products = with_sharding_constraint(
      numbers.reshape(weights) * parameter.to(DType::kF32).reshape(one_row), axes.mesh, PartitionSpec(by_row));
  std::vector<int> dims(static_cast<std::size_t>(parameter.ndim()));
  std::iota(dims.begin(), dims.end(), 1);
  return dims.empty() ? square(products) : mean(square(products), {.dims = dims});
}

std::vector<Tensor> dummy_results(const nn::Module& module, const ShardAxes& axes, const std::vector<Tensor>& inputs,
                                  const std::vector<Tensor>& results) {
  require(!results.empty(), "dummy_forward_pass: {} returns no tensor, pair, tuple or vector of tensors to replace",
          module.class_name());
  const Tensor numbers = numbers_of_rows(axes);
  Tensor value = numbers;
  for (const Tensor& input : inputs)
    if (!input.is_null() && is_float(input.dtype())) value = value + mean(square(input.to(DType::kF32)));
  for (const Tensor& parameter : module.parameters()) {
    if (!is_float(parameter.dtype())) continue;
    const auto& unshard = parameter.impl().unshard;
    const TraceScope scope("dummy_forward_pass", unshard ? unshard->unit : std::string());
    // The slope of abs is 1 or -1. So the backward pass visits parameters one after the other, and no gradient vanishes.
    value = abs(value + of_parameter(numbers, parameter, axes) - 0.5);
  }
  const Tensor sum = mean(value);
  std::vector<Tensor> out;
  for (const Tensor& result : results) {
    if (result.is_null())
      out.push_back(result);
    else if (is_float(result.dtype()))
      out.push_back(sum.to(result.dtype()).broadcast_to(result.dims()));
    else
      out.push_back(Tensor::zeros(result.type()));
  }
  return out;
}

}  // namespace

void add_dummy_forward(nn::Module& module, const ShardAxes& axes) {
  const auto before = std::make_shared<std::vector<NodeHandle>>();  // the values of the buffers
  module.register_forward_pre_hook([before](nn::Module& called, std::vector<Tensor>& /*inputs*/) {
    before->clear();
    for (const Tensor& buffer : called.buffers()) before->push_back(buffer.impl().node);
  });
  module.register_forward_hook(
      [before, axes](nn::Module& called, const std::vector<Tensor>& inputs, std::vector<Tensor>& results) {
        const auto buffers = called.buffers();
        for (std::size_t i = 0; i < buffers.size(); ++i) buffers[i].impl().node = before->at(i);
        before->clear();
        results = dummy_results(called, axes, inputs, results);
      });
}

}  // namespace tessera::fsdp
