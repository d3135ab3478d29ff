// SPDX-License-Identifier: Apache-2.0
// Older names, flags of other programs, and errors of files.
#include <gtest/gtest.h>

#include "flags/intervals.h"
#include "support/temporary_folder.h"
#include "tessera/base/command_line.h"
#include "tessera/base/text.h"
#include "tessera/trainer/arguments.h"

namespace tessera::trainer {
namespace {

using ::tessera::testing::error_of;
using ::tessera::testing::TemporaryFolder;

TrainingArguments settled(std::vector<std::string> flags) {
  flags.insert(flags.begin(), {"run_clm", "--config_name", "c.json", "--train_file", "t.txt"});
  std::vector<const char*> words;
  for (const std::string& flag : flags) words.push_back(flag.c_str());
  return *parse_training_arguments(static_cast<int>(words.size()), words.data(), "run_clm", "");
}

TEST(Flags, OlderNamesMeanTheCurrentOnes) {
  const TrainingArguments a = settled({"--evaluation_strategy", "epoch", "--group_by_length", "--fsdp", "full_shard",
                                       "auto_wrap", "--warmup_ratio", "0.25"});
  EXPECT_EQ(a.eval_strategy + a.train_sampling_strategy + a.fsdp, "epochgroup_by_lengthfull_shard auto_wrap");
  EXPECT_EQ(a.warmup_count(10), 3);
  EXPECT_EQ(settled({"--warmup_ratio", "0.25", "--warmup_steps", "7"}).warmup_count(10), 7);
  EXPECT_EQ(error_of([] {
              settled({"--adafactor", "--optim", "sgd"});
            }),
            "--adafactor true and --optim sgd exclude each other");
}

TEST(Flags, HuggingFacesOtherFlagsAreNamedTogetherOrNoted) {
  EXPECT_EQ(error_of([] {
              settled({"--deepspeed", "d.json", "--push_to_hub", "--do_predict"});
            }),
            "flags of Hugging Face's programs do not exist here: --deepspeed (use --fsdp full_shard for ZeRO-3, --fsdp "
            "shard_grad_op for ZeRO-2), --push_to_hub (nothing is uploaded), --do_predict (only run_classification "
            "writes predictions; use --do_eval)");
  const TrainingArguments a =
      settled({"--tf32", "true", "--torch_compile", "--fp16_full_eval", "--ddp_backend", "gloo"});
  EXPECT_EQ(a.notes, (std::vector<std::string>{
                         "--tf32 true has no effect: CPUs compute in full float32",
                         "--torch_compile true has no effect: programs are always compiled",
                         "--fp16_full_eval true has no effect: an evaluation computes in the type of the training",
                         "--ddp_backend gloo has no effect: ranks communicate through shared memory and MPI"}));
}

// The fields of TrainingArguments in transformers 4.57 and 5.24, and some that older versions had.
std::vector<std::string> hugging_face_fields() {
  return split(
      "accelerator_config activation_checkpointing activation_checkpointing_kwargs adafactor adam_beta1 "
      "adam_beta2 adam_epsilon auto_find_batch_size average_tokens_across_devices batch_eval_metrics bf16 "
      "bf16_full_eval data_seed dataloader_drop_last dataloader_in_order dataloader_multiprocessing_context "
      "dataloader_num_workers dataloader_persistent_workers dataloader_pin_memory "
      "dataloader_prefetch_factor ddp_backend ddp_broadcast_buffers ddp_bucket_cap_mb "
      "ddp_find_unused_parameters ddp_static_graph ddp_timeout debug deepspeed disable_tqdm do_eval "
      "do_predict do_train enable_jit_checkpoint eval_accumulation_steps eval_delay eval_do_concat_batches "
      "eval_on_start eval_steps eval_strategy eval_use_gather_object fp16 fp16_backend fp16_full_eval "
      "fp16_opt_level fsdp fsdp_config fsdp_min_num_params fsdp_transformer_layer_cls_to_wrap "
      "full_determinism gradient_accumulation_steps gradient_checkpointing gradient_checkpointing_kwargs "
      "greater_is_better group_by_length half_precision_backend hub_always_push hub_model_id "
      "hub_private_repo hub_revision hub_strategy hub_token ignore_data_skip include_for_metrics "
      "include_inputs_for_metrics include_num_input_tokens_seen include_tokens_per_second jit_mode_eval "
      "label_names label_smoothing_factor learning_rate length_column_name liger_kernel_config "
      "load_best_model_at_end local_rank log_level log_level_replica log_on_each_node logging_dir "
      "logging_first_step logging_nan_inf_filter logging_steps logging_strategy lr_scheduler_kwargs "
      "lr_scheduler_type max_grad_norm max_steps metric_for_best_model mp_parameters neftune_noise_alpha "
      "no_cuda num_train_epochs optim optim_args optim_target_modules output_dir overwrite_output_dir "
      "parallelism_config past_index per_device_eval_batch_size per_device_train_batch_size "
      "per_gpu_eval_batch_size per_gpu_train_batch_size prediction_loss_only project push_to_hub "
      "push_to_hub_model_id push_to_hub_organization push_to_hub_token ray_scope remove_unused_columns "
      "report_to restore_callback_states_from_checkpoint resume_from_checkpoint run_name save_on_each_node "
      "save_only_model save_safetensors save_steps save_strategy save_total_limit seed skip_memory_metrics "
      "tf32 torch_compile torch_compile_backend torch_compile_mode torch_empty_cache_steps torchdynamo "
      "tpu_metrics_debug tpu_num_cores trackio_bucket_id trackio_space_id trackio_static_space_id "
      "train_sampling_strategy use_cache use_cpu use_legacy_prediction_loop use_liger_kernel use_mps_device "
      "warmup_ratio warmup_steps weight_decay"
      " dispatch_batches evaluate_during_training evaluation_strategy sharded_ddp use_ipex",
      ' ');
}

TEST(Flags, EveryFieldOfHuggingFacesArgumentsIsKnown) {
  for (const auto program : {TrainingProgram::kClm, TrainingProgram::kMlm, TrainingProgram::kClassification,
                             TrainingProgram::kImages, TrainingProgram::kModel}) {
    TrainingArguments arguments;
    arguments.program = program;
    ArgumentParser parser("program", "");
    arguments.add_flags(parser);
    for (const std::string& name : hugging_face_fields()) {
      const std::string error = error_of([&] { parser.parse({"--" + name, "word"}); });
      EXPECT_EQ(error.find("unknown option"), std::string::npos) << error;
    }
  }
}

TEST(Flags, ValuesOfHuggingFaceHaveTheirMeaningOrNameAReplacement) {
  const TrainingArguments a =
      settled({"--activation_checkpointing", "--per_gpu_train_batch_size", "3", "--per_gpu_eval_batch_size", "5",
               "--include_num_input_tokens_seen", "non_padding", "--fp16", "False", "--hub_private_repo", "false",
               "--label_names", "labels"});
  EXPECT_TRUE(a.gradient_checkpointing && a.include_num_input_tokens_seen);
  EXPECT_EQ(a.per_device_train_batch_size, 3);
  EXPECT_EQ(a.per_device_eval_batch_size, 5);
  EXPECT_EQ(a.notes, std::vector<std::string>());
  EXPECT_FALSE(settled({"--include_num_input_tokens_seen", "no"}).include_num_input_tokens_seen);
  const auto error = [](const std::string& flag, const std::string& value) {
    return error_of([&] { settled({"--" + flag, value}); });
  };
  EXPECT_TRUE(settled({"--fp16"}).fp16);
  EXPECT_EQ(error_of([&] { settled({"--fp16", "--bf16"}); }), "--bf16 and --fp16 exclude each other");
  EXPECT_EQ(error("dtype", "float16"),
            "--dtype float16: weights are stored in float32 or float64; to compute in float16, give --fp16");
  EXPECT_EQ(error("dtype", "bfloat16"),
            "--dtype bfloat16: weights are stored in float32 or float64; to compute in bfloat16, give --bf16");
  EXPECT_EQ(settled({"--gradient_checkpointing_kwargs", R"({"use_reentrant": false})"}).notes,
            std::vector<std::string>());
  EXPECT_EQ(
      settled({"--activation_checkpointing_kwargs", R"({"every_n_layers": 2})"}).notes,
      std::vector<std::string>{
          R"(--activation_checkpointing_kwargs {"every_n_layers": 2} has no effect: blocks keep only their inputs; )"
          "to recompute less, use --max_memory_per_rank"});
}

TEST(Flags, TheLogIsWrittenAsReportToSays) {
  EXPECT_FALSE(settled({}).reports_to("jsonl"));
  EXPECT_TRUE(settled({"--logging_dir", "d"}).reports_to("jsonl"));
  const TrainingArguments two = settled({"--logging_dir", "d", "--report_to", "csv", "tensorboard"});
  EXPECT_TRUE(two.reports_to("csv") && two.reports_to("tensorboard") && !two.reports_to("jsonl"));
  EXPECT_TRUE(settled({"--logging_dir", "d", "--report_to"}).reports_to("csv"));
  EXPECT_FALSE(settled({"--logging_dir", "d", "--report_to", "none"}).reports_to("jsonl"));
  EXPECT_EQ(
      error_of([] {
        settled({"--report_to", "wandb"});
      }),
      "--report_to wandb: there is no such value; known: none, jsonl, csv, tensorboard, all; reports are files in "
      "--logging_dir, and nothing is uploaded");
  EXPECT_EQ(error_of([] {
              settled({"--report_to", "csv"});
            }),
            "--report_to csv needs --logging_dir, the folder of the files");
}

TEST(Flags, EvaluationsThatNothingNeedsAreRefused) {
  EXPECT_EQ(error_of([] {
              settled({"--early_stopping_patience", "2"});
            }),
            "--early_stopping_patience needs evaluations: --eval_strategy steps or epoch");
  EXPECT_EQ(error_of([] {
              settled({"--save_strategy", "best", "--eval_strategy", "steps"});
            }),
            "--save_strategy best needs --output_dir");
  EXPECT_EQ(error_of([] { settled({"--early_stopping_patience", "2", "--eval_strategy", "steps"}); }), "no error");
}

TEST(Flags, IntervalsBelowOneAreFractionsOfAllUpdates) {
  const TrainingArguments a = settled({"--save_steps", "0.5", "--eval_steps", "0.25", "--logging_steps", "7"});
  const Intervals of = Intervals::of(a, 10);
  EXPECT_EQ(of.save, 5);
  EXPECT_EQ(of.evaluate, 3);
  EXPECT_EQ(of.log, 7);
  EXPECT_EQ(Intervals::of(a, 1).evaluate, 1);
  EXPECT_EQ(Intervals::of(settled({"--save_steps", "0.07"}), 100).save, 7) << "0.07 * 100 is above 7";
  for (const char* wrong : {"0", "-1", "2.5"})
    EXPECT_EQ(error_of([&] {
                settled({"--save_steps", wrong});
              }),
              fmt::format("--save_steps must be a whole number of updates, or a fraction of all updates above 0 and "
                          "below 1, got {}",
                          wrong));
}

TEST(Flags, TheBestModelNeedsAnEvaluationAtEachCheckpoint) {
  std::vector<std::string> flags = {"--load_best_model_at_end",
                                    "true",
                                    "--output_dir",
                                    "o",
                                    "--eval_strategy",
                                    "steps",
                                    "--save_steps",
                                    "0.5",
                                    "--eval_steps",
                                    "0.25"};
  EXPECT_EQ(error_of([&] { (void)Intervals::of(settled(flags), 10); }),
            "--load_best_model_at_end needs --save_steps to be a multiple of --eval_steps; in this run of 10 updates "
            "they are 5 and 3");
  EXPECT_EQ(Intervals::of(settled(flags), 8).save, 4);
}

TEST(Flags, TheBatchIsSearchedOnlyIfItMayBeLowered) {
  EXPECT_TRUE(settled({"--auto_find_batch_size", "--per_device_train_batch_size", "64"}).auto_find_batch_size);
  EXPECT_EQ(error_of([] {
              settled({"--auto_find_batch_size", "--global_batch_size", "8"});
            }),
            "--auto_find_batch_size lowers --per_device_train_batch_size, so it excludes --global_batch_size 8");
  EXPECT_EQ(error_of([] {
              settled({"--auto_find_batch_size", "--auto_shard"});
            }),
            "--auto_find_batch_size and --auto_shard exclude each other: a layout is chosen for a given batch");
  TrainingArguments of_trainer;
  of_trainer.program = TrainingProgram::kModel;
  of_trainer.auto_find_batch_size = true;
  EXPECT_EQ(error_of([&] { of_trainer.check(); }),
            "--auto_find_batch_size works only in the training programs, which make the model themselves; a Trainer is "
            "given a model");
}

TEST(Flags, InitializationIsAlwaysDeferred) {
  EXPECT_TRUE(settled({"--deferred_init"}).deferred_init);
  EXPECT_TRUE(settled({"--deferred_init", "true"}).deferred_init);
  EXPECT_EQ(error_of([] {
              settled({"--deferred_init", "false"});
            }),
            "--deferred_init false is not supported: each rank always creates only its shards of the parameters, at "
            "their first use; leave out the flag");
}

// ---- errors ---------------------------------------------------------------------------------------------------------------

// Returns the exit code of a program with this error, and the error.
std::string outcome_of(const std::vector<std::string>& flags) {
  try {
    settled(flags);
  } catch (const std::exception& error) {
    return fmt::format("{} {}", exit_code_of(error), error.what());
  }
  return "0";
}

TEST(Flags, AWrongValueIsAnErrorOfTheCommandLineThatNamesTheFlag) {
  EXPECT_EQ(outcome_of({"--config_overrides", "n_head"}),
            "2 --config_overrides: \"n_head\" must have the form key=value");
  EXPECT_EQ(outcome_of({"--config_overrides", "n_head=3,text=a b"}), "0");
  const auto expect_begin = [](const std::vector<std::string>& flags, std::string_view begin) {
    EXPECT_TRUE(outcome_of(flags).starts_with(begin)) << outcome_of(flags);
  };
  expect_begin({"--model_type", "foo"}, "2 --model_type: there is no model of model_type \"foo\"; ");
  EXPECT_EQ(outcome_of({"--auto_shard", "cpu-nod"}),
            "2 --auto_shard: there is no machine profile \"cpu-nod\": give a file that `tessera calibrate` wrote, or a "
            "preset; did you mean \"cpu-node\"?");
  EXPECT_EQ(outcome_of({"--tensor_parallel", "model", "--fsdp"}),
            "2 --tensor_parallel: the default mesh fsdp=-1 has no axis \"model\"; give a mesh with this axis, such as "
            "--mesh fsdp=-1,model=2");
  EXPECT_EQ(outcome_of({"--tensor_parallel", "data"}), "0");
  expect_begin({"--fsdp", "full_shard", "--fsdp_config", R"({"a": 1})"}, "2 --fsdp_config: unknown key \"a\"");
  expect_begin({"--fsdp", "full_shard", "--fsdp_config", R"({"a")"}, "2 --fsdp_config: not JSON ");
  EXPECT_EQ(outcome_of({"--max_steps", "many"}), "2 --max_steps takes an integer, got \"many\"");
}

TEST(Flags, AFileThatIsWrongIsAnErrorOfTheInput) {
  const TemporaryFolder folder;
  const std::string absent = folder.file("absent.json");
  EXPECT_EQ(outcome_of({"--config_file", absent}),
            fmt::format("1 --config_file: cannot read {}: No such file or directory", absent));
  const std::string wrong = folder.write("a.yaml", "mixed_precision: fp8\n");
  EXPECT_EQ(outcome_of({"--config_file", wrong}),
            fmt::format("1 --config_file: {}: mixed_precision must be no, bf16 or fp16, got fp8", wrong));
  ArgumentParser parser("run_clm", "");
  TrainingArguments arguments;
  arguments.add_flags(parser);
  const auto code_of = [&](const std::string& path) {
    try {
      parser.parse(std::vector<std::string>{path});
    } catch (const std::exception& error) {
      return exit_code_of(error);
    }
    return 0;
  };
  EXPECT_EQ(code_of(absent), 1);
  EXPECT_EQ(code_of(folder.write("text.json", "{")), 1);
  EXPECT_EQ(code_of(folder.write("flags.json", R"({"max_stepz": 5})")), 2);
  EXPECT_EQ(code_of(folder.write("values.json", R"({"max_steps": "many"})")), 2);
}

}  // namespace
}  // namespace tessera::trainer
