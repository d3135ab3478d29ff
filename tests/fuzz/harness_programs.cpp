// SPDX-License-Identifier: Apache-2.0
#include "harness.h"

#include <algorithm>

#include "tessera/base/error.h"
#include "tessera/ir/text.h"
#include "tessera/ops/op_table.h"
#include "tessera/partitioner/check/check.h"
#include "tessera/partitioner/pipeline/partition.h"
#include "tessera/sharding/hlo_sharding.h"
#include "tessera/solver/solve.h"

namespace tessera::fuzz {
namespace {

bool check_sdy(std::string_view text) {
  const std::vector<Mesh> meshes = {Mesh({{"x", 2}, {"y", 6}})};
  std::vector<Sharding> leaves;
  const bool is_sharding = reads([&] { leaves = parse_sdy_shardings(text, meshes); });
  if (leaves.size() == 1 && leaves[0].mesh == meshes[0])
    must("its own text", [&] {
      demand(parse_sdy_shardings(sdy_sharding_text(leaves[0]), meshes)[0] == leaves[0],
             "the sharding reads back otherwise");
    });
  std::vector<Mesh> read;
  const bool is_meshes = reads([&] { read = parse_sdy_meshes(text); });
  must("its own text",
       [&] { demand(parse_sdy_meshes(sdy_meshes_text(read)) == read, "the meshes read back otherwise"); });
  return is_sharding || is_meshes;
}

// Checks XLA's form with named axes.
bool check_named(std::string_view text) {
  std::vector<Sharding> leaves;
  if (!reads([&] { leaves = parse_named_shardings(text, {2, 1}, 12); })) return false;
  for (const Sharding& leaf : leaves) {
    if (!leaf.is_tiled() || leaf.mesh.axes().empty()) continue;
    must("its own text", [&] {
      const auto again = parse_sdy_shardings(sdy_sharding_text(leaf), {leaf.mesh});
      demand(again.at(0) == leaf, leaf.str() + " reads back otherwise");
    });
  }
  return true;
}

void check_leaf(const HloSharding& leaf) {
  const auto text = hlo_sharding_text(leaf);
  must("its own text", [&] { demand(parse_hlo_sharding(text).at(0) == leaf, text + " reads back otherwise"); });
  if (leaf.kind != HloSharding::Kind::kTiled) return;
  const int ndim = static_cast<int>(leaf.tile_dims.size() - leaf.subgroup_types.size());
  std::vector<Mesh> meshes;
  std::vector<Sharding> axes;
  if (!reads([&] { axes = to_axes({{leaf, ndim}}, static_cast<std::int64_t>(leaf.devices.size()), meshes); })) return;
  HloSharding bare = leaf;
  bare.suffix.clear();
  const auto again = hlo_sharding_text(axes.at(0));
  const bool sorted = leaf.subgroup_types.empty() || leaf.subgroup_types == std::vector{SubgroupType::kReplicated};
  demand(!sorted || again == hlo_sharding_text(bare), text + " becomes " + again);
}

// Returns true if a pass over the program takes negligible time.
bool is_small(const Program& program) {
  constexpr int kInstructions = 80;
  constexpr std::int64_t kBytes = 1 << 20;
  constexpr int kLeaves = 50;
  constexpr std::int64_t kDevices = 8;
  int count = 0;
  for (const auto& computation : program.computations) {
    count += computation->size();
    for (const auto& instruction : computation->instructions)
      if (instruction.type.byte_size() > kBytes || instruction.type.leaf_count() > kLeaves) return false;
  }
  return count <= kInstructions && program.num_partitions <= kDevices;
}

std::int64_t elements_of(const Program& program) {
  std::int64_t count = 0;
  for (const auto& computation : program.computations)
    for (const auto& instruction : computation->instructions)
      for (const auto& leaf : instruction.type.leaves()) count += leaf.is_array() ? leaf.element_count() : 0;
  return count;
}

bool has_floats(const Program& program) {
  for (const auto& computation : program.computations)
    for (const auto& instruction : computation->instructions)
      for (const auto& leaf : instruction.type.leaves())
        if (leaf.is_array() && is_float(leaf.dtype())) return true;
  return false;
}

void check_prints(const Program& program) {
  verify(program);
  const Program again = parse_program(print_program(program), op_table(), {.file_name = "printed.hlo"});
  const auto text_of_difference = difference(program, again);
  demand(text_of_difference.empty(), "reads back otherwise: " + text_of_difference);
  print_program(program, {.for_xla = true});
}

}  // namespace

bool check_hlo(std::string_view text) {
  Program program;
  if (!reads([&] { program = parse_program(text, op_table(), {.file_name = "fuzz.hlo"}); })) return false;
  must("a program that was read", [&] { check_prints(program); });
  if (!is_small(program)) return true;
  Partitioned parts;
  if (!reads([&] { parts = partition(program); })) return true;
  must("a partitioned program", [&] { check_prints(parts.program); });
  must("the statistics of a partitioned program", [&] { program_stats(parts.program); });
  return true;
}

bool check_values(std::string_view text) {
  Program program;
  if (!reads([&] { program = parse_program(text, op_table(), {.file_name = "fuzz.hlo"}); })) return false;
  if (!is_small(program) || elements_of(program) > 4000) return false;
  CheckReport report;
  if (!reads([&] { report = check_partition(program, {.seed = 1, .trip_limit = 6, .run = nullptr}); })) return false;
  // Sums in another order that cancel may differ by more than their error bound. Wrong values differ by much more.
  const double far_off = has_floats(program) ? 1e4 : 1;
  demand(report.worst < far_off, report.failures.empty() ? "values differ" : report.failures.front());
  return true;
}

bool check_graph(std::string_view text) {
  solver::Problem problem;
  if (!reads([&] { problem = solver::parse_problem(text, "fuzz.json"); })) return false;
  must("its own text", [&] {
    const std::string printed = solver::problem_text(problem);
    demand(solver::problem_text(solver::parse_problem(printed, "printed.json")) == printed, "reads back otherwise");
  });
  solver::Solution found;
  if (!reads([&] { found = solver::solve(problem, {100'000, std::nullopt, 1}); })) return true;
  must("a solution", [&] {
    demand(solver::evaluate(problem, found.choices).cost == found.cost, "the cost is another one");
    demand(found.lower_bound <= found.cost, "the bound is above the cost");
  });
  return true;
}

bool check_sharding(std::string_view text) {
  if (check_sdy(text)) return true;
  if (is_named_sharding(text)) return check_named(text);
  std::vector<HloSharding> leaves;
  if (!reads([&] { leaves = parse_hlo_sharding(text); })) return false;
  for (const auto& leaf : leaves) check_leaf(leaf);
  return true;
}

}  // namespace tessera::fuzz
