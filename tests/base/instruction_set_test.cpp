// SPDX-License-Identifier: Apache-2.0
#include "tessera/base/instruction_set.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/base/options.h"

namespace tessera {
namespace {

struct WithIsa {
  explicit WithIsa(const std::string& name) : before(options().text("TESSERA_ISA")) {
    options().set("TESSERA_ISA", name);
  }
  ~WithIsa() { options().set("TESSERA_ISA", before); }
  WithIsa(const WithIsa&) = delete;
  WithIsa& operator=(const WithIsa&) = delete;
  std::string before;
};

TEST(InstructionSet, IsTheNamedOneOrTheBest) {
  {
    const WithIsa none("");
    EXPECT_EQ(instruction_set(), best_instruction_set());
  }
  for (std::size_t i = 0; i < kInstructionSetNames.size(); ++i) {
    const WithIsa named{std::string(kInstructionSetNames[i])};
    const auto set = static_cast<InstructionSet>(i);
    EXPECT_EQ(instruction_set_name(set), kInstructionSetNames[i]);
    if (set <= best_instruction_set())
      EXPECT_EQ(instruction_set(), set);
    else
      EXPECT_FALSE(find_instruction_set());
  }
}

TEST(InstructionSet, AnUnknownNameIsAnError) {
  const WithIsa wrong("avx513");
  EXPECT_FALSE(find_instruction_set());
  try {
    (void)instruction_set();
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "TESSERA_ISA=avx513: unknown instruction set; did you mean \"avx512\"?");
  }
}

}  // namespace
}  // namespace tessera
