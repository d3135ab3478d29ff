// SPDX-License-Identifier: Apache-2.0
#include "on_all_ranks.h"

#include <exception>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/frontend/execution/runtime.h"

namespace tessera {

void on_all_ranks(const std::string& what, const std::function<void()>& body) {
  std::string problem;
  try {
    body();
  } catch (const std::exception& error) {  // also of std::filesystem
    problem = error.what();
  }
  for (const std::string& text : gather_texts(*joined_world(), problem))
    if (!text.empty()) fail("{}{}{}", what, what.empty() ? "" : ": ", text);
}

}  // namespace tessera
