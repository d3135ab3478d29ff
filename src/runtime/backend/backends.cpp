// SPDX-License-Identifier: Apache-2.0
// The table of backends.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "backend/backend.h"
#include "tessera/base/options.h"

namespace tessera {

const Backend& selected_backend() {
  const Backend* const backends[] = {&kernel_backend(), &reference_backend()};
  const std::string& device = options().text("PJRT_DEVICE");
  const auto found = std::find_if(std::begin(backends), std::end(backends),
                                  [&](const Backend* backend) { return backend->name() == device; });
  if (found != std::end(backends)) return **found;
  std::vector<std::string_view> names;
  for (const Backend* backend : backends) names.push_back(backend->name());
  fail("PJRT_DEVICE={}: unknown backend; known: {}", device, fmt::join(names, ", "));
}

void check_backend() { (void)selected_backend(); }

}  // namespace tessera
