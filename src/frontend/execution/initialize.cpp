// SPDX-License-Identifier: Apache-2.0
#include "tessera/frontend/execution/initialize.h"

#include "execution/execute.h"
#include "tessera/ops/elementwise.h"
#include "tracing/error_context.h"

namespace tessera {

bool is_deferred(const Tensor& variable) {
  const TensorImpl& impl = variable.impl();
  return (impl.stack ? *impl.stack : impl).node->is_deferred();
}

void initialize(const std::vector<Tensor>& variables) {
  if (is_planning()) return;
  trace().require_no_function("variables are initialized");
  std::vector<std::shared_ptr<Node>> nodes;
  for (const Tensor& variable : variables) {
    const TensorImpl& impl = variable.impl();
    nodes.push_back((impl.stack ? *impl.stack : impl).node.shared());
  }
  materialize(nodes, "initialize()");
}

namespace {

// Where this is false, other values have the type of the variable.
bool is_new(const TensorImpl& variable) {
  return variable.grad.is_null() && !variable.has_optimizer_state && variable.unshard == nullptr &&
         variable.stack == nullptr && variable.stack_count == 0;
}

// The initializer computes the value in the old type, so that converted variables have the values of others.
Initializer converted(Initializer initializer, const Type& old, DType dtype) {
  return [initializer = std::move(initializer), old, dtype](Builder& builder, const Type&) {
    return ops::convert(initializer(builder, old), dtype);
  };
}

}  // namespace

void convert_variable(const Tensor& variable, DType dtype, std::source_location where) {
  in_context("convert_variable", {&variable}, where, [&] {
    TensorImpl& impl = variable.impl();
    if (impl.node->type.dtype() == dtype) return;
    require(is_new(impl), "convert {} before the first backward(), the optimizer and fully_shard()", impl.name);
    Trace& current = trace();
    current.require_no_function("a variable is converted");
    const std::shared_ptr<Node> old = impl.node;
    std::shared_ptr<Node> fresh;
    if (old->is_deferred() || old->is_abstract) {
      fresh = current.make_node(old->type.with_dtype(dtype), old->name);
      fresh->is_abstract = old->is_abstract;
      fresh->reader = old->reader;  // it reads any type
      if (old->initializer) fresh->initializer = converted(old->initializer, old->type, dtype);
    } else {
      const Value value = current.stored(variable);
      current.builder().default_notes = current.notes(where);
      fresh = current.wrap(ops::convert(value, dtype), old->sharding, old->name).impl().node;
    }
    fresh->sharding = old->sharding;
    if (old->is_from_file && old->reader) {
      fresh->is_given = fresh->is_from_file = true;
      fresh->given_hash = old->given_hash;
    }
    impl.node = std::move(fresh);
  });
}

}  // namespace tessera
