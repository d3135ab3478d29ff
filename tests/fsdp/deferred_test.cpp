// SPDX-License-Identifier: Apache-2.0
// Modules are built without storage and materialized unit by unit, with the same values on every mesh.
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>

#include "frontend/on_ranks.h"
#include "tessera/frontend/execution/initialize.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/fsdp/fsdp.h"
#include "tessera/nn/layers.h"
#include "tessera/nn/models/gpt2.h"
#include "tessera/nn/models/gpt2_presets.h"

namespace tessera {
namespace {

nn::GPT2Config small_gpt2() {
  nn::GPT2Config config;
  config.vocab_size = 40, config.n_positions = 8, config.n_embd = 24, config.n_layer = 4, config.n_head = 2;
  return config;
}

struct Materialized {
  std::vector<float> values;             // of all parameters
  std::int64_t programs = 0;             // that computed initial values
  std::int64_t most_beyond_results = 0;  // bytes that such a program needs beyond its results
  std::int64_t largest_unit = 0;
};

Materialized materialized_on(int ranks, bool by_unit) {
  Materialized out;
  std::mutex guard;
  on_ranks(ranks, [&](int rank) {
    const Mesh mesh({{"fsdp", ranks}});
    set_default_mesh(mesh);
    manual_seed(11);
    nn::GPT2LMHeadModel model(small_gpt2());
    const auto units = fully_shard(model, {.mesh = mesh});
    EXPECT_TRUE(is_deferred(model.parameter("transformer.wte.weight")));
    if (by_unit) materialize_module(model);
    Materialized mine;
    for (const CompiledProgram& program : compiled_programs()) {
      ++mine.programs;
      mine.most_beyond_results =
          std::max(mine.most_beyond_results, program.memory.peak_bytes() - program.memory.results);
    }
    for (const auto& unit : units) mine.largest_unit = std::max(mine.largest_unit, unit.bytes);
    for (const auto& literal : read_all(model.parameters()))
      mine.values.insert(mine.values.end(), literal.data<float>().begin(), literal.data<float>().end());
    const std::lock_guard lock(guard);
    if (rank == 0) out = std::move(mine);
  });
  return out;
}

TEST(MaterializeModule, GivesTheSameValuesOnEveryMeshUnitByUnit) {
  const Materialized all_at_once = materialized_on(1, false);
  for (const int ranks : {1, 2, 3}) {
    const Materialized got = materialized_on(ranks, true);
    EXPECT_EQ(got.values, all_at_once.values) << ranks;
    EXPECT_EQ(got.programs, 5) << ranks;  // the root and four blocks
    EXPECT_LE(got.most_beyond_results, got.largest_unit) << ranks;
  }
}

TEST(MaterializeModule, SkipsModulesThatTheCheckExcludes) {
  const FreshRank rank;
  nn::GPT2LMHeadModel model(small_gpt2());
  materialize_module(model, [](const nn::Module& module) { return module.class_name() == "LayerNorm"; });
  EXPECT_FALSE(is_deferred(model.parameter("transformer.ln_f.weight")));
  EXPECT_TRUE(is_deferred(model.parameter("transformer.wte.weight")));
}

TEST(DeferredModules, AreCountedWithoutStorage) {
  for (const nn::GPT2Preset& preset : nn::gpt2_presets()) {
    const FreshRank rank;
    nn::GPT2Config config = nn::gpt2_config(preset);
    const nn::GPT2LMHeadModel model(config);
    EXPECT_EQ(model.parameter_count(), nn::parameter_count(config)) << preset.name;
  }
}

TEST(Presets, HaveTheParametersOfTheirNames) {
  EXPECT_EQ(nn::parameter_count(nn::gpt2_config(nn::gpt2_preset("2b"))), 2'196'691'968);
  EXPECT_EQ(nn::parameter_count(nn::gpt2_config(nn::gpt2_preset("gpt2"))), 124'439'808);
  for (const auto& [name, billions] :
       {std::pair("16b", 16.0), {"20b", 20.0}, {"32b", 32.0}, {"64b", 64.0}, {"128b", 128.0}})
    EXPECT_NEAR(static_cast<double>(nn::parameter_count(nn::gpt2_config(nn::gpt2_preset(name)))) / 1e9, billions,
                0.02 * billions);
  try {
    (void)nn::gpt2_preset("128");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_TRUE(std::string(error.what()).starts_with("no preset of GPT-2 is called 128; did you mean \"128b\"?"))
        << error.what();
  }
}

}  // namespace
}  // namespace tessera
