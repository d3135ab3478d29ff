// SPDX-License-Identifier: Apache-2.0
// For every sample of the op table the executable gives the result of the reference evaluation, for each instruction
// set.
#include <gtest/gtest.h>

#include "conformance/op_samples.h"
#include "runtime/close.h"
#include "tessera/collectives/virtual_ranks.h"
#include "tessera/ops/async.h"
#include "tessera/ops/evaluate.h"
#include "tessera/ops/op_table.h"
#include "tessera/runtime/executable/executable.h"
#include "tessera/runtime/metrics/metrics.h"

namespace tessera {
namespace {

// A program cannot end with a -start or -update without its -done.
bool can_run(const conformance::Sample& sample) {
  const AsyncHalf half = async_half(*op_table().find(sample.op));
  return sample.num_partitions == 1 && half != AsyncHalf::kStart && half != AsyncHalf::kUpdate;
}

bool has_complex_values(const Program& program) {
  for (const auto& instruction : program.entry_computation().instructions)
    for (const Type& leaf : instruction.type.leaves())
      if (leaf.is_array() && is_complex(leaf.dtype())) return true;
  return false;
}

TEST(Samples, GiveTheResultsOfTheReferenceEvaluation) {
  const auto world = make_single_rank_world();
  for (const auto& sample : conformance::op_samples()) {
    if (!can_run(sample)) continue;
    const auto made = conformance::program_of(sample);
    const auto arguments = conformance::random_arguments(sample, 7);
    SCOPED_TRACE(conformance::name_of(sample));
    const Literal expected = evaluate(made.program, arguments);
    testing::on_each_isa([&] {
      for (const bool fuse : {true, false}) {
        ExecutableOptions how;
        how.fuse = fuse;
        EXPECT_TRUE(testing::close(run_program(made.program, *world, arguments, how), expected, 64)) << "fuse " << fuse;
      }
    });
  }
}

TEST(Samples, TheReferenceOptionRunsEveryOpByReferenceEvaluation) {
  const auto world = make_single_rank_world();
  metrics().clear_all();
  for (const auto& sample : conformance::op_samples()) {
    if (!can_run(sample)) continue;
    const auto made = conformance::program_of(sample);
    const auto arguments = conformance::random_arguments(sample, 3);
    SCOPED_TRACE(conformance::name_of(sample));
    ExecutableOptions how;
    how.reference = true;
    EXPECT_TRUE(testing::close(run_program(made.program, *world, arguments, how), evaluate(made.program, arguments)));
  }
  EXPECT_GT(metrics().counter_value("fallback::add").value_or(0), 0);
  EXPECT_GT(metrics().counter_value("fallback::dot").value_or(0), 0);
}

TEST(Samples, FewOpsHaveNoKernel) {
  const auto world = make_single_rank_world();
  metrics().clear_all();
  for (const auto& sample : conformance::op_samples()) {
    const Program program = conformance::program_of(sample).program;
    if (can_run(sample) && !has_complex_values(program))
      run_program(program, *world, conformance::random_arguments(sample, 3));
  }
  // Mathematical ops and ops with side effects, which do not occur in training steps. There are no kernels for complex
  // numbers.
  std::vector<std::string> allowed = {
      "fallback::custom-call",       "fallback::reduce",        "fallback::replica-id",
      "fallback::rng-bit-generator", "fallback::scatter",       "fallback::sort",
      "fallback::convolution",       "fallback::reduce-window", "fallback::select-and-scatter"};
  for (const char* op : {"acos",
                         "acosh",
                         "add-dependency",
                         "asin",
                         "asinh",
                         "atanh",
                         "batch-norm-grad",
                         "batch-norm-inference",
                         "batch-norm-training",
                         "bitcast",
                         "cholesky",
                         "cosh",
                         "domain",
                         "get-dimension-size",
                         "infeed",
                         "map",
                         "outfeed",
                         "ragged-dot",
                         "recv",
                         "recv-done",
                         "reduce-precision",
                         "rng",
                         "rng-get-and-update-state",
                         "scaled-dot",
                         "send",
                         "send-done",
                         "sinh",
                         "stochastic-convert",
                         "triangular-solve"})
    allowed.push_back(std::string("fallback::") + op);
  // 10 of f64 and integers, and three with windows that oneDNN does not support (a dilated image with a kernel that is
  // not reversed, and one with a kernel that is partly reversed).
  EXPECT_EQ(metrics().counter_value("fallback::convolution").value_or(0), 13);
  for (const std::string& name : metrics().executed_fallback_ops())
    EXPECT_NE(std::find(allowed.begin(), allowed.end(), name), allowed.end()) << name;
}

}  // namespace
}  // namespace tessera
