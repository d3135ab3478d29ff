// SPDX-License-Identifier: Apache-2.0
#include "text/maximal_meshes.h"

#include <string_view>

#include "tessera/base/text_cursor.h"

namespace tessera {

std::vector<std::pair<std::string, std::int64_t>> maximal_meshes_in(const std::string& text) {
  constexpr std::string_view kNoAxes = "#sdy.mesh<[]";
  std::vector<std::pair<std::string, std::int64_t>> out;
  for (auto mesh = text.find(kNoAxes); mesh != std::string::npos; mesh = text.find(kNoAxes, mesh + 1)) {
    TextCursor in(text);
    in.seek(mesh + kNoAxes.size());
    if (!in.take(",") || !in.take_word("device_ids") || !in.take("=") || !in.take("[")) continue;
    const auto device = in.integer("a device number");
    const auto end = text.find_last_not_of(" =\t\n", mesh - 1);
    const auto start = text.find_last_of(" {,\t\n", end) + 1;
    out.emplace_back(text.substr(start, end + 1 - start), device);
  }
  return out;
}

}  // namespace tessera
