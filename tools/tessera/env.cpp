// SPDX-License-Identifier: Apache-2.0
// `tessera env`: what a job that is started like this command would use.
#include "env.h"
#include "command_line.h"
#include "tessera/base/files.h"
#include "tessera/base/log.h"
#include "tessera/frontend/execution/environment.h"

namespace tessera::command {

int on_first_rank(const std::function<std::string()>& text) {
  char name[] = "tessera";
  char* words[] = {name, nullptr};
  return launch(1, words, [&](int, char**) {
    if (is_rank_zero()) write_standard_output(text());
    return kGood;
  });
}

std::string environment_text() { return version_text() + environment().str(); }

namespace {

int run_env(const Arguments&) { return on_first_rank(environment_text); }

}  // namespace

const Verb kEnv = {
    .name = "env",
    .about = "prints what a job uses: build, instruction set, ranks, memory, variables",
    .notes = "Start it as you start the job, with the same mpirun and the same environment variables. Rank 0 prints.",
    .options = {},
    .run = run_env,
    .input = "",
    .input_meaning = "",
    .needs_input = false};

}  // namespace tessera::command
