// SPDX-License-Identifier: Apache-2.0
#include "tessera/data/arrays.h"

#include <algorithm>
#include <cstring>

#include "tessera/base/error.h"
#include "tessera/base/text.h"

namespace tessera::data {

const Literal* Arrays::find(std::string_view name) const {
  for (const Entry& entry : entries_)
    if (entry.first == name) return &entry.second;
  return nullptr;
}

const Literal& Arrays::at(std::string_view name) const {
  const Literal* found = find(name);
  require(found != nullptr, "there is no array \"{}\"{}", name, [&] { return suggest_name(name, names()); });
  return *found;
}

void Arrays::set(std::string_view name, Literal value) {
  for (Entry& entry : entries_) {
    if (entry.first != name) continue;
    entry.second = std::move(value);
    return;
  }
  entries_.emplace_back(name, std::move(value));
}

std::vector<std::string> Arrays::names() const {
  std::vector<std::string> out;
  for (const Entry& entry : entries_) out.push_back(entry.first);
  return out;
}

std::size_t Arrays::hash() const {
  std::size_t out = 0;
  for (const auto& [name, value] : entries_) {
    const auto bytes = value.bytes();
    out = hash_mix(hash_mix(out, hash_text(name)), hash_text(value.type().str()));
    out = hash_mix(out, hash_bytes(bytes.data(), bytes.size()));
  }
  return out;
}

namespace {

// Copies the elements that both boxes have, dim by dim. `from` and `to` point to the elements of the outer indices.
struct BoxCopy {
  const Dims& from_origin;
  const Dims& from_dims;
  const Dims& to_origin;
  const Dims& to_dims;
  std::size_t width;  // bytes of an element

  void run(std::size_t dim, const std::byte* from, std::byte* to, std::size_t from_size, std::size_t to_size) const {
    if (dim == from_dims.size()) {
      std::memcpy(to, from, width);
      return;
    }
    const auto from_step = from_size / static_cast<std::size_t>(std::max<std::int64_t>(1, from_dims[dim]));
    const auto to_step = to_size / static_cast<std::size_t>(std::max<std::int64_t>(1, to_dims[dim]));
    const std::int64_t start = std::max(from_origin[dim], to_origin[dim]);
    const std::int64_t limit = std::min(from_origin[dim] + from_dims[dim], to_origin[dim] + to_dims[dim]);
    if (start >= limit) return;
    from += from_step * static_cast<std::size_t>(start - from_origin[dim]);
    to += to_step * static_cast<std::size_t>(start - to_origin[dim]);
    const auto count = static_cast<std::size_t>(limit - start);
    if (is_contiguous_after(dim)) {
      std::memcpy(to, from, count * to_step);
      return;
    }
    for (std::size_t i = 0; i < count; ++i) run(dim + 1, from + i * from_step, to + i * to_step, from_step, to_step);
  }
  [[nodiscard]] bool is_contiguous_after(std::size_t dim) const {
    for (std::size_t d = dim + 1; d < from_dims.size(); ++d)
      if (from_origin[d] != to_origin[d] || from_dims[d] != to_dims[d]) return false;
    return true;
  }
};

}  // namespace

Literal take_box(const ArrayPart& part, const Dims& origin, Dims dims) {
  const Type& type = part.data.type();
  ensure(origin.size() == dims.size() && part.origin.size() == dims.size() && type.dims().size() == dims.size(),
         "take_box: {} dims of {}", dims.size(), type);
  if (part.origin == origin && type.dims() == dims) return part.data;
  Literal out(Type::array(type.dtype(), std::move(dims)));
  const auto from = part.data.bytes();
  const auto to = out.mutable_bytes();
  if (from.empty() || to.empty()) return out;
  BoxCopy{part.origin, type.dims(), origin, out.type().dims(), static_cast<std::size_t>(dtype_size(type.dtype()))}.run(
      0, from.data(), to.data(), from.size(), to.size());
  return out;
}

}  // namespace tessera::data
