// SPDX-License-Identifier: Apache-2.0
#include "command_line.h"

#include "tessera/base/files.h"

int main(int argc, char** argv) {
  return tessera::status_after_output(tessera::command::run_command({argv + 1, argv + argc}));
}
