// SPDX-License-Identifier: Apache-2.0
// Small modules with annotations, which are partitioned and compared with the unpartitioned program.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tessera/ir/text.h"
#include "tessera/ops/op_table.h"
#include "tessera/partitioner/check/check.h"
#include "tessera/partitioner/pipeline/partition.h"

namespace tessera::partition_cases {

// A module with annotations of its parameters. `body` contains the instructions; the last one is the root.
struct Case {
  std::string name;
  std::string body;
  std::string mesh;
  std::map<std::string, std::string> specs;
};

inline Program program_of(const Case& c) {
  const Mesh mesh = Mesh::parse(c.mesh);
  Program program = parse_program("HloModule " + c.name + "\n" + c.body, op_table());
  program.num_partitions = mesh.device_count();
  program.meshes = {mesh};
  for (const auto& [name, spec] : c.specs) program = annotate(program, mesh, name, spec);
  return program;
}

inline std::map<std::string, std::int64_t> collective_counts(const Program& program) {
  std::map<std::string, std::int64_t> out;
  for (const auto& kind : program_stats(program).collectives) out[kind.opcode] = kind.count;
  return out;
}

inline void expect_equal(const Case& c) {
  const Program program = program_of(c);
  for (std::uint64_t seed = 0; seed < 2; ++seed) {
    const CheckReport report = check_partition(program, {.seed = seed, .trip_limit = 50, .run = nullptr});
    EXPECT_TRUE(report.passed) << c.name << " on " << c.mesh << ": "
                               << fmt::format("{}", fmt::join(report.failures, "\n")) << "\n"
                               << print_program(partition(program).program);
    EXPECT_GT(report.values_compared, 0);
  }
}

inline const std::string kAdder = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n";
inline const std::string kMaximum =
    "max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] maximum(a, b) }\n";

inline std::string dot_module(int m, int k, int n) {
  return fmt::format(
      "ENTRY main {{ x = f32[{0},{1}] parameter(0) w = f32[{1},{2}] parameter(1)\n"
      "ROOT h = f32[{0},{2}] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}} }}",
      m, k, n);
}

}  // namespace tessera::partition_cases
