// SPDX-License-Identifier: Apache-2.0
// The modules that become units, and the effect of units on parameters.
#include <gtest/gtest.h>

#include "frontend/on_ranks.h"
#include "support/error_of.h"
#include "tessera/frontend/sharding/mark_sharding.h"
#include "tessera/frontend/tensor/functions.h"
#include "tessera/fsdp/fsdp.h"
#include "tessera/ir/builder.h"
#include "tessera/nn/layers.h"
#include "tessera/nn/models/gpt2.h"
#include "tessera/optim/optimizer.h"

namespace tessera {
namespace {

// Parameters: a 6, tower.first 12, tower.second.left 20, tower.second.right 30, tail 2.
class Leaf : public nn::Module {
 public:
  explicit Leaf(std::int64_t size) {
    weight = add_parameter("weight", Type::array(DType::kF32, {size}), [](Builder&, const Type&) { return Value(); });
  }
  std::string_view class_name() const override { return "Leaf"; }
  Tensor weight;
};
class Pair : public nn::Module {
 public:
  Pair(std::int64_t left, std::int64_t right) : left_(left), right_(right) {
    add_module("left", left_);
    add_module("right", right_);
  }
  std::string_view class_name() const override { return "Pair"; }
  Leaf left_, right_;
};
class Tower : public nn::Module {
 public:
  Tower() {
    add_module("first", first_);
    add_module("second", second_);
  }
  std::string_view class_name() const override { return "Tower"; }
  Leaf first_{12};
  Pair second_{20, 30};
};
class Root : public nn::Module {
 public:
  Root() {
    add_module("a", a_);
    add_module("tower", tower_);
    add_module("tail", tail_);
  }
  std::string_view class_name() const override { return "Root"; }
  Leaf a_{6};
  Tower tower_;
  Leaf tail_{2};
};

std::vector<std::string> wrapped(nn::Module& root, const WrapPolicy& policy) {
  std::vector<std::string> out;
  for (const auto& [path, module] : modules_to_wrap(root, policy)) out.push_back(path);
  return out;
}
using Paths = std::vector<std::string>;
using ::tessera::testing::error_of;

TEST(WrapPolicy, SizeCountsParametersThatAreNotYetWrapped) {
  const FreshRank rank;
  Root root;
  // `right` has 30 parameters and becomes a unit. `second` then has 20 left, which is too few. `tower` has 12 + 20 =
  // 32, which is enough.
  EXPECT_EQ(wrapped(root, size_based_auto_wrap_policy(25)), (Paths{"tower.second.right", "tower"}));
  EXPECT_EQ(wrapped(root, size_based_auto_wrap_policy(20)), (Paths{"tower.second.left", "tower.second.right"}));
  EXPECT_EQ(wrapped(root, size_based_auto_wrap_policy(50)), (Paths{"tower.second"}));
  EXPECT_EQ(wrapped(root, size_based_auto_wrap_policy(63)), Paths{});
  EXPECT_EQ(wrapped(root, size_based_auto_wrap_policy()), Paths{});
}

TEST(WrapPolicy, ForcedLeavesAreNotSearchedAndExcludedClassesNotWrapped) {
  const FreshRank rank;
  Root root;
  EXPECT_EQ(wrapped(root, size_based_auto_wrap_policy(
                              {.min_num_params = 25, .force_leaf_modules = {"Pair"}, .exclude_wrap_modules = {}})),
            Paths{"tower"});
  EXPECT_EQ(wrapped(root, size_based_auto_wrap_policy(
                              {.min_num_params = 25, .force_leaf_modules = {}, .exclude_wrap_modules = {"Tower"}})),
            Paths{"tower.second.right"});
}

TEST(WrapPolicy, ClassesAreWrappedEverywhereExceptAtTheRoot) {
  const FreshRank rank;
  Root root;
  EXPECT_EQ(wrapped(root, transformer_auto_wrap_policy({"Pair", "Root"})), Paths{"tower.second"});
  EXPECT_EQ(wrapped(root, transformer_auto_wrap_policy({"Pair", "Leaf"})),
            (Paths{"a", "tower.first", "tower.second.left", "tower.second.right", "tower.second", "tail"}));
  EXPECT_EQ(error_of([&] { check_classes(root, {"pair"}); }),
            "no module of class pair to wrap; did you mean \"Pair\"?; classes of this model: Leaf, Pair, Root, Tower");
  EXPECT_EQ(error_of([&] { check_classes(root, {"GPT2Block"}); }),
            "no module of class GPT2Block to wrap; classes of this model: Leaf, Pair, Root, Tower");
}

TEST(WrapPolicy, TheDefaultIsTheRepeatedBlock) {
  const FreshRank rank;
  nn::GPT2Config config;
  config.vocab_size = 13, config.n_positions = 4, config.n_embd = 8, config.n_layer = 3, config.n_head = 2;
  nn::GPT2LMHeadModel model(config);
  EXPECT_EQ(wrapped(model, default_wrap_policy(model)),
            (Paths{"transformer.h.0", "transformer.h.1", "transformer.h.2"}));
}

TEST(FullyShard, ParametersAreShardedOnDim0IfItDividesMinorToTensorParallelAxes) {
  const FreshRank rank;
  plan_for_devices(4);
  const Mesh mesh({{"fsdp", 2}, {"model", 2}});
  nn::GPT2Config config;
  config.vocab_size = 13, config.n_positions = 4, config.n_embd = 8, config.n_layer = 2, config.n_head = 2;
  nn::GPT2LMHeadModel model(config);
  nn::shard_tensor_parallel(model, mesh, "model");
  const auto units = fully_shard(model, {.mesh = mesh});
  const auto sharding = [&](const char* name) { return model.parameter(name).sharding()->str(); };
  EXPECT_EQ(sharding("transformer.wte.weight"), "{model,fsdp}");  // 13 rows over two devices of model are 7 and 6
  EXPECT_EQ(sharding("transformer.wpe.weight"), "{fsdp,-}");
  EXPECT_EQ(sharding("transformer.h.1.attn.c_attn.weight"), "{fsdp,-,model,-}");
  EXPECT_EQ(sharding("transformer.h.1.mlp.c_proj.weight"), "{model+fsdp,-}");
  ASSERT_EQ(units.size(), 3U);
  EXPECT_EQ(units[0].name, "root");
  EXPECT_EQ(units[1].name, "transformer.h.0");
  EXPECT_EQ(units[1].elements, 12 * 8 * 8 + 13 * 8);
  EXPECT_EQ(model.block(0).unit(), "transformer.h.0");
}

TEST(FullyShard, ACompleteBatchIsShardedByRows) {
  const FreshRank rank;
  plan_for_devices(12);
  const Mesh mesh({{"data", 2}, {"fsdp", 3}, {"model", 2}});
  nn::Linear linear(4, 5);
  FullyShardedDataParallel wrapped(linear, {.mesh = mesh});
  const Tensor unmarked = Tensor::from<float>({7, 4}, std::vector<float>(28, 1));
  const Tensor marked = Tensor::from<float>({7, 4}, std::vector<float>(28, 1));
  mark_sharding(marked, mesh, {"data", "model"});
  wrapped(unmarked);
  wrapped(marked);
  EXPECT_EQ(unmarked.sharding()->str(), "{data+fsdp,-}");
  EXPECT_EQ(marked.sharding()->str(), "{data,model}");
}

TEST(FullyShard, ATiedParameterBelongsToTheInnermostUnitWithAllOfItsUsers) {
  const FreshRank rank;
  plan_for_devices(2);
  nn::GPT2Config config;
  config.vocab_size = 13, config.n_positions = 4, config.n_embd = 8, config.n_layer = 1, config.n_head = 2;
  nn::GPT2LMHeadModel model(config);
  // The policy selects both embeddings. The token embedding is also used by the head, so it stays in the root unit, and
  // its module becomes no unit.
  const auto units = fully_shard(
      model, {.mesh = Mesh({{"fsdp", 2}}), .auto_wrap_policy = transformer_auto_wrap_policy({"Embedding"})});
  ASSERT_EQ(units.size(), 2U);
  EXPECT_EQ(units[0].name, "root");
  EXPECT_EQ(units[0].parameters.front(), "transformer.wte.weight");
  EXPECT_EQ(units[1].name, "transformer.wpe");
}

TEST(FullyShard, AClassThatNoModuleHasIsAnError) {
  const FreshRank rank;
  plan_for_devices(2);
  nn::Linear linear(4, 5);
  try {
    fully_shard(linear, {.mesh = Mesh({{"fsdp", 2}}), .auto_wrap_policy = transformer_auto_wrap_policy({"Linaer"})});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "no module of class Linaer to wrap; did you mean \"Linear\"?; classes of this model: Linear");
  }
}

TEST(FullyShard, AWrapperOfAUnitIsAnError) {
  const FreshRank rank;
  plan_for_devices(2);
  const Mesh mesh({{"fsdp", 2}});
  nn::Linear layer(4, 4);
  FullyShardedDataParallel once(layer, {.mesh = mesh});
  EXPECT_EQ(error_of([&] { fully_shard(once, {.mesh = mesh}); }), "Linear is already an FSDP unit; wrap a module once");
}

TEST(FullyShard, AnIgnoredModuleOutsideOfTheModuleIsNoted) {
  const FreshRank rank;
  plan_for_devices(2);
  nn::Linear layer(4, 4);
  Leaf outside(4);
  FsdpOptions options{.mesh = Mesh({{"fsdp", 2}})};
  options.ignored_modules = {&outside};
  EXPECT_EQ(fully_shard(layer, options).front().notes,
            std::vector<std::string>{"ignored_modules: Leaf has no effect, because it is not in Linear"});
  nn::Linear other(4, 4);
  options.ignored_modules = {nullptr};
  EXPECT_EQ(error_of([&] { fully_shard(other, options); }), "ignored_modules contains a null pointer");
}

TEST(FullyShard, WarnsOfAUnitThatTheFirstTrainingCallDoesNotUse) {
  struct UsesOne : nn::Callable<UsesOne> {
    UsesOne() {
      register_module("used", used);
      register_module("unused", unused);
    }
    Tensor forward(const Tensor& x) { return used(x); }
    nn::Linear used{4, 4}, unused{4, 4};
  };
  const FreshRank rank;
  plan_for_devices(2);
  UsesOne module;
  fully_shard(module, {.mesh = Mesh({{"fsdp", 2}}), .auto_wrap_policy = transformer_auto_wrap_policy({"Linear"})});
  const Tensor x = Tensor::abstract(Type::array(DType::kF32, {2, 4}), "x");
  module.eval();
  module(x);
  module.train();
  ::testing::internal::CaptureStderr();
  module(x);
  const std::string warning = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(
      warning.find("unit unused (Linear) has 2 trained parameters, but the forward pass used none of them; freeze "
                   "them, or use the module"),
      std::string::npos)
      << warning;
  EXPECT_TRUE(module.forward_hooks().empty()) << "the check is made once";
}

TEST(FullyShard, WrappingTwiceOrAfterTheOptimizerIsAnError) {
  const FreshRank rank;
  plan_for_devices(2);
  const Mesh mesh({{"data", 2}});
  nn::Linear first(4, 4);
  fully_shard(first, {.mesh = mesh});
  EXPECT_THROW(fully_shard(first, {.mesh = mesh}), Error);
  nn::Linear second(4, 4);
  const optim::AdamW optimizer(second.parameters(), {});
  EXPECT_THROW(fully_shard(second, {.mesh = mesh}), Error);
  nn::Linear third(4, 4);
  EXPECT_THROW(fully_shard(third, {.mesh = Mesh({{"model", 2}})}), Error);
}

}  // namespace
}  // namespace tessera
