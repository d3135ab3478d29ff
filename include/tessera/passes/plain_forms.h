// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tessera/ir/program.h"

namespace tessera {

/// Replaces every op by its plain form (tessera/ops/plain_form.h), if it has one. The value keeps its sharding and
/// name.
Program plain_forms(const Program& program);

}  // namespace tessera
