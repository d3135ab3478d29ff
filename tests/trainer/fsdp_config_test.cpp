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
            "f.json: min_num_params and transformer_layer_cls_to_wrap exclude each other");
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

TEST(FsdpConfig, DebugOptionsOfPyTorchXlaAreRead) {
  const FsdpConfig c = config(R"({"xla_fsdp_settings": {"_debug_dummy_all_gather_op": true,
    "_debug_dummy_reduce_scatter_op": true, "_debug_dummy_forward_pass": false, "_debug_print": true,
    "_debug_dummy_optimization_barrier_op": true, "_debug_msg": "mine"}})");
  EXPECT_TRUE(c.debug.dummy_all_gather_op && c.debug.dummy_reduce_scatter_op && c.debug.print);
  EXPECT_TRUE(c.debug.dummy_optimization_barrier_op);
  EXPECT_FALSE(c.debug.dummy_forward_pass);
  EXPECT_EQ(c.debug.msg, "mine");
  EXPECT_TRUE(c.notes.empty());
  EXPECT_EQ(config(R"({"xla_fsdp_settings": {"_debug_dummy_all_reduce_op": true}})").notes,
            (std::vector<std::string>{"f.json: xla_fsdp_settings: _debug_dummy_all_reduce_op has no effect: the norm "
                                      "of gradients, which alone uses it, is one number"}));
}

TEST(FsdpConfig, MixedPrecisionIsAWordOrAnObject) {
  EXPECT_EQ(config(R"({"fsdp_mixed_precision_policy": "bf16"})").compute_dtype, "bfloat16");
  const FsdpConfig both =
      config(R"({"mixed_precision_policy": {"param_dtype": "bfloat16", "reduce_dtype": "float32"}})");
  EXPECT_EQ(both.compute_dtype, "bfloat16");
  EXPECT_EQ(both.reduce_dtype, "float32");
  EXPECT_EQ(error_of([] { config(R"({"mixed_precision_policy": "int8"})"); }),
            "f.json: mixed_precision_policy must be bf16, fp16, fp32 or an object of param_dtype and reduce_dtype, got "
            "\"int8\"");
}

}  // namespace
}  // namespace tessera::trainer
