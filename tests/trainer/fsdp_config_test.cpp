// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "support/temporary_folder.h"
#include "tessera/trainer/arguments.h"

namespace tessera::trainer {
namespace {

using ::tessera::testing::error_of;

FsdpConfig config(const char* json) { return FsdpConfig::from_json(JsonObject::parse(json, "f.json")); }

TEST(FsdpMode, ReadsHuggingFacesOptions) {
  EXPECT_FALSE(parse_fsdp_mode("").enabled);
  EXPECT_FALSE(parse_fsdp_mode("false").enabled);
  EXPECT_TRUE(parse_fsdp_mode("true").reshard_after_forward);
  const FsdpMode full = parse_fsdp_mode("full_shard  auto_wrap");
  EXPECT_TRUE(full.enabled && full.reshard_after_forward && !full.hybrid && !full.offload);
  const FsdpMode zero2 = parse_fsdp_mode("shard_grad_op offload");
  EXPECT_TRUE(zero2.enabled && !zero2.reshard_after_forward && zero2.offload);
  const FsdpMode hybrid = parse_fsdp_mode("hybrid_shard_zero2");
  EXPECT_TRUE(hybrid.hybrid && !hybrid.reshard_after_forward);
}

TEST(FsdpMode, OptionsThatExcludeEachOtherAreRefused) {
  EXPECT_EQ(error_of([] { parse_fsdp_mode("full_shard shard_grad_op"); }),
            "--fsdp: give exactly one of full_shard, shard_grad_op, hybrid_shard and hybrid_shard_zero2, got "
            "\"full_shard shard_grad_op\"");
  EXPECT_EQ(
      error_of([] { parse_fsdp_mode("offload"); }),
      "--fsdp: give exactly one of full_shard, shard_grad_op, hybrid_shard and hybrid_shard_zero2, got \"offload\"");
  EXPECT_EQ(error_of([] { parse_fsdp_mode("false full_shard"); }),
            "--fsdp: false excludes every other option, got \"false full_shard\"");
}

TEST(FsdpConfig, ReadsTheFileOfTheSourceDocumentAndNotesKeysWithoutEffect) {
  const FsdpConfig c = config(R"({"fsdp_transformer_layer_cls_to_wrap": ["GPT2Block"], "xla": true,
    "xla_fsdp_settings": {"compute_dtype": "bfloat16", "shard_param_on_dim_0": true, "pin_layout_in_collective_ops": true},
    "xla_fsdp_grad_ckpt": true})");
  EXPECT_EQ(c.transformer_layer_cls_to_wrap, (std::vector<std::string>{"GPT2Block"}));
  EXPECT_EQ(c.compute_dtype, "bfloat16");
  EXPECT_TRUE(c.shard_param_on_dim_0);
  EXPECT_TRUE(c.activation_checkpointing);
  EXPECT_TRUE(c.notes.empty());
}

TEST(FsdpConfig, KeysMayLeaveOutThePrefix) {
  EXPECT_EQ(config(R"({"min_num_params": 2000})").min_num_params, 2000);
  EXPECT_EQ(config(R"({"fsdp_min_num_params": 3})").min_num_params, 3);
  EXPECT_EQ(config(R"({"transformer_layer_cls_to_wrap": "GPT2MLP"})").transformer_layer_cls_to_wrap,
            (std::vector<std::string>{"GPT2MLP"}));
  EXPECT_EQ(config(R"({"fsdp_reshard_after_forward": "SHARD_GRAD_OP"})").reshard_after_forward, false);
  EXPECT_EQ(config(R"({"reshard_after_forward": true})").reshard_after_forward, true);
  EXPECT_FALSE(config("{}").reshard_after_forward.has_value());
}

TEST(FsdpConfig, ErrorsNameTheMistake) {
  EXPECT_EQ(error_of([] { config(R"({"fsdp_min_num_param": 1})"); }),
            "f.json: unknown key \"fsdp_min_num_param\"; did you mean \"fsdp_min_num_params\"?");
  EXPECT_EQ(error_of([] { config(R"({"min_num_params": 1, "fsdp_transformer_layer_cls_to_wrap": ["GPT2Block"]})"); }),
            "f.json: min_num_params and fsdp_transformer_layer_cls_to_wrap exclude each other");
  EXPECT_EQ(error_of([] { config(R"({"xla_fsdp_settings": {"compute_type": "float32"}})"); }),
            "f.json: xla_fsdp_settings: unknown key \"compute_type\"; did you mean \"compute_dtype\"?");
  EXPECT_EQ(error_of([] { config(R"({"xla_fsdp_settings": {"compute_dtype": "bf16"}})"); }),
            "f.json: xla_fsdp_settings: compute_dtype must be float32, bfloat16 or float16, got \"bf16\"");
}

TEST(FsdpConfig, KeysWithoutEffectAreNotedOnlyIfTheyDifferFromTheStandard) {
  EXPECT_TRUE(config(R"({"fsdp_forward_prefetch": false, "limit_all_gathers": true, "xla_fsdp_grad_ckpt": null})")
                  .notes.empty());
  EXPECT_EQ(
      config(R"({"fsdp_offload_params": true})").notes,
      (std::vector<std::string>{"f.json: fsdp_offload_params has no effect: weights already are in host memory"}));
}

// The keys of Hugging Face, Accelerate and PyTorch/XLA that have no effect, with values that ask for something.
TEST(FsdpConfig, EveryRequestWithoutEffectIsNoted) {
  const std::string sharded = " has no effect: checkpoints are sharded and can be read for any mesh";
  const std::string scheduled = " has no effect: the schedule decides when weights are gathered";
  EXPECT_EQ(config(R"({"backward_prefetch": "BACKWARD_PRE", "fsdp_backward_prefetch_policy": "BACKWARD_POST",
                       "forward_prefetch": true, "limit_all_gathers": false, "use_orig_params": false,
                       "sync_module_states": false, "cpu_ram_efficient_loading": true, "cp_backend": "other",
                       "state_dict_config": {}, "fsdp_optim_state_dict_config": {}, "xla_fsdp_v2": false})")
                .notes,
            (std::vector<std::string>{
                "f.json: backward_prefetch" + scheduled, "f.json: fsdp_backward_prefetch_policy" + scheduled,
                "f.json: forward_prefetch" + scheduled,
                "f.json: limit_all_gathers has no effect: gathered units are always limited",
                "f.json: use_orig_params has no effect: parameters always keep their names and shapes",
                "f.json: sync_module_states has no effect: every rank starts from the same values",
                "f.json: cpu_ram_efficient_loading has no effect: no rank ever holds the complete model",
                "f.json: cp_backend has no effect: attention over sharded sequences has one implementation",
                "f.json: state_dict_config" + sharded, "f.json: fsdp_optim_state_dict_config" + sharded,
                "f.json: xla_fsdp_v2 has no effect: FSDP always is a choice of shardings"}));
  const std::string combined = " has no effect: the partitioner combines collectives where memory allows";
  const std::string settings = "f.json: xla_fsdp_settings: ";
  EXPECT_EQ(config(R"({"xla": true, "xla_fsdp_settings": {"coalesce_all_gather_ops": true,
                       "reduce_scatter_bucket_size_mb": 100, "opt_flatten_overlap_factor": 1,
                       "_shard_size_multiple": 256, "_use_xla_patched_linear": false}})")
                .notes,
            (std::vector<std::string>{
                settings + "coalesce_all_gather_ops" + combined, settings + "reduce_scatter_bucket_size_mb" + combined,
                settings + "opt_flatten_overlap_factor has no effect: parameters keep their shapes",
                settings + "_shard_size_multiple has no effect: shards are padded only where no dim divides",
                settings + "_use_xla_patched_linear has no effect: the gradients of a product are always computed by "
                           "two products"}));
  EXPECT_TRUE(config(R"({"xla": true, "xla_fsdp_settings": {"coalesce_all_gather_ops": false,
                         "_shard_size_multiple": 128, "_use_xla_patched_linear": true}})")
                  .notes.empty());
}

TEST(FsdpConfig, FunctionsAreRefusedUnlessTheyAreNull) {
  EXPECT_EQ(error_of([] { config(R"({"fsdp_param_init_fn": "reset"})"); }),
            "f.json: fsdp_param_init_fn is a function, which a file cannot contain; parameters are always created as "
            "shards");
  EXPECT_EQ(error_of([] { config(R"({"xla_fsdp_settings": {"auto_wrap_policy": "TRANSFORMER_BASED_WRAP"}})"); }),
            "f.json: xla_fsdp_settings: auto_wrap_policy is a function, which a file cannot contain; give "
            "transformer_layer_cls_to_wrap or min_num_params beside xla_fsdp_settings");
  EXPECT_EQ(error_of([] { config(R"({"xla_fsdp_settings": {"auto_wrapper_callable": "f"}})"); }),
            "f.json: xla_fsdp_settings: auto_wrapper_callable is a function, which a file cannot contain; give "
            "xla_fsdp_grad_ckpt beside xla_fsdp_settings to recompute units");
  EXPECT_TRUE(
      config(R"({"param_init_fn": null, "xla": true, "xla_fsdp_settings": {"auto_wrap_policy": null}})").notes.empty());
}

TEST(FsdpConfig, DebugOptionsOfPyTorchXlaAreRead) {
  const FsdpConfig c = config(R"({"xla": true, "xla_fsdp_settings": {"_debug_dummy_all_gather_op": true,
    "_debug_dummy_reduce_scatter_op": true, "_debug_dummy_forward_pass": false, "_debug_print": true,
    "_debug_dummy_optimization_barrier_op": true, "_debug_msg": "mine"}})");
  EXPECT_TRUE(c.debug.dummy_all_gather_op && c.debug.dummy_reduce_scatter_op && c.debug.print);
  EXPECT_TRUE(c.debug.dummy_optimization_barrier_op);
  EXPECT_FALSE(c.debug.dummy_forward_pass);
  EXPECT_EQ(c.debug.msg, "mine");
  EXPECT_TRUE(c.notes.empty());
  EXPECT_EQ(config(R"({"xla": true, "xla_fsdp_settings": {"_debug_dummy_all_reduce_op": true}})").notes,
            (std::vector<std::string>{"f.json: xla_fsdp_settings: _debug_dummy_all_reduce_op has no effect: only the "
                                      "norm of gradients is all-reduced, and it is one number"}));
}

TEST(FsdpConfig, MixedPrecisionIsAWordOrAnObject) {
  EXPECT_EQ(config(R"({"fsdp_mixed_precision_policy": "bf16"})").compute_dtype, "bfloat16");
  const FsdpConfig both =
      config(R"({"mixed_precision_policy": {"param_dtype": "bfloat16", "reduce_dtype": "float32"}})");
  EXPECT_EQ(both.compute_dtype, "bfloat16");
  EXPECT_EQ(both.reduce_dtype, "float32");
  EXPECT_EQ(error_of([] { config(R"({"mixed_precision_policy": "int8"})"); }),
            "f.json: mixed_precision_policy must be bf16, fp16, fp32 or an object of param_dtype and reduce_dtype, "
            "got \"int8\"");
}

TEST(FsdpConfig, Float16IsATypeOfProductsAndReductions) {
  EXPECT_EQ(config(R"({"fsdp_mixed_precision_policy": "fp16"})").compute_dtype, "float16");
  const FsdpConfig both =
      config(R"({"mixed_precision_policy": {"param_dtype": "float16", "reduce_dtype": "float16"}})");
  EXPECT_EQ(both.compute_dtype, "float16");
  EXPECT_EQ(both.reduce_dtype, "float16");
  EXPECT_EQ(config(R"({"xla_fsdp_settings": {"compute_dtype": "float16"}})").compute_dtype, "float16");
}

// ---- keys that contradict each other ------------------------------------------------------------------------------------

TEST(FsdpConfig, TheOrderOfSizesHasNoEffect) {
  using Axes = std::vector<std::pair<std::string, std::int64_t>>;
  EXPECT_EQ(config(R"({"dp_shard_size": 2, "dp_replicate_size": 2})").axes, (Axes{{"data", 2}, {"fsdp", 2}}));
  EXPECT_EQ(config(R"({"tp_size": 2, "fsdp_size": 4})").axes, (Axes{{"fsdp", 4}, {"model", 2}}));
  EXPECT_EQ(config(R"({"fsdp_size": 4, "dp_shard_size": 4, "tp_size": 1})").axes, (Axes{{"fsdp", 4}}));
  EXPECT_EQ(config(R"({"tp_size": 2, "fsdp_size": 4})").what_gave("axes"), "fsdp_size 4 and tp_size 2 in f.json");
  for (const char* json : {R"({"dp_shard_size": 4, "fsdp_size": 2})", R"({"fsdp_size": 2, "dp_shard_size": 4})"})
    EXPECT_EQ(error_of([&] { config(json); }),
              "f.json: dp_shard_size 4 and fsdp_size 2 are different sizes of one axis");
  EXPECT_EQ(error_of([] { config(R"({"tp_size": -1, "dp_shard_size": -1})"); }),
            "f.json: dp_shard_size -1 and tp_size -1 cannot both stand for the remaining ranks");
}

TEST(FsdpConfig, StrategiesThatContradictEachOtherAreErrors) {
  for (const char* json : {R"({"sharding_strategy": "FULL_SHARD", "fsdp_reshard_after_forward": false})",
                           R"({"fsdp_reshard_after_forward": false, "sharding_strategy": "FULL_SHARD"})"})
    EXPECT_EQ(error_of([&] { config(json); }),
              "f.json: sharding_strategy FULL_SHARD and fsdp_reshard_after_forward false contradict each other");
  EXPECT_EQ(
      error_of(
          [] { config(R"({"xla_fsdp_settings": {"reshard_after_forward": true}, "reshard_after_forward": false})"); }),
      "f.json: reshard_after_forward false and xla_fsdp_settings.reshard_after_forward true contradict each other");
  EXPECT_EQ(error_of([] { config(R"({"sharding_strategy": "HYBRID_SHARD", "reshard_after_forward": "FULL_SHARD"})"); }),
            "f.json: sharding_strategy HYBRID_SHARD and reshard_after_forward FULL_SHARD contradict each other");
  const FsdpConfig same = config(R"({"reshard_after_forward": true, "sharding_strategy": "HYBRID_SHARD"})");
  EXPECT_EQ(same.reshard_after_forward, true);
  EXPECT_EQ(same.hybrid, true);
}

TEST(FsdpConfig, TwoSpellingsOfAKeyMustAgree) {
  for (const char* json :
       {R"({"min_num_params": 5, "fsdp_min_num_params": 7})", R"({"fsdp_min_num_params": 7, "min_num_params": 5})"})
    EXPECT_EQ(error_of([&] { config(json); }),
              "f.json: min_num_params 5 and fsdp_min_num_params 7 contradict each other");
  EXPECT_EQ(config(R"({"min_num_params": 5, "fsdp_min_num_params": 5})").min_num_params, 5);
  EXPECT_EQ(config(R"({"min_num_params": null, "fsdp_min_num_params": 5})").min_num_params, 5);
}

TEST(FsdpConfig, PoliciesThatContradictEachOtherAreErrors) {
  EXPECT_EQ(error_of([] {
              config(R"({"auto_wrap_policy": "SIZE_BASED_WRAP", "transformer_layer_cls_to_wrap": "GPT2Block"})");
            }),
            "f.json: auto_wrap_policy SIZE_BASED_WRAP and transformer_layer_cls_to_wrap exclude each other");
  EXPECT_EQ(error_of([] { config(R"({"min_num_params": 5, "auto_wrap_policy": "TRANSFORMER_BASED_WRAP"})"); }),
            "f.json: auto_wrap_policy TRANSFORMER_BASED_WRAP and min_num_params exclude each other");
  EXPECT_EQ(error_of([] { config(R"({"min_num_params": 5, "auto_wrap_policy": "NO_WRAP"})"); }),
            "f.json: auto_wrap_policy NO_WRAP and min_num_params exclude each other");
  EXPECT_EQ(error_of([] { config(R"({"fsdp_auto_wrap_policy": "NO_WRAP", "transformer_layer_cls_to_wrap": "A"})"); }),
            "f.json: fsdp_auto_wrap_policy NO_WRAP and transformer_layer_cls_to_wrap exclude each other");
}

TEST(FsdpConfig, TypesThatContradictEachOtherAreErrors) {
  EXPECT_EQ(error_of([] {
              config(R"({"xla_fsdp_settings": {"compute_dtype": "float32"}, "mixed_precision_policy": "bf16"})");
            }),
            "f.json: mixed_precision_policy bf16 and xla_fsdp_settings.compute_dtype float32 contradict each other");
  EXPECT_EQ(error_of([] {
              config(R"({"mixed_precision_policy": {"param_dtype": "bfloat16", "reduce_dtype": "bfloat16"},
                         "xla_fsdp_settings": {"fp32_reduce_scatter": true}})");
            }),
            "f.json: mixed_precision_policy.reduce_dtype bfloat16 and xla_fsdp_settings.fp32_reduce_scatter true "
            "contradict each other");
}

// ---- keys that FsdpOptions has ------------------------------------------------------------------------------------------

TEST(FsdpConfig, ReshardAfterForwardMayBeANumberOfDevices) {
  EXPECT_EQ(config(R"({"reshard_after_forward": 2})").reshard_after_forward, 2);
  EXPECT_EQ(config(R"({"reshard_after_forward": 1})").reshard_after_forward, false);
  EXPECT_EQ(config(R"({"xla_fsdp_settings": {"reshard_after_forward": 4}})").reshard_after_forward, 4);
  EXPECT_EQ(config(R"({"reshard_after_forward": 2, "sharding_strategy": "FULL_SHARD"})").reshard_after_forward, 2);
  EXPECT_EQ(config(R"({"reshard_after_forward": "2"})").reshard_after_forward, false) << "SHARD_GRAD_OP";
  EXPECT_EQ(error_of([] { config(R"({"reshard_after_forward": 2, "sharding_strategy": "SHARD_GRAD_OP"})"); }),
            "f.json: sharding_strategy SHARD_GRAD_OP and reshard_after_forward 2 contradict each other");
  EXPECT_EQ(error_of([] { config(R"({"reshard_after_forward": 0})"); }),
            "f.json: reshard_after_forward must be true, false or a number of devices, got 0");
  EXPECT_EQ(error_of([] { config(R"({"xla_fsdp_settings": {"reshard_after_forward": "yes"}})"); }),
            "f.json: xla_fsdp_settings: reshard_after_forward must be true, false or a number of devices, got yes");
}

TEST(FsdpConfig, ClassesMayBeJoinedByCommas) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(config(R"({"fsdp_transformer_layer_cls_to_wrap": "GPT2Block, GPT2MLP"})").transformer_layer_cls_to_wrap,
            (Names{"GPT2Block", "GPT2MLP"}));
  EXPECT_EQ(config(R"({"transformer_layer_cls_to_wrap": ["A,B", "C"]})").transformer_layer_cls_to_wrap,
            (Names{"A", "B", "C"}));
  EXPECT_EQ(config(R"({"transformer_layer_cls_to_wrap": ""})").transformer_layer_cls_to_wrap, Names{});
}

TEST(FsdpConfig, IgnoredModulesAreRegularExpressions) {
  EXPECT_EQ(config(R"({"fsdp_ignored_modules": ".*\\.mlp"})").ignored_modules, (std::vector<std::string>{".*\\.mlp"}));
  EXPECT_EQ(config(R"({"ignored_modules": ["a", "b"]})").ignored_modules, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(error_of([] {
                config(R"({"ignored_modules": "a("})");
              }).starts_with("f.json: ignored_modules: \"a(\" is no regular expression: "));
}

TEST(FsdpConfig, SettingsOfFsdpOptionsApply) {
  const FsdpConfig c = config(R"({"xla": true, "xla_fsdp_settings": {"buffer_dtype": "bfloat16",
    "sharding_groups": [[0, 1], [2, 3]], "sharding_world_size": 2, "sharding_rank": 0}})");
  EXPECT_EQ(c.buffer_dtype, "bfloat16");
  EXPECT_EQ(c.sharding_groups, (std::vector<std::vector<std::int64_t>>{{0, 1}, {2, 3}}));
  EXPECT_TRUE(c.notes.empty());
  EXPECT_EQ(error_of([] { config(R"({"xla_fsdp_settings": {"sharding_groups": [0, 1]}})"); }),
            "f.json: xla_fsdp_settings: sharding_groups must be a list of lists of integers, got [0,1]");
  EXPECT_EQ(
      error_of([] { config(R"({"xla_fsdp_settings": {"sharding_groups": [[0, 1]], "sharding_world_size": 3}})"); }),
      "f.json: xla_fsdp_settings: sharding_world_size is 3, but a group in sharding_groups has 2 ranks");
  EXPECT_EQ(error_of([] { config(R"({"xla_fsdp_settings": {"sharding_world_size": 3}})"); }),
            "f.json: xla_fsdp_settings: sharding_world_size needs sharding_groups");
}

TEST(FsdpConfig, KeysOfXlaWithoutXlaApplyWithANote) {
  using Lines = std::vector<std::string>;
  EXPECT_EQ(config(R"({"xla_fsdp_settings": {"shard_param_on_dim_0": true}, "xla_fsdp_grad_ckpt": true})").notes,
            (Lines{"f.json: xla_fsdp_settings applies although there is no xla: true",
                   "f.json: xla_fsdp_grad_ckpt applies although there is no xla: true"}));
  EXPECT_EQ(config(R"({"fsdp_xla": false, "xla_fsdp_settings": {"shard_param_on_dim_0": true}})").notes,
            Lines{"f.json: xla_fsdp_settings applies although fsdp_xla is false"});
  EXPECT_EQ(config(R"({"xla": false, "xla_fsdp_settings": {}, "xla_fsdp_grad_ckpt": false})").notes, Lines{});
}

TEST(FsdpConfig, VersionsAreOneAndTwo) {
  EXPECT_TRUE(config(R"({"version": 1})").notes.empty());
  EXPECT_TRUE(config(R"({"fsdp_version": 2})").notes.empty());
  EXPECT_EQ(error_of([] { config(R"({"version": 3})"); }), "f.json: version must be 1 or 2, got 3");
}

}  // namespace
}  // namespace tessera::trainer
