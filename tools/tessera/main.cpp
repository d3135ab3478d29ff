// SPDX-License-Identifier: Apache-2.0
#include "command_line.h"

#include <csignal>

#include "tessera/base/files.h"

int main(int argc, char** argv) {
  (void)std::signal(SIGXFSZ, SIG_IGN);  // a limit of the size of files is an error of write(), which names the file
  return tessera::status_after_output(tessera::command::run_command({argv + 1, argv + argc}));
}
