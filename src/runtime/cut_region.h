// SPDX-License-Identifier: Apache-2.0
// Instructions that are computed in parts along one dim of each: from a seed, every reader of what is large, and everything large that
// these read. What leaves the region is small, and is put together again, or sums over the dim and is added up.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "tessera/ops/op_table.h"
#include "tessera/passes/rewriter.h"

namespace tessera {

/// Takes any size along a dim without a change of its attributes.
bool can_be_cut(const Instruction& instruction);

class CutRegion {
 public:
  static constexpr int kSummed = -1;  // in place of a dim: each part gives a summand of the whole
  using IsLarge = std::function<bool(const Type&)>;

  /// `dim` of the seed is cut; `users` is computation.users().
  CutRegion(const Program& program, const Computation& computation, const std::vector<std::vector<Id>>& users, Id seed,
            int dim, IsLarge is_large);
  /// Whether the region is closed: nothing large leaves it, and what comes after it does not come back.
  [[nodiscard]] bool works() const { return works_; }
  /// The members, and along which dim each is cut.
  [[nodiscard]] const std::map<Id, int>& cut() const { return cut_; }
  /// Operands from outside that are cut too.
  [[nodiscard]] const std::map<Id, int>& sliced() const { return sliced_; }
  [[nodiscard]] bool contains(Id id) const { return cut_.contains(id); }
  /// Whether somebody outside reads a member.
  [[nodiscard]] bool leaves(Id id) const;

 private:
  [[nodiscard]] bool is_large(Id id) const { return is_large_(computation_[id].type); }
  [[nodiscard]] bool depends(Id id) const { return at(depends_, id); }
  bool grow();
  void absorb_transposes();
  [[nodiscard]] bool is_closed() const;
  void follow();
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
  std::int64_t size_ = 0;  // of the dim that is cut
  std::map<Id, int> cut_;
  std::map<Id, int> sliced_;
  std::vector<bool> depends_;  // on a member, or a member itself
  bool works_ = false;
};

/// A region and the number of equal parts it is computed in.
struct CutPlan {
  CutRegion region;
  std::int64_t parts = 1;
};

/// The fewest equal parts of `size`, at most 16, of which none has more than `most_bytes` of the `bytes`; the most there are where none
/// is as small. 1: no equal parts.
std::int64_t equal_parts(std::int64_t size, std::int64_t bytes, std::int64_t most_bytes);

/// The entry computation with the regions computed part after part, each where its last member stood. Nothing where the regions share
/// members or wait for one another.
std::optional<Program> cut_regions(const Program& program, const std::vector<CutPlan>& plans);

}  // namespace tessera
