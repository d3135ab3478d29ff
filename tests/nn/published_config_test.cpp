// SPDX-License-Identifier: Apache-2.0
// The keys of configurations that are published on the Hugging Face hub. Sizes are small where the test makes a model.
#include <gtest/gtest.h>

#include <string>

#include "support/error_of.h"
#include "tessera/base/json_object.h"
#include "tessera/nn/models/registry.h"

namespace tessera::nn {
namespace {

std::string error_of_config(const std::string& text) {
  return ::tessera::testing::error_of([&] { (void)make_model(text, "config.json", DType::kF32); });
}

// Keys that libraries of others add to configurations of every class.
constexpr const char* kAdded = R"(
    "unsloth_version": "2025.1.5", "unsloth_fixed": true, "transformers.js_config": {"dtype": "q8"}, "trust_remote_code": false,
    "quantization_config": null, "pruned_heads": {}, "_attn_implementation_autoset": true, "auto_map": {"AutoConfig": "x"},
    "xla_device": null, "output_past": true, "torch_dtype": "bfloat16", "transformers_version": "4.51.0", "use_cache": true,)";

std::string decoder_json(const std::string& type, const std::string& architecture, const std::string& keys) {
  return R"({"model_type": ")" + type + R"(", "architectures": [")" + architecture + "\"]," + kAdded + keys +
         R"(, "vocab_size": 31, "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2, "num_attention_heads": 2,
         "num_key_value_heads": 1, "hidden_act": "silu", "initializer_range": 0.02, "rms_norm_eps": 1e-05,
         "attention_dropout": 0.0, "bos_token_id": 1, "eos_token_id": [2, 3], "tie_word_embeddings": false})";
}

TEST(PublishedConfigs, KeysWithoutAnEffectAreRead) {
  const std::string yarn = R"("rope_theta": 1000000.0, "max_position_embeddings": 64,
      "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16})";
  const std::string llama =
      R"("attention_bias": false, "mlp_bias": false, "pretraining_tp": 1, "max_sequence_length": 64,
      "rope_interleaved": false, "is_llama_config": true, "head_dim": 4, "max_position_embeddings": 64, "rope_theta": 500000.0,
      "rope_scaling": {"factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
      "original_max_position_embeddings": 8192, "rope_type": "llama3"})";
  const std::string windows = R"(, "sliding_window": 32, "use_sliding_window": false, "max_window_layers": 2)";
  const std::string chunks = R"(, "dual_chunk_attention_config": {"chunk_size": 262144, "local_size": 8192,
      "original_max_position_embeddings": 262144})";
  for (const std::string& text :
       {decoder_json("llama", "LlamaForCausalLM", llama),
        decoder_json("llama", "LlamaForCausalLM", yarn + R"(, "rope_interleaved": null)"),
        decoder_json("mistral", "MistralForCausalLM",
                     R"("sliding_window": null, "head_dim": 4, "rope_theta": 1000000.0, "attention_bias": false)"),
        decoder_json("mixtral", "MixtralForCausalLM",
                     R"("sliding_window": null, "num_local_experts": 2, "num_experts_per_tok": 1, "rope_scaling": null,
                     "output_router_logits": false, "router_aux_loss_coef": 0.02, "router_jitter_noise": 0.0)"),
        decoder_json("qwen2", "Qwen2ForCausalLM", yarn + windows + chunks + R"(, "use_mrope": false)"),
        decoder_json("qwen2", "Qwen2ForCausalLM", yarn + windows + R"(, "dual_chunk_attention_config": null)"),
        decoder_json("qwen3", "Qwen3ForCausalLM",
                     yarn + windows + chunks + R"(, "head_dim": 4, "attention_bias": false)")})
    EXPECT_EQ(error_of_config(text), "no error") << text;
}

TEST(PublishedConfigs, KeysOfEncodersAndImageModelsAreRead) {
  const std::string added = kAdded;
  for (const std::string& text :
       {R"({"model_type": "bert", "architectures": ["BertForSequenceClassification"],)" + added + R"(
         "attention_probs_dropout_prob": 0.1, "classifier_dropout": null, "directionality": "bidi", "gradient_checkpointing": false,
         "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "hidden_size": 8, "id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0},
         "initializer_range": 0.02, "intermediate_size": 12, "layer_norm_eps": 1e-12, "max_position_embeddings": 16,
         "num_attention_heads": 2, "num_hidden_layers": 1, "pad_token_id": 0, "pooler_fc_size": 768, "pooler_type": "first_token_transform",
         "position_embedding_type": "absolute", "type_vocab_size": 2, "vocab_size": 31, "eos_token_ids": null,
         "sentence_transformers": {"activation_fn": "torch.nn.modules.linear.Identity", "version": "4.0.1"},
         "sbert_ce_default_activation_function": "torch.nn.modules.linear.Identity"})",
        R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"],)" + added + R"(
         "activation_function": "gelu_new", "attn_pdrop": 0.1, "bos_token_id": 3, "embd_pdrop": 0.1, "eos_token_id": 3,
         "initializer_range": 0.02, "layer_norm_epsilon": 1e-05, "n_ctx": 16, "n_embd": 8, "n_head": 2, "n_layer": 1, "n_positions": 16,
         "n_special": 0, "predict_special_tokens": true, "resid_pdrop": 0.1, "summary_activation": null, "summary_type": "cls_index",
         "summary_use_proj": true, "task_specific_params": {"text-generation": {"do_sample": true}}, "vocab_size": 31})",
        R"({"model_type": "vit", "architectures": ["ViTForImageClassification"],)" + added + R"(
         "encoder_stride": 16, "hidden_act": "gelu", "hidden_size": 8, "image_size": 8, "intermediate_size": 12, "num_attention_heads": 2,
         "num_channels": 3, "num_hidden_layers": 1, "patch_size": 4, "pooler_act": "tanh", "pooler_output_size": 8, "qkv_bias": true})",
        R"({"model_type": "resnet", "architectures": ["ResNetForImageClassification"],)" + added + R"(
         "depths": [1, 1], "downsample_in_first_stage": false, "embedding_size": 8, "hidden_act": "relu", "hidden_sizes": [8, 16],
         "layer_type": "bottleneck", "num_channels": 3, "out_features": null, "out_indices": null, "stage_names": ["stem"]})"})
    EXPECT_EQ(error_of_config(text), "no error") << text;
}

TEST(PublishedConfigs, KeysThatChangeTheComputationAreErrors) {
  const auto error = [](const std::string& keys) {
    return error_of_config(R"({"model_type": "mistral", )" + keys + "}");
  };
  EXPECT_EQ(
      error(R"("quantization_config": {"bits": 4, "quant_method": "awq"})"),
      "config.json: quantization_config: quantized weights are not supported; give the model before its quantization");
  EXPECT_EQ(error(R"("pruned_heads": {"0": [1]})"),
            "config.json: pruned_heads must be empty: layers without some of their heads are not supported");
  EXPECT_EQ(error(R"("attention_bias": true)"), "config.json: attention_bias true is not supported; it must be false");
  EXPECT_EQ(
      error_of_config(R"({"model_type": "gpt2", "quantization_config": {"bits": 8}})"),
      "config.json: quantization_config: quantized weights are not supported; give the model before its quantization");
  EXPECT_EQ(error_of_config(R"({"model_type": "llama", "rope_interleaved": true})"),
            "config.json: rope_interleaved true is not supported; it must be false");
  EXPECT_EQ(error_of_config(R"({"model_type": "qwen2", "use_mrope": true})"),
            "config.json: use_mrope true is not supported; it must be false");
}

}  // namespace
}  // namespace tessera::nn
