// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "tessera/data/tokenizer.h"
#include "tessera/fsdp/wrap_policy.h"
#include "tessera/version.h"

int main() {
  const auto tokenizer = tessera::data::make_tokenizer("bpe:258", "so so so");
  const bool recurses = tessera::transformer_auto_wrap_policy({"GPT2Block"}) != nullptr;
  std::printf("tessera %s: %d ids, %zu tokens, policy %d\n", tessera::kVersion, tokenizer->vocab_size(),
              tokenizer->encode("so so").size(), recurses ? 1 : 0);
}
