// SPDX-License-Identifier: Apache-2.0
// The folder of instances: files NAME.json or NAME.json.gz, and perhaps a README.md with a table of known costs.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tessera::bench {

/// What the table of the folder knows about an instance.
struct Known {
  std::optional<double> seconds;  // the time limit
  std::optional<std::int64_t> best;
  std::optional<std::int64_t> second;
  std::optional<std::int64_t> xla;
};

struct InstanceFile {
  std::string name;
  std::string path;
};

/// Lists the instances by name. Error: no such folder, no instances.
std::vector<InstanceFile> list_instances(const std::string& folder);

/// Reads the table whose heading has columns that begin with `file`, `seconds`, `best`, `second` and `XLA`. Returns an
/// empty map if the folder has no README.md with such a table.
std::map<std::string, Known> known_costs(const std::string& folder);

/// Returns the text of a file; unpacks it if it is in gzip format.
std::string read_text(const std::string& path);

}  // namespace tessera::bench
