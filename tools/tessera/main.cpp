// SPDX-License-Identifier: Apache-2.0
#include "command_line.h"

int main(int argc, char** argv) { return tessera::command::run_command({argv + 1, argv + argc}); }
