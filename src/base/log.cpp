// SPDX-License-Identifier: Apache-2.0
#include "tessera/base/log.h"

#include <cstdio>
#include <string>

#include "tessera/base/options.h"
#include "tessera/base/rank_context.h"

namespace tessera {

bool is_logged(LogLevel level) {
  return static_cast<std::size_t>(level) >=
         options().choice("TESSERA_LOG_LEVEL");  // the choices are in the order of the enum
}

bool is_rank_zero() { return RankContext::current().rank() == 0; }

void log_line(LogLevel level, std::string_view text) {
  if (!is_logged(level)) return;
  std::string line(text);
  if (!line.ends_with('\n')) line += '\n';
  std::fputs(line.c_str(), stderr);
}

}  // namespace tessera
