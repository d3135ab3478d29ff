// SPDX-License-Identifier: Apache-2.0
// Conversion between HLO's sharding text and HloSharding.
#include "tessera/sharding/hlo_sharding.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "tessera/base/text.h"
#include "tessera/base/text_cursor.h"
#include "tile_digits.h"

namespace tessera {
namespace {

using Kind = HloSharding::Kind;
constexpr std::pair<std::string_view, Kind> kKindWords[] = {{"replicated", Kind::kReplicated},
                                                            {"manual", Kind::kManual},
                                                            {"unknown", Kind::kUnknown},
                                                            {"unreduced", Kind::kUnreduced}};
constexpr std::pair<std::string_view, SubgroupType> kSubgroupWords[] = {{"replicated", SubgroupType::kReplicated},
                                                                        {"manual", SubgroupType::kManual},
                                                                        {"unreduced", SubgroupType::kUnreduced},
                                                                        {"maximal", SubgroupType::kMaximal}};

Dims read_list(TextCursor& in, std::string_view open, std::string_view close, std::string_view what) {
  Dims out;
  in.expect(open, fmt::format("before the {}", what));
  if (in.take(close)) return out;
  do {
    out.push_back(in.integer("a number"));
  } while (in.take(","));
  in.expect(close, fmt::format("after the {}", what));
  return out;
}

// The product of dims, which must all be at least 1.
std::int64_t checked_count(const TextCursor& in, std::size_t place, const Dims& dims) {
  std::int64_t count = 1;
  for (const auto size : dims) {
    if (size < 1) in.fail_at(place, fmt::format("a size of devices=[..] must be at least 1, got {}", size));
    if (size > kMostDevices || count > kMostDevices / size) in.fail_at(place, "a sharding over more than 2^20 devices");
    count *= size;
  }
  return count;
}

// Reads `<=[2,4]T(1,0)`: iota(8), reshaped and transposed.
std::vector<std::int64_t> read_iota(TextCursor& in, std::int64_t count) {
  const auto place = in.position();
  const auto dims = read_list(in, "[", "]", "sizes of the iota");
  const auto iota_count = checked_count(in, place, dims);
  if (dims.empty() || iota_count != count)
    in.fail_at(place, fmt::format("the iota has {} devices, the tiles are {}", iota_count, count));
  Dims order(dims.size());
  std::iota(order.begin(), order.end(), 0);
  if (in.take("T")) {
    const auto order_place = in.position();
    order = read_list(in, "(", ")", "transposition");
    auto sorted = order;
    std::sort(sorted.begin(), sorted.end());
    for (std::size_t i = 0; i < sorted.size(); ++i)
      if (sorted[i] != static_cast<std::int64_t>(i) || sorted.size() != dims.size())
        in.fail_at(order_place, fmt::format("T(..) must order the {} dims of the iota", dims.size()));
    if (order.size() != dims.size())
      in.fail_at(order_place, fmt::format("T(..) must order the {} dims of the iota", dims.size()));
  }
  const auto strides = row_major_strides(dims);
  Dims turned;
  for (const auto d : order) turned.push_back(at(dims, d));
  std::vector<std::int64_t> out;
  out.reserve(static_cast<std::size_t>(count));
  for_each_index(turned, [&](const Dims& index) {
    std::int64_t device = 0;
    for (int k = 0; k < isize(order); ++k) device += at(index, k) * at(strides, at(order, k));
    out.push_back(device);
  });
  return out;
}

std::vector<std::int64_t> read_devices(TextCursor& in, std::int64_t count) {
  if (in.take("<=")) return read_iota(in, count);
  in.skip_blanks();
  const auto place = in.position();
  std::vector<std::int64_t> out;
  do {
    out.push_back(in.integer("a device number"));
  } while (in.take(","));
  if (static_cast<std::int64_t>(out.size()) != count)
    in.fail_at(place, fmt::format("{} devices listed for {} tiles", out.size(), count));
  std::vector<bool> seen(out.size(), false);
  for (const auto device : out) {
    if (device < 0 || device >= count)
      in.fail_at(place, fmt::format("device {} is not one of 0..{}", device, count - 1));
    if (at(seen, device)) in.fail_at(place, fmt::format("device {} occurs twice", device));
    at(seen, device) = true;
  }
  return out;
}

SubgroupType read_subgroup_type(TextCursor& in) {
  in.skip_blanks();
  const auto place = in.position();
  const auto word = in.identifier("a subgroup type");
  std::vector<std::string> known;
  for (const auto& [name, type] : kSubgroupWords) {
    if (name == word) return type;
    known.emplace_back(name);
  }
  in.fail_at(place, fmt::format("unknown subgroup type \"{}\"{}", word, suggest_name(word, known)));
}

void read_tiled(TextCursor& in, HloSharding& leaf) {
  leaf.kind = Kind::kTiled;
  in.expect("=", "after devices");
  const auto place = in.position();
  leaf.tile_dims = read_list(in, "[", "]", "tile counts");
  if (leaf.tile_dims.empty()) in.fail_at(place, "devices=[] names no tiles");
  const auto count = checked_count(in, place, leaf.tile_dims);
  leaf.devices = read_devices(in, count);
  if (in.take_word("last_tile_dim_replicate")) {
    leaf.subgroup_types = {SubgroupType::kReplicated};
  } else if (in.take_word("last_tile_dims")) {
    in.expect("=", "after last_tile_dims");
    in.expect("{", "before the subgroup types");
    if (!in.take("}")) {
      do {
        leaf.subgroup_types.push_back(read_subgroup_type(in));
      } while (in.take(","));
      in.expect("}", "after the subgroup types");
    }
  }
  if (leaf.subgroup_types.size() > leaf.tile_dims.size())
    in.fail_at(place,
               fmt::format("{} subgroup types for {} tile dims", leaf.subgroup_types.size(), leaf.tile_dims.size()));
}

void read_kind(TextCursor& in, HloSharding& leaf) {
  in.skip_blanks();
  const auto place = in.position();
  const auto word = in.identifier("a sharding such as replicated or devices=[2,1]<=[2]");
  if (word == "devices") return read_tiled(in, leaf);
  if (word == "maximal") {
    leaf.kind = Kind::kMaximal;
    if (!in.take_word("device")) in.fail_expected("device=N after maximal");
    in.expect("=", "after device");
    leaf.device = in.integer("a device number");
    if (leaf.device < 0) in.fail_at(place, "a device number may not be negative");
    return;
  }
  std::vector<std::string> known = {"devices", "maximal"};
  for (const auto& [name, kind] : kKindWords) {
    known.emplace_back(name);
    if (name != word) continue;
    leaf.kind = kind;
    return;
  }
  in.fail_at(place, fmt::format("unknown kind of sharding \"{}\"{}", word, suggest_name(word, known)));
}

// Reads ` shard_as 1`, ` shard_like 1`, ` metadata={..}` as text.
std::string read_suffix(TextCursor& in) {
  std::string out;
  while (!in.next_is("}")) {
    in.skip_blanks();
    const auto place = in.position();
    const auto word = in.identifier("\"}\" after the sharding");
    if (word == "metadata") {
      in.expect("=", "after metadata");
      out += " metadata=" + in.value("the metadata");
    } else if (word == "shard_as" || word == "shard_like") {
      out += fmt::format(" {} {}", word, in.integer("the number of the shard group"));
    } else {
      in.fail_at(place, fmt::format("expected \"}}\" after the sharding, got \"{}\"", word));
    }
  }
  return out;
}

HloSharding read_leaf(TextCursor& in) {
  in.expect("{", "before a sharding");
  HloSharding leaf;
  read_kind(in, leaf);
  leaf.suffix = read_suffix(in);
  in.expect("}", "after the sharding");
  if (leaf.kind == Kind::kTiled) normalize(leaf);
  return leaf;
}

std::string_view subgroup_word(SubgroupType type) {
  for (const auto& [name, value] : kSubgroupWords)
    if (value == type) return name;
  return {};
}

std::string subgroup_text(const HloSharding& leaf) {
  if (leaf.subgroup_types.empty()) return {};
  if (leaf.subgroup_types.size() == 1 && leaf.subgroup_types.front() == SubgroupType::kReplicated)
    return " last_tile_dim_replicate";
  std::vector<std::string> words;
  for (const auto type : leaf.subgroup_types) words.emplace_back(subgroup_word(type));
  return fmt::format(" last_tile_dims={{{}}}", fmt::join(words, ", "));
}

std::string tiled_text(const HloSharding& leaf) {
  std::string out = fmt::format("devices=[{}]", fmt::join(leaf.tile_dims, ","));
  if (leaf.iota_reshape.empty()) {
    out += fmt::format("{}", fmt::join(leaf.devices, ","));
  } else {
    out += fmt::format("<=[{}]", fmt::join(leaf.iota_reshape, ","));
    if (!leaf.iota_transpose.empty()) out += fmt::format("T({})", fmt::join(leaf.iota_transpose, ","));
  }
  return out + subgroup_text(leaf);
}

}  // namespace

std::vector<HloSharding> parse_hlo_sharding(std::string_view text) {
  TextCursor in(text);
  std::vector<HloSharding> leaves;
  try {
    in.expect("{", "before a sharding");
    if (in.next_is("{")) {
      do {
        leaves.push_back(read_leaf(in));
      } while (in.take(","));
      in.expect("}", "after the shardings of a tuple");
    } else if (!in.take("}")) {
      in.seek(0);
      leaves.push_back(read_leaf(in));
    }
    if (!in.at_end()) in.fail_expected("the end of the sharding");
  } catch (Error& error) {
    throw error.prefix("sharding: ");
  }
  return leaves;
}

std::string hlo_sharding_text(const HloSharding& leaf) {
  std::string body;
  switch (leaf.kind) {
    case Kind::kMaximal: body = fmt::format("maximal device={}", leaf.device); break;
    case Kind::kTiled: body = tiled_text(leaf); break;
    default:
      for (const auto& [name, kind] : kKindWords)
        if (kind == leaf.kind) body = name;
  }
  return "{" + body + leaf.suffix + "}";
}

std::string hlo_sharding_text(const Sharding& sharding) { return hlo_sharding_text(to_hlo(sharding)); }

std::string hlo_sharding_text(const Shardings& leaves, bool is_tuple) {
  if (!is_tuple) {
    ensure(leaves.size() == 1, "{} shardings for a value with one leaf", leaves.size());
    return hlo_sharding_text(leaves.front());
  }
  std::vector<std::string> parts;
  for (const auto& leaf : leaves) parts.push_back(hlo_sharding_text(leaf));
  return fmt::format("{{{}}}", fmt::join(parts, ", "));
}

}  // namespace tessera
