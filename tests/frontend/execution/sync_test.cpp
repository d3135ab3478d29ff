// SPDX-License-Identifier: Apache-2.0
// The places that make programs run: each has its own counter, and the execution analysis names it.
#include <gtest/gtest.h>

#include "frontend/execution/sync_counts.h"
#include "frontend/on_ranks.h"
#include "frontend/tensors.h"
#include "support/temporary_folder.h"
#include "tessera/base/options.h"
#include "tessera/frontend/compile/compiled_function.h"
#include "tessera/frontend/control/host_region.h"
#include "tessera/frontend/execution/initialize.h"
#include "tessera/frontend/tracing/inner.h"
#include "tessera/nn/initializers.h"
#include "tessera/optim/optimizer.h"

// External linkage, because a stack names exported functions only. Not in the namespace of Tessera, as code of a user.
[[gnu::noinline]] double read_in_code_of_a_user(const tessera::Tensor& x) { return x.item() + 1; }

namespace tessera {
namespace {

using Tensors = std::vector<Tensor>;

class Sync : public ::testing::Test {
 protected:
  [[nodiscard]] Tensor loss() const { return sum(square(w_)); }

  FreshRank rank_;
  Tensor w_ = variable<float>({2}, {1, 2});
  optim::SGD optimizer_{{w_}, {.learning_rate = 0.1}};
};

TEST_F(Sync, EachReadHasTheCounterOfItsPlace) {
  EXPECT_EQ(increase([&] { (void)loss().item(); }), (Counts{{"item", 1}}));
  EXPECT_EQ(increase([&] { (void)loss().str(); }), (Counts{{"print", 1}}));
  EXPECT_EQ(increase([&] { (void)loss().to_host(); }), (Counts{{"to_host", 1}}));
  EXPECT_EQ(increase([&] { (void)(w_ * 2.0).to_vector<float>(); }), (Counts{{"to_host", 1}}));
  EXPECT_EQ(increase([&] { (void)read_all({loss(), w_ + 1.0}); }), (Counts{{"read_all", 1}}));
  const auto on_host = [](const Tensor& x) { return Tensor::scalar(DType::kF32, x.item()); };
  EXPECT_EQ(increase([&] { (void)host_region("look", on_host, loss()); }), (Counts{{"host_region", 1}}));
}

TEST_F(Sync, AReadThatRunsNothingIsNotCounted) {
  const Tensor value = loss();
  mark_step();
  EXPECT_EQ(increase([&] {
              (void)value.item();
              (void)value.str();
              (void)w_.to_host();
            }),
            Counts{});
}

TEST_F(Sync, EachEndOfAStepHasTheCounterOfItsPlace) {
  const auto train = [&](bool barrier) {
    loss().backward();
    optim::optimizer_step(optimizer_, {.barrier = barrier});
    optimizer_.zero_grad();
    if (!barrier) mark_step();
  };
  train(false);
  EXPECT_EQ(increase([&] { train(false); }), (Counts{{"mark_step", 1}}));
  EXPECT_EQ(increase([&] { train(true); }), (Counts{{"optimizer_step", 1}}));
  w_.impl().gradient_rules.ends_step = true;
  EXPECT_EQ(increase([&] { loss().backward(); }), (Counts{{"backward", 1}}));
  EXPECT_EQ(increase([] { mark_step(); }), Counts{});
}

TEST_F(Sync, CompiledFunctionsAndInitialValuesHaveCounters) {
  CompiledFunction doubled = compile([](const Tensors& in) { return Tensors{in[0] * 2.0}; });
  EXPECT_EQ(increase([&] {
              for (int call = 0; call < 3; ++call) (void)doubled({w_});
            }),
            (Counts{{"compile", 3}}));
  CompiledFunction reads =
      compile([](const Tensors& in) { return Tensors{in[0] * sum(in[0] * 3.0).item()}; }, {.full_graph = false});
  EXPECT_EQ(increase([&] { (void)reads({w_}); }), (Counts{{"compile", 1}, {"item", 1}}));
  const Tensor later = Tensor::deferred(Type::array(DType::kF32, {3}), nn::normal(0, 1), "later");
  EXPECT_EQ(increase([&] { initialize({later}); }), (Counts{{"initialize", 1}}));
  std::int64_t all = 0;
  for (const auto& [name, count] : sync_counts()) all += count;
  EXPECT_EQ(all, lazy_counters().executions);
}

TEST_F(Sync, TheExecutionAnalysisNamesThePlace) {
  const testing::TemporaryFolder folder;
  options().set("PT_XLA_DEBUG_LEVEL", "2");
  options().set("PT_XLA_DEBUG_FILE", folder.file("report"));
  const int line = __LINE__ + 1;
  (void)loss().str();
  const Tensor value = loss();
  mark_step();
  const std::string text = read_file(folder.file("report"));
  for (const std::string& cause : {fmt::format("print: read of f32[] at sync_test.cpp:{}", line),
                                   fmt::format("mark_step: mark_step at sync_test.cpp:{}", line + 2)})
    EXPECT_NE(text.find(fmt::format("Execution Analysis: Execution Cause\nExecution Analysis:   {}\n", cause)),
              std::string::npos)
        << text;
}

TEST_F(Sync, TheAnalysesNameTheCallsOfTheUser) {
  const testing::TemporaryFolder folder;
  options().set("PT_XLA_DEBUG", "1");
  options().set("PT_XLA_DEBUG_FILE", folder.file("report"));
  EXPECT_EQ(read_in_code_of_a_user(loss()), 6);
  const std::string text = read_file(folder.file("report"));
  for (const std::string block : {"Compilation Analysis", "Execution Analysis"})
    EXPECT_NE(text.find(fmt::format("{0}: C++ Frame Triggered Execution:\n{0}:   read_in_code_of_a_user(", block)),
              std::string::npos)
        << text;
  options().set("PT_XLA_DEBUG_MAX_FRAME", "0");
  std::filesystem::remove(folder.file("report"));
  (void)read_in_code_of_a_user(loss());
  EXPECT_EQ(read_file(folder.file("report")).find("read_in_code_of_a_user"), std::string::npos);
}

}  // namespace
}  // namespace tessera
