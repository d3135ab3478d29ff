// SPDX-License-Identifier: Apache-2.0
#include "tessera/base/command_line.h"

#include <gtest/gtest.h>

#include "support/temporary_folder.h"

namespace tessera {
namespace {

using testing::error_of;
using Value = OptionSyntax::Value;

const std::vector<OptionSyntax>& known_options() {
  static const std::vector<OptionSyntax> kOptions = {{"max_steps"},
                                                     {"fast", Value::kOptional},
                                                     {"explain", Value::kNone},
                                                     {"o", Value::kRequired, "FILE"},
                                                     {"num-partitions"}};
  return kOptions;
}

// Returns `name(value)` for each option, `name` for an option without a value, and positional words unchanged.
std::string read(const std::vector<std::string>& words) {
  const CommandWords found = read_command_words(words, known_options());
  std::string out;
  for (const auto& [name, value] : found.options) out += name + (value ? "(" + *value + ") " : " ");
  for (const std::string& word : found.positional) out += word + " ";
  return out;
}

TEST(CommandLine, AValueFollowsItsOptionOrAnEqualsSign) {
  EXPECT_EQ(read({"--max_steps", "5", "--max-steps=6", "x.hlo"}), "max_steps(5) max_steps(6) x.hlo ");
  EXPECT_EQ(read({"-o", "f", "-o=g", "-"}), "o(f) o(g) - ");
  EXPECT_EQ(read({"--num_partitions=", "--max_steps", ""}), "num-partitions() max_steps() ");
}

TEST(CommandLine, AValueMayStartWithADashUnlessItNamesAnOption) {
  EXPECT_EQ(read({"--max_steps", "-1", "--num-partitions", "-,model", "--max_steps", "--unknown"}),
            "max_steps(-1) num-partitions(-,model) max_steps(--unknown) ");
  EXPECT_EQ(error_of([] { read({"--max_steps", "--fast"}); }), "--max_steps needs a value");
  EXPECT_EQ(error_of([] { read({"--max_steps", "-o", "f"}); }), "--max_steps needs a value");
}

TEST(CommandLine, AnOptionalValueIsTakenFromTheNextWord) {
  EXPECT_EQ(read({"--fast", "--explain"}), "fast explain ");
  EXPECT_EQ(read({"--fast", "full shard", "--fast=no", "--fast"}), "fast(full shard) fast(no) fast ");
}

TEST(CommandLine, MistakesAreUsageErrors) {
  EXPECT_THROW(read({"--max_step", "5"}), UsageError);
  EXPECT_EQ(error_of([] { read({"--max_step", "5"}); }), "unknown option --max_step; did you mean \"--max_steps\"?");
  EXPECT_EQ(error_of([] { read({"--zzzzzzzzzz=1"}); }), "unknown option --zzzzzzzzzz; --help lists the options");
  EXPECT_EQ(error_of([] {
              read({"--zzzzzzzzzz", "1", "--max_step", "5", "-q", "--num_partition"});
            }),
            "unknown options --zzzzzzzzzz, --max_step (did you mean \"--max_steps\"?), --num_partition (did you mean "
            "\"--num-partitions\"?); --help lists the options")
      << "-q may be a value";
  EXPECT_EQ(error_of([] { read({"x.hlo", "-q"}); }), "unknown option -q; did you mean \"-o\"?");
  EXPECT_EQ(error_of([] { read({"--explain=3"}); }), "--explain takes no value");
  EXPECT_EQ(error_of([] { read({"-o"}); }), "-o needs FILE");
}

}  // namespace
}  // namespace tessera
