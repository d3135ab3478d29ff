// SPDX-License-Identifier: Apache-2.0
// Arguments in one text, as in --optim_args and --lr_scheduler_kwargs.
#pragma once

#include <string>
#include <vector>

#include "tessera/base/json_object.h"

namespace tessera::optim {

/// Reads a JSON object, or a list `name=value,name=value` of numbers, true, false and words. Errors call it `what`.
JsonObject named_arguments(const std::string& text, const std::string& what);
/// Error for a name that is not `known`: `owner` does not use it.
void require_known(const JsonObject& arguments, const std::vector<std::string>& known, const std::string& owner);

}  // namespace tessera::optim
