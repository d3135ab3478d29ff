// SPDX-License-Identifier: Apache-2.0
// Instructions that are computed in chunks along one dim of each: starting from a seed, all readers of large values and
// all large values that these read. Results of the region are small and concatenated, or sums over the dim and added
// up.
#pragma once

#include <boost/container/flat_map.hpp>
#include <boost/container/flat_set.hpp>
#include <boost/dynamic_bitset.hpp>
#include <boost/unordered/unordered_flat_map.hpp>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "tessera/ops/op_table.h"
#include "tessera/passes/rewriter.h"

namespace tessera {

/// Whether the instruction can be computed for any size along a dim without changes to its attributes. This includes
/// all-reduces: every chunk has its own, for its rows.
bool can_be_chunked(const Instruction& instruction);
/// Whether chunks of a sum of this type are added in f32.
bool is_summed_wide(DType dtype);

class ChunkRegion {
 public:
  static constexpr int kSummed = -1;     // instead of a dim: each chunk gives a summand of the result
  static constexpr int kUnchunked = -2;  // instead of a dim: an operand that every chunk reads completely
  using IsLarge = std::function<bool(const Type&)>;

  /// The seed is chunked along `dim`; `users` is computation.users().
  ChunkRegion(const Program& program, const Computation& computation, const std::vector<std::vector<Id>>& users,
              Id seed, int dim, IsLarge is_large);
  /// Whether the region is closed: no large value leaves it, and no member depends on a value after it.
  [[nodiscard]] bool works() const { return works_; }
  /// The members, and the dim along which each is chunked.
  [[nodiscard]] const boost::container::flat_map<Id, int>& dims() const { return dims_; }
  /// The dim along which a member reads each operand: chunks of members, slices of other values.
  [[nodiscard]] const std::vector<int>& reads(Id member) const { return reads_.at(member); }
  [[nodiscard]] bool contains(Id id) const { return dims_.contains(id); }
  /// Whether the member is a mask or a random number computed from small values: each chunk computes its own, and the
  /// complete value stays for other readers.
  [[nodiscard]] bool is_own(Id id) const { return at(own_, id); }
  /// Whether an instruction outside of the region reads the member.
  [[nodiscard]] bool leaves(Id id) const;
  /// The chunked size. It may be only the major factor of a dim.
  [[nodiscard]] std::int64_t size() const { return size_; }

 private:
  [[nodiscard]] bool is_large(Id id) const { return is_large_(computation_[id].type); }
  [[nodiscard]] bool depends(Id id) const { return at(depends_, id); }
  bool grow();
  bool add_readers(bool& changed);
  bool add_sliced(bool& changed);
  void absorb_transposes();
  [[nodiscard]] bool is_closed() const;
  void follow();
  [[nodiscard]] bool is_in_memory(Id id) const;
  [[nodiscard]] bool is_recomputable(Id id);
  [[nodiscard]] bool find_recomputable(Id id);
  [[nodiscard]] bool sums(Id id) const;
  [[nodiscard]] FactorMap factors_of(Id id) const;
  [[nodiscard]] std::optional<int> factor_at(const FactorMap& map, const TensorFactors& tensor, int dim) const;
  bool add_reader(Id reader, Id operand, int dim);
  bool add(Id id, int dim);
  bool add_operands(Id id);
  bool add_operands_of_factor(Id id, const FactorMap& map, int factor);

  const Program& program_;
  const Computation& computation_;
  const std::vector<std::vector<Id>>& users_;
  IsLarge is_large_;
  std::int64_t size_ = 0;  // of the chunked dim
  boost::container::flat_map<Id, int> dims_;
  boost::unordered_flat_map<Id, std::vector<int>> reads_;
  boost::dynamic_bitset<> own_;
  boost::container::flat_set<std::pair<Id, int>> sliced_;  // operands from outside of the region that are chunked too
  boost::dynamic_bitset<> depends_;  // whether it is a member (but not an own one) or depends on one
  enum class Answer : std::uint8_t { kUnknown, kYes, kNo };
  std::vector<Answer> recomputable_;
  bool works_ = false;
};

/// A region and its number of chunks, which have equal sizes except for the last.
struct Chunking {
  ChunkRegion region;
  std::int64_t parts = 1;
};
/// A region in chunks along one dim and, optionally, the same members (except for own ones) in chunks along another
/// dim.
using ChunkPlan = std::vector<Chunking>;

/// Whether both regions have the same members, except for own ones.
bool same_members(const ChunkRegion& a, const ChunkRegion& b);

/// The fewest equal parts of `size`, at most 16, such that none has more than `most_bytes` of the `bytes`. If no number
/// suffices, the largest possible one; 1 if there are no equal parts.
std::int64_t equal_parts(std::int64_t size, std::int64_t bytes, std::int64_t most_bytes);

/// Adds a plan if it shares no members with the others and there are no cyclic dependencies. Returns whether it did.
bool add_plan(const Program& program, std::vector<ChunkPlan>& plans, ChunkPlan plan);

/// The entry computation with the regions computed chunk after chunk, each at the place of its last member.
Program chunk_regions(const Program& program, const std::vector<ChunkPlan>& plans);

}  // namespace tessera
