// SPDX-License-Identifier: Apache-2.0
#include "tessera/nn/strategy.h"

#include "module_checks.h"
#include "support/error_of.h"
#include "tessera/nn/batch_norm.h"
#include "tessera/nn/linear.h"

namespace tessera::nn {
namespace {

class Network : public Callable<Network> {
 public:
  Network() {
    register_module("up", up_);
    register_module("norm", norm_);
    register_module("down", down_);
    register_parameter("scale", varied({7, 5}));
    to(DType::kF64);
  }
  Tensor forward(const Tensor& x) { return down_(norm_(tanh(up_(x)))) * parameter("scale"); }

 private:
  Linear up_{6, 12};
  BatchNorm1d norm_{12};
  Linear down_{12, 5};
};

std::string spec_of(const Tensor& tensor) {
  const auto sharding = tensor.sharding();
  return sharding ? sharding->str() : "none";
}

std::vector<double> trained(const TPUStrategy& strategy) {
  manual_seed(3);
  const auto network = strategy.create<Network>();
  return trained_values(*network, [&](int step) {
    const Tensor x = varied({7, 6}, step);
    return mean(square((*network)(x)));
  });
}

TEST(TPUStrategy, VariablesThatAreCreatedInItsScopeAreReplicated) {
  on_ranks(3, [](int) {
    constexpr const char* kReplicated[] = {"{}", "{-}", "{-,-}"};
    const TPUStrategy strategy(Mesh::parse("data=3"));
    EXPECT_EQ(strategy.num_replicas_in_sync(), 3);
    const Linear before(6, 12);
    {
      const StrategyScope scope = strategy.scope();
      const Network inside;
      for (const auto& list : {inside.named_parameters(), inside.named_buffers()})
        for (const NamedParameter& variable : list)
          EXPECT_EQ(spec_of(variable.tensor), kReplicated[variable.tensor.ndim()]) << variable.name;
    }
    const Linear after(6, 12);
    EXPECT_EQ(spec_of(before.parameter("weight")), "none");
    EXPECT_EQ(spec_of(after.parameter("weight")), "none");
  });
}

TEST(TPUStrategy, APolicyShardsTheLargestDimThatTheAxisDivides) {
  on_ranks(6, [](int) {
    const Mesh mesh = Mesh::parse("data=2,fsdp=3");
    const auto network = TPUStrategy(mesh, sharded_parameters("fsdp")).create<Network>();
    EXPECT_EQ(spec_of(network->parameter("up.weight")), "{fsdp,-}");    // [12,6]
    EXPECT_EQ(spec_of(network->parameter("down.weight")), "{-,fsdp}");  // [5,12]
    EXPECT_EQ(spec_of(network->parameter("up.bias")), "{fsdp}");        // [12]
    EXPECT_EQ(spec_of(network->parameter("down.bias")), "{-}");         // [5]
    EXPECT_EQ(spec_of(network->parameter("scale")), "{-,-}");           // [7,5]
    for (const NamedParameter& buffer : network->named_buffers())
      EXPECT_EQ(spec_of(buffer.tensor).find("fsdp"), std::string::npos) << buffer.name;
    const auto large = TPUStrategy(mesh, sharded_parameters("fsdp", 61)).create<Network>();
    EXPECT_EQ(spec_of(large->parameter("up.weight")), "{fsdp,-}");
    EXPECT_EQ(spec_of(large->parameter("down.weight")), "{-,-}");  // 60 elements
  });
}

TEST(TPUStrategy, TheInnermostScopeApplies) {
  on_ranks(2, [](int) {
    const Mesh mesh = Mesh::parse("a=2");
    const TPUStrategy outer(mesh);
    const TPUStrategy inner(mesh, [](const NewVariable& variable, const Mesh&) -> std::optional<PartitionSpec> {
      if (variable.module.class_name() != "Linear" || variable.name != "weight") return std::nullopt;
      return PartitionSpec({"a", {}});
    });
    const StrategyScope scope = outer.scope();
    const auto made = inner.create<Linear>(4, 6);
    EXPECT_EQ(spec_of(made->parameter("weight")), "{a,-}");
    EXPECT_EQ(spec_of(made->parameter("bias")), "none");
    const Linear replicated(4, 6);
    EXPECT_EQ(spec_of(replicated.parameter("weight")), "{-,-}");
  });
}

TEST(TPUStrategy, TrainingIsThatOfOneRank) {
  std::vector<double> expected;
  {
    const FreshRank rank;
    expected = trained(TPUStrategy(Mesh::parse("data=1")));
  }
  const std::pair<const char*, VariablePolicy> layouts[] = {{"data=3", replicated_parameters()},
                                                            {"fsdp=4", sharded_parameters("fsdp")},
                                                            {"data=2,fsdp=3", sharded_parameters("fsdp")}};
  for (const auto& [mesh, policy] : layouts)
    on_ranks(static_cast<int>(Mesh::parse(mesh).device_count()),
             [&](int) { expect_close(trained(TPUStrategy(Mesh::parse(mesh), policy)), expected, mesh); });
}

TEST(TPUStrategy, AnUnknownAxisIsAnErrorWithTheNearestName) {
  const FreshRank rank;
  const std::string text = ::tessera::testing::error_of(
      [] { (void)TPUStrategy(Mesh::parse("fsdp=1"), sharded_parameters("fdsp")).create<Linear>(4, 6); });
  EXPECT_NE(text.find("\"fdsp\""), std::string::npos) << text;
  EXPECT_NE(text.find("did you mean \"fsdp\""), std::string::npos) << text;
}

}  // namespace
}  // namespace tessera::nn
