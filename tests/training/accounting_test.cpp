// SPDX-License-Identifier: Apache-2.0
// The memory, FLOPs and bytes reported before a training step equal those of the executed step. Logits and attention
// scores are computed in chunks.
#include <gtest/gtest.h>

#include <boost/process/args.hpp>
#include <boost/process/io.hpp>
#include <boost/process/system.hpp>
#include <cstdlib>

#include "frontend/on_ranks.h"
#include "support/long_tests.h"
#include "support/temporary_folder.h"
#include "tessera/base/json_object.h"
#include "tessera/base/options.h"
#include "tessera/ir/text.h"
#include "tessera/lowering/execution_plan.h"
#include "tessera/lowering/lowering.h"
#include "tessera/ops/op_table.h"
#include "training/gpt2_training.h"

namespace tessera::testing {
namespace {

// Sets environment variables for a scope, also for child processes and for ranks created in it.
class Variables {
 public:
  explicit Variables(std::vector<std::pair<std::string, std::string>> values) : values_(std::move(values)) {
    for (const auto& [name, value] : values_) ::setenv(name.c_str(), value.c_str(), 1);
  }
  ~Variables() {
    for (const auto& [name, value] : values_) ::unsetenv(name.c_str());
  }
  Variables(const Variables&) = delete;
  Variables& operator=(const Variables&) = delete;

 private:
  std::vector<std::pair<std::string, std::string>> values_;
};

// Even on a mesh of four devices, the logits have 98304 bytes and the scores 49152.
const std::vector<std::pair<std::string, std::string>> kInChunks = {{"TESSERA_LARGEST_VALUE", "24000"},
                                                                    {"TESSERA_LARGEST_SCORES", "12000"}};

TrainingCase case_on(const std::string& mesh) {
  return {.mesh = mesh, .width = 32, .heads = 4, .layers = 2, .vocabulary = 256, .time = 32, .rows = 12};
}

struct Counts {
  std::int64_t peak_bytes = 0;
  double flops = 0;
};
Counts counts_by_command(std::vector<std::string> arguments, const std::string& json) {
  namespace bp = boost::process;
  arguments.insert(arguments.end(), {"--json", json});
  EXPECT_EQ(bp::system(TESSERA_COMMAND, bp::args = arguments, bp::std_out > bp::null), 0) << arguments.front();
  const JsonObject read = JsonObject::from_file(json);
  Counts out;
  EXPECT_TRUE(read.read("peak_bytes_per_device", out.peak_bytes) && read.read("flops_per_device", out.flops));
  return out;
}

std::int64_t received(const RankFigures& rank) {
  std::int64_t total = 0;
  for (const auto& kind : rank.collectives) total += kind.bytes;
  return total;
}

class Accounting : public ::testing::TestWithParam<const char*> {};

TEST_P(Accounting, PlansHaveTheMemoryFlopsAndBytesOfTheExecutedStep) {
  const Variables chunks(kInChunks);
  const FreshRank rank;  // reads the variables
  const RankFigures executed = measure_step(case_on(GetParam())).front();
  const StepPlan plan = plan_of(case_on(GetParam()));
  const auto how = ExecutionOptions::for_plan(static_cast<int>(device_count_of(GetParam())));
  for (const Program& program : {plan.partitioned.program, executed.program.program}) {
    const ProgramStats stats = execution_stats(program, how);
    EXPECT_EQ(stats.peak_bytes_per_device, executed.program.memory.peak_bytes());
    EXPECT_EQ(stats.flops_per_device, executed.flops);
    EXPECT_EQ(stats.total_collective_bytes, received(executed));
    const ExecutableMemory planned = planned_memory(program, how.ranks, how.schedule.nodes);
    EXPECT_EQ(planned.arena, executed.program.memory.arena);
    EXPECT_EQ(planned.peak_bytes(), executed.program.memory.peak_bytes());
    EXPECT_EQ(planned.held_bytes(), executed.program.memory.held_bytes());
  }
}

TEST_P(Accounting, TheCommandReportsTheMemoryAndFlopsOfTheExecutedStep) {
  const Variables chunks(kInChunks);
  const FreshRank rank;
  const TemporaryFolder folder;
  const RankFigures executed = measure_step(case_on(GetParam())).front();
  const std::string local = folder.write("local.hlo", print_program(executed.program.program));
  const Counts stats = counts_by_command({"stats", local}, folder.file("stats.json"));
  EXPECT_EQ(stats.peak_bytes, executed.program.memory.peak_bytes());
  EXPECT_EQ(stats.flops, executed.flops);

  // The dump run/program.hlo is the lowered program. It is not lowered again.
  const auto how = ExecutionOptions::for_plan(static_cast<int>(device_count_of(GetParam())));
  const Program lowered = lower(executed.program.program, how.ranks, how.lowering);
  const Counts of_dump =
      counts_by_command({"stats", folder.write("run.hlo", print_program(lowered))}, folder.file("run.json"));
  EXPECT_EQ(of_dump.peak_bytes, executed.program.memory.peak_bytes());
  EXPECT_EQ(of_dump.flops, executed.flops);

  // The command may choose another partitioning than the front end, so its partitioned program is compiled unchanged.
  const std::string global = folder.write("global.hlo", print_program(executed.program.global));
  const std::string out = folder.file("partitioned.hlo");
  const Counts parts = counts_by_command({"partition", global, "-o", out}, folder.file("parts.json"));
  const Program partitioned = parse_program(read_file(out), op_table());
  run_virtual_ranks(static_cast<int>(device_count_of(GetParam())), [&](ProcessGroup& world) {
    EXPECT_EQ(parts.peak_bytes, compile(partitioned, world)->memory().peak_bytes());
  });
}

INSTANTIATE_TEST_SUITE_P(Meshes, Accounting,
                         ::testing::ValuesIn(testing::long_tests()
                                                 ? std::vector<const char*>{"data=1", "data=2", "fsdp=2", "model=2",
                                                                            "data=2,model=2", "fsdp=3",
                                                                            "fsdp=2,model=2"}
                                                 : std::vector<const char*>{"data=1", "fsdp=3", "data=2,model=2"}),
                         [](const auto& mesh) {
                           std::string name = mesh.param;
                           for (char& c : name)
                             if (c == '=' || c == ',') c = '_';
                           return name;
                         });

TEST(AccountingOfChunks, ChunksTakeLessMemoryAndReportedBytesShowIt) {
  const StepPlan plan = plan_of(case_on("fsdp=2"));
  const auto peak = [&] {
    const FreshRank rank;
    return execution_stats(plan.partitioned.program).peak_bytes_per_device;
  };
  const std::int64_t in_one = peak();
  const Variables chunks(kInChunks);
  EXPECT_LT(peak(), in_one);
}

// Ranks on different nodes store the gathered arrays; ranks on one node read them from each other.
TEST(AccountingOfNodes, ListedNodesDetermineTheFigures) {
  const StepPlan plan = plan_of(case_on("fsdp=4"));
  const auto peak = [&] {
    const FreshRank rank;
    return execution_stats(plan.partitioned.program).peak_bytes_per_device;
  };
  const std::int64_t on_one_node = peak();
  const Variables nodes(std::vector<std::pair<std::string, std::string>>{{"TESSERA_NODE", "a,a,b,b"}});
  EXPECT_GT(peak(), on_one_node);
  const FreshRank rank;
  EXPECT_EQ(peak(), measure_step(case_on("fsdp=4")).front().program.memory.peak_bytes());
}

}  // namespace
}  // namespace tessera::testing
