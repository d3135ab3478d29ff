// SPDX-License-Identifier: Apache-2.0
// Optimizers by the names of Hugging Face's --optim.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/optim/optimizer.h"

namespace tessera::optim {

/// The arguments of all optimizers, with Hugging Face's defaults.
struct OptimizerSettings {
  double learning_rate = 5e-5;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  std::string arguments{};  // --optim_args: "momentum=0.9,nesterov=true" (docs/reference/optimizers.md)
};

/// The names that make_optimizer() accepts.
std::vector<std::string> optimizer_names();
/// Makes the optimizer `name`. The weight decay is that of each group. `muon` uses AdamW for parameters that are not
/// matrices and for groups with use_muon = false. Errors: those of check_optimizer().
std::unique_ptr<Optimizer> make_optimizer(std::string_view name, std::vector<ParameterGroup> groups,
                                          const OptimizerSettings& settings);
/// Checks a name and its arguments. Errors: an unknown name (with the nearest one); an optimizer that Hugging Face has,
/// but Tessera does not; an argument that the optimizer does not use (with those that it uses); a value of another
/// type.
void check_optimizer(std::string_view name, const std::string& arguments);

/// Whether the optimizer computes the learning rate itself, and ignores that of the settings: Adafactor with the
/// argument relative_step. Errors: those of check_optimizer().
bool computes_rate(std::string_view name, const std::string& arguments);
/// The fields of OptimizerSettings that the optimizer uses in addition to the learning rate: `beta1`, `beta2`,
/// `epsilon`. Error for an unknown name.
std::vector<std::string> settings_of(std::string_view name);

}  // namespace tessera::optim
