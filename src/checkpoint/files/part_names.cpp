// SPDX-License-Identifier: Apache-2.0
#include "part_names.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/base/error.h"
#include "tessera/base/text.h"

namespace tessera {
namespace {

std::vector<std::string> components(std::string_view name) { return split(std::string(name), '.'); }

}  // namespace

bool has_parts(std::string_view name) {
  const auto all = components(name);
  return std::find(all.begin(), all.end(), "*") != all.end();
}

std::string part_name(std::string_view name, std::int64_t index) {
  auto all = components(name);
  const auto star = std::find(all.begin(), all.end(), "*");
  ensure(star != all.end(), "{} has no parts", name);
  *star = std::to_string(index);
  return fmt::format("{}", fmt::join(all, "."));
}

std::vector<std::string> names_with_part(std::string_view name) {
  const auto is_number = [](const std::string& text) {
    return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  };
  std::vector<std::string> out;
  auto all = components(name);
  for (std::string& component : all) {
    if (!is_number(component)) continue;
    const std::string number = std::exchange(component, "*");
    out.push_back(fmt::format("{}", fmt::join(all, ".")));
    component = number;
  }
  return out;
}

std::vector<std::pair<std::string, Type>> file_tensors(const std::string& name, const Type& type) {
  if (!has_parts(name)) return {{name, type}};
  require(type.ndim() >= 1, "{} stands for several tensors, but is the scalar {}", name, type);
  const Type part = type.with_dims(Dims(type.dims().begin() + 1, type.dims().end()));
  std::vector<std::pair<std::string, Type>> out;
  for (std::int64_t i = 0; i < type.dim(0); ++i) out.emplace_back(part_name(name, i), part);
  return out;
}

}  // namespace tessera
