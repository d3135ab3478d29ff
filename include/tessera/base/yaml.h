// SPDX-License-Identifier: Apache-2.0
// Configuration files in YAML, such as those of Accelerate, read with libyaml.
#pragma once

#include <string>
#include <string_view>

#include "tessera/base/json_object.h"

namespace tessera {

/// Reads a YAML mapping as a JSON object. Plain scalars become null, true, false and numbers as in YAML 1.2; all other
/// scalars are strings. Anchors and merge keys are errors. Error, with `origin`, line, column and reason, if the text
/// is not YAML, has several documents, or is not a mapping whose keys are strings.
JsonObject parse_yaml(std::string_view text, const std::string& origin);
/// The same for a file. FileError if it cannot be read, or is not such a text.
JsonObject yaml_from_file(const std::string& path);

}  // namespace tessera
