// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "tessera/nn/module.h"

namespace tessera::nn {

/// Puts modules under a common name, as the files of a model require: `dense` and `LayerNorm` under `output`. It has no
/// parameters and no forward() of its own.
class ModuleGroup : public Module {
 public:
  /// The children must outlive the group.
  ModuleGroup(std::string class_name, std::initializer_list<std::pair<const char*, Module*>> children)
      : class_name_(std::move(class_name)) {
    for (const auto& [name, child] : children) add_module(name, *child);
  }
  [[nodiscard]] std::string_view class_name() const override { return class_name_; }
  [[nodiscard]] bool is_container() const override { return true; }

 private:
  std::string class_name_;
};

}  // namespace tessera::nn
