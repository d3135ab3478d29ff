// SPDX-License-Identifier: Apache-2.0
// There is no less expensive plan: Dijkstra's algorithm over explicit placements, written without the planner's code,
// from one source to every placement. Its steps are slices, all-gathers, all-to-alls, permutes, reduce-scatters,
// all-reduces, conversions of replicas to partial values, and realignments of boundaries. The planner may also exchange
// pieces, so its plans may be less expensive, but never more expensive.
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <map>
#include <queue>
#include <set>

#include "partitioner/reshard_planning/reshard_cases.h"
#include "tessera/base/text.h"

namespace tessera::testing {
namespace {

using Int = std::int64_t;

// For each dim the axes (from major to minor) and the tile length, and the axes that are partial.
struct Node {
  std::vector<std::vector<int>> dims;
  std::vector<Int> lengths;
  std::set<int> partial;
  friend auto operator<=>(const Node&, const Node&) = default;
};

class BruteForce {
 public:
  BruteForce(const Mesh& mesh, Dims sizes) : sizes_(std::move(sizes)) {
    for (const auto& axis : mesh.axes()) axes_.push_back(axis.size);
  }

  Node node_of(const Sharding& sharding) const {
    Node node;
    for (int d = 0; d < sharding.ndim(); ++d) {
      node.dims.emplace_back();
      for (const AxisRef& ref : at(sharding.dims, d).axes) node.dims.back().push_back(ref.axis);
      node.lengths.push_back(ceil_div(at(sizes_, d), tiles(node.dims.back())));
    }
    for (const AxisRef& ref : sharding.partial) node.partial.insert(ref.axis);
    return node;
  }

  // The fewest bytes (of one-byte elements) from `source` to every placement.
  std::map<Node, Int> distances(const Node& source) {
    std::map<Node, Int> best{{source, 0}};
    using Entry = std::pair<Int, Node>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
    queue.push({0, source});
    while (!queue.empty()) {
      const auto [cost, node] = queue.top();
      queue.pop();
      if (cost > best.at(node)) continue;
      expand(node, [&](const Node& next, Int bytes) {
        const auto [entry, fresh] = best.try_emplace(next, cost + bytes);
        if (!fresh && entry->second <= cost + bytes) return;
        entry->second = cost + bytes;
        queue.push({cost + bytes, next});
      });
    }
    return best;
  }

 private:
  using Take = std::function<void(const Node&, Int)>;

  Int tiles(const std::vector<int>& axes) const {
    Int out = 1;
    for (const int axis : axes) out *= at(axes_, axis);
    return out;
  }
  Int elements(const Node& node) const { return product(node.lengths); }

  std::vector<int> idle(const Node& node) const {
    std::vector<int> out;
    for (int axis = 0; axis < isize(axes_); ++axis) {
      bool used = node.partial.contains(axis);
      for (const auto& dim : node.dims) used = used || std::find(dim.begin(), dim.end(), axis) != dim.end();
      if (!used) out.push_back(axis);
    }
    return out;
  }

  // Returns the tile lengths for `count` tiles of a dim whose boundaries match those of a canonical tiling.
  std::set<Int> all_lengths(int d, Int count) const {
    std::set<Int> out{ceil_div(at(sizes_, d), count)};
    if (count == 1) return out;
    for (Int other = 2; other <= tiles_of_mesh(); ++other) {
      const Int length = ceil_div(at(sizes_, d), other);
      if (other % count == 0) out.insert(length * (other / count));
      if (count % other == 0 && length % (count / other) == 0 && length > 0) out.insert(length / (count / other));
    }
    return out;
  }
  Int tiles_of_mesh() const { return product(axes_); }

  // Returns the possible tile lengths of a dim when it has `factor` times as many tiles.
  std::set<Int> split_lengths(const Node& node, int d, Int factor) const {
    if (at(node.dims, d).empty()) return all_lengths(d, factor);
    if (at(node.lengths, d) % factor != 0) return {};
    return {at(node.lengths, d) / factor};
  }

  void grow(Node& node, int d, const std::vector<int>& axes) const {
    auto& list = at(node.dims, d);
    list.insert(list.end(), axes.begin(), axes.end());
  }
  // Removes the last n axes of a dim.
  std::vector<int> shrink(Node& node, int d, std::size_t n) const {
    auto& list = at(node.dims, d);
    std::vector<int> gone(list.end() - static_cast<std::ptrdiff_t>(n), list.end());
    list.resize(list.size() - n);
    at(node.lengths, d) = list.empty() ? at(sizes_, d) : at(node.lengths, d) * tiles(gone);
    return gone;
  }

  void expand(const Node& node, const Take& take) const {
    const int ndim = isize(sizes_);
    for (int d = 0; d < ndim; ++d) {
      for (const int axis : idle(node)) slice(node, d, axis, take);
      for (std::size_t n = 1; n <= at(node.dims, d).size(); ++n) {
        Node rest = node;
        const auto gone = shrink(rest, d, n);
        take(rest, elements(node) * (tiles(gone) - 1));
        move_axes(node, rest, d, gone, take);
      }
    }
    for (const int axis : idle(node)) {  // one device keeps the value, the others hold the identity
      Node next = node;
      next.partial.insert(axis);
      take(next, 0);
    }
    reduce(node, take);
    permute(node, take);
    realign(node, take);
  }

  void slice(const Node& node, int d, int axis, const Take& take) const {
    for (const Int length : split_lengths(node, d, at(axes_, axis))) {
      Node next = node;
      grow(next, d, {axis});
      at(next.lengths, d) = length;
      take(next, 0);
    }
  }

  void move_axes(const Node& node, const Node& rest, int from, std::vector<int> axes, const Take& take) const {
    const Int g = tiles(axes);
    std::sort(axes.begin(), axes.end());
    do {
      for (int to = 0; to < isize(sizes_); ++to) {
        if (to == from) continue;
        for (const Int length : split_lengths(node, to, g)) {
          Node next = rest;
          grow(next, to, axes);
          at(next.lengths, to) = length;
          Node operand = node;
          at(operand.lengths, to) = length * g;
          take(next, elements(operand) / g * (g - 1));
        }
      }
    } while (std::next_permutation(axes.begin(), axes.end()));
  }

  void reduce(const Node& node, const Take& take) const {
    const std::vector<int> all(node.partial.begin(), node.partial.end());
    for (unsigned set = 1; set < 1U << all.size(); ++set) {
      std::vector<int> chosen;
      Node rest = node;
      for (std::size_t i = 0; i < all.size(); ++i)
        if ((set >> i & 1) != 0) {
          chosen.push_back(all[i]);
          rest.partial.erase(all[i]);
        }
      const Int g = tiles(chosen);
      take(rest, 2 * elements(node) * (g - 1) / g);
      do {
        for (int d = 0; d < isize(sizes_); ++d)
          for (const Int length : split_lengths(node, d, g)) {
            Node next = rest;
            grow(next, d, chosen);
            at(next.lengths, d) = length;
            take(next, elements(next) * (g - 1));
          }
      } while (std::next_permutation(chosen.begin(), chosen.end()));
    }
  }

  // Tries all placements with the same number of tiles in each dim and of partial values.
  void permute(const Node& node, const Take& take) const {
    Node blank = node;
    for (auto& dim : blank.dims) dim.clear();
    blank.partial.clear();
    std::vector<int> free;
    for (int axis = 0; axis < isize(axes_); ++axis) free.push_back(axis);
    lay_out(node, blank, 0, free, take);
  }
  void lay_out(const Node& node, const Node& so_far, int d, const std::vector<int>& free, const Take& take) const {
    const bool partial = d == isize(sizes_);
    const std::vector<int> wanted =
        partial ? std::vector<int>(node.partial.begin(), node.partial.end()) : at(node.dims, d);
    const std::vector<int> given =
        partial ? std::vector<int>(so_far.partial.begin(), so_far.partial.end()) : at(so_far.dims, d);
    if (tiles(given) == tiles(wanted)) {
      if (!partial) return lay_out(node, so_far, d + 1, free, take);
      if (!(so_far == node)) take(so_far, elements(node));
      return;
    }
    for (std::size_t i = 0; i < free.size(); ++i) {
      if (tiles(wanted) % (tiles(given) * at(axes_, free[i])) != 0) continue;
      Node next = so_far;
      if (partial)
        next.partial.insert(free[i]);
      else
        at(next.dims, d).push_back(free[i]);
      std::vector<int> rest = free;
      rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(i));
      lay_out(node, next, d, rest, take);
    }
  }

  // Needs one permute for each distance between tiles, as long as the longest piece with this distance.
  void realign(const Node& node, const Take& take) const {
    for (int d = 0; d < isize(sizes_); ++d) {
      const Int count = tiles(at(node.dims, d));
      const Int old_length = at(node.lengths, d);
      for (const Int length : all_lengths(d, count)) {
        if (count == 1 || length == old_length) continue;
        std::map<Int, Int> longest;
        for (Int to = 0; to < count; ++to)
          for (Int from = 0; from < count; ++from) {
            const Int start = std::max(from * old_length, to * length);
            const Int limit = std::min({(from + 1) * old_length, (to + 1) * length, at(sizes_, d)});
            longest[from - to] = std::max(longest[from - to], limit - start);
          }
        Int bytes = 0;
        for (const auto& [distance, rows] : longest)
          if (distance != 0) bytes += rows;
        for (int e = 0; e < isize(sizes_); ++e)
          if (e != d) bytes *= std::min(at(node.lengths, e), at(sizes_, e));
        Node next = node;
        at(next.lengths, d) = length;
        take(next, bytes);
      }
    }
  }

  Dims sizes_;
  Dims axes_;
};

void check_costs(const char* mesh_text, const Dims& dims, std::size_t sources) {
  const Mesh mesh = Mesh::parse(mesh_text);
  const auto from = all_shardings(mesh, isize(dims), true);
  const Type global = Type::array(DType::kS8, dims);
  BruteForce brute(mesh, dims);
  const auto stride = stride_of(from.size(), sources);
  for (std::size_t i = stride / 2; i < from.size(); i += stride) {
    const auto best = brute.distances(brute.node_of(from[i]));
    for (const Sharding& target : from) {
      const auto found = best.find(brute.node_of(target));
      ASSERT_NE(found, best.end());
      const ReshardPlan plan = plan_reshard(global, from[i], target);
      ASSERT_LE(plan.bytes(), found->second) << global.str() << " on " << mesh_text << ": " << from[i].str() << " -> "
                                             << target.str() << " [" << plan.str() << "]";
    }
  }
}

TEST(PlanReshardCost, NoMoreExpensiveThanBruteForceOn2x3) {
  for (const Dims& dims : {Dims{12}, Dims{7}, Dims{1}, Dims{6, 12}, Dims{5, 7}, Dims{10, 3}})
    check_costs("x=2,y=3", dims, 9);
  check_costs("x=2,y=3", {6, 6, 12}, 3);
  check_costs("x=2,y=3", {5, 3, 7}, 3);
}

TEST(PlanReshardCost, NoMoreExpensiveThanBruteForceOn4x2) {
  for (const Dims& dims : {Dims{16}, Dims{11}, Dims{3}, Dims{8, 16}, Dims{7, 10}, Dims{2, 13}})
    check_costs("x=4,y=2", dims, 9);
  check_costs("x=4,y=2", {8, 8, 8}, 3);
  check_costs("x=4,y=2", {5, 2, 9}, 3);
}

TEST(PlanReshardCost, NoMoreExpensiveThanBruteForceOn2x2x2) {
  for (const Dims& dims : {Dims{8}, Dims{13}, Dims{8, 8}, Dims{7, 9}, Dims{10, 3}}) check_costs("x=2,y=2,z=2", dims, 5);
  check_costs("x=2,y=2,z=2", {8, 4, 16}, 1);
  check_costs("x=2,y=2,z=2", {5, 3, 7}, 1);
}

}  // namespace
}  // namespace tessera::testing
