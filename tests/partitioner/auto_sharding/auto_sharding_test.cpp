// SPDX-License-Identifier: Apache-2.0
// Shardings that nobody annotated: compared with every assignment of axes to the parameters of small programs.
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "support/sanitizers.h"
#include "support/temporary_folder.h"
#include "tessera/ir/text.h"
#include "tessera/ops/op_table.h"
#include "tessera/partitioner/check/check.h"

namespace tessera {
namespace {

Program with_mesh(const std::string& text, const std::string& mesh) {
  Program program = parse_program(text, op_table());
  const Mesh parsed = Mesh::parse(mesh);
  program.num_partitions = parsed.device_count();
  program.meshes = {parsed};
  return program;
}

PartitionOptions options_for(const MachineModel& machine, bool automatic, std::optional<std::int64_t> memory = {}) {
  PartitionOptions out;
  out.machine = machine;
  out.writes_dumps = false;
  if (automatic) out.automatic = {memory};
  return out;
}

// The least modelled time over all shardings of the parameters, with propagation for the other values.
double best_of_sweep(const Program& program, const MachineModel& machine) {
  const Computation& entry = program.entry_computation();
  double best = std::numeric_limits<double>::infinity();
  const std::function<void(std::size_t, const Program&)> visit = [&](std::size_t next, const Program& annotated) {
    if (next == entry.parameters.size()) {
      Program open = annotated;
      open.propagate_to_output = {true};
      best = std::min(best, modelled_seconds(partition(open, options_for(machine, false)).program, machine));
      return;
    }
    const Instruction& parameter = entry[entry.parameters[next]];
    std::vector<std::string> specs = {""};
    for (int d = 0; d < parameter.type.ndim(); ++d) {
      std::vector<std::string> longer;
      for (const std::string& spec : specs)
        for (const char* axes : {"-", "x", "y", "x+y"}) {
          const bool uses_axis_twice =
              (spec.find('x') != std::string::npos && std::string_view(axes).find('x') != std::string_view::npos) ||
              (spec.find('y') != std::string::npos && std::string_view(axes).find('y') != std::string_view::npos);
          if (!uses_axis_twice) longer.push_back(spec + (spec.empty() ? "" : ",") + axes);
        }
      specs = std::move(longer);
    }
    for (const std::string& spec : specs)
      visit(next + 1, annotate(annotated, program.meshes.front(), parameter.name, spec));
  };
  visit(0, program);
  return best;
}

void expect_as_good_as_a_sweep(const std::string& text, const std::vector<std::string>& meshes) {
  for (const std::string& mesh : meshes)
    for (const char* preset : testing::cases_of<const char*>({"cpu-node", "tpu-v4"})) {
      const MachineModel machine = MachineModel::load(preset);
      const Program program = with_mesh(text, mesh);
      PartitionOptions options = options_for(machine, true);
      const double found = modelled_seconds(partition(program, options).program, machine);
      EXPECT_LE(found, 1.02 * best_of_sweep(program, machine)) << mesh << " " << preset;
      options.keep_shardings = true;
      EXPECT_TRUE(check_partitioned(program, partition(program, options)).passed) << mesh << " " << preset;
    }
}

TEST(AutoSharding, AManyRowsAreAsGoodAsTheBestSweep) {
  expect_as_good_as_a_sweep(
      "HloModule m\nENTRY main {\n x = f32[768,48] parameter(0) w = f32[48,96] parameter(1)\n"
      " h = f32[768,96] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n ROOT y = f32[768,96] tanh(h) }",
      {"x=2,y=3", "x=3,y=2"});
}

TEST(AutoSharding, LargeWeightsAndFewRowsAreAsGoodAsTheBestSweep) {
  expect_as_good_as_a_sweep(
      "HloModule m\nENTRY main {\n x = f32[5,768] parameter(0) w = f32[768,1536] parameter(1)\n"
      " h = f32[5,1536] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n ROOT y = f32[5,1536] tanh(h) }",
      {"x=2,y=3", "x=3,y=2"});
}

TEST(AutoSharding, TwoProductsAreAsGoodAsTheBestSweep) {
  expect_as_good_as_a_sweep(
      "HloModule m\nENTRY main {\n x = f32[12,384] parameter(0) w = f32[384,960] parameter(1) v = f32[960,384] "
      "parameter(2)\n"
      " h = f32[12,960] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n a = f32[12,960] tanh(h)\n"
      " ROOT y = f32[12,384] dot(a, v), lhs_contracting_dims={1}, rhs_contracting_dims={0} }",
      {"x=2,y=3"});
}

constexpr const char* kStep =
    "HloModule m, input_output_alias={ {0}: (1, {}, may-alias) }\nadd { a = f32[] parameter(0) b = f32[] parameter(1) "
    "ROOT "
    "s = f32[] add(a, b) }\nENTRY main {\n x = f32[1536,60] parameter(0) w = f32[60,120] parameter(1)\n"
    " h = f32[1536,120] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
    " g = f32[60,120] dot(x, h), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n n = f32[60,120] subtract(w, g)\n"
    " z = f32[] constant(0) l = f32[] reduce(h, z), dimensions={0,1}, to_apply=add\n"
    " ROOT r = (f32[60,120], f32[]) tuple(n, l) }";

TEST(AutoSharding, AnUpdatedWeightKeepsItsSharding) {
  const Program program = with_mesh(kStep, "x=2,y=3");
  PartitionOptions options = options_for(MachineModel::load("cpu-node"), true);
  options.keep_shardings = true;
  const Partitioned parts = partition(program, options);
  EXPECT_TRUE(check_partitioned(program, parts).passed);
  EXPECT_EQ(parts.program.aliases.size(), 1U);
  const Computation& global = parts.global.entry_computation();
  const Sharding updated = global[global.root].sharding->front().closed();
  EXPECT_EQ(global[global.parameters[1]].sharding->front().closed(), updated);
  EXPECT_FALSE(updated.used_axes().empty());
}

TEST(AutoSharding, AnAnnotationStays) {
  const Program program = with_mesh(kStep, "x=2,y=3");
  const Program annotated = annotate(program, program.meshes.front(), "x", "-,y");
  const Partitioned parts = partition(annotated, options_for(MachineModel::load("cpu-node"), true));
  const Computation& global = parts.global.entry_computation();
  EXPECT_EQ(global[global.parameters[0]].sharding->front().closed().str(), "{-,y}");
}

// The annotation's mesh has more axes than that of the program.
TEST(AutoSharding, AnAnnotationMayBeOverAnotherMesh) {
  Program program = with_mesh(kStep, "x=6");
  program = annotate(program, Mesh::parse("a=1,b=2,c=3"), "x", "c,b");
  PartitionOptions options = options_for(MachineModel::load("cpu-node"), true);
  options.keep_shardings = true;
  EXPECT_TRUE(check_partitioned(program, partition(program, options)).passed);
}

TEST(AutoSharding, AMemoryLimitShardsMore) {
  const Program program = with_mesh(
      "HloModule m\nENTRY main {\n x = f32[6,96] parameter(0) w = f32[96,96] parameter(1) v = f32[96,96] parameter(2)\n"
      " h = f32[6,96] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n a = f32[6,96] tanh(h)\n"
      " ROOT y = f32[6,96] dot(a, v), lhs_contracting_dims={1}, rhs_contracting_dims={0} }",
      "x=2,y=3");
  const MachineModel machine = MachineModel::load("tpu-v4");
  const auto peak = [&](std::optional<std::int64_t> memory) {
    return execution_stats(partition(program, options_for(machine, true, memory)).program).peak_bytes_per_device;
  };
  const std::int64_t free = peak({});
  for (const std::int64_t limit : {free - 1, 2 * free / 3, free / 2}) EXPECT_LE(peak(limit), limit);
  const std::string error = testing::error_of([&] { peak(1000); });
  EXPECT_NE(
      error.find("m: no shardings over mesh<x=2, y=3> were found with which a device needs at most 1000.00B; the least "
                 "memory found is "),
      std::string::npos)
      << error;
}

TEST(AutoSharding, LoopsAndBranches) {
  const Program program = with_mesh(
      "HloModule m\nbody { p = (s32[], f32[48,36]) parameter(0) i = s32[] get-tuple-element(p), index=0\n"
      " x = f32[48,36] get-tuple-element(p), index=1 t = f32[48,36] tanh(x) one = s32[] constant(1) n = s32[] add(i, "
      "one)\n"
      " ROOT r = (s32[], f32[48,36]) tuple(n, t) }\n"
      "cond { p = (s32[], f32[48,36]) parameter(0) i = s32[] get-tuple-element(p), index=0 k = s32[] constant(5)\n"
      " ROOT c = pred[] compare(i, k), direction=LT }\n"
      "ENTRY main { a = f32[48,36] parameter(0) z = s32[] constant(0) s = (s32[], f32[48,36]) tuple(z, a)\n"
      " w = (s32[], f32[48,36]) while(s), condition=cond, body=body ROOT o = f32[48,36] get-tuple-element(w), index=1 "
      "}",
      "x=2,y=3");
  PartitionOptions options = options_for(MachineModel::load("cpu-node"), true);
  options.keep_shardings = true;
  const Partitioned parts = partition(program, options);
  EXPECT_TRUE(check_partitioned(program, parts).passed);
  EXPECT_TRUE(parts.notes.empty());
  EXPECT_EQ(parts.program.entry_computation().root_type().element_count(), 48 * 36 / 6);
}

// ---- manual regions -------------------------------------------------------------------------------------------------

// A product, a region that is per-device code along x, and another product.
std::string with_region(const std::string& operand_sharding, const std::string& region, const std::string& rows) {
  return "HloModule m\nENTRY main {\n a = f32[768,48] parameter(0) w = f32[48,96] parameter(1) v = f32[96,48] "
         "parameter(2)\n h = f32[768,96] dot(a, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
         " g = f32[768,96] custom-call(h), custom_call_target=\"Sharding\", sharding=" +
         operand_sharding + "\n s = f32[" + rows +
         ",96] custom-call(g), custom_call_target=\"SPMDFullToShardShape\", sharding=" + region + "\n t = f32[" + rows +
         ",96] tanh(s), sharding=" + region +
         "\n o = f32[768,96] custom-call(t), custom_call_target=\"SPMDShardToFullShape\", sharding=" +
         operand_sharding + "\n ROOT y = f32[768,48] dot(o, v), lhs_contracting_dims={1}, rhs_contracting_dims={0} }";
}

// The shardings of the parameters that were chosen.
std::vector<std::string> chosen_for_parameters(const Partitioned& parts) {
  std::vector<std::string> out;
  const Computation& global = parts.global.entry_computation();
  for (const Id parameter : global.parameters) out.push_back(global[parameter].sharding->front().closed().str());
  return out;
}

TEST(AutoSharding, TheValuesAroundARegionFitItsBorders) {
  for (const char* preset : {"cpu-node", "tpu-v4", "uniform"}) {
    const Program program = with_mesh(with_region("{devices=[6,1]<=[6]}", "{manual}", "128"), "x=6");
    PartitionOptions options = options_for(MachineModel::load(preset), true);
    options.keep_shardings = true;
    const Partitioned parts = partition(program, options);
    EXPECT_TRUE(check_partitioned(program, parts).passed) << preset;
    EXPECT_TRUE(parts.notes.empty()) << preset << ": " << parts.notes.front().reason;
    EXPECT_EQ(chosen_for_parameters(parts).front(), "{x,-}") << preset;
  }
}

TEST(AutoSharding, ARegionMayHavePerDeviceCodeAlongOneOfTheAxes) {
  const Program program = with_mesh(with_region("{devices=[2,1,3]<=[6] last_tile_dim_replicate}",
                                                "{devices=[1,1,2,3]<=[6] last_tile_dims={manual, replicated}}", "384"),
                                    "x=2,y=3");
  for (const char* preset : {"cpu-node", "tpu-v4"}) {
    PartitionOptions options = options_for(MachineModel::load(preset), true);
    options.keep_shardings = true;
    EXPECT_TRUE(check_partitioned(program, partition(program, options)).passed) << preset;
  }
}

// Without --auto, the parameters are replicated.
TEST(AutoSharding, ARegionCostsNoMoreThanWithoutAutomaticShardings) {
  const MachineModel machine = MachineModel::load("cpu-node");
  const Program program = with_mesh(with_region("{devices=[2,1]<=[2]}", "{manual}", "384"), "x=2");
  const auto seconds = [&](bool automatic) {
    return modelled_seconds(partition(program, options_for(machine, automatic)).program, machine);
  };
  EXPECT_LT(seconds(true), seconds(false));
}

}  // namespace
}  // namespace tessera
