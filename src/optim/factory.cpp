// SPDX-License-Identifier: Apache-2.0
#include "tessera/optim/factory.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "named_arguments.h"
#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/optim/adadelta.h"
#include "tessera/optim/adafactor.h"
#include "tessera/optim/adagrad.h"
#include "tessera/optim/adamax.h"
#include "tessera/optim/combined_optimizer.h"
#include "tessera/optim/lion.h"
#include "tessera/optim/muon.h"
#include "tessera/optim/nadam.h"
#include "tessera/optim/radam.h"
#include "tessera/optim/rmsprop.h"

namespace tessera::optim {
namespace {

using Groups = std::vector<ParameterGroup>;
using Maker = std::function<std::unique_ptr<Optimizer>(Groups)>;
using Arguments = std::vector<std::string>;

StateFormat state_format(const JsonObject& json, StateFormat standard) {
  std::string name;
  return json.read("state_dtype", name) ? state_format_from_name(name) : standard;
}

const Arguments kAdamArguments{"beta1", "beta2", "eps", "amsgrad", "state_dtype"};

// The options that Adam has in common with its variants.
template <class Options>
Options betas_and_epsilon(const JsonObject& json, const OptimizerSettings& settings, StateFormat format) {
  Options out{.learning_rate = settings.learning_rate,
              .beta1 = settings.beta1,
              .beta2 = settings.beta2,
              .epsilon = settings.epsilon};
  json.read("beta1", out.beta1);
  json.read("beta2", out.beta2);
  json.read("eps", out.epsilon);
  out.state_format = state_format(json, format);
  return out;
}

AdamWOptions adam_options(const JsonObject& json, const OptimizerSettings& settings, StateFormat format) {
  auto out = betas_and_epsilon<AdamWOptions>(json, settings, format);
  json.read("amsgrad", out.amsgrad);
  return out;
}

template <class Adams>
Maker adam(const JsonObject& json, const OptimizerSettings& settings, StateFormat format) {
  return [options = adam_options(json, settings, format)](Groups groups) {
    return std::make_unique<Adams>(std::move(groups), options);
  };
}

Maker sgd(const JsonObject& json, const OptimizerSettings& settings, StateFormat format) {
  SgdOptions options{.learning_rate = settings.learning_rate};
  json.read("momentum", options.momentum);
  json.read("dampening", options.dampening);
  json.read("nesterov", options.nesterov);
  options.state_format = state_format(json, format);
  return [options](Groups groups) { return std::make_unique<SGD>(std::move(groups), options); };
}

Maker lion(const JsonObject& json, const OptimizerSettings& settings, StateFormat format) {
  LionOptions options{.learning_rate = settings.learning_rate, .beta1 = settings.beta1, .beta2 = settings.beta2};
  json.read("beta1", options.beta1);
  json.read("beta2", options.beta2);
  options.state_format = state_format(json, format);
  return [options](Groups groups) { return std::make_unique<Lion>(std::move(groups), options); };
}

Maker adamax(const JsonObject& json, const OptimizerSettings& settings, StateFormat format) {
  return [options = betas_and_epsilon<AdamaxOptions>(json, settings, format)](Groups groups) {
    return std::make_unique<Adamax>(std::move(groups), options);
  };
}

Maker nadam(const JsonObject& json, const OptimizerSettings& settings, StateFormat format) {
  auto options = betas_and_epsilon<NAdamOptions>(json, settings, format);
  json.read("momentum_decay", options.momentum_decay);
  json.read("decoupled_weight_decay", options.decoupled_weight_decay);
  return [options](Groups groups) { return std::make_unique<NAdam>(std::move(groups), options); };
}

Maker radam(const JsonObject& json, const OptimizerSettings& settings, StateFormat format) {
  auto options = betas_and_epsilon<RAdamOptions>(json, settings, format);
  json.read("decoupled_weight_decay", options.decoupled_weight_decay);
  return [options](Groups groups) { return std::make_unique<RAdam>(std::move(groups), options); };
}

// As in Hugging Face's Trainer, the flags of Adam do not change these three.
Maker adagrad(const JsonObject& json, const OptimizerSettings& settings, StateFormat format) {
  AdagradOptions options{.learning_rate = settings.learning_rate};
  json.read("lr_decay", options.lr_decay);
  json.read("initial_accumulator_value", options.initial_accumulator_value);
  json.read("eps", options.epsilon);
  options.state_format = state_format(json, format);
  return [options](Groups groups) { return std::make_unique<Adagrad>(std::move(groups), options); };
}

Maker rmsprop(const JsonObject& json, const OptimizerSettings& settings, StateFormat format) {
  RMSpropOptions options{.learning_rate = settings.learning_rate};
  json.read("alpha", options.alpha);
  json.read("eps", options.epsilon);
  json.read("momentum", options.momentum);
  json.read("centered", options.centered);
  options.state_format = state_format(json, format);
  return [options](Groups groups) { return std::make_unique<RMSprop>(std::move(groups), options); };
}

Maker adadelta(const JsonObject& json, const OptimizerSettings& settings, StateFormat format) {
  AdadeltaOptions options{.learning_rate = settings.learning_rate};
  json.read("rho", options.rho);
  json.read("eps", options.epsilon);
  options.state_format = state_format(json, format);
  return [options](Groups groups) { return std::make_unique<Adadelta>(std::move(groups), options); };
}

// Hugging Face's Trainer sets scale_parameter and relative_step to false.
Maker adafactor(const JsonObject& json, const OptimizerSettings& settings, StateFormat format) {
  AdafactorOptions options{.scale_parameter = false, .relative_step = false};
  json.read("scale_parameter", options.scale_parameter);
  json.read("relative_step", options.relative_step);
  json.read("warmup_init", options.warmup_init);
  json.read("clip_threshold", options.clip_threshold);
  json.read("decay_rate", options.decay_rate);
  json.read("beta1", options.beta1);
  json.read("eps1", options.epsilon1);
  json.read("eps2", options.epsilon2);
  options.state_format = state_format(json, format);
  if (!options.relative_step) options.learning_rate = settings.learning_rate;
  return [options](Groups groups) { return std::make_unique<Adafactor>(std::move(groups), options); };
}

// The groups with the parameters that `takes` selects.
template <class F>
Groups selected(const Groups& groups, F&& takes) {
  Groups out;
  for (const ParameterGroup& group : groups) {
    ParameterGroup own = group;
    std::erase_if(own.parameters, [&](const Tensor& parameter) { return !takes(group, parameter); });
    if (!own.parameters.empty()) out.push_back(std::move(own));
  }
  return out;
}

std::unique_ptr<Optimizer> muon_and_adamw(const Groups& groups, const MuonOptions& options,
                                          const AdamWOptions& others) {
  const auto is_hidden = [](const ParameterGroup& group, const Tensor& parameter) {
    return group.use_muon.value_or(true) && Muon::accepts(parameter);
  };
  Groups matrices = selected(groups, is_hidden);
  Groups rest =
      selected(groups, [&](const auto& group, const auto& parameter) { return !is_hidden(group, parameter); });
  std::vector<std::unique_ptr<Optimizer>> parts;
  if (!matrices.empty()) parts.push_back(std::make_unique<Muon>(std::move(matrices), options));
  if (!rest.empty()) parts.push_back(std::make_unique<AdamW>(std::move(rest), others));
  return std::make_unique<CombinedOptimizer>(std::move(parts));
}

Maker muon(const JsonObject& json, const OptimizerSettings& settings, StateFormat format) {
  MuonOptions options{.learning_rate = settings.learning_rate};
  AdamWOptions others = adam_options(json, settings, format);
  std::string rule = "original";
  std::string dtype;
  json.read("momentum", options.momentum);
  json.read("nesterov", options.nesterov);
  json.read("ns_steps", options.ns_steps);
  json.read("adjust_lr_fn", rule);
  json.read("adamw_lr", others.learning_rate);
  if (json.read("ns_dtype", dtype)) {
    require(dtype == "bfloat16" || dtype == "float32", "ns_dtype must be bfloat16 or float32, got {}", dtype);
    if (dtype == "bfloat16") options.ns_dtype = DType::kBF16;
  }
  options.adjust_lr_fn = muon_rate_rule_from_name(rule);
  options.state_format = others.state_format;
  return [options, others](const Groups& groups) { return muon_and_adamw(groups, options, others); };
}

const Arguments kNoSettings{};
const Arguments kBetas{"beta1", "beta2"};
const Arguments kAdamSettings{"beta1", "beta2", "epsilon"};

struct OptimizerRow {
  std::vector<std::string> names;
  Arguments arguments;
  Maker (*read)(const JsonObject&, const OptimizerSettings&, StateFormat);
  Arguments settings;  // of OptimizerSettings that it uses
  StateFormat format = StateFormat::kFull;
};

const std::vector<OptimizerRow>& optimizer_rows() {
  static const Arguments kLionArguments{"beta1", "beta2", "state_dtype"};
  static const Arguments kRmspropArguments{"alpha", "eps", "momentum", "centered", "state_dtype"};
  static const std::vector<OptimizerRow> kRows{
      {{"adamw_torch", "adamw_torch_fused", "adamw_torch_xla", "paged_adamw_32bit"},
       kAdamArguments,
       adam<AdamW>,
       kAdamSettings},
      {{"adamw_anyprecision"}, kAdamArguments, adam<AdamW>, kAdamSettings, StateFormat::kBF16},
      {{"adamw_torch_8bit", "adamw_8bit", "adamw_bnb_8bit", "paged_adamw_8bit"},
       kAdamArguments,
       adam<AdamW>,
       kAdamSettings,
       StateFormat::kInt8},
      {{"adam"}, kAdamArguments, adam<Adam>, kAdamSettings},
      {{"adamax"}, {"beta1", "beta2", "eps", "state_dtype"}, adamax, kAdamSettings},
      {{"nadam"},
       {"beta1", "beta2", "eps", "momentum_decay", "decoupled_weight_decay", "state_dtype"},
       nadam,
       kAdamSettings},
      {{"radam"}, {"beta1", "beta2", "eps", "decoupled_weight_decay", "state_dtype"}, radam, kAdamSettings},
      {{"adagrad"}, {"lr_decay", "initial_accumulator_value", "eps", "state_dtype"}, adagrad, kNoSettings},
      {{"rmsprop", "rmsprop_bnb", "rmsprop_bnb_32bit"}, kRmspropArguments, rmsprop, kNoSettings},
      {{"rmsprop_bnb_8bit"}, kRmspropArguments, rmsprop, kNoSettings, StateFormat::kInt8},
      {{"adadelta"}, {"rho", "eps", "state_dtype"}, adadelta, kNoSettings},
      {{"adafactor"},
       {"scale_parameter", "relative_step", "warmup_init", "clip_threshold", "decay_rate", "beta1", "eps1", "eps2",
        "state_dtype"},
       adafactor,
       kNoSettings},
      {{"sgd"}, {"momentum", "dampening", "nesterov", "state_dtype"}, sgd, kNoSettings},
      {{"lion", "lion_32bit", "paged_lion_32bit"}, kLionArguments, lion, kBetas},
      {{"lion_8bit", "paged_lion_8bit"}, kLionArguments, lion, kBetas, StateFormat::kInt8},
      {{"muon"},
       {"momentum", "nesterov", "ns_steps", "ns_dtype", "adjust_lr_fn", "adamw_lr", "beta1", "beta2", "eps", "amsgrad",
        "state_dtype"},
       muon,
       kAdamSettings},
  };
  return kRows;
}

// Those of transformers 5 that Tessera does not have.
const std::vector<std::string>& other_names() {
  static const std::vector<std::string> kNames{"adamw_torch_npu_fused",
                                               "adamw_torch_4bit",
                                               "ademamix",
                                               "ademamix_8bit",
                                               "paged_ademamix_32bit",
                                               "paged_ademamix_8bit",
                                               "galore_adamw",
                                               "galore_adamw_8bit",
                                               "galore_adafactor",
                                               "galore_adamw_layerwise",
                                               "galore_adamw_8bit_layerwise",
                                               "galore_adafactor_layerwise",
                                               "lomo",
                                               "adalomo",
                                               "grokadamw",
                                               "schedule_free_radam",
                                               "schedule_free_adamw",
                                               "schedule_free_sgd",
                                               "apollo_adamw",
                                               "apollo_adamw_layerwise",
                                               "stable_adamw"};
  return kNames;
}

const OptimizerRow& row_of(const std::string& name) {
  for (const auto& row : optimizer_rows())
    if (std::ranges::find(row.names, name) != row.names.end()) return row;
  require(std::ranges::find(other_names(), name) == other_names().end(),
          "Tessera does not have the optimizer {} of Hugging Face; it has {}", name,
          fmt::join(optimizer_names(), ", "));
  fail("unknown optimizer {}{}", name, suggest_name(name, optimizer_names()));
}

Maker maker_of(const std::string& name, const OptimizerSettings& settings) {
  const OptimizerRow& row = row_of(name);
  const JsonObject json = named_arguments(settings.arguments, "optim_args");
  require_known(json, row.arguments, "the optimizer " + name);
  return row.read(json, settings, row.format);
}

}  // namespace

std::vector<std::string> optimizer_names() {
  std::vector<std::string> out;
  for (const auto& row : optimizer_rows()) out.insert(out.end(), row.names.begin(), row.names.end());
  return out;
}

std::unique_ptr<Optimizer> make_optimizer(std::string_view name, std::vector<ParameterGroup> groups,
                                          const OptimizerSettings& settings) {
  return maker_of(std::string(name), settings)(std::move(groups));
}

void check_optimizer(std::string_view name, const std::string& arguments) {
  (void)maker_of(std::string(name), {.arguments = arguments});
}

bool computes_rate(std::string_view name, const std::string& arguments) {
  check_optimizer(name, arguments);
  bool computes = false;  // only Adafactor has the argument
  named_arguments(arguments, "optim_args").read("relative_step", computes);
  return computes;
}

std::vector<std::string> settings_of(std::string_view name) { return row_of(std::string(name)).settings; }

}  // namespace tessera::optim
