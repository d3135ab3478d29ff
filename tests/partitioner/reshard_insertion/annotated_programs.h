// SPDX-License-Identifier: Apache-2.0
// Annotated programs, and checks of their partitioned programs.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tessera/ir/text.h"
#include "tessera/ops/op_table.h"
#include "tessera/partitioner/check/check.h"
#include "tessera/partitioner/pipeline/partition.h"

namespace tessera::annotated_programs {

inline const std::string kFree = "HloModule m, allow_spmd_sharding_propagation_to_output={true}\n";

inline Program annotated(const std::string& text, const Mesh& mesh,
                         const std::vector<std::pair<std::string, std::string>>& specs) {
  Program program = parse_program(text, op_table());
  program.num_partitions = mesh.device_count();
  program.meshes = {mesh};
  for (const auto& [name, spec] : specs) program = annotate(program, mesh, name, spec);
  return program;
}

inline std::string checked(const Program& program) {
  const CheckReport report = check_partition(program, {});
  EXPECT_TRUE(report.passed) << fmt::format("{}", fmt::join(report.failures, "\n"));
  return print_program(partition(program).program);
}

inline bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace tessera::annotated_programs
