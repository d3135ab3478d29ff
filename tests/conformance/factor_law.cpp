// SPDX-License-Identifier: Apache-2.0
// Law 4: an op on shards, as its factors allow, gives the shards of the result, or partial values that reduce to it.
// The op is localized; meshes are uneven, and padding is poisoned. In addition, the op passes every partial state
// through that its linearity allows.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "conformance/op_samples.h"
#include "conformance/sharded_case.h"
#include "support/sanitizers.h"
#include "tessera/ops/evaluate.h"

namespace tessera::conformance {
namespace {

const Mesh& mesh() {
  static const Mesh mesh({{"a", 2}, {"b", 3}});
  return mesh;
}
const std::vector<AxisRef> kA{{0, 1, 2}};
const std::vector<AxisRef> kB{{1, 1, 3}};
const std::vector<AxisRef> kAB{{0, 1, 2}, {1, 1, 3}};

// Returns every factor sharded over a, b and both, and every pair of factors sharded over one axis each.
std::vector<FactorSharding> splits_of(const FactorMap& map) {
  std::vector<FactorSharding> out;
  const auto count = map.factors.size();
  const auto usable = [&](std::size_t f) {
    const FactorKind kind = map.factors[f].kind;
    return kind == FactorKind::kPass || (kind == FactorKind::kReduce && map.reduction_known);
  };
  for (std::size_t f = 0; f < count; ++f) {
    if (!usable(f)) continue;
    for (const auto& axes : {kA, kB, kAB}) {
      FactorSharding one(count);
      one[f] = axes;
      out.push_back(one);
    }
    for (std::size_t g = 0; g < count; ++g) {
      if (g == f || !usable(g)) continue;
      FactorSharding two(count);
      two[f] = kA;
      two[g] = kB;
      out.push_back(two);
    }
  }
  return out;
}

TEST(OpLaws, ShardsByEveryFactorGiveTheShardsOfTheResult) {
  int splits = 0;
  int cases = 0;
  for (const auto& sample : op_samples()) {
    if (!sample.splits) continue;
    const SubjectCase subject(sample, 5);
    if (subject.view.op.factors == nullptr) continue;
    const FactorMap map = subject.view.op.factors(subject.view);
    for (const auto& split : splits_of(map)) {
      if (splits++ % testing::kSanitizedShare != 0) continue;
      auto shardings = shard_by_factors(subject.view, map, split, mesh());
      if (!shardings) continue;  // the merged dim cannot be sharded like this
      ++cases;
      const auto wrong = subject.compare_sharded(*shardings, subject.shards_of(*shardings, map));
      EXPECT_EQ(wrong, "") << name_of(sample) << " " << map.str() << " operands " << text_of(shardings->operands)
                           << " result " << text_of(shardings->results);
      if (!wrong.empty()) break;
    }
  }
  EXPECT_GT(cases, testing::cases_here(1000));
}

std::vector<Reduction> reductions_passed(Linearity linearity, DType dtype) {
  const bool bits = !is_float(dtype);
  if (is_complex(dtype))
    return linearity == Linearity::kNone ? std::vector<Reduction>{} : std::vector<Reduction>{Reduction::kSum};
  switch (linearity) {
    case Linearity::kNone: return {};
    case Linearity::kLinear:
    case Linearity::kJointlyLinear:
      return dtype == DType::kPred ? std::vector<Reduction>{Reduction::kOr} : std::vector<Reduction>{Reduction::kSum};
    case Linearity::kMonotone: return {Reduction::kMin, Reduction::kMax};
    case Linearity::kAny: break;
  }
  std::vector<Reduction> all{Reduction::kMin, Reduction::kMax};
  if (dtype != DType::kPred) all.push_back(Reduction::kSum);
  if (bits) all.insert(all.end(), {Reduction::kAnd, Reduction::kOr});
  return all;
}

TEST(OpLaws, EveryPartialStateThatLinearityAllowsPassesThroughTheOp) {
  int cases = 0;
  for (const auto& sample : op_samples()) {
    if (!sample.splits) continue;
    const SubjectCase subject(sample, 9);
    if (subject.view.op.linearity == nullptr) continue;
    const int count = isize(subject.view.operands);
    for (int i = 0; i < count; ++i) {
      const Linearity linearity = subject.view.op.linearity(subject.view, i);
      std::vector<int> together{i};
      if (linearity == Linearity::kJointlyLinear) {
        together.clear();
        for (int j = 0; j < count; ++j)
          if (subject.view.op.linearity(subject.view, j) == Linearity::kJointlyLinear) together.push_back(j);
      }
      for (const Reduction reduction : reductions_passed(linearity, at(subject.view.operands, i).dtype())) {
        ++cases;
        const OpShardings shardings = partial_shardings(subject.view, together, reduction, kB, mesh());
        EXPECT_EQ(subject.compare_sharded(shardings, subject.partial_shards(shardings)), "")
            << name_of(sample) << ": operand " << i << " partial " << reduction_name(reduction);
      }
    }
  }
  EXPECT_GT(cases, 200);
}

}  // namespace
}  // namespace tessera::conformance
