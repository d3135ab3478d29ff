// SPDX-License-Identifier: Apache-2.0
#include "clm/fake_tokens.h"

#include "tessera/base/text.h"

namespace tessera::trainer {

data::Arrays FakeTokens::get_part(std::int64_t i, Interval part) const {
  Literal tokens(Type::array(DType::kS32, {part.size()}));
  const std::uint64_t sample = hash_mix(seed_, static_cast<std::uint64_t>(i));
  auto position = static_cast<std::uint64_t>(part.start);
  for (std::int32_t& token : tokens.mutable_data<std::int32_t>())
    token = static_cast<std::int32_t>(hash_mix(sample, position++) % static_cast<std::uint64_t>(vocabulary_));
  return {{"input_ids", tokens}, {"labels", tokens}};  // of one buffer, as in BlockSource
}

}  // namespace tessera::trainer
