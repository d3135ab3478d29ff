// SPDX-License-Identifier: Apache-2.0
// Steps that run while the next one is traced: they give the same values, report errors, and keep one order of
// collectives.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "frontend/on_ranks.h"
#include "support/gate.h"
#include "support/gated_group.h"
#include "support/temporary_folder.h"
#include "tessera/base/files.h"
#include "tessera/base/options.h"
#include "tessera/frontend/compile/compiled_function.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/nn/layers.h"
#include "tessera/optim/optimizer.h"
#include "tessera/runtime/metrics/metrics.h"

namespace tessera {
namespace {

using testing::error_of;
using testing::GatedGroup;

void overlap(bool on) { options().set("TESSERA_ASYNC", on ? "1" : "0"); }

Tensor ones(std::int64_t count) {
  return Tensor::from<float>({count}, std::vector<float>(static_cast<std::size_t>(count), 1));
}

std::int64_t samples_of(std::string_view metric) {
  const auto data = metrics().metric_data(metric);
  return data ? data->total_samples : 0;
}

// ---- values -------------------------------------------------------------------------------------------------------------

// Returns losses and weights of a small network, read only at the end. The rows are sharded over all ranks.
std::vector<float> train(bool overlapped) {
  overlap(overlapped);
  manual_seed(3);
  const Mesh mesh({{"fsdp", device_count()}});
  nn::Linear first(6, 8);
  nn::Linear second(8, 1);
  for (const Tensor& weight : {first.weight(), second.weight()}) mark_sharding(weight, mesh, {"fsdp", {}});
  auto parameters = first.parameters();
  for (const auto& parameter : second.parameters()) parameters.push_back(parameter);
  optim::AdamW optimizer(parameters, {.learning_rate = 0.05});
  std::vector<Tensor> losses;
  for (int step = 0; step < 6; ++step) {
    optimizer.set_learning_rate(0.05 / (1 + step));
    std::vector<float> values(24, static_cast<float>(step));
    const Tensor x = Tensor::from<float>({4, 6}, values);
    mark_sharding(x, mesh, {"fsdp", {}});
    losses.push_back(mean(square(second(dropout(relu(first(x)), 0.25)) - 1.0)));
    losses.back().backward();
    optimizer.step();
    optimizer.zero_grad();
    mark_step();
    if (step == 3) (void)losses[1].item();  // of an earlier step, while another one runs
  }
  std::vector<float> out;
  for (const auto& loss : losses) out.push_back(static_cast<float>(loss.item()));
  for (const auto& parameter : parameters)
    for (const float value : parameter.to_vector<float>()) out.push_back(value);
  EXPECT_FALSE(metrics().counter_value("DonationCopy").has_value());
  return out;
}

TEST(Overlap, GivesTheBitsOfConsecutiveSteps) {
  for (const int ranks : {1, 2, 4}) {
    std::vector<float> in_turn;
    on_ranks(ranks, [&](int rank) {
      const auto values = train(false);
      if (rank == 0) in_turn = values;
    });
    on_ranks(ranks, [&](int) { EXPECT_EQ(train(true), in_turn); });
  }
}

TEST(Overlap, EveryWayOfReadingWaits) {
  const FreshRank rank;
  overlap(true);
  const Mesh mesh({{"data", 1}});
  const auto stepped = [] {
    Tensor x = ones(2) * 3.0;
    mark_step();
    EXPECT_TRUE(x.is_materialized());
    return x;
  };
  EXPECT_EQ(stepped().to_vector<float>(), (std::vector<float>{3, 3}));
  EXPECT_EQ(stepped().local_shard().data<float>()[1], 3);
  EXPECT_EQ(stepped().str(), "tensor({3,3}, f32[2], device xla:0)");
  EXPECT_EQ(read_all({stepped()}).front().data<float>()[0], 3);
  Tensor marked = stepped();
  mark_sharding(marked, mesh, {"data"});
  EXPECT_EQ(marked.to_vector<float>(), (std::vector<float>{3, 3}));
  Tensor variable = ones(2);
  variable.assign(stepped());
  const Tensor sum = variable + stepped();
  EXPECT_EQ(sum.to_vector<float>(), (std::vector<float>{6, 6}));
  CompiledFunction twice = compile([](const std::vector<Tensor>& in) { return std::vector<Tensor>{in[0] + in[0]}; });
  for (int call = 0; call < 2; ++call)
    EXPECT_EQ(twice({stepped()}).front().to_vector<float>(), (std::vector<float>{6, 6}));
}

TEST(Overlap, ValuesWithoutAHolderAreReleased) {
  const FreshRank rank;
  overlap(true);
  std::int64_t after_two = 0;
  for (int step = 0; step < 20; ++step) {
    {
      const Tensor x = ones(100000) + 1.0;
      mark_step();
    }
    if (step == 2) after_two = memory_info().used + memory_info().pooled;
  }
  wait_device_ops();
  EXPECT_LE(memory_info().used + memory_info().pooled, after_two);
}

TEST(Overlap, TheEndOfARankWaitsForItsRunningStep) {
  for (int round = 0; round < 20; ++round) {
    const FreshRank rank;
    overlap(true);
    const Tensor x = ones(1000) + 1.0;
    mark_step();
  }
}

// ---- what runs when -----------------------------------------------------------------------------------------------------

// Runs the body on two ranks. Their executions, but nothing else, first call `gate`.
void with_gated_executions(const std::function<void(int rank)>& gate, const std::function<void(int rank)>& body) {
  run_virtual_ranks(2, [&](ProcessGroup& world) {
    const auto tracer = std::this_thread::get_id();
    join_world(std::make_shared<GatedGroup>(world, [&gate, tracer, rank = world.rank()] {
      if (std::this_thread::get_id() != tracer) gate(rank);
    }));
    overlap(true);
    body(world.rank());
  });
}

TEST(Overlap, TheNextStepIsTracedWhileOneRuns) {
  ::tessera::testing::Gate traced[2];
  std::atomic<int> waited{0};
  with_gated_executions(
      [&](int rank) {
        EXPECT_TRUE(traced[rank].wait()) << "the trace does not go on while the step runs";
        ++waited;
      },
      [&](int rank) {
        const Tensor x = ones(3) * 2.0;
        mark_step();
        const Tensor y = x + 1.0;
        EXPECT_EQ(lazy_counters().executions, 1);
        traced[rank].open();
        EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{3, 3, 3}));
      });
  EXPECT_EQ(waited, 2) << "a reading runs in turn";
}

TEST(Overlap, ReadingAnEarlierValueDoesNotWait) {
  ::tessera::testing::Gate read[2];
  std::atomic<int> steps{0};
  with_gated_executions([&](int rank) { EXPECT_TRUE(++steps <= 2 || read[rank].wait()); },
                        [&](int rank) {
                          const Tensor x = ones(3) * 2.0;
                          mark_step({.wait = true});
                          joined_world()->barrier();
                          const Tensor y = x + 1.0;
                          mark_step();
                          EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{2, 2, 2}));
                          read[rank].open();
                        });
}

TEST(Overlap, UserCollectivesWaitForTheStep) {
  on_ranks(2, [](int rank) {
    overlap(true);
    const Mesh mesh({{"data", 2}});
    for (int step = 0; step < 20; ++step) {
      const Tensor x = Tensor::from<float>({2}, {1, 2});
      mark_sharding(x, mesh, {"data"});
      const Tensor total = sum(x);
      mark_step();
      std::vector<std::int32_t> all(2);
      const std::int32_t mine = rank + step;
      joined_world()->all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
      EXPECT_EQ(all, (std::vector<std::int32_t>{step, step + 1}));
      EXPECT_EQ(total.item(), 3);
    }
  });
}

TEST(Overlap, RequestedWaitsAreMeasured) {
  const FreshRank rank;
  overlap(true);
  for (int step = 1; step <= 3; ++step) {
    const Tensor x = ones(4) + 1.0;
    mark_step({.wait = true});
    EXPECT_EQ(samples_of("ExecuteTime"), step);
    EXPECT_EQ(samples_of("DeviceLockWait"), step);
  }
  const Tensor x = ones(4) + 1.0;
  mark_step();
  wait_device_ops();
  wait_device_ops();
  EXPECT_EQ(samples_of("ExecuteTime"), 4);
  EXPECT_EQ(samples_of("DeviceLockWait"), 4);
}

TEST(Overlap, ConsecutiveStepsNeverWait) {
  const FreshRank rank;
  overlap(false);
  const Tensor x = ones(4) + 1.0;
  mark_step();
  EXPECT_EQ(samples_of("ExecuteTime"), 1);
  EXPECT_EQ(samples_of("DeviceLockWait"), 0);
}

TEST(Overlap, TheMetricsFileContainsCompleteSteps) {
  const FreshRank rank;
  overlap(true);
  const testing::TemporaryFolder folder;
  options().set("XLA_METRICS_FILE", folder.file("metrics"));
  const Tensor x = ones(4) + 1.0;
  mark_step();
  EXPECT_NE(read_file(folder.file("metrics")).find("Metric: ExecuteTime\n  TotalSamples: 1\n"), std::string::npos);
}

// ---- what goes wrong ----------------------------------------------------------------------------------------------------

// Returns the error of a run in which the execution on rank 1 fails and `look` follows the step.
std::string error_when(const std::function<void(const Tensor&)>& look) {
  return error_of([&] {
    with_gated_executions([](int rank) { require(rank == 0, "the cable is cut"); },
                          [&](int) {
                            const Tensor x = ones(3) * 2.0;
                            mark_step();
                            look(x);
                          });
  });
}

TEST(Overlap, AnErrorIsThrownByTheNextWait) {
  const auto names_it = [](const std::string& text) {
    return text.starts_with("rank 1 of 2: mark_step at overlap_test.cpp:") && text.ends_with(": the cable is cut");
  };
  EXPECT_PRED1(names_it, error_when([](const Tensor& x) { (void)x.to_vector<float>(); }));
  EXPECT_PRED1(names_it, error_when([](const Tensor&) {
                 const Tensor y = ones(2) + 1.0;
                 mark_step();
               }));
  EXPECT_PRED1(names_it, error_when([](const Tensor&) { wait_device_ops(); }));
  EXPECT_PRED1(names_it, error_when([](const Tensor&) { joined_world()->barrier(); }));
  EXPECT_PRED1(names_it, error_when([](const Tensor&) {})) << "at the end of the rank";
}

TEST(Overlap, AfterAnErrorItsValuesAreLostAndTheRankContinues) {
  std::atomic<int> runs{0};
  with_gated_executions([&](int) { require(++runs > 2, "the cable is cut"); },
                        [](int) {
                          const Tensor x = ones(3) * 2.0;
                          mark_step();
                          EXPECT_NE(error_of([] { wait_device_ops(); }).find("the cable is cut"), std::string::npos);
                          EXPECT_FALSE(x.is_materialized());
                          EXPECT_NE(error_of([&] { (void)x.item(); }).find("needs exactly one"), std::string::npos);
                          EXPECT_NE(
                              error_of([&] { (void)x.to_vector<float>(); }).find("the step that computes it failed"),
                              std::string::npos);
                          const Tensor y = ones(3) + 1.0;
                          mark_step();
                          EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{2, 2, 2}));
                        });
}

TEST(Overlap, TheErrorNamesARankThatFailsWhileItsStepRuns) {
  const std::string text = error_of([] {
    on_ranks(3, [](int rank) {
      overlap(true);
      const Tensor x = ones(3) * 2.0;
      mark_step();
      require(rank != 2, "no more data");
      const Tensor y = x + 1.0;
      mark_step();
    });
  });
  EXPECT_EQ(text, "rank 2 of 3: no more data");
}

}  // namespace
}  // namespace tessera
