// SPDX-License-Identifier: Apache-2.0
#include "disjoint_parts.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <span>

namespace tessera {
namespace {

using Parts = std::span<const TensorPart*>;

const Interval& interval(const TensorPart* part, std::size_t dim) { return part->region.dims[dim]; }

bool overlap(const Interval& a, const Interval& b) { return a.start < b.limit && b.start < a.limit; }

// The dims in which parts differ. All others, and all dims of a single part, divide nothing.
std::vector<std::size_t> divided_dims(Parts parts) {
  std::vector<std::size_t> out;
  for (std::size_t d = 0; d < parts.front()->region.dims.size(); ++d)
    if (std::any_of(parts.begin(), parts.end(),
                    [&](const TensorPart* part) { return interval(part, d) != interval(parts.front(), d); }))
      out.push_back(d);
  return out;
}

void sort_along(Parts parts, std::size_t dim) {
  std::stable_sort(parts.begin(), parts.end(), [&](const TensorPart* a, const TensorPart* b) {
    return interval(a, dim).start < interval(b, dim).start;
  });
}

// Searches parts that are not empty. The dims are those in which they differ.
class Search {
 public:
  explicit Search(std::vector<std::size_t> dims) : dims_(std::move(dims)) {}

  // Divides the parts, along dim number `next` of dims_, into groups that have no coordinate in common, and each group along
  // the dim after it. Of the last `tried` dims, none has divided the parts. Tiles become groups of one part.
  [[nodiscard]] std::optional<TwoParts> in(Parts parts, std::size_t next, std::size_t tried, std::size_t depth) const {
    if (parts.size() < 2) return std::nullopt;
    constexpr std::size_t kMostRounds = 4;  // more are only needed for parts that no mesh has
    if (tried == dims_.size() || depth == kMostRounds * dims_.size()) return compare(parts);
    sort_along(parts, dims_[next]);
    for (std::size_t begin = 0; begin < parts.size();) {
      const std::size_t count = group_size(parts.subspan(begin), dims_[next]);
      const bool divides = count < parts.size();
      if (auto found = in(parts.subspan(begin, count), (next + 1) % dims_.size(), divides ? 1 : tried + 1, depth + 1))
        return found;
      begin += count;
    }
    return std::nullopt;
  }

 private:
  // How many of the first parts reach to the start of the next one.
  static std::size_t group_size(Parts sorted, std::size_t dim) {
    std::int64_t limit = interval(sorted.front(), dim).limit;
    std::size_t count = 1;
    for (; count < sorted.size() && interval(sorted[count], dim).start < limit; ++count)
      limit = std::max(limit, interval(sorted[count], dim).limit);
    return count;
  }

  [[nodiscard]] bool overlap_in_all_dims(const TensorPart* a, const TensorPart* b) const {
    return std::all_of(dims_.begin(), dims_.end(),
                       [&](std::size_t d) { return overlap(interval(a, d), interval(b, d)); });
  }

  // The dim in which most parts start at different places, so that few parts have to be compared.
  [[nodiscard]] std::size_t most_divided_dim(Parts parts) const {
    std::size_t best = dims_.front();
    std::size_t most = 0;
    for (const std::size_t d : dims_) {
      std::set<std::int64_t> starts;
      for (const TensorPart* part : parts) starts.insert(interval(part, d).start);
      if (starts.size() > most) best = d, most = starts.size();
    }
    return best;
  }

  // Compares every part with those after it that have a coordinate in common with it.
  [[nodiscard]] std::optional<TwoParts> compare(Parts parts) const {
    if (dims_.empty()) return TwoParts(parts[0], parts[1]);  // equal parts
    const std::size_t dim = most_divided_dim(parts);
    sort_along(parts, dim);
    for (std::size_t one = 0; one < parts.size(); ++one)
      for (std::size_t next = one + 1; next < parts.size(); ++next) {
        if (interval(parts[next], dim).start >= interval(parts[one], dim).limit) break;
        if (overlap_in_all_dims(parts[one], parts[next])) return TwoParts(parts[one], parts[next]);
      }
    return std::nullopt;
  }

  std::vector<std::size_t> dims_;
};

}  // namespace

std::optional<TwoParts> parts_in_common(const std::vector<TensorPart>& parts) {
  std::vector<const TensorPart*> all;
  for (const TensorPart& part : parts)
    if (part.region.element_count() > 0) all.push_back(&part);
  if (all.size() < 2) return std::nullopt;
  return Search(divided_dims(all)).in(all, 0, 0, 0);
}

}  // namespace tessera
