// SPDX-License-Identifier: Apache-2.0
#include "tessera/frontend/tensor/tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <ostream>

#include "execution/execute.h"
#include "tensor/broadcast.h"
#include "tensor/number_types.h"
#include "tensor/stack_views.h"
#include "tessera/ops/contraction.h"
#include "tessera/ops/control_flow.h"
#include "tessera/ops/elementwise.h"
#include "tessera/ops/structural.h"
#include "tessera/sharding/placement.h"
#include "tracing/recorded.h"

namespace tessera {
namespace {

Tensor new_variable(std::shared_ptr<Node> node, std::string name = {}) {
  auto impl = std::make_shared<TensorImpl>();
  impl->node = std::move(node);
  impl->name = std::move(name);
  return Tensor(std::move(impl));
}

}  // namespace

// ---- creation -----------------------------------------------------------------------------------------------------------

Tensor Tensor::from_host(Literal value) {
  require(value.type().is_array(), "from_host takes an array, got {}", value.type());
  auto node = tessera::trace().make_node(value.type());
  node->host = std::move(value);
  node->is_given = true;
  return new_variable(std::move(node));
}

Tensor Tensor::from_elements(std::span<const std::byte> elements, DType dtype, const Shape& shape) {
  Literal value(Type::array(dtype, shape));
  require(elements.size() == value.bytes().size(), "from: the shape {} needs {} values, got {}", shape, shape.numel(),
          elements.size() / static_cast<std::size_t>(dtype_size(dtype)));
  std::copy(elements.begin(), elements.end(), value.mutable_bytes().begin());
  return from_host(std::move(value));
}

Tensor Tensor::from(const std::vector<bool>& values, const Shape& shape) {
  const std::vector<std::uint8_t> bytes(values.begin(), values.end());
  return from_elements(std::as_bytes(std::span(bytes)), DType::kPred, shape);
}

Tensor Tensor::scalar(DType dtype, double value, std::source_location where) {
  return from_host(in_context("scalar", {}, where, [&] { return checked_scalar(dtype, value); }));
}
Tensor Tensor::scalar(DType dtype, const std::function<double()>& value) {
  Tensor out = scalar(dtype, value());
  out.impl().node->refresh = [dtype, value] { return checked_scalar(dtype, value()); };
  return out;
}

Tensor Tensor::from_local_shards(const Type& global, const Mesh& mesh, const PartitionSpec& spec,
                                 const Literal& shard) {
  const Sharding sharding = Sharding::from_spec(mesh, spec, global.ndim());
  require(mesh.device_count() == device_count(), "{} has {} devices; this job has {}", mesh, mesh.device_count(),
          device_count());
  const Type expected = shard_type(global, sharding);
  require(shard.type() == expected, "from_local_shards: under {} each rank holds {} of {}, got {}", sharding, expected,
          global, shard.type());
  auto node = tessera::trace().make_node(global);
  node->sharding = sharding;
  node->shard = DeviceArray::from_literal(shard);
  note_given_shard(*node, shard);
  return new_variable(std::move(node));
}

Tensor Tensor::deferred(const Type& type, Initializer initializer, std::string name) {
  auto node = tessera::trace().make_node(type, name);
  node->initializer = std::move(initializer);
  return new_variable(std::move(node), std::move(name));
}

Tensor Tensor::zeros_like_variable(const Tensor& like, DType dtype, std::string name) {
  Tensor out = deferred(
      like.type().with_dtype(dtype), [](Builder& builder, const Type& type) { return ops::full(builder, type, 0); },
      std::move(name));
  out.impl().node->sharding = like.impl().node->sharding;
  out.impl().stack_count = like.impl().stack_count;
  return out;
}

Tensor Tensor::abstract(const Type& type, std::string name) {
  auto node = tessera::trace().make_node(type, name);
  node->is_abstract = true;
  return new_variable(std::move(node), std::move(name));
}

Tensor Tensor::zeros(const Type& type, std::source_location where) { return full(type, 0, where); }
Tensor Tensor::ones(const Type& type, std::source_location where) { return full(type, 1, where); }
Tensor Tensor::full(const Type& type, double value, std::source_location where) {
  in_context("full", {}, where, [&] { check_number(value, type, "the result", kTypeAdvice); });
  return tessera::trace().record(where, [&](Builder& builder) { return ops::full(builder, type, value); });
}
Tensor Tensor::iota(const Type& type, int dim, std::source_location where) {
  return tessera::trace().record(where, [&](Builder& builder) { return ops::iota(builder, type, dim); });
}

Tensor detail::stored_tensor(const Tensor& variable) {
  Tensor out = new_variable(variable.impl().node, variable.name());
  out.impl().stands_for = variable.impl().stands_for ? variable.impl().stands_for : variable.impl_pointer();
  return out;
}

// ---- queries ------------------------------------------------------------------------------------------------------------

TensorImpl& Tensor::impl() const {
  require(impl_ != nullptr,
          "a null tensor has no value (a gradient before backward(), or a default-constructed Tensor)");
  return *impl_;
}
const Type& Tensor::type() const { return impl().node->type; }
Shape Tensor::shape(std::source_location where) const {
  return in_context("shape", {}, where, [&] { return Shape{dims()}; });
}
const std::string& Tensor::name() const { return impl().name; }
void Tensor::set_name(std::string name) {
  if (impl().node->name.empty()) impl().node->name = name;
  impl().name = std::move(name);
}
std::optional<Sharding> Tensor::sharding() const { return impl().node->sharding; }
bool Tensor::is_materialized() const { return impl().node->has_data(); }

std::int64_t Tensor::dim(int i) const { return type().dim(checked_dim(type(), i)); }

std::ostream& operator<<(std::ostream& out, const PrintedTensor& printed) {
  return out << printed.tensor.str(printed.where);
}

// ---- gradients ----------------------------------------------------------------------------------------------------------

bool Tensor::requires_grad() const { return impl().with_gradient().requires_grad; }
Tensor& Tensor::set_requires_grad(bool value) {
  require(
      !value || is_float(dtype()), "only floats have gradients; {} is {}",
      [&] { return name().empty() ? "the tensor" : name(); }, type());
  impl().with_gradient().requires_grad = value;
  return *this;
}
Tensor Tensor::grad() const { return impl().with_gradient().grad; }
void Tensor::set_grad(Tensor grad) {
  if (!grad.is_null())
    require(grad.type() == type(), "a gradient must have the type of its variable, {}, got {}", type(), grad.type());
  const auto& variable = impl().argument ? impl().argument : impl_;
  tessera::trace().note_gradient(variable);
  variable->grad = std::move(grad);
}

Tensor Tensor::detach(std::source_location where) const {
  Trace& current = tessera::trace();
  const Tensor& self = *this;
  return current.record(where, [&](Builder& builder) {
    builder.default_notes = with_frontend_attribute(builder.default_notes, "tessera.stop_gradient", "true");
    const Value value = current.stored(self);
    const Value out = ops::copy(value);
    // A variable without annotation is replicated from its first step on, which must not change the program.
    if (const auto& sharding = self.impl().node->sharding; sharding && !sharding->used_axes().empty())
      builder.set_sharding(out, make_sharding(*sharding));
    return out;
  });
}

// ---- variables ----------------------------------------------------------------------------------------------------------

void Tensor::assign(const Tensor& value, std::source_location where) {
  in_context("assign", {}, where, [&] {
    require(
        value.type() == type(), "the variable{} is {}, the value is {}",
        [&] { return name().empty() ? name() : " " + name(); }, type(), value.type());
  });
  TensorImpl& variable = impl();
  if (variable.stack) return assign_row(variable, value, where);
  Trace& current = tessera::trace();
  current.require_no_function("a variable is assigned");
  const std::shared_ptr<Node> old = variable.node;
  const std::shared_ptr<Node> given = value.impl().node;
  std::shared_ptr<Node> fresh;
  current.note_assignment(impl_pointer());
  const bool is_program = current.is_capturing() && given->has_data();  // assigned again at each call
  if (given->host && !is_program) {
    fresh = current.make_node(old->type, variable.name);
    fresh->host = given->host;
    fresh->is_given = given->is_given;
    fresh->given_hash = given->given_hash;
  } else if (given->has_data() && given->sharding == old->sharding && !is_program) {
    fresh = given;
  } else {
    const Value source = current.stored(value);
    current.builder().default_notes = current.notes(where);
    fresh = current.wrap(source, old->sharding, variable.name).impl().node;
    fresh->replaces = old->has_data() || old->is_deferred() ? old : old->replaces;
  }
  if (fresh != given) fresh->sharding = old->sharding;
  variable.node = std::move(fresh);
}

// ---- shapes -------------------------------------------------------------------------------------------------------------

namespace {

template <class F>
Tensor recorded(std::string_view name, const Tensor& tensor, const std::source_location& where, F&& emit) {
  return in_context(name, {&tensor}, where, [&] {
    return trace().record(where, [&](Builder& builder) {
      const CalledAs scope(builder, name);
      return emit(trace().use(tensor));
    });
  });
}

// Replaces a size of -1 by the size that gives `element_count` elements.
Dims known_sizes(Dims dims, std::int64_t element_count) {
  std::int64_t known = 1;
  int open = -1;
  for (int i = 0; i < isize(dims); ++i) {
    if (at(dims, i) == -1) {
      require(open < 0, "only one size may be -1, got [{}]", fmt::join(dims, ","));
      open = i;
    } else {
      require(!__builtin_mul_overflow(known, at(dims, i), &known), "[{}] has more elements than 64 bits can count",
              fmt::join(dims, ","));
    }
  }
  if (open < 0) return dims;
  require(known > 0 && element_count % known == 0, "{} elements do not divide by {}, the product of the other sizes",
          element_count, known);
  at(dims, open) = element_count / known;
  return dims;
}

}  // namespace

// Not inline: g++ 12 would warn of reads beyond the list of sizes in programs of users (-Wstringop-overread, a false alarm).
Tensor Tensor::view(Dims dims, std::source_location where) const { return reshape(std::move(dims), where); }
Tensor Tensor::reshape_to(std::span<const std::int64_t> sizes, const std::source_location& where) const {
  return reshape(Dims(sizes.begin(), sizes.end()), where);
}
Tensor Tensor::permute_to(std::span<const std::int64_t> order, const std::source_location& where) const {
  return permute(Dims(order.begin(), order.end()), where);
}
Tensor Tensor::expand_to(std::span<const std::int64_t> sizes, const std::source_location& where) const {
  return expand(Dims(sizes.begin(), sizes.end()), where);
}

Tensor Tensor::reshape(Dims dims, std::source_location where) const {
  return recorded("reshape", *this, where,
                  [&](Value x) { return ops::reshape(x, known_sizes(std::move(dims), element_count())); });
}

Tensor Tensor::transpose(Dims permutation, std::source_location where) const {
  return recorded("transpose", *this, where, [&](Value x) { return ops::transpose(x, permutation); });
}

Tensor Tensor::t(std::source_location where) const {
  in_context("t", {this}, where, [&] { require(ndim() >= 2, "needs at least two dims, got {}", type()); });
  Dims permutation;
  for (int i = 0; i < ndim(); ++i) permutation.push_back(i);
  std::swap(permutation[permutation.size() - 1], permutation[permutation.size() - 2]);
  return transpose(std::move(permutation), where);
}

Tensor Tensor::slice(int dim, std::int64_t start, std::int64_t limit, std::source_location where) const {
  return recorded("slice", *this, where, [&](Value x) {
    const int d = checked_dim(type(), dim);
    const std::int64_t size = type().dim(d);
    const std::int64_t from = start < 0 ? start + size : start;
    const std::int64_t to = limit < 0 ? limit + size : limit;
    require(from >= 0 && from <= to && to <= size, "[{}, {}) is outside dim {} of {}", start, limit, d, type());
    return ops::slice_dim(x, d, from, to);
  });
}

Tensor Tensor::select(int dim, std::int64_t index, std::source_location where) const {
  return recorded("select", *this, where, [&](Value x) {
    const int d = checked_dim(type(), dim);
    const std::int64_t i = index < 0 ? index + type().dim(d) : index;
    require(i >= 0 && i < type().dim(d), "index {} is outside dim {} of {}", index, d, type());
    Dims dims = x.type().dims();
    dims.erase(dims.begin() + d);
    return ops::reshape(ops::slice_dim(x, d, i, i + 1), std::move(dims));
  });
}

Tensor Tensor::unsqueeze(int dim, std::source_location where) const {
  const int d = dim < 0 ? dim + ndim() + 1 : dim;
  in_context("unsqueeze", {this}, where,
             [&] { require(d >= 0 && d <= ndim(), "{} has no position {} for a new dim", type(), dim); });
  Dims sizes = dims();
  sizes.insert(sizes.begin() + d, 1);
  return reshape(std::move(sizes), where);
}

Tensor Tensor::squeeze(int dim, std::source_location where) const { return squeeze(std::vector<int>{dim}, where); }

Tensor Tensor::squeeze(const std::vector<int>& named, std::source_location where) const {
  Dims sizes;
  in_context("squeeze", {this}, where, [&] {
    std::vector<bool> is_named(static_cast<std::size_t>(std::max(1, ndim())));
    for (const int one : named) {
      const auto d = static_cast<std::size_t>(checked_line_dim(type(), one));
      require(!is_named[d], "a dim is named twice: [{}]", fmt::join(named, ","));
      is_named[d] = true;
    }
    for (int d = 0; d < ndim(); ++d)
      if (dim(d) != 1 || !is_named[static_cast<std::size_t>(d)]) sizes.push_back(dim(d));
  });
  return reshape(std::move(sizes), where);
}

Tensor Tensor::squeeze(std::source_location where) const {
  Dims sizes;
  std::copy_if(dims().begin(), dims().end(), std::back_inserter(sizes), [](std::int64_t size) { return size != 1; });
  return reshape(std::move(sizes), where);
}

Tensor Tensor::permute(Dims order, std::source_location where) const {
  in_context("permute", {this}, where, [&] {
    require(isize(order) == ndim(), "needs an order of {} dims, got [{}]", ndim(), fmt::join(order, ","));
    for (auto& d : order) d = checked_dim(type(), static_cast<int>(d));
  });
  return recorded("permute", *this, where, [&](Value x) { return ops::transpose(x, order); });
}

Tensor Tensor::transpose(int first, int second, std::source_location where) const {
  return recorded("transpose", *this, where, [&](Value x) {
    const int one = checked_line_dim(type(), first), other = checked_line_dim(type(), second);
    if (ndim() == 0) return x;
    Dims order;
    for (int i = 0; i < ndim(); ++i) order.push_back(i);
    std::swap(tessera::at(order, one), tessera::at(order, other));
    return ops::transpose(x, std::move(order));
  });
}

Tensor Tensor::flatten(int start, int end, std::source_location where) const {
  if (ndim() == 0) return reshape({1}, where);
  return recorded("flatten", *this, where, [&](Value x) {
    const int first = checked_dim(type(), start);
    const int last = checked_dim(type(), end);
    require(first <= last, "dim {} is after dim {}", start, end);
    Dims sizes(dims().begin(), dims().begin() + first + 1);
    for (int d = first + 1; d <= last; ++d) tessera::at(sizes, first) *= dim(d);
    sizes.insert(sizes.end(), dims().begin() + last + 1, dims().end());
    return ops::reshape(x, std::move(sizes));
  });
}

Tensor Tensor::expand(Dims sizes, std::source_location where) const {
  return recorded("expand", *this, where, [&](Value x) {
    const int further = isize(sizes) - ndim();
    for (int i = 0; i < isize(sizes); ++i)
      if (tessera::at(sizes, i) == -1) {
        require(i >= further, "size {} of [{}] is -1, but the dim is new", i, fmt::join(sizes, ","));
        tessera::at(sizes, i) = dim(i - further);
      }
    return broadcast_value(x, sizes);
  });
}

Tensor Tensor::broadcast_to(Dims dims, std::source_location where) const {
  return recorded("broadcast_to", *this, where, [&](Value x) { return broadcast_value(x, dims); });
}

Tensor Tensor::to(DType dtype, std::source_location where) const {
  if (dtype == this->dtype()) return *this;
  return recorded("to", *this, where, [&](Value x) { return ops::convert(x, dtype); });
}

Tensor Tensor::to(const Device& /*device*/) const { return *this; }

}  // namespace tessera
