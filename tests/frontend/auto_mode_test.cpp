// SPDX-License-Identifier: Apache-2.0
// Auto mode: shardings that nobody annotated (XLA_AUTO_SPMD, use_spmd).
#include <gtest/gtest.h>

#include <cmath>

#include "frontend/on_ranks.h"
#include "frontend/tensors.h"
#include "support/error_of.h"
#include "support/temporary_folder.h"
#include "tessera/base/options.h"
#include "tessera/frontend/compile/compiled_function.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/frontend/sharding/meshes.h"
#include "tessera/frontend/sharding/shard_map.h"
#include "tessera/frontend/sharding/use_spmd.h"
#include "tessera/nn/distribute.h"
#include "tessera/nn/layers.h"
#include "tessera/optim/optimizer.h"
#include "tessera/runtime/metrics/metrics.h"

namespace tessera {
namespace {

using testing::error_of;

constexpr std::int64_t kRows = 4104;  // so many that they are worth sharding; divisible by 2, 3 and 4
constexpr std::int64_t kWidth = 48;

std::vector<float> seeded_numbers(std::int64_t count, int seed) {
  std::vector<float> out(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<float>((i * 7 + static_cast<std::size_t>(seed)) % 13) / 13 - 0.5F;
  return out;
}
Tensor batch(int seed) { return Tensor::from<float>({kRows, kWidth}, seeded_numbers(kRows * kWidth, seed)); }
Tensor weight() { return variable<float>({kWidth, kWidth}, seeded_numbers(kWidth * kWidth, 3)); }

struct Trained {
  std::vector<float> weight;
  std::string rows;           // the sharding of the last batch
  std::int64_t compiled = 0;  // programs, after the first step and
  std::int64_t later = 0;     // in the others
};

Trained train(int steps) {
  Trained out;
  const Tensor w = weight();
  optim::SGD optimizer({w}, {.learning_rate = 0.1, .momentum = 0.9});
  for (int step = 0; step < steps; ++step) {
    const Tensor x = batch(step);
    mean(square(tanh(matmul(x, w)))).backward();
    optimizer.step();
    optimizer.zero_grad();
    mark_step();
    if (step == 0) out.compiled = lazy_counters().compilations;
    out.rows = x.sharding() ? x.sharding()->str() : "none";
  }
  out.later = lazy_counters().compilations - out.compiled;
  out.weight = w.to_vector<float>();
  return out;
}

// On several ranks in auto mode; the outcome of rank 0.
Trained trained_automatically(int ranks, int steps) {
  Trained out;
  on_ranks(ranks, [&](int rank) {
    options().set("XLA_AUTO_SPMD", "1");
    const Trained mine = train(steps);
    if (rank == 0) out = mine;
  });
  return out;
}

TEST(AutoMode, TrainingShardsTheBatchAndComputesTheSame) {
  Trained alone;
  {
    const FreshRank rank;
    alone = train(3);
  }
  EXPECT_EQ(alone.rows, "none");
  for (const int ranks : {2, 3}) {
    const Trained sharded = trained_automatically(ranks, 3);
    EXPECT_EQ(sharded.rows, "{data,-}");
    ASSERT_EQ(sharded.weight.size(), alone.weight.size());
    for (std::size_t i = 0; i < alone.weight.size(); ++i) EXPECT_NEAR(sharded.weight[i], alone.weight[i], 1e-5);
  }
}

TEST(AutoMode, EqualStepsChooseAndCompileOnce) {
  const Trained out = trained_automatically(2, 4);
  EXPECT_GE(out.compiled, 1);
  EXPECT_EQ(out.later, 0);
}

TEST(AutoMode, NothingIsChosenWithoutAutoMode) {
  on_ranks(2, [](int) {
    EXPECT_FALSE(is_auto_spmd());
    EXPECT_EQ(train(1).rows, "none");
  });
}

TEST(AutoMode, AnnotationsAreKept) {
  on_ranks(2, [](int) {
    use_spmd({.automatic = true});
    EXPECT_TRUE(is_auto_spmd());
    const Mesh mesh = get_1d_mesh();
    const Tensor x = batch(0);
    const Tensor w = weight();
    mark_sharding(w, mesh, {{}, "data"});
    Tensor y = matmul(x, w);
    mark_sharding(y, mesh, {"data", {}});
    mark_step();
    EXPECT_EQ(w.sharding()->str(), "{-,data}");
    EXPECT_EQ(y.sharding()->str(), "{data,-}");
  });
}

TEST(AutoMode, ResultsThatAreNoVariablesStayReplicated) {
  on_ranks(2, [](int rank) {
    use_spmd({.automatic = true});
    const Tensor y = tanh(matmul(batch(0), weight()));
    mark_step();
    EXPECT_TRUE(y.sharding()->is_replicated());
    if (rank == 0) {  // no other rank needs to read it
      EXPECT_EQ(y.to_vector<float>().size(), static_cast<std::size_t>(kRows * kWidth));
    }
  });
}

TEST(AutoMode, AnotherProgramKeepsTheShardingOfAVariable) {
  on_ranks(2, [](int) {
    use_spmd({.automatic = true});
    const Tensor w = weight();
    const auto run = [&](std::int64_t rows) {
      const Tensor y = matmul(Tensor::from<float>({rows, kWidth}, seeded_numbers(rows * kWidth, 1)), w);
      mark_step();
      return sum(y).item();
    };
    run(kRows);
    ASSERT_TRUE(w.sharding().has_value());
    const Sharding first = *w.sharding();
    run(6);
    EXPECT_EQ(*w.sharding(), first);
  });
}

TEST(AutoMode, ACompiledFunctionShardsItsArguments) {
  std::vector<float> expected;
  {
    const FreshRank rank;
    expected = tanh(matmul(batch(0), weight())).to_vector<float>();
  }
  on_ranks(2, [&](int) {
    use_spmd({.automatic = true});
    const Tensor w = weight();
    mark_step();
    CompiledFunction function([&](const std::vector<Tensor>& in) { return std::vector{tanh(matmul(in[0], w))}; });
    for (int call = 0; call < 2; ++call) {
      const std::vector<float> found = function({batch(0)}).front().to_vector<float>();
      ASSERT_EQ(found.size(), expected.size());
      for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 1e-5);
    }
  });
}

TEST(AutoMode, APartOfTheStepMayBePerDeviceCode) {
  on_ranks(2, [](int) {
    use_spmd({.automatic = true});
    const Mesh mesh = get_1d_mesh();
    const auto doubled = shard_map([](const Tensor& x) { return x * 2.0; }, mesh, {{"data", {}}}, {{"data", {}}});
    const Tensor x = batch(0);
    const Tensor total = sum(doubled(matmul(x, weight())));
    const Tensor same = sum(matmul(x, weight())) * 2.0;
    mark_step();
    EXPECT_NEAR(total.item(), same.item(), 1e-3 * (1 + std::abs(same.item())));
  });
}

TEST(AutoMode, APlanHasTheShardings) {
  const FreshRank rank;
  plan_for_devices(4);
  use_spmd({.automatic = true});
  const Tensor loss = mean(square(tanh(matmul(batch(0), weight()))));
  const StepPlan plan = plan_step();
  const Computation& entry = plan.global.entry_computation();
  std::vector<std::string> of_batches;
  for (const Id parameter : entry.parameters)
    if (entry[parameter].type == Type::array(DType::kF32, {kRows, kWidth}))
      of_batches.push_back(entry[parameter].sharding->front().str());
  EXPECT_EQ(of_batches, std::vector<std::string>{"{data,-}"});
  EXPECT_FALSE(plan.partitioned.notes.empty());  // the sum of the loss
  skip_step();
}

TEST(AutoMode, LaterProcessesReadTheChoiceFromTheCache) {
  const testing::TemporaryFolder folder;
  const auto hits = [&] {
    std::int64_t out = 0;
    on_ranks(2, [&](int rank) {
      options().set("TESSERA_CACHE_DIR", folder.file("programs"));
      use_spmd({.automatic = true});
      const Tensor x = batch(0);
      const Tensor loss = sum(tanh(matmul(x, weight())));
      mark_step();
      EXPECT_EQ(x.sharding()->str(), "{data,-}");
      if (rank == 0) out = metrics().counter_value("PersistentCacheHit").value_or(0);
    });
    return out;
  };
  EXPECT_EQ(hits(), 0);
  EXPECT_EQ(hits(), 2);  // the shardings and the program
}

// ---- the mesh -------------------------------------------------------------------------------------------------------

TEST(AutoMode, TheMeshOfTheVariableIsTheGlobalMesh) {
  const auto mesh_of = [](const char* text) {
    const FreshRank rank;
    plan_for_devices(6);
    options().set("XLA_AUTO_SPMD", "1");
    options().set("XLA_AUTO_SPMD_MESH", text);
    return get_global_mesh().str();
  };
  EXPECT_EQ(mesh_of("2,3"), "mesh<0=2, 1=3>");
  EXPECT_EQ(mesh_of("data=3,model=2"), "mesh<data=3, model=2>");
  EXPECT_EQ(mesh_of(""), "mesh<data=6>");
  EXPECT_EQ(error_of([&] { mesh_of("2,4"); }),
            "XLA_AUTO_SPMD_MESH=2,4: the product of the sizes must be the number of devices, 6");
  EXPECT_EQ(error_of([&] { mesh_of("2,2"); }),
            "XLA_AUTO_SPMD_MESH=2,2: the product of the sizes must be the number of devices, 6");
  EXPECT_EQ(
      error_of([&] { mesh_of("2,x"); }),
      "XLA_AUTO_SPMD_MESH=2,x: \"x\" is not a size; give the sizes of the axes, as in 2,4, or their names and sizes, "
      "as in data=2,model=4");
}

TEST(AutoMode, StepsUseTheMeshOfTheVariable) {
  on_ranks(4, [](int) {
    options().set("XLA_AUTO_SPMD_MESH", "2,2");
    use_spmd({.automatic = true});
    const Tensor x = batch(0);
    const Tensor loss = sum(tanh(matmul(x, weight())));
    mark_step();
    EXPECT_EQ(x.sharding()->mesh.str(), "mesh<0=2, 1=2>");
    EXPECT_EQ(x.sharding()->tiles(0), 4) << x.sharding()->str();
  });
}

TEST(AutoMode, DistributeModuleTurnsItOn) {
  const FreshRank rank;
  plan_for_devices(6);
  nn::Linear layer(4, 6);
  nn::distribute_module(layer, Mesh({{"data", 2}, {"model", 3}}), nn::kAutoPolicy);
  EXPECT_TRUE(is_auto_spmd());
  EXPECT_EQ(get_global_mesh().str(), "mesh<data=2, model=3>");
  EXPECT_FALSE(layer.weight().sharding().has_value());
}

}  // namespace
}  // namespace tessera
