// SPDX-License-Identifier: Apache-2.0
// Flags of which only one may be given.
#pragma once

#include "tessera/base/argument_parser.h"

namespace tessera::trainer {

/// Names the flags that exclude each other, so that a flag on the command line replaces the other one in a file with
/// flags. The checks of the arguments report two that a command line has.
void add_exclusions(ArgumentParser& parser);

}  // namespace tessera::trainer
