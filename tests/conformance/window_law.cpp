// SPDX-License-Identifier: Apache-2.0
// Law 6: an op with windows over a sharded dim gives the same result after partitioning. The test shards every factor
// with windows into 2, 3 and 6 tiles, alone and with another sharded dim. Padding is poisoned.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "conformance/op_samples.h"
#include "support/sanitizers.h"
#include "tessera/ir/text.h"
#include "tessera/partitioner/check/check.h"

namespace tessera::conformance {
namespace {

using FactorAxes = std::vector<std::vector<AxisRef>>;

// The axes of each dim are those of the first of its factors that is sharded.
Sharding sharding_of(const Mesh& mesh, const TensorFactors& tensor, const FactorAxes& axes) {
  Sharding out = Sharding::replicated(mesh, isize(tensor));
  for (int d = 0; d < isize(tensor); ++d)
    for (const int factor : at(tensor, d))
      if (at(out.dims, d).axes.empty()) at(out.dims, d).axes = at(axes, factor);
  return out;
}

Program annotated(const SampleProgram& sample, const FactorMap& map, const Mesh& mesh, const FactorAxes& axes) {
  Program program = sample.program;
  auto main = std::make_shared<Computation>(program.entry_computation());
  const Instruction subject = (*main)[sample.subject];
  for (int i = 0; i < isize(subject.operands); ++i) {
    auto& operand = at(main->instructions, at(subject.operands, i));
    operand.sharding = make_sharding(sharding_of(mesh, at(map.operands, i), axes));
  }
  if (subject.type.is_array())
    at(main->instructions, sample.subject).sharding = make_sharding(sharding_of(mesh, map.results.front(), axes));
  at(program.computations, program.entry) = std::move(main);
  program.meshes = {mesh};
  program.num_partitions = mesh.device_count();
  return program;
}

bool has_window(const FactorMap& map, std::size_t factor) {
  return std::any_of(map.windows.begin(), map.windows.end(),
                     [&](const Window& w) { return w.factor == static_cast<int>(factor); });
}

std::vector<FactorAxes> window_splits_of(const FactorMap& map) {
  const std::vector<AxisRef> a{{0, 1, 2}};
  const std::vector<AxisRef> b{{1, 1, 3}};
  std::vector<FactorAxes> out;
  for (std::size_t f = 0; f < map.factors.size(); ++f) {
    if (!has_window(map, f)) continue;
    FactorAxes split(map.factors.size());
    for (const auto& axes : {a, b, std::vector<AxisRef>{a[0], b[0]}}) {
      split[f] = axes;
      out.push_back(split);
    }
    for (std::size_t g = 0; g < map.factors.size(); ++g) {
      if (g == f) continue;
      split[f] = a;
      split[g] = b;
      out.push_back(split);
      split[g].clear();
    }
  }
  return out;
}

TEST(OpLaws, WindowsOverShardedDimsGiveTheShardsOfTheResult) {
  const Mesh mesh({{"a", 2}, {"b", 3}});
  int splits = 0;
  int cases = 0;
  int with_permute = 0;
  for (const auto& sample : op_samples()) {
    if (!sample.splits) continue;
    const SampleProgram made = program_of(sample);
    const Computation& main = made.program.entry_computation();
    const OpView view = view_of(made.program, main, main[made.subject]);
    if (view.op.factors == nullptr) continue;
    const FactorMap map = view.op.factors(view);
    for (const auto& split : window_splits_of(map)) {
      if (splits++ % testing::kSanitizedShare != 0) continue;
      const Program program = annotated(made, map, mesh, split);
      ++cases;
      try {
        const CheckReport report = check_partition(program, {});
        EXPECT_TRUE(report.passed) << name_of(sample) << "\n"
                                   << fmt::format("{}", fmt::join(report.failures, "\n")) << print_program(program);
        const auto stats = program_stats(partition(program).program);
        with_permute += std::any_of(stats.collectives.begin(), stats.collectives.end(),
                                    [](const auto& kind) { return kind.opcode == "collective-permute"; });
      } catch (const std::exception& error) {
        ADD_FAILURE() << name_of(sample) << ": " << error.what() << print_program(program);
      }
      if (::testing::Test::HasFailure()) return;
    }
  }
  EXPECT_GT(cases, testing::cases_here(200));
  EXPECT_GT(with_permute * 2, cases);
}

}  // namespace
}  // namespace tessera::conformance
