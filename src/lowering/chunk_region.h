// SPDX-License-Identifier: Apache-2.0
// Instructions that are computed in parts along one dim of each: from a seed, every reader of what is large, and everything large that
// these read. What leaves the region is small, and is put together again, or sums over the dim and is added up.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "tessera/ops/op_table.h"
#include "tessera/passes/rewriter.h"

namespace tessera {

/// Takes any size along a dim without a change of its attributes. An all-reduce does: every part has its own, of its rows.
bool can_be_chunked(const Instruction& instruction);
/// Parts of a sum of such numbers are added up in f32.
bool is_summed_wide(DType dtype);

class ChunkRegion {
 public:
  static constexpr int kSummed = -1;  // in place of a dim: each part gives a summand of the whole
  static constexpr int kWhole = -2;   // in place of a dim: an operand that every part reads whole
  using IsLarge = std::function<bool(const Type&)>;

  /// The seed is chunked along `dim`; `users` is computation.users().
  ChunkRegion(const Program& program, const Computation& computation, const std::vector<std::vector<Id>>& users,
              Id seed, int dim, IsLarge is_large);
  /// Whether the region is closed: nothing large leaves it, and what comes after it does not come back.
  [[nodiscard]] bool works() const { return works_; }
  /// The members, and the dim along which each is chunked.
  [[nodiscard]] const std::map<Id, int>& dims() const { return dims_; }
  /// Along which dim a member reads each operand: parts of members, slices of the others.
  [[nodiscard]] const std::vector<int>& reads(Id member) const { return reads_.at(member); }
  [[nodiscard]] bool contains(Id id) const { return dims_.contains(id); }
  /// Masks and random numbers, made of what is small: each part makes its own, and the whole stays where others read it.
  [[nodiscard]] bool is_own(Id id) const { return own_.contains(id); }
  /// Whether somebody outside reads a member.
  [[nodiscard]] bool leaves(Id id) const;
  /// The chunked size: of the dim of a value it may be the major factor only.
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
  std::map<Id, int> dims_;
  std::map<Id, std::vector<int>> reads_;
  std::set<Id> own_;
  std::set<std::pair<Id, int>> sliced_;  // operands from outside that are chunked too
  std::vector<bool> depends_;            // on a member that is not its own, or such a member itself
  enum class Answer : std::uint8_t { kUnknown, kYes, kNo };
  std::vector<Answer> recomputable_;
  bool works_ = false;
};

/// A region and the number of parts it is computed in, equal ones but for the last.
struct Chunking {
  ChunkRegion region;
  std::int64_t parts = 1;
};
/// A region in chunks along one dim, and its chunks along another where there is a second; of the same members but for their own ones.
using ChunkPlan = std::vector<Chunking>;

/// Whether both have the same members but for their own ones.
bool same_members(const ChunkRegion& a, const ChunkRegion& b);

/// The fewest equal parts of `size`, at most 16, of which none has more than `most_bytes` of the `bytes`; the most there are where none
/// is as small. 1: no equal parts.
std::int64_t equal_parts(std::int64_t size, std::int64_t bytes, std::int64_t most_bytes);

/// Adds a plan where it shares no members with the others and none waits for another in turn; whether it did.
bool add_plan(const Program& program, std::vector<ChunkPlan>& plans, ChunkPlan plan);

/// The entry computation with the regions computed part after part, each where its last member stood.
Program chunk_regions(const Program& program, const std::vector<ChunkPlan>& plans);

}  // namespace tessera
