// SPDX-License-Identifier: Apache-2.0
// vmap traces the function for one example and emits its computation for all of them (tessera/autodiff/batching.h).
#include "tessera/frontend/control/vmap.h"

#include "control/traced_values.h"
#include "tensor/broadcast.h"
#include "tessera/autodiff/batching.h"
#include "tessera/ops/loops.h"
#include "tessera/ops/structural.h"
#include "tracing/error_context.h"

namespace tessera {

std::optional<int> ExampleDims::of(std::size_t i, std::size_t count, std::string_view what) const {
  if (!is_for_each_) return dims_.front();
  require(dims_.size() == count, "vmap: {} has {} entries, but {} are needed", what, dims_.size(), count);
  return dims_[i];
}

namespace {

// Dim `from` becomes dim `to`.
Value with_dim_at(Value x, int from, int to) {
  if (from == to) return x;
  Dims order;
  for (int d = 0; d < x.type().ndim(); ++d)
    if (d != from) order.push_back(d);
  order.insert(order.begin() + to, from);
  return ops::transpose(x, std::move(order));
}

Type of_one_example(const Type& type, int dim) {
  Dims dims = type.dims();
  dims.erase(dims.begin() + dim);
  return Type::array(type.dtype(), std::move(dims));
}

// The mapped tensors of a call, and the number of examples.
class Examples {
 public:
  Examples(const detail::Tensors& tensors, const detail::VmapCall& call) : tensors_(tensors), size_(call.size) {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const std::optional<int> dim = call.in_dims[i];
      dims_.push_back(dim ? std::optional(checked_dim(tensors[i].type(), *dim)) : std::nullopt);
      if (!dim) continue;
      const std::int64_t size = tensors[i].dim(*dims_.back());
      require(size_.value_or(size) == size, "all arguments need as many examples: dim {} of tensor {}, {}, is not {}",
              *dims_.back(), i, tensors[i].type(), size_.value_or(size));
      size_ = size;
    }
    require(size_.has_value(), "in_dims maps no tensor, so the number of examples must be given as .size");
    require(*size_ >= 1, "needs at least one example, got {}", *size_);
  }

  [[nodiscard]] std::int64_t size() const { return *size_; }
  /// Adds arguments for one example, and returns the tensors of the function.
  [[nodiscard]] detail::Tensors add_arguments(FunctionTrace& function) const {
    std::vector<Value> values;
    for (std::size_t i = 0; i < tensors_.size(); ++i)
      if (dims_[i]) values.push_back(function.argument(of_one_example(tensors_[i].type(), *dims_[i]), "example"));
    detail::Tensors out;
    auto next = values.begin();
    for (std::size_t i = 0; i < tensors_.size(); ++i) out.push_back(dims_[i] ? trace().wrap(*next++) : tensors_[i]);
    return out;
  }
  /// Appends the values of the arguments, with the examples along dim 0.
  void append_to(std::vector<Batched>& out) const {
    for (std::size_t i = 0; i < tensors_.size(); ++i)
      if (dims_[i]) out.push_back({with_dim_at(trace().use(tensors_[i]), *dims_[i], 0), {true}});
  }

 private:
  const detail::Tensors& tensors_;
  std::optional<std::int64_t> size_;
  detail::LeafDims dims_;
};

// The result with its examples along `dim`.
Tensor result_with_examples(const Batched& result, const std::optional<int>& dim, std::int64_t examples, int number) {
  require(dim || !result.any(), "out_dims is nullopt for tensor {} of the result, but it differs between examples",
          number);
  if (!dim) return trace().wrap(result.value);
  const Value value = with_batched(result, {true}, examples).value;
  return trace().wrap(with_dim_at(value, 0, checked_dim(value.type(), *dim)));
}

}  // namespace

namespace detail {

Tensors vmap_tensors(const std::function<Tensors(const Tensors&)>& function, const Tensors& arguments,
                     const VmapCall& call, const std::source_location& where) {
  Trace& current = trace();
  Builder& outer = current.builder();
  const Examples examples = in_context("vmap", {}, where, [&] { return Examples(arguments, call); });
  outer.default_notes = current.notes(where);
  FunctionTrace traced("vmap.function");
  traced.set_iteration(traced.argument(Type::scalar(DType::kS32), "index"));
  const Tensors results = function(examples.add_arguments(traced));
  traced.close(control::values_of(results));
  return in_context("vmap", {}, where, [&] {
    outer.default_notes = current.notes(where);
    const std::int64_t size = examples.size();
    std::vector<Batched> values{{ops::iota(outer, Type::array(DType::kS32, {size}), 0), {true}}};
    examples.append_to(values);
    for (const Value& captured : traced.captured()) values.push_back({captured, {false}});
    const Batched root = batched(outer, traced.computation(), values, size);
    outer.default_notes = current.notes(where);
    const std::vector<Value> elements = ops::elements_of(root.value);
    const LeafDims out_dims = call.out_dims();
    Tensors out;
    for (std::size_t k = 0; k < elements.size(); ++k) {
      const Batched element{elements[k], {root.leaves[k]}};
      out.push_back(result_with_examples(element, out_dims[k], size, static_cast<int>(k)));
    }
    return out;
  });
}

}  // namespace detail
}  // namespace tessera
