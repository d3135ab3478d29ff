// SPDX-License-Identifier: Apache-2.0
#include "tessera/frontend/tensor/stack.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "execution/execute.h"
#include "tensor/stack_views.h"
#include "tessera/base/text.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/frontend/tracing/inner.h"
#include "tessera/sharding/placement.h"

namespace tessera {
namespace {

Type row_type(const Type& stack) {
  return Type::array(stack.dtype(), Dims(stack.dims().begin() + 1, stack.dims().end()));
}

// `h.3.weight` for `h.each.weight`.
std::string name_of_row(const std::string& stack, std::int64_t row) {
  const std::string each(kEachOfStack);
  const std::string number = std::to_string(row);
  if (stack.starts_with(each + ".")) return number + stack.substr(each.size());
  const auto found = stack.find("." + each + ".");
  if (found == std::string::npos) return stack + "." + number;
  return stack.substr(0, found + 1) + number + stack.substr(found + 1 + each.size());
}

Sharding without_dim_0(Sharding sharding, const std::string& name) {
  require(sharding.tiles(0) == 1,
          "{} is sharded over its stacked dim 0 ({}), so its variables cannot be read one by one", name, sharding);
  sharding.dims.erase(sharding.dims.begin());
  return sharding;
}

// Reads the rows that have a reader, and copies the others from the value before.
struct RowReaders {
  std::map<std::int64_t, ShardReader> readers;
  std::map<std::int64_t, std::uint64_t> contents;  // as in read_when_needed()
  std::shared_ptr<Node> before;

  // The content of the stack; 0 if that of a row is not compared.
  [[nodiscard]] std::uint64_t content() const {
    std::uint64_t out = 0;
    for (const auto& [row, hash] : contents) {
      if (hash == 0) return 0;
      out = hash_mix(hash_mix(out, static_cast<std::uint64_t>(row)), hash);
    }
    return out;
  }

  void operator()(const Type& type, const Sharding& sharding, std::int64_t device, std::span<std::byte> shard) const {
    const Sharding own = without_dim_0(sharding, "the stack");
    const Type row = row_type(type);
    const std::size_t bytes = shard.size() / static_cast<std::size_t>(type.dim(0));
    for (std::int64_t r = 0; r < type.dim(0); ++r) {
      const auto place = shard.subspan(static_cast<std::size_t>(r) * bytes, bytes);
      if (const auto found = readers.find(r); found != readers.end()) {
        found->second(row, own, device, place);
        continue;
      }
      require(before->has_data(), "variable {} of a stack was not loaded, and the stack had no value before", r);
      const DeviceArray kept = device_shard(*before);
      std::memcpy(place.data(), kept.bytes().data() + static_cast<std::size_t>(r) * bytes, bytes);
    }
  }
};

}  // namespace

void make_stack(const Tensor& variable, std::int64_t count) {
  TensorImpl& impl = variable.impl();
  require(count >= 1, "a stack needs at least one variable, got {}", count);
  require(impl.node->initializer && !impl.node->sharding && !impl.has_optimizer_state && impl.stack_count == 0,
          "{} cannot become a stack: it has a value, a sharding or optimizer state already", impl.name);
  Dims dims = variable.dims();
  dims.insert(dims.begin(), count);
  auto node = trace().make_node(Type::array(variable.dtype(), std::move(dims)), impl.node->name);
  node->initializer = impl.node->initializer;
  impl.node = std::move(node);
  impl.stack_count = count;
}

std::int64_t stack_count(const Tensor& variable) { return variable.impl().stack_count; }

std::vector<NamedTensor> stack_entries(const NamedTensor& stack) {
  const TensorImpl& stacked = stack.tensor.impl();
  const Type type = row_type(stack.tensor.type());
  const bool fits = product(stack.exported_dims) == type.element_count();
  std::vector<NamedTensor> out;
  for (std::int64_t row = 0; row < stacked.stack_count; ++row) {
    auto view = std::make_shared<TensorImpl>();
    view->name = name_of_row(stack.name, row);
    view->stack = stack.tensor.impl_pointer();
    view->row = row;
    view->node = trace().make_node(type, view->name);
    out.push_back({view->name, Tensor(view), fits ? stack.exported_dims : type.dims()});
  }
  return out;
}

StoredShard stored_row(const TensorImpl& view) {
  const StoredShard stack = stored_shard(Tensor(view.stack));
  Sharding own = without_dim_0(stack.sharding, view.stack->name);
  DeviceArray shard = DeviceArray::uninitialized(row_type(stack.shard.type()));
  const std::size_t bytes = shard.bytes().size();
  const auto row = static_cast<std::size_t>(view.row);
  if (bytes > 0) std::memcpy(shard.mutable_bytes().data(), stack.shard.bytes().data() + row * bytes, bytes);
  return {std::move(own), std::move(shard)};
}

void read_row_when_needed(const TensorImpl& view, ShardReader reader, std::uint64_t content) {
  TensorImpl& stack = *view.stack;
  RowReaders rows;
  if (const RowReaders* known = stack.node->reader.target<RowReaders>())
    rows = *known;
  else
    rows.before = stack.node.shared();
  rows.readers[view.row] = std::move(reader);
  rows.contents[view.row] = content;
  const std::uint64_t all = rows.content();
  read_when_needed(Tensor(view.stack), std::move(rows), all);
}

void assign_row(const TensorImpl& view, const Tensor& value, const std::source_location& where) {
  Tensor stack(view.stack);
  const Tensor now = stored_tensor(stack);
  const std::int64_t count = view.stack->stack_count;
  std::vector<Tensor> parts;
  if (view.row > 0) parts.push_back(now.slice(0, 0, view.row, where));
  parts.push_back(value.unsqueeze(0, where));
  if (view.row + 1 < count) parts.push_back(now.slice(0, view.row + 1, count, where));
  stack.assign(parts.size() == 1 ? parts.front() : concat(parts, 0, where), where);
}

}  // namespace tessera
