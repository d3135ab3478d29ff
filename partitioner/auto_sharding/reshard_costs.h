// SPDX-License-Identifier: Apache-2.0
// The times of reshards between the shardings that the nodes of a decision graph can choose. Many of them are equal:
//
//   f32[64,256] {x,-} -> {-,x}     f32[256,64] {-,y} -> {y,-}     the names of axes and the order of dims do not count
//
// If each dim can be divided evenly over all devices, the time depends only on the number of bytes and on the axes that
// shard dims before and after, not on the sizes of the dims. One plan is then made for all reshards of a kind.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "pipeline/interner.h"
#include "propagation/op_signatures.h"
#include "tessera/sharding/machine.h"

namespace tessera {

class ReshardCosts {
 public:
  ReshardCosts(const Mesh& mesh, const MachineModel& machine);
  /// The number of a sharding. Equal shardings have equal numbers.
  int id_of(Sharding sharding) { return shardings_.id_of(make_sharding(std::move(sharding))); }
  [[nodiscard]] const Sharding& sharding(int id) const { return shardings_.of(id)->front(); }
  /// The seconds of one reshard: [from, to], row-major. Empty if all are 0.
  std::vector<double> table(const Type& type, const std::vector<int>& from, const std::vector<int>& to);
  /// The seconds of one reshard.
  double seconds(const Type& type, int from, int to);
  /// The number of reshards that were planned.
  [[nodiscard]] std::int64_t planned() const { return planned_; }

 private:
  // The axes of two shardings, by dim. The second one is not partial.
  struct Form {
    std::vector<std::vector<AxisRef>> from;
    std::vector<std::vector<AxisRef>> to;
    std::vector<AxisRef> partial;
    [[nodiscard]] std::vector<int> code() const;
  };
  struct Kind {
    Form form;  // of the dims that one of the shardings uses
    Reduction reduction = Reduction::kSum;
    int number = 0;
  };

  double planned_seconds(const Type& type, const Sharding& from, const Sharding& to);
  double seconds_of_type(const Type& type, int from, int to);
  std::optional<double> seconds_of_kind(const Type& type, int from, int to);
  const Kind* kind_of(int from, int to);
  [[nodiscard]] Form form_of(const std::vector<int>& dims, const Sharding& from, const Sharding& to) const;
  [[nodiscard]] std::pair<Sharding, Sharding> shardings_of(const Form& form, Reduction reduction, int ndim) const;
  [[nodiscard]] bool uses_full_axes(const Sharding& sharding) const;
  [[nodiscard]] std::vector<std::int64_t> slot_sizes(const Type& type, const Sharding& from, const Sharding& to) const;

  const Mesh& mesh_;
  const MachineModel& machine_;
  int axis_count_ = 0;      // of axes of more than one device
  std::vector<int> alike_;  // by axis: the first axis of equal size with an equal link
  SharedShardings shardings_;
  Interner<Type> types_;
  ByIds<double> by_type_;  // by type, from and to
  std::map<std::pair<int, int>, std::optional<Kind>> kinds_;
  std::map<std::vector<int>, int> numbers_;                               // of kinds, by their code
  std::map<std::tuple<int, std::size_t, std::int64_t>, double> by_kind_;  // by kind, number of dims and bytes
  std::int64_t planned_ = 0;
};

}  // namespace tessera
