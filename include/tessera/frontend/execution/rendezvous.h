// SPDX-License-Identifier: Apache-2.0
// Barriers with names, and a test for the one rank of a node or job that acts for the others.
//
//   if (is_master_ordinal()) make_folder("out");         one rank of each node
//   rendezvous("out exists", {.timeout = 60s});
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace tessera {

struct RendezvousOptions {
  /// Nullopt: TESSERA_COLLECTIVE_TIMEOUT. 0 s: no limit.
  std::optional<std::chrono::seconds> timeout{};
  /// The text that all ranks receive from this rank.
  std::string payload{};
};
/// Waits until all ranks have called it with this tag, and returns the payloads of all ranks, by rank. Collective.
/// First waits for the steps that mark_step() began. Errors: a rank is in another rendezvous or collective; the timeout
/// has expired (the message names the ranks that have not arrived). The ranks cannot communicate after an error.
/// Example of the first error: `ranks diverge: rank 1 is at rendezvous "b"; ranks 0, 2 are at rendezvous "a"`.
std::vector<std::string> rendezvous(const std::string& tag, const RendezvousOptions& options = {});

struct MasterOptions {
  bool local = true;  // one master for each node; false: one for the job
};
/// True on the lowest rank of each node, or on rank 0 only.
bool is_master_ordinal(MasterOptions options = {});

}  // namespace tessera
