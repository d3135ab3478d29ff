// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

namespace tessera {

/// Runs `body` on every rank of the joined world. If it fails on some, all ranks throw the error of the first of them,
/// after `what` unless it is empty. Collective.
void on_all_ranks(const std::string& what, const std::function<void()>& body);

}  // namespace tessera
