// SPDX-License-Identifier: Apache-2.0
#include "collective_evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "tessera/ops/contraction.h"

namespace tessera::rows {

bool names_one_replica(const CollectiveAttributes& a) {
  return a.channel_id != 0 && !a.use_global_device_ids &&
         a.replica_groups.groups == std::vector<std::vector<std::int64_t>>{{0}};
}

int only_dim(const OpView& view) {
  const Dims& dims = collective(view).dimensions;
  require(dims.size() == 1, "dimensions must name one dim, got {}", [&] { return field_text(dims); });
  return static_cast<int>(dims[0]);
}

namespace {

using Group = std::vector<std::int64_t>;

bool is_here(const CollectiveContext& context, std::int64_t device) { return !at(context.operands, device).empty(); }

// Whether the group takes part; either all of its members do or none.
bool is_here(const CollectiveContext& context, const Group& group) {
  const auto here = [&](std::int64_t device) { return is_here(context, device); };
  const auto away = std::find_if_not(group.begin(), group.end(), here);
  if (away == group.end()) return true;
  const auto first = std::find_if(group.begin(), group.end(), here);
  require(
      first == group.end(), "device {} of the group {{{}}} executes it, device {} does not",
      [&] { return std::to_string(*first); }, fmt::join(group, ","), [&] { return std::to_string(*away); });
  return false;
}

// The groups that take part.
std::vector<Group> here_of(const CollectiveContext& context, std::vector<Group> groups) {
  std::erase_if(groups, [&](const Group& group) { return !is_here(context, group); });
  return groups;
}

std::vector<Group> groups_of(const CollectiveContext& context) {
  const auto& a = collective(context.view);
  const auto devices = static_cast<std::int64_t>(context.operands.size());
  if (a.replica_groups.groups.empty() || names_one_replica(a)) {
    Group all(static_cast<std::size_t>(devices));
    std::iota(all.begin(), all.end(), 0);
    return here_of(context, {all});
  }
  std::vector<bool> seen(context.operands.size(), false);
  for (const auto& group : a.replica_groups.groups)
    for (const auto device : group) {
      require(device >= 0 && device < devices, "replica_groups name device {}; there are {}", device, devices);
      at(seen, device) = true;
    }
  const auto missing = std::find(seen.begin(), seen.end(), false);
  require(missing == seen.end() || context.view.op.name == "collective-broadcast", "device {} is in no group of {}",
          missing - seen.begin(), [&] { return field_text(a.replica_groups); });
  return here_of(context, a.replica_groups.groups);
}

Type result_type(const OpView& view, std::size_t i) {
  return view.result.is_tuple() ? view.result.elements()[i] : view.result;
}

Literal combined(const CollectiveContext& context, const Literal& a, const Literal& b) {
  Literal out(a.type());
  Literal left(Type::scalar(a.type().dtype()));
  Literal right = left;
  for (std::int64_t i = 0; i < a.type().element_count(); ++i) {
    strided_copy(a, {i, {}}, left, {0, {}}, {});
    strided_copy(b, {i, {}}, right, {0, {}}, {});
    strided_copy(context.call(0, {left, right}), {0, {}}, out, {i, {}}, {});
  }
  return out;
}

// Adds numbers without a call per element.
Literal reduced_pair(const CollectiveContext& context, const Literal& a, const Literal& b, bool is_sum) {
  if (!is_sum || is_narrow(a.type().dtype())) return combined(context, a, b);
  Literal out = a;
  visit_any_dtype(a.type().dtype(), [&]<class T>() {
    const auto addends = b.data<T>();
    auto sums = out.mutable_data<T>();
    for (std::size_t i = 0; i < sums.size(); ++i) {
      if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double> || is_complex(kDTypeOf<T>))
        sums[i] += addends[i];
      else if constexpr (is_float(kDTypeOf<T>))
        sums[i] = T(static_cast<float>(sums[i]) + static_cast<float>(addends[i]));
      else if constexpr (is_integer(kDTypeOf<T>))
        sums[i] = static_cast<T>(static_cast<std::uint64_t>(sums[i]) + static_cast<std::uint64_t>(addends[i]));
    }
  });
  return out;
}

Literal reduced(const CollectiveContext& context, const Group& group, std::size_t operand) {
  const auto reduction = reduction_of(*context.view.called[0]);
  Literal out = at(context.operands, group[0])[operand];
  const bool is_sum = reduction == Reduction::kSum && out.type().dtype() != DType::kPred;
  for (std::size_t k = 1; k < group.size(); ++k)
    out = reduced_pair(context, out, at(context.operands, group[k])[operand], is_sum);
  return out;
}

// Copies part k of `parts` along dim.
Literal part_of(const Literal& full, int dim, std::int64_t part, std::int64_t parts) {
  Dims dims = full.type().dims();
  const Dims strides = row_major_strides(dims);
  at(dims, dim) /= parts;
  Literal out(Type::array(full.type().dtype(), dims));
  strided_copy(full, {part * at(dims, dim) * at(strides, dim), strides}, out, {0, row_major_strides(dims)}, dims);
  return out;
}
void put_part(Literal& full, const Literal& part, int dim, std::int64_t start) {
  const Dims strides = row_major_strides(full.type().dims());
  const Dims& dims = part.type().dims();
  strided_copy(part, {0, row_major_strides(dims)}, full, {start * at(strides, dim), strides}, dims);
}

// f(group, member, operand) computes the result of a member for an operand.
template <class F>
std::vector<Literal> for_each_member(const CollectiveContext& context, F&& f) {
  std::vector<Literal> results(context.operands.size());
  const std::size_t count = context.view.operands.size();
  for (const Group& group : groups_of(context))
    for (std::size_t member = 0; member < group.size(); ++member) {
      std::vector<Literal> parts;
      for (std::size_t i = 0; i < count; ++i) parts.push_back(f(group, static_cast<std::int64_t>(member), i));
      at(results, group[member]) = count == 1 ? parts[0] : Literal::tuple(std::move(parts));
    }
  return results;
}

}  // namespace

std::vector<Literal> evaluate_all_gather(const CollectiveContext& context) {
  const int dim = only_dim(context.view);
  return for_each_member(context, [&](const Group& group, std::int64_t, std::size_t i) {
    Literal out(result_type(context.view, i));
    const std::int64_t size = context.view.operands[i].dim(dim);
    require(size * static_cast<std::int64_t>(group.size()) == out.type().dim(dim),
            "{} gathered from {} devices is not {}", context.view.operands[i], group.size(), out.type());
    for (std::size_t k = 0; k < group.size(); ++k)
      put_part(out, at(context.operands, group[k])[i], dim, static_cast<std::int64_t>(k) * size);
    return out;
  });
}

// Every member of a group gets the same bits, which are computed once.
std::vector<Literal> evaluate_all_reduce(const CollectiveContext& context) {
  std::vector<Literal> sums(context.view.operands.size());
  return for_each_member(context, [&](const Group& group, std::int64_t member, std::size_t i) {
    if (member == 0) sums[i] = reduced(context, group, i);
    return sums[i];
  });
}

std::vector<Literal> evaluate_reduce_scatter(const CollectiveContext& context) {
  const int dim = only_dim(context.view);
  std::vector<Literal> sums(context.view.operands.size());
  return for_each_member(context, [&](const Group& group, std::int64_t member, std::size_t i) {
    if (member == 0) sums[i] = reduced(context, group, i);
    return part_of(sums[i], dim, member, static_cast<std::int64_t>(group.size()));
  });
}

std::vector<Literal> evaluate_all_to_all(const CollectiveContext& context) {
  const Dims& dimensions = collective(context.view).dimensions;
  if (!dimensions.empty()) {
    const auto dim = static_cast<int>(dimensions[0]);
    return for_each_member(context, [&](const Group& group, std::int64_t member, std::size_t i) {
      Literal out(context.view.operands[i]);
      const auto parts = static_cast<std::int64_t>(group.size());
      require(out.type().dim(dim) % parts == 0, "dim {} of {} is not a multiple of the group size {}", dim, out.type(),
              parts);
      for (std::int64_t k = 0; k < parts; ++k)
        put_part(out, part_of(at(context.operands, at(group, k))[i], dim, member, parts), dim,
                 k * (out.type().dim(dim) / parts));
      return out;
    });
  }
  std::vector<Literal> results(context.operands.size());
  for (const Group& group : groups_of(context)) {
    require(group.size() == context.view.operands.size(), "{} operands for groups of {}", context.view.operands.size(),
            group.size());
    for (std::size_t member = 0; member < group.size(); ++member) {
      std::vector<Literal> received;
      for (const auto sender : group) received.push_back(at(context.operands, sender)[member]);
      at(results, group[member]) = Literal::tuple(std::move(received));
    }
  }
  return results;
}

std::vector<Literal> evaluate_collective_permute(const CollectiveContext& context) {
  const auto& pairs = context.view.as<PermuteAttributes>().source_target_pairs.pairs;
  const auto devices = static_cast<std::int64_t>(context.operands.size());
  const auto together = [](std::vector<Literal> parts) {
    return parts.size() == 1 ? std::move(parts.front()) : Literal::tuple(std::move(parts));
  };
  std::vector<Literal> zeros;
  for (const Type& operand : context.view.operands) zeros.emplace_back(operand);
  std::vector<Literal> results(context.operands.size(), together(zeros));
  for (const auto& [source, target] : pairs) {
    require(source >= 0 && source < devices && target >= 0 && target < devices,
            "source_target_pairs name {{{},{}}}; there are {} devices", source, target, devices);
    if (!is_here(context, {source, target})) continue;
    at(results, target) = together(at(context.operands, source));
  }
  return results;
}

std::vector<Literal> evaluate_collective_broadcast(const CollectiveContext& context) {
  std::vector<Literal> results(context.operands.size(), Literal(context.view.operands[0]));
  for (const Group& group : groups_of(context))
    for (const auto device : group) at(results, device) = at(context.operands, group[0])[0];
  return results;
}

// Operands: input, output, and for each member of the group the first row to send to it, the number of rows, their
// position in the member's output, and the number of rows received from it. Rows that do not fit are omitted.
std::vector<Literal> evaluate_ragged_all_to_all(const CollectiveContext& context) {
  std::vector<Literal> results(context.operands.size());
  for (const Group& group : groups_of(context)) {
    for (const auto device : group) at(results, device) = at(context.operands, device)[1];
    for (const auto sender : group) {
      const auto& operands = at(context.operands, sender);
      const auto entry = [&](std::size_t operand, std::size_t member) {
        return std::max<std::int64_t>(element_as_int(operands[operand], static_cast<std::int64_t>(member)), 0);
      };
      for (std::size_t member = 0; member < group.size(); ++member) {
        Literal& to = at(results, group[member]);
        Dims box = operands[0].type().dims();
        const Dims strides = row_major_strides(box);
        const auto from = std::min(entry(2, member), box[0]);
        const auto start = std::min(entry(4, member), to.type().dim(0));
        box[0] = std::min({entry(3, member), box[0] - from, to.type().dim(0) - start});
        strided_copy(operands[0], {from * strides[0], strides}, to, {start * strides[0], strides}, box);
      }
    }
  }
  return results;
}

}  // namespace tessera::rows
