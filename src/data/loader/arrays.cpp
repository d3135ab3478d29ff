// SPDX-License-Identifier: Apache-2.0
#include "tessera/data/arrays.h"

#include <algorithm>

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

Literal take_box(const ArrayPart& part, const Dims& origin, Dims dims) {
  const Type& type = part.data.type();
  ensure(origin.size() == dims.size() && part.origin.size() == dims.size() && type.dims().size() == dims.size(),
         "take_box: {} dims of {}", dims.size(), type);
  if (part.origin == origin && type.dims() == dims) return part.data;
  Dims from;
  Dims to;
  Dims sizes;  // of the box that both have
  for (std::size_t d = 0; d < dims.size(); ++d) {
    const std::int64_t start = std::max(part.origin[d], origin[d]);
    const std::int64_t limit = std::min(part.origin[d] + type.dims()[d], origin[d] + dims[d]);
    from.push_back(start - part.origin[d]);
    to.push_back(start - origin[d]);
    sizes.push_back(std::max<std::int64_t>(0, limit - start));
  }
  Literal out(Type::array(type.dtype(), std::move(dims)));
  copy_part(part.data, from, out, to, sizes);
  return out;
}

}  // namespace tessera::data
