// SPDX-License-Identifier: Apache-2.0
// recursive_wrap(), options that single modules override, and what policies count.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "frontend/on_ranks.h"
#include "support/error_of.h"
#include "tessera/frontend/tracing/inner.h"
#include "tessera/fsdp/fsdp.h"
#include "tessera/nn/batch_norm.h"
#include "tessera/nn/layers.h"

namespace tessera {
namespace {

// 30 + 28 parameters.
struct PartOfModel : nn::Callable<PartOfModel> {
  PartOfModel() {
    register_module("a", a);
    register_module("b", b);
  }
  Tensor forward(const Tensor& x) { return b(a(x)); }
  nn::Linear a{4, 6}, b{6, 4};
};

struct ModelOfParts : nn::Callable<ModelOfParts> {
  ModelOfParts() {
    register_module("encoder", encoder);
    register_module("decoder", decoder);
    register_module("head", head);
  }
  Tensor forward(const Tensor& x) { return head(decoder(encoder(x))); }
  PartOfModel encoder, decoder;
  nn::Linear head{4, 2};
};

std::vector<std::string> unit_names(nn::Module& module) {
  std::vector<std::string> out;
  for (const auto& unit : fsdp_units(module)) out.push_back(unit.name);
  return out;
}
using UnitNames = std::vector<std::string>;

WrapPolicy linear_units() { return transformer_auto_wrap_policy({"Linear"}); }
bool gathers_again(const nn::Module& module, const char* name) {
  return module.parameter(name).impl().unshard->recompute;
}

TEST(RecursiveWrap, PartsOfAModelHaveTheirOwnPoliciesAndOptions) {
  const FreshRank rank;
  plan_for_devices(2);
  const Mesh mesh({{"fsdp", 2}});
  ModelOfParts model;
  EXPECT_EQ(recursive_wrap(model.encoder, {.mesh = mesh, .auto_wrap_policy = linear_units()}), 58);
  EXPECT_EQ(model.encoder.unit(), "");
  EXPECT_EQ(model.encoder.a.unit(), "encoder.a");
  EXPECT_TRUE(model.encoder.a.parameter("weight").sharding());
  EXPECT_FALSE(model.head.parameter("weight").sharding());
  const FsdpOptions of_decoder{
      .mesh = mesh, .auto_wrap_policy = transformer_auto_wrap_policy({"PartOfModel"}), .reshard_after_forward = false};
  EXPECT_EQ(recursive_wrap(model.decoder, of_decoder), 58);
  fully_shard(model, {.mesh = mesh});
  EXPECT_EQ(unit_names(model), (UnitNames{"root", "encoder.a", "encoder.b", "decoder"}));
  EXPECT_TRUE(gathers_again(model, "encoder.a.weight"));
  EXPECT_FALSE(gathers_again(model, "decoder.a.weight"));
  EXPECT_EQ(model.parameter("encoder.a.weight").impl().unshard->unit, "encoder.a");
}

TEST(RecursiveWrap, WrapsTheModuleItselfUnlessOnlyChildrenAreAskedFor) {
  const FreshRank rank;
  plan_for_devices(2);
  const Mesh mesh({{"fsdp", 2}});
  const FsdpOptions options{.mesh = mesh, .auto_wrap_policy = always_wrap_policy()};
  PartOfModel children;
  EXPECT_EQ(recursive_wrap(children, options, {.only_wrap_children = true}), 58);
  EXPECT_EQ(children.unit(), "");
  PartOfModel all;
  EXPECT_EQ(recursive_wrap(all, options), 58);
  EXPECT_EQ(all.unit(), "root");
  EXPECT_EQ(all.a.unit(), "a");
  PartOfModel none;
  EXPECT_EQ(recursive_wrap(none, {.mesh = mesh, .auto_wrap_policy = size_based_auto_wrap_policy(59)}), 0);
}

TEST(RecursiveWrap, NeedsAPolicyAndAModuleWithoutUnits) {
  const FreshRank rank;
  plan_for_devices(2);
  const Mesh mesh({{"fsdp", 2}});
  ModelOfParts model;
  EXPECT_EQ(testing::error_of([&] { recursive_wrap(model, {.mesh = mesh}); }),
            "recursive_wrap needs an auto_wrap_policy");
  fully_shard(model.encoder.a, {.mesh = mesh});
  EXPECT_EQ(testing::error_of([&] { recursive_wrap(model, {.mesh = mesh, .auto_wrap_policy = linear_units()}); }),
            "encoder.a is already an FSDP unit; an auto_wrap_policy needs a module without units below it");
}

TEST(NestedUnits, ThePartsOfAModelAreShardedBeforeTheModel) {
  const FreshRank rank;
  plan_for_devices(2);
  const Mesh mesh({{"fsdp", 2}});
  ModelOfParts model;
  FsdpOptions options{.mesh = mesh, .auto_wrap_policy = transformer_auto_wrap_policy({"PartOfModel"})};
  options.ignored_modules = {&model.head};
  fully_shard(model, options);
  const std::string part_of_model =
      "encoder.a is a part of ModelOfParts, which is sharded already; shard the parts of a model before it";
  EXPECT_EQ(testing::error_of([&] { fully_shard(model.encoder.a, {.mesh = mesh}); }), part_of_model);
  EXPECT_EQ(testing::error_of([&] { FullyShardedDataParallel(model.encoder.a, {.mesh = mesh}); }), part_of_model);
  EXPECT_EQ(model.encoder.a.unit(), "");
  fully_shard(model.head, {.mesh = mesh});  // no part of a unit
  ModelOfParts other;
  recursive_wrap(other.encoder, {.mesh = mesh, .auto_wrap_policy = transformer_auto_wrap_policy({"PartOfModel"})});
  EXPECT_EQ(testing::error_of([&] { fully_shard(other.encoder.b, {.mesh = mesh}); }),
            "encoder.b is a part of encoder, which is sharded already; shard the parts of a model before it");
}

TEST(NestedUnits, ThoseOfAPolicyKeepTheirOptionsBelowALaterRoot) {
  const FreshRank rank;
  plan_for_devices(2);
  const Mesh mesh({{"fsdp", 2}});
  ModelOfParts model;
  fully_shard(model.encoder, {.mesh = mesh, .auto_wrap_policy = linear_units(), .reshard_after_forward = false});
  fully_shard(model.decoder, {.mesh = mesh, .auto_wrap_policy = linear_units()});
  fully_shard(model, {.mesh = mesh});
  EXPECT_FALSE(gathers_again(model, "encoder.a.weight"));
  EXPECT_TRUE(gathers_again(model, "decoder.a.weight"));
}

struct NormalizedLayer : nn::Callable<NormalizedLayer> {
  NormalizedLayer() {
    register_module("linear", linear);
    register_module("norm", norm);
  }
  Tensor forward(const Tensor& x) { return norm(linear(x)); }
  nn::Linear linear{4, 6};
  nn::BatchNorm1d norm{6};
};

TEST(WrapOverrides, ABatchNormIsUsedInItsOwnTypes) {
  const FreshRank rank;
  plan_for_devices(2);
  NormalizedLayer layer;
  layer.norm.set_wrap_overrides([](FsdpOptions& options) {
    options.mixed_precision = {};
    options.buffer_dtype.reset();
    options.reshard_after_forward = false;
  });
  std::vector<bool> reshards;
  FsdpOptions options{.mesh = Mesh({{"fsdp", 2}})};
  options.auto_wrap_policy = transformer_auto_wrap_policy({"Linear", "BatchNorm1d"});
  options.mixed_precision.param_dtype = DType::kBF16;
  options.buffer_dtype = DType::kBF16;
  options.auto_wrapper_callable = [&](nn::Module&, FsdpOptions& own) {
    reshards.push_back(own.reshard_after_forward.reshards());
  };
  fully_shard(layer, options);
  const auto computes_in = [&](const char* name) { return layer.parameter(name).impl().compute_dtype; };
  EXPECT_TRUE(computes_in("linear.weight") == std::optional(DType::kBF16));
  EXPECT_FALSE(computes_in("norm.weight"));
  EXPECT_FALSE(layer.norm.running_mean().impl().compute_dtype);
  EXPECT_FALSE(gathers_again(layer, "norm.weight"));
  EXPECT_EQ(reshards, (std::vector<bool>{true, false})) << "the callable sees the overrides";
}

TEST(WrapOverrides, DoNotApplyToModulesThatAreNoUnits) {
  const FreshRank rank;
  plan_for_devices(2);
  NormalizedLayer layer;
  layer.norm.set_wrap_overrides([](FsdpOptions&) { FAIL() << "the norm is in the root unit"; });
  FsdpOptions options{.mesh = Mesh({{"fsdp", 2}}), .auto_wrap_policy = linear_units()};
  options.mixed_precision.param_dtype = DType::kBF16;
  fully_shard(layer, options);
  EXPECT_TRUE(layer.parameter("norm.weight").impl().compute_dtype == std::optional(DType::kBF16));
}

std::vector<std::string> selected(nn::Module& root, std::int64_t size, const WrapOptions& options) {
  std::vector<std::string> out;
  for (const auto& [path, module] : modules_to_wrap(root, size_based_auto_wrap_policy(size), options))
    out.push_back(path.empty() ? "itself" : path);
  return out;
}

TEST(WrapPolicy, IgnoredParametersDoNotCount) {
  const FreshRank rank;
  PartOfModel part;  // 24 weights and 6 biases in `a`, 24 and 4 in `b`
  EXPECT_EQ(selected(part, 40, {.only_wrap_children = false}), UnitNames{"itself"});
  EXPECT_EQ(selected(part, 40, {}), UnitNames{});
  EXPECT_EQ(selected(part, 40, {.ignored_modules = {&part.a}, .only_wrap_children = false}), UnitNames{});
  EXPECT_EQ(selected(part, 28, {.ignored_modules = {&part.a}, .only_wrap_children = false}), UnitNames{"b"});
  const auto is_bias = [](const nn::NamedParameter& parameter) { return parameter.name.ends_with("bias"); };
  EXPECT_EQ(selected(part, 48, {.ignored_parameters = is_bias, .only_wrap_children = false}), UnitNames{"itself"});
  EXPECT_EQ(selected(part, 49, {.ignored_parameters = is_bias, .only_wrap_children = false}), UnitNames{});
  EXPECT_EQ(selected(part, 24, {.ignored_parameters = is_bias}), (UnitNames{"a", "b"}));
}

}  // namespace
}  // namespace tessera
