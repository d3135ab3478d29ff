// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tessera/ir/program.h"

namespace tessera {

/// Every op that has a plain form (tessera/ops/plain_form.h) in that form. Shardings and names stay with the value.
Program plain_forms(const Program& program);

}  // namespace tessera
