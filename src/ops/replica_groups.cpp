// SPDX-License-Identifier: Apache-2.0
// Reads and writes the texts of replica groups and source-target pairs.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "row_support.h"
#include "tessera/base/checked.h"
#include "tessera/ops/collectives.h"
#include "tessera/sharding/hlo_sharding.h"

namespace tessera {
namespace {

using Devices = std::vector<std::int64_t>;

// [groups,size]<=[dims]T(perm): the devices of all groups in order are an iota over `dims`, transposed.
struct IotaForm {
  Dims dims;
  Dims permutation;
};

Devices transposed_iota(const IotaForm& form) {
  const Dims strides = row_major_strides(form.dims);
  Dims shape;
  for (const auto p : form.permutation) shape.push_back(at(form.dims, p));
  Devices out;
  for_each_index(shape, [&](const Dims& index) {
    std::int64_t device = 0;
    for (int d = 0; d < isize(index); ++d) device += at(index, d) * at(strides, at(form.permutation, d));
    out.push_back(device);
  });
  return out;
}

// The iota form of `flat`, found digit by digit from the minor end: runs with a constant step are one dim.
std::optional<IotaForm> iota_form(const Devices& flat) {
  struct Digit {
    std::int64_t stride;
    std::int64_t size;
  };
  std::vector<Digit> digits;  // minor to major in the order of `flat`
  const auto total = static_cast<std::int64_t>(flat.size());
  std::int64_t block = 1;
  while (block < total) {
    const std::int64_t stride = at(flat, block) - flat[0];
    std::int64_t size = 1;
    while (size * block < total && at(flat, size * block) - flat[0] == size * stride) ++size;
    while (size > 1 && total % (block * size) != 0) --size;
    if (stride <= 0 || size < 2) return std::nullopt;
    digits.push_back({stride, size});
    block *= size;
  }
  std::vector<std::size_t> order(digits.size());  // major to minor in device numbers
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](auto a, auto b) { return digits[a].stride > digits[b].stride; });
  IotaForm form;
  Dims place(digits.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    form.dims.push_back(digits[order[i]].size);
    place[order[i]] = static_cast<std::int64_t>(i);
  }
  if (digits.empty()) form.dims = {total};
  form.permutation.assign(place.rbegin(), place.rend());
  if (digits.empty()) form.permutation = {0};
  if (transposed_iota(form) != flat) return std::nullopt;
  return form;
}

bool contains(const Devices& devices, std::int64_t device) {
  return std::find(devices.begin(), devices.end(), device) != devices.end();
}

// Reads the numbers of a list `open`..`close` at the start of text, and removes it.
Dims take_list(std::string_view& text, char open, char close) {
  text = trim(text);
  const auto end = text.find(close);
  require(!text.empty() && text.front() == open && end != std::string_view::npos, "expected {}numbers{}, got \"{}\"",
          open, close, text);
  Dims out;
  parse_field("{" + std::string(text.substr(1, end - 1)) + "}", out);
  text = trim(text.substr(end + 1));
  return out;
}

std::vector<Devices> parse_lists(std::string_view text) {
  text = trim(text);
  require(text.size() >= 2 && text.front() == '{' && text.back() == '}', "expected lists in braces, got {}", text);
  std::string_view rest = trim(text.substr(1, text.size() - 2));
  std::vector<Devices> out;
  while (!rest.empty()) {
    const Dims list = take_list(rest, '{', '}');
    out.emplace_back(list.begin(), list.end());
    if (rest.empty()) break;
    require(rest.front() == ',', "expected , between lists, got \"{}\"", rest);
    rest = trim(rest.substr(1));
    require(!rest.empty(), "a list is missing after the last comma of {}", text);
  }
  return out;
}

std::vector<Devices> parse_iota_groups(std::string_view text) {
  const Dims shape = take_list(text, '[', ']');
  require(shape.size() == 2 && text.substr(0, 2) == "<=", "expected [groups,size]<=[dims], got \"{}\"", text);
  text.remove_prefix(2);
  IotaForm form{take_list(text, '[', ']'), {}};
  for (std::int64_t d = 0; d < isize(form.dims); ++d) form.permutation.push_back(d);
  if (!text.empty()) {
    require(text.front() == 'T', "expected T(permutation), got \"{}\"", text);
    text.remove_prefix(1);
    form.permutation = take_list(text, '(', ')');
    require(text.empty(), "text after the replica groups: \"{}\"", text);
    rows::check_distinct_dims(form.permutation, isize(form.dims), "the permutation");
    require(form.permutation.size() == form.dims.size(), "the permutation has {} entries for {} dims",
            form.permutation.size(), form.dims.size());
  }
  constexpr std::int64_t kMostDevices = std::int64_t{1} << 20;
  for (const Dims* sizes : {&shape, static_cast<const Dims*>(&form.dims)}) {
    Checked count = 1;
    for (const auto size : *sizes) {
      require(size > 0, "a size of the groups or of their iota is {}; it must be at least 1", size);
      count *= size;
      require(count.value_or_most() <= kMostDevices, "groups over more than 2^20 devices: [{}]",
              fmt::join(*sizes, ","));
    }
  }
  require(product(shape) == product(form.dims), "groups [{}] do not contain exactly the {} devices of [{}]",
          fmt::join(shape, ","), product(form.dims), fmt::join(form.dims, ","));
  const Devices flat = transposed_iota(form);
  std::vector<Devices> groups;
  for (std::int64_t g = 0; g < shape[0]; ++g)
    groups.emplace_back(flat.begin() + g * shape[1], flat.begin() + (g + 1) * shape[1]);
  return groups;
}

std::string list_text(const std::vector<Devices>& lists) {
  std::vector<std::string> texts;
  for (const auto& list : lists) texts.push_back(fmt::format("{{{}}}", fmt::join(list, ",")));
  return fmt::format("{{{}}}", fmt::join(texts, ","));
}

}  // namespace

std::string field_text(const ReplicaGroups& value) {
  if (value.groups.empty()) return "{}";
  const std::size_t size = value.groups.front().size();
  Devices flat;
  for (const auto& group : value.groups) {
    if (group.size() != size) return list_text(value.groups);
    flat.insert(flat.end(), group.begin(), group.end());
  }
  if (flat.empty() || flat.front() != 0) return list_text(value.groups);
  const auto form = iota_form(flat);
  if (!form) return list_text(value.groups);
  std::string text = fmt::format("[{},{}]<=[{}]", value.groups.size(), size, fmt::join(form->dims, ","));
  if (!std::is_sorted(form->permutation.begin(), form->permutation.end()))
    text += fmt::format("T({})", fmt::join(form->permutation, ","));
  return text;
}

void parse_field(std::string_view text, ReplicaGroups& value) {
  if (trim(text).starts_with("mesh")) {
    value.groups = parse_mesh_groups(trim(text));
    return;
  }
  text = trim(text);
  value.groups = !text.empty() && text.front() == '[' ? parse_iota_groups(text) : parse_lists(text);
  Devices seen;
  for (const auto& group : value.groups) seen.insert(seen.end(), group.begin(), group.end());
  std::sort(seen.begin(), seen.end());
  const auto twice = std::adjacent_find(seen.begin(), seen.end());
  require(twice == seen.end(), "device {} is in two groups", twice == seen.end() ? 0 : *twice);
  require(seen.empty() || seen.front() >= 0, "a device number is negative: {}", text);
}

std::string field_text(const SourceTargetPairs& value) {
  std::vector<Devices> lists;
  for (const auto& [source, target] : value.pairs) lists.push_back({source, target});
  return list_text(lists);
}

void parse_field(std::string_view text, SourceTargetPairs& value) {
  value.pairs.clear();
  Devices sources;
  Devices targets;
  for (const auto& pair : parse_lists(text)) {
    require(pair.size() == 2, "a pair has {} entries: {}", pair.size(), [&] { return list_text({pair}); });
    require(std::min(pair[0], pair[1]) >= 0, "a device number is negative: {}", text);
    require(!contains(sources, pair[0]), "device {} is a source twice", pair[0]);
    require(!contains(targets, pair[1]), "device {} is a target twice", pair[1]);
    sources.push_back(pair[0]);
    targets.push_back(pair[1]);
    value.pairs.emplace_back(pair[0], pair[1]);
  }
}

bool stays_on_nodes(const CollectiveAttributes& attributes, const std::vector<int>& nodes) {
  const auto one_node = [&](const std::vector<std::int64_t>& group) {
    return group.size() > 1 && std::all_of(group.begin(), group.end(), [&](std::int64_t device) {
             return device >= 0 && device < isize(nodes) && at(nodes, device) == at(nodes, group.front());
           });
  };
  const auto& groups = attributes.replica_groups.groups;
  if (groups.empty())
    return nodes.size() > 1 && std::all_of(nodes.begin(), nodes.end(), [&](int node) { return node == nodes[0]; });
  std::size_t members = 0;
  for (const auto& group : groups) members += group.size();
  return members == nodes.size() && std::all_of(groups.begin(), groups.end(), one_node);
}

}  // namespace tessera
