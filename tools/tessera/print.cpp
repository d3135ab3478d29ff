// SPDX-License-Identifier: Apache-2.0
#include "input.h"
#include "tessera/ir/text.h"

namespace tessera::command {
namespace {

int run(const Arguments& arguments) {
  const Program program = read_program(arguments);
  verify(program);
  write_text(arguments.value_or("o", "-"), print_program(program, {.for_xla = arguments.has("for-xla")}));
  return kGood;
}

std::vector<Option> options() {
  auto out = sharding_options();
  out.push_back({"o", "OUT.hlo", "where the program goes; default: standard output"});
  out.push_back({"for-xla", "", "leave out what XLA does not know"});
  return out;
}

}  // namespace

const Verb kPrint = {"print", "reads a program and prints it", "Reading the output again gives the same program.",
                     options(), run};

}  // namespace tessera::command
