// SPDX-License-Identifier: Apache-2.0
// The channels that new collectives get.
#include <gtest/gtest.h>

#include <set>

#include "tessera/base/error.h"
#include "tessera/ir/text.h"
#include "tessera/ops/collectives.h"
#include "tessera/ops/op_table.h"
#include "tessera/partitioner/pipeline/partition.h"

namespace tessera {
namespace {

Program with_sends(const std::string& channel) {
  return parse_program(fmt::format(R"(HloModule m, num_partitions=2
ENTRY main {{
  x = f32[6,4] parameter(0), sharding={{devices=[2,1]<=[2]}}
  token = token[] after-all()
  sent = (f32[6,4], u32[], token[]) send(x, token), channel_id=1
  done = token[] send-done(sent), channel_id=1
  got = (f32[3], u32[], token[]) recv(done), channel_id={0}
  data = (f32[3], token[]) recv-done(got), channel_id={0}
  ROOT y = f32[6,4] copy(x), sharding={{devices=[1,2]<=[2]}}
}})",
                                   channel),
                       op_table());
}

TEST(Channels, CollectivesUseChannelsAboveThoseOfSendsAndReceives) {
  const Program made = partition(with_sends("7")).program;
  std::multiset<std::int64_t> taken;
  for (const Instruction& instruction : made.entry_computation().instructions) {
    if (instruction.op->role != Role::kCollective) continue;
    const auto all = instruction.attributes->texts();
    for (const TextAttribute& one : all)
      if (one.name == "channel_id") taken.insert(std::stoll(one.text));
  }
  ASSERT_EQ(taken.size(), 2U) << print_program(made);  // x is gathered for the send, and resharded for the result
  EXPECT_EQ(taken, (std::multiset<std::int64_t>{8, 9})) << print_program(made);
}

TEST(Channels, AnInvalidOrTooLargeChannelIsAnError) {
  const auto message = [](const std::string& channel) -> std::string {
    try {
      (void)partition(with_sends(channel));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const std::string word = message("seven");
  EXPECT_NE(word.find("%got: channel_id: expected an integer, got \"seven\""), std::string::npos) << word;
  const std::string last = message("9223372036854775807");
  EXPECT_NE(last.find("channel_id=9223372036854775807 leaves too few channels above it"), std::string::npos) << last;
}

}  // namespace
}  // namespace tessera
