// SPDX-License-Identifier: Apache-2.0
// `tessera plan config.json --devices 8`: the meshes and shardings with which a model trains fastest. `tessera plan
// step.hlo --devices 8`: the same for a program.
#include <fmt/format.h>

#include <filesystem>

#include "input.h"
#include "plan_program.h"
#include "tessera/base/error.h"
#include "tessera/base/files.h"
#include "tessera/base/memory_limit.h"
#include "tessera/base/text.h"
#include "tessera/optim/factory.h"
#include "tessera/trainer/arguments.h"
#include "tessera/trainer/layout_search.h"
#include "tessera/trainer/published_table.h"

namespace tessera::command {
namespace {

constexpr std::int64_t kMostRows = 1 << 20;
constexpr std::int64_t kShown = 10;

trainer::LayoutSearchOptions search_options(const Arguments& arguments) {
  trainer::LayoutSearchOptions out;
  out.devices = devices_of(arguments, 1);
  trainer::TrainingArguments& training = out.arguments;
  training.config_name = arguments.input();
  training.config_overrides = arguments.value_or("config-overrides", "");
  training.global_batch_size = arguments.number_or("rows", out.devices);
  training.block_size = arguments.number_or("block-size", 0);
  training.bf16 = arguments.has("bf16");
  training.optim = arguments.value_or("optim", training.optim);
  if (const auto machine = machine_of(arguments)) out.machine = *machine;
  if (const auto memory = arguments.value("memory")) out.memory = parse_bytes(*memory, "--memory");
  return out;
}

// The options of the plan that are also flags of run_clm, and the name of the data.
std::string run_clm_flags(const trainer::TrainingArguments& arguments) {
  std::string out = "--config_name " + arguments.config_name;
  const auto add = [&out](const std::string& flag, const std::string& value) { out += " --" + flag + " " + value; };
  if (!arguments.config_overrides.empty()) add("config_overrides", arguments.config_overrides);
  add("train_file", "TEXT");
  if (arguments.block_size > 0) add("block_size", std::to_string(arguments.block_size));
  add("global_batch_size", std::to_string(*arguments.global_batch_size));
  if (arguments.optim != trainer::TrainingArguments().optim) add("optim", arguments.optim);
  return out + (arguments.bf16 ? " --bf16" : "");
}

// The best layout, as flags and as calls.
std::string advice(const trainer::LayoutSearchOptions& options, const trainer::LayoutPlan& best) {
  if (!best.fits)
    return fmt::format("no layout fits into the memory of a device; the least memory is {}, with {}\n",
                       format_bytes(static_cast<double>(best.cost.peak_bytes)), best.layout.flags());
  return fmt::format(
      "\nthe best layout with run_clm:\n  mpirun -np {} run_clm {} {}\n"
      "the same in a program of your own (storage of the parameters):\n{}",
      options.devices, run_clm_flags(options.arguments), best.layout.flags(),
      trainer::layout_calls(options, best.layout));
}

// A program is recognized by its text: a configuration is JSON.
bool is_program(const std::string& text) {
  const auto start = text.find_first_not_of(" \t\r\n");
  return start != std::string::npos && text[start] != '{';
}

int run_for_configuration(const Arguments& arguments) {
  if (arguments.has("axes"))
    throw UsageError(fmt::format("--axes is for a program; {} is the configuration of a model", arguments.input()));
  const trainer::LayoutSearchOptions options = search_options(arguments);
  const std::vector<trainer::LayoutPlan> plans = trainer::find_layouts(options);
  const auto shown = static_cast<std::size_t>(arguments.number_or("top", kShown));
  if (const auto json = arguments.value("json")) write_text(*json, trainer::layout_json(plans, shown));
  if (arguments.value_or("json", "") != "-")
    write_standard_output(fmt::format("{} meshes of {} devices{}, batch of {} rows, machine {}\n{}{}", plans.size(),
                                      options.devices, slice_note(arguments), *options.arguments.global_batch_size,
                                      options.machine.name(), trainer::layout_table(plans, shown),
                                      advice(options, plans.front())));
  return plans.front().fits ? kGood : kCheckFailed;
}

int run_for_published_table(const Arguments& arguments) {
  for (const char* name :
       {"devices", "axes", "rows", "block-size", "memory", "machine", "bf16", "optim", "config-overrides", "top"})
    if (arguments.has(name))
      throw UsageError(fmt::format("--table1 plans six published trainings; leave out --{}", name));
  const trainer::PublishedTable table = trainer::model_published_table();
  if (const auto json = arguments.value("json")) write_text(*json, table.json());
  if (arguments.value_or("json", "") != "-") write_standard_output(table.str());
  return kGood;
}

int run(const Arguments& arguments) {
  if (arguments.has("table1")) return run_for_published_table(arguments);
  const bool is_folder = std::filesystem::is_directory(arguments.input());
  const std::string text = is_folder ? "" : read_input(arguments);
  if (!is_program(text)) return run_for_configuration(arguments);
  for (const char* name : {"rows", "block-size", "bf16", "optim", "config-overrides"})
    if (arguments.has(name))
      throw UsageError(
          fmt::format("--{} is for the configuration of a model; {} is a program", name, arguments.input()));
  return plan_program(text, arguments);
}

}  // namespace

const Verb kPlan = {
    "plan",
    "finds the mesh and the shardings with which a model trains, or a program runs, fastest",
    "For a model: plans a training step for each mesh over data, fsdp, model and (for mixtures of experts) expert,\n"
    "without storage and without ranks. Prints the fastest layouts with their memory and with the time of computation\n"
    "and communication, and the flags of run_clm for the best one.\n"
    "For a program: chooses, for each mesh, the shardings of all values without annotation, as `tessera partition "
    "--auto`.\n"
    "Exit code 3: no layout fits into the memory.",
    {{"devices", "N|SLICE", "the number of devices, or the name of a slice of TPUs such as v4-64",
      device_count_or_slice()},
     {"axes", "N", "for a program: the largest number of axes of a mesh; default: 2", integer_in_range(1, 4)},
     {"rows", "N", "the rows of a batch over all devices; default: one for each device",
      integer_in_range(1, kMostRows)},
     {"block-size", "N",
      "the number of tokens in a row; default: the largest length that the model supports, but at most 1024",
      integer_in_range(1, kMostRows)},
     {"memory", "SIZE", "the memory of a device, as in 16GB; default: that of the machine, or no limit", byte_count()},
     machine_option(),
     {"bf16", "", "compute in bf16, with f32 weights"},
     {"optim", "NAME", "the optimizer, as in run_clm; default: adamw_torch",
      [](std::string_view, const std::string& value) { optim::check_optimizer(value, ""); }},
     {"config-overrides", "KEY=VALUE,..", "replace values of the configuration",
      [](std::string_view, const std::string& value) { (void)trainer::config_overrides_of(value); }},
     {"top", "N", "the number of layouts shown; default: 10", integer_in_range(1)},
     {"table1", "", "model the six published trainings of GPT-2 under FSDP on TPU v4 instead of an input"},
     {"json", "FILE", "write the layouts as JSON; - is standard output, instead of the table", {}, true}},
    run,
    "config.json|IN.hlo",
    "the configuration of a causal language model (gpt2, llama, mistral, qwen2, qwen3, mixtral), or a file of HLO text",
    /*takes_several=*/false,
    /*takes_program=*/false,
    "table1"};

}  // namespace tessera::command
